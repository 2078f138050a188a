from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from headway.errors import NotFoundError, UsageError
from headway.protocol.files import LogLine, log_lines
from headway.protocol.logs import find_time
from headway.rules.access import Caller
from headway.runner.logs import LogFile
from headway.services import jobs, log_search, logs, metrics
from headway.services.context import Services
from headway.testing.services import end_run, start_attempt, write_lines
from headway.wire.runs import JobRequest


@pytest.fixture
def run(ctx: Services, member: Caller) -> int:
    return jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id


def texts(page: logs.LogPage) -> list[str]:
    return [line.text for line in page.lines]


def test_a_run_that_waits_has_an_empty_log(ctx: Services, viewer: Caller, run: int) -> None:
    page = logs.page(ctx, viewer, run)
    assert (page.lines, page.complete) == ([], False)


def test_attempts_read_as_one_log(ctx: Services, viewer: Caller, run: int) -> None:
    write_lines(start_attempt(ctx, run).node().run_log, "one", "two")
    write_lines(start_attempt(ctx, run).node().run_log, "three", "")
    page = logs.page(ctx, viewer, run)
    assert texts(page) == ["one", "two", "three", ""]
    assert [line.attempt for line in page.lines] == [f"{run}-1"] * 2 + [f"{run}-2"] * 2
    assert not page.complete
    end_run(ctx, run)
    assert logs.page(ctx, viewer, run).complete
    assert logs.page(ctx, viewer, run, after=page.cursor) == logs.LogPage(lines=[], cursor=page.cursor, complete=True)


def test_pages_of_any_size_make_the_same_log(ctx: Services, viewer: Caller, run: int) -> None:
    first = [f"line {n}" for n in range(7)]
    write_lines(start_attempt(ctx, run).node().run_log, *first)
    start_attempt(ctx, run)
    write_lines(start_attempt(ctx, run).node().run_log, "ü", "last")
    end_run(ctx, run)
    for size in range(1, 11):
        found, after, pages = [], "", 0
        while True:
            page = logs.page(ctx, viewer, run, after=after, limit=size)
            assert len(page.lines) <= size
            found += texts(page)
            after, pages = page.cursor, pages + 1
            if page.complete:
                break
            assert pages < 20
        assert found == [*first, "ü", "last"]


def test_each_line_can_be_gone_on_from(ctx: Services, viewer: Caller, run: int) -> None:
    write_lines(start_attempt(ctx, run).node().run_log, "a", "b")
    write_lines(start_attempt(ctx, run).node().run_log, "c")
    whole = logs.page(ctx, viewer, run).lines
    for index, line in enumerate(whole):
        assert logs.page(ctx, viewer, run, after=line.cursor).lines == whole[index + 1 :]


@pytest.mark.parametrize("count", range(7))
def test_the_tail_is_the_last_lines(ctx: Services, viewer: Caller, run: int, count: int) -> None:
    write_lines(start_attempt(ctx, run).node().run_log, "a", "b")
    start_attempt(ctx, run)
    write_lines(start_attempt(ctx, run).node().run_log, "c", "d", "e")
    assert texts(logs.page(ctx, viewer, run, tail=count)) == ["a", "b", "c", "d", "e"][max(0, 5 - count) :]


def test_the_tail_of_a_long_log(ctx: Services, viewer: Caller, run: int) -> None:
    path = start_attempt(ctx, run).node().run_log
    write_lines(path, *(f"{n} " + "x" * 1000 for n in range(500)))
    found = texts(logs.page(ctx, viewer, run, tail=200))
    assert [t.split()[0] for t in found] == [str(n) for n in range(300, 500)]


def test_a_line_that_is_not_finished_is_not_shown(ctx: Services, viewer: Caller, run: int) -> None:
    path = start_attempt(ctx, run).node().run_log
    write_lines(path, "whole")
    with open(path, "a") as file:
        file.write("1.0 0 o half")
    page = logs.page(ctx, viewer, run)
    assert texts(page) == ["whole"]
    with open(path, "a") as file:
        file.write(" no more\n")
    assert texts(logs.page(ctx, viewer, run, after=page.cursor)) == ["half no more"]


def test_the_diagnostic_log_is_its_own(ctx: Services, viewer: Caller, run: int) -> None:
    node = start_attempt(ctx, run).node()
    write_lines(node.diag_log, "preparing", stream="h")
    write_lines(node.run_log, "out")
    (line,) = logs.page(ctx, viewer, run, kind="diag").lines
    assert (line.text, line.stream) == ("preparing", "headway")


