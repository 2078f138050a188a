"""What user processes print: every line, whole, in order, whatever bytes it has."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.protocol.files import log_lines, read_records
from headway.protocol.logs import back_blocks, end_of
from headway.runner import outputs
from headway.runner.logs import LONGEST_LINE, LineSplitter, LogFile
from headway.runner.outputs import BLOCK, Output
from headway.testing.engines import Attempt, python

Make = Callable[..., Attempt]


def test_lines_have_time_rank_and_stream(make: Make) -> None:
    code = "import os, sys\nprint('out', os.environ['RANK'])\nprint('err', file=sys.stderr)"
    attempt = make(python(code), processes=2).start()
    end = attempt.exit()
    lines = [line for line, _ in log_lines(attempt.node.run_log)]
    assert sorted((line.rank, line.stream, line.text) for line in lines) == [
        (0, "e", "err"),
        (0, "o", "out 0"),
        (1, "e", "err"),
        (1, "o", "out 1"),
    ]
    assert all((end.launched or 0) <= line.time <= end.ended for line in lines)


def test_a_last_line_without_its_end_is_kept(make: Make) -> None:
    attempt = make(python("import os; os.write(1, b'one\\ntwo'); os.kill(os.getpid(), 9)")).start()
    attempt.exit()
    assert attempt.lines() == ["one", "two"]


def test_bytes_that_are_no_text_are_shown(make: Make) -> None:
    attempt = make(python("import os; os.write(1, b'\\xff\\xfe ok\\n' + '数据'.encode() + b'\\n')")).start()
    attempt.exit()
    assert attempt.lines() == ["\ufffd\ufffd ok", "数据"]


def test_a_hundred_megabytes_at_once_block_nobody(make: Make) -> None:
    code = (
        "import os\nline = b'x' * 99 + b'\\n'\nblock = line * 10_000\n"
        "for _ in range(100):\n    left = memoryview(block)\n    while left: left = left[os.write(1, left):]\n"
        "print('end')"
    )
    attempt = make(python(code)).start()
    assert attempt.exit().code == 0
    count, last = 0, ""
    for line, _ in log_lines(attempt.node.run_log):
        count, last = count + 1, line.text
    assert (count, last) == (1_000_001, "end")


def test_of_a_log_over_its_limit_head_and_tail_are_kept_and_the_run_goes_on(make: Make) -> None:
    attempt = make(python("for n in range(1000): print('line', n)"), log_limit=2000).start()
    assert attempt.exit().code == 0
    lines = attempt.lines()
    (notice,) = [n for n, line in enumerate(lines) if "dropped here" in line]
    assert lines[:notice] == [f"line {n}" for n in range(notice)]
    assert lines[notice + 1 :] == [f"line {n}" for n in range(1000 - len(lines) + notice + 1, 1000)]
    assert sum(f.stat().st_size for f in attempt.node.path.glob("run.log*")) <= 2000


#: as quickly as anybody takes it: lines of two bytes cost whoever looks at each far more than who prints them
FLOOD = """
import os
block = b"y\\n" * 16384
for _ in range(10_000):
    view = memoryview(block)
    while view: view = view[os.write(1, view):]
