from __future__ import annotations

import pytest

from headway.errors import NotFoundError, UsageError
from headway.rules.access import Caller
from headway.services import jobs, logs, metrics
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