@pytest.mark.parametrize("cursor", ["x", "1", "-1:0", "{run}-x:0", "{run}-1:-4", "999-1:0", "{run}-1:²"])
def test_a_position_of_another_log_is_refused(ctx: Services, viewer: Caller, run: int, cursor: str) -> None:
    with pytest.raises(UsageError, match="no position"):
        logs.page(ctx, viewer, run, after=cursor.format(run=run))


def test_an_unknown_log_and_a_stranger(ctx: Services, viewer: Caller, stranger: Caller, run: int) -> None:
    with pytest.raises(UsageError, match="runs"):
        logs.page(ctx, viewer, run, kind="runs")
    with pytest.raises(NotFoundError):
        logs.page(ctx, stranger, run)


def test_metrics_of_a_step_done_again_are_the_later_ones(ctx: Services, viewer: Caller, run: int) -> None:
    one = start_attempt(ctx, run).node().metrics
    one.write_text(
        '{"t":1,"step":1,"name":"loss","value":3.0,"rank":0}\n'
        '{"t":2,"step":2,"name":"loss","value":2.0,"rank":0}\n'
        "not a point\n"
        '{"t":2,"step":2,"name":"acc","value":0.5}\n'
    )
    two = start_attempt(ctx, run).node().metrics
    two.write_text(
        '{"t":5,"step":2,"name":"loss","value":1.5,"rank":0}\n{"t":6,"step":3,"name":"loss","value":1.0,"rank":0}\n'
    )
    found = {s.name: [(p.step, p.value) for p in s.points] for s in metrics.series(ctx, viewer, run)}
    assert found == {"acc": [(2, 0.5)], "loss": [(1, 3.0), (2, 1.5), (3, 1.0)]}
    assert jobs.get(ctx, viewer, "default", run).metrics == {"loss": 1.0}
    with open(two, "a") as file:
        file.write('{"t":7,"step":4,"name":"loss","value":0.5}\n')
    assert jobs.get(ctx, viewer, "default", run).metrics == {"loss": 0.5}


# -- several nodes, filters, search

TWO = [{"node": "a"}, {"node": "b"}]


def at(path: Path, *lines: tuple[float, str], rank: int = 0, stream: str = "o") -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(LogLine(when, rank, stream, text).render() for when, text in lines)


def test_nodes_read_as_one_log_by_time(ctx: Services, viewer: Caller, run: int) -> None:
    attempt = start_attempt(ctx, run, placement=TWO)
    attempt.node(1).path.mkdir()
    at(attempt.node(0).run_log, (1.0, "a1"), (3.0, "a3"), (5.0, "a5"))
    at(attempt.node(1).run_log, (2.0, "b2"), (3.0, "b3"), (6.0, "b6"), rank=1)
    whole = logs.page(ctx, viewer, run)
    assert texts(whole) == ["a1", "b2", "a3", "b3", "a5", "b6"]
    assert not whole.more
    for number, line in enumerate(whole.lines):
        assert logs.page(ctx, viewer, run, after=line.cursor).lines == whole.lines[number + 1 :]
    for count in range(8):
        page = logs.page(ctx, viewer, run, tail=count)
        assert page.lines == whole.lines[max(0, 6 - count) :]
        assert page.cursor == whole.cursor
    at(attempt.node(1).run_log, (7.0, "b7"), rank=1)
    assert logs.grown(logs.open_log(ctx, viewer, run, "run"), whole.cursor)
    assert texts(logs.page(ctx, viewer, run, after=whole.cursor)) == ["b7"]
    assert texts(logs.page(ctx, viewer, run, want=logs.make_filter(rank=1))) == ["b2", "b3", "b6", "b7"]
    with pytest.raises(UsageError, match="no position"):
        logs.page(ctx, viewer, run, after=f"{run}-1:0,0,0")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["start 1", "Error: out of memory", "loss=0.5 nan", "end 错误"]),
        ({"grep": "error"}, ["Error: out of memory"]),
        ({"grep": "Error"}, ["Error: out of memory"]),
        ({"grep": "ERROR"}, []),
        ({"grep": "错误"}, ["end 错误"]),
        ({"grep": "2.000"}, []),
        ({"grep": "/loss=.*nan|^end/"}, ["loss=0.5 nan", "end 错误"]),
        ({"since": 2.0}, ["Error: out of memory", "loss=0.5 nan", "end 错误"]),
        ({"since": 2.0, "until": 3.0}, ["Error: out of memory", "loss=0.5 nan"]),
        ({"until": 0.5}, []),
        ({"since": 9.0}, []),
        ({"stream": "err"}, ["Error: out of memory"]),
        ({"rank": 0, "until": 1.0}, ["start 1"]),
        ({"rank": 7}, []),
    ],
)
def test_wanted_lines(ctx: Services, viewer: Caller, run: int, given: dict[str, Any], found: list[str]) -> None:
    path = start_attempt(ctx, run).node().run_log
    at(path, (1.0, "start 1"))
    at(path, (2.0, "Error: out of memory"), stream="e")
    at(path, (3.0, "loss=0.5 nan"), (4.0, "end 错误"))
    end_run(ctx, run)
    want = logs.make_filter(**given)
    page = logs.page(ctx, viewer, run, want=want)
    assert texts(page) == found
    assert page.complete
    assert texts(logs.page(ctx, viewer, run, tail=10, want=want)) == found
    assert texts(logs.page(ctx, viewer, run, tail=1, want=want)) == found[-1:]
    pages, after = [], ""
    while True:
        page = logs.page(ctx, viewer, run, after=after, limit=1, want=want)
        pages += texts(page)
        after = page.cursor
        if not page.more:
            break
    assert pages == found
    raw = b"".join(logs.download(logs.open_log(ctx, viewer, run, "run"), want, raw=True)).decode()
    assert raw == "".join(f"{text}\n" for text in found)