print("end")
"""


def test_a_flood_does_not_fill_the_disk_and_its_newest_line_is_there(make: Make) -> None:
    """How long its process is held up is measured by bench/flood.py."""
    limit = 64 << 20
    attempt = make(python(FLOOD), log_limit=limit).start()
    assert attempt.exit().code == 0
    assert sum(f.stat().st_size for f in attempt.node.path.glob("run.log*")) <= limit + (4 << 20)
    log = attempt.node.run_log
    assert next(back_blocks(log, end_of(log), 100)).data.endswith(b" end\n")


class Still:
    """A loop that nothing waits in."""

    def rest(self, fd: int, size: int = 0) -> None: ...

    def again(self, fd: int, at: float) -> None: ...


def _thinned(chunks: list[bytes], monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, Output, bytes]:
    """What is read before and after `chunks` were all found too many."""
    monkeypatch.setattr(outputs, "PATIENCE", -1.0)
    monkeypatch.setattr(outputs, "FLOOD", 0.0)
    monkeypatch.setattr(outputs, "SAMPLE_SECONDS", math.inf)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    output, before = Output(cast(Any, Still())), b""
    for _ in range(2):
        os.write(writer, b"y\n" * (BLOCK // 2))
        before += output.read(reader) or b""
    for chunk in chunks:
        os.write(writer, chunk)
        assert output.read(reader) == b""
    os.close(writer)
    after = output.read(reader) or b""
    os.close(reader)
    return before, output, after


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("ab\n", min_size=1, max_size=20), min_size=1, max_size=8))
def test_of_a_flood_the_newest_line_is_whole_and_every_other_is_given_or_counted(
    monkeypatch: pytest.MonkeyPatch, chunks: list[str]
) -> None:
    before, output, after = _thinned([chunk.encode() for chunk in chunks], monkeypatch)
    text = "".join(chunks)
    assert before.count(b"\n") == BLOCK
    assert output.skipped + after.count(b"\n") == text.count("\n")
    whole = text if text.endswith("\n") else text + "\n"
    newest = whole[whole.rfind("\n", 0, -1) + 1 :]
    shown = (after + output.rest()).decode()
    assert shown.endswith(newest)
    assert whole.endswith(shown)


def test_of_a_line_longer_than_a_block_in_a_flood_no_part_passes_for_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    long = [b"x" * BLOCK] * 3
    _, output, after = _thinned([*long, b"x\nshort\n"], monkeypatch)
    assert (after, output.skipped, output.skipped_bytes) == (b"short\n", 1, 3 * BLOCK + 2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    writes=st.lists(st.lists(st.binary(max_size=40).map(lambda b: b.hex().encode()), max_size=12), max_size=40),
    limit=st.integers(400, 6000),
)
def test_what_is_read_is_head_notice_and_tail(tmp_path: Path, writes: list[list[bytes]], limit: int) -> None:
    folder = tmp_path / os.urandom(6).hex()
    folder.mkdir()
    path, wanted, cursors = folder / "run.log", list[str](), {0: 0}
    log = LogFile(str(path), limit)
    for lines in writes:
        log.write(lines, 0, "o")
        wanted += [line.decode() for line in lines]
        assert sum(f.stat().st_size for f in folder.iterdir()) <= limit + 200
        # every position that a reader was given on the way stays good
        for line, behind in log_lines(path, max(cursors)):
            cursors[behind] = cursors[max(cursors)] + (0 if line.stream == "h" else 1)
    found = list(log_lines(path))
    texts = [line.text for line, _ in found if line.stream == "o"]
    notices = [n for n, (line, _) in enumerate(found) if line.stream == "h"]
    if not notices:
        assert texts == wanted
    else:
        (at,) = notices
        assert texts[:at] == wanted[:at]
        assert texts[at:] == wanted[len(wanted) - len(texts) + at :]
    for cursor in cursors:
        rest = [line.text for line, _ in log_lines(path, cursor) if line.stream == "o"]
        assert rest == texts[len(texts) - len(rest) :]
        expected = [behind for _, behind in found if behind > cursor]
        assert [behind for line, behind in log_lines(path, cursor) if behind > cursor] == expected
    backwards = [raw for b in back_blocks(path, end_of(path), 64) for raw in reversed(b.data[:-1].split(b"\n"))]
    assert [line.split(b" ", 3)[3].decode() for line in reversed(backwards)] == texts


def test_metrics_of_rank_0_alone(make: Make) -> None:
    attempt = make(
        python("print('epoch 3/25 loss=0.5 acc: 91%'); print('val 7')"),
        processes=2,
        metric_patterns=[{"name": "val", "regex": r"val (\d+)"}, {"name": "bad", "regex": "("}],
    ).start()
    attempt.exit()
    points = [(p["step"], p["name"], p["value"], p["rank"]) for p in read_records(attempt.node.metrics)[0]]
    assert (3, "loss", 0.5, 0) in points
    assert (3, "val", 7.0, 0) in points
    assert len([p for p in points if p[1] == "loss"]) == 1
    assert any("bad" in line.text for line, _ in log_lines(attempt.node.diag_log))


def test_what_a_script_reports_through_its_channel(make: Make) -> None:
    code = "import headway\nheadway.log(step=7, loss=0.25)\nheadway.log(step=8, loss=0.125)"
    attempt = make(python(code)).start()
    attempt.exit()
    points = read_records(attempt.node.metrics)[0]
    assert [(p["step"], p["name"], p["value"], p["rank"]) for p in points] == [
        (7, "loss", 0.25, 0),
        (8, "loss", 0.125, 0),
    ]


@pytest.mark.parametrize(
    ("blocks", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc"], [b"ab", b"c"]),
        ([b"a\r\n", b"b\r", b"\n"], [b"a", b"b"]),
        ([b"1%\r2%\r", b"3%\n"], [b"3%"]),
        ([b"1%\r2%"], [b"2%"]),
        ([b"\xe6\x95", b"\xb0\n"], ["数".encode()]),
        ([b"\xff\n"], ["\ufffd".encode()]),
        ([b"\n\n"], [b"", b""]),
        ([b"x" * (LONGEST_LINE + 1)], [b"x" * LONGEST_LINE, b"x"]),
        ([], []),
    ],
)
def test_lines_from_blocks(blocks: list[bytes], lines: list[bytes]) -> None:
    splitter = LineSplitter()
    found = [line for block in blocks for line in splitter.feed(block)]
    assert found + splitter.end() == lines


def test_a_progress_bar_costs_no_memory() -> None:
    splitter = LineSplitter()
    for _ in range(1000):
        assert splitter.feed(b"\r" + b"#" * 1000) == []
    assert splitter.end() == [b"#" * 1000]


def test_lines_that_a_full_disk_did_not_take_are_counted() -> None:
    log = LogFile("/dev/full", 1 << 20)
    log.write([b"a", b"b"], 0, "o")
    log.write([b"c"], 0, "o")
    assert log._missed == 3


def test_a_pattern_that_matched_nothing_is_said_loudly(make: Make) -> None:
    patterns = [{"name": "val", "regex": r"val (\d+)"}, {"name": "never", "regex": r"never (\d+)"}]
    attempt = make(python("print('val 7')"), metric_patterns=patterns).start()
    attempt.exit()
    (warning,) = (e for e in attempt.events("warning") if "pattern" in e["message"])
    assert "never" in warning["message"]
    assert any("WARNING: The metric pattern never" in line.text for line, _ in log_lines(attempt.node.diag_log))


def test_what_a_script_reports_is_there_however_it_ends(make: Make) -> None:
    code = (
        "import headway, os, signal\nfor n in range(5000): headway.log(step=n, loss=n / 2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    attempt = make(python(code)).start()
    attempt.exit()
    found = read_records(attempt.node.metrics)[0]
    assert [(p["step"], p["value"]) for p in found] == [(n, n / 2) for n in range(5000)]


def test_lines_that_the_disk_did_not_take_are_counted_to_the_end() -> None:
    log = LogFile("/dev/full", 1000)
    log.write([b"a", b"b"], 0, "o")
    log.write([b"c"], 0, "o")
    assert log.missed == 3