@pytest.mark.parametrize(
    "given",
    [{"grep": "/(a+)+b/"}, {"grep": "/[/"}, {"grep": "x" * 501}, {"stream": "stdout"}, {"since": 2.0, "until": 1.0}],
)
def test_filters_that_make_no_sense_or_would_never_end(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        logs.make_filter(**given)


def test_a_search_goes_on_page_by_page(
    ctx: Services, viewer: Caller, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = start_attempt(ctx, run).node().run_log
    at(path, *((float(n), f"line {n} " + "x" * 100) for n in range(50_000)), (60_000.0, "needle"))
    end_run(ctx, run)
    log, want = logs.open_log(ctx, viewer, run, "run"), logs.make_filter(grep="needle")
    monkeypatch.setattr(log_search.Budget, "__init__", lambda self, *_: self.__dict__.update(left=1, deadline=inf))
    found, after, count = [], "", 0
    while True:
        page = logs.read(log, after, 100, want)
        found += texts(page)
        after, count = page.cursor, count + 1
        if not page.more:
            break
    assert found == ["needle"]
    assert page.complete
    assert count > 4


def test_a_time_is_found_by_halving(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    at(path, *((float(n // 3), f"{n} " + "y" * (n % 50)) for n in range(3000)))
    whole = list(log_lines(path))
    for when in (-1.0, 0.0, 0.5, 1.0, 500.0, 998.9, 999.0):
        offset = find_time(path, when)
        assert next(log_lines(path, offset))[0] == next(line for line, _ in whole if line.time >= when)
    assert list(log_lines(path, find_time(path, 1000.0))) == []
    assert find_time(tmp_path / "none", 5.0) == 0


def test_a_download_names_time_rank_and_stream(ctx: Services, viewer: Caller, run: int) -> None:
    at(start_attempt(ctx, run).node().run_log, (0.25, "one"), stream="e")
    at(start_attempt(ctx, run).node().run_log, (86400.0, "two"), rank=3)
    whole = b"".join(logs.download(logs.open_log(ctx, viewer, run, "run")))
    assert whole == b"1970-01-01T00:00:00.250000Z 0 err one\n1970-01-02T00:00:00.000000Z 3 out two\n"


def test_a_cursor_in_a_part_that_is_gone_goes_on_behind_it(ctx: Services, viewer: Caller, run: int) -> None:
    path = start_attempt(ctx, run).node().run_log
    file = LogFile(str(path), 4000)
    file.write([b"first"], 0, "o")
    after = logs.page(ctx, viewer, run).cursor
    for n in range(60):
        file.write([b"line %d" % n], 0, "o")
    middle = logs.page(ctx, viewer, run).cursor
    for n in range(60, 1000):
        file.write([b"line %d" % n], 0, "o")
    for cursor in ("", after, middle):
        page = logs.page(ctx, viewer, run, after=cursor)
        assert texts(page)[-1] == "line 999"
        assert len([t for t in texts(page) if "dropped here" in t]) == 1
    assert texts(logs.page(ctx, viewer, run, tail=1000)) == texts(logs.page(ctx, viewer, run))
