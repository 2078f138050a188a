"""What user processes print: every line, whole, in order, whatever bytes it has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway.protocol.files import log_lines, read_records
from headway.runner.logs import LONGEST_LINE, LineSplitter, LogFile
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


def test_a_log_over_its_limit_says_so_and_the_run_goes_on(make: Make) -> None:
    attempt = make(python("for n in range(1000): print('line', n)"), log_limit=2000).start()
    assert attempt.exit().code == 0
    lines = attempt.lines()
    assert lines[0] == "line 0"
    assert "limit of 2000 bytes" in lines[-1]
    assert lines[-2].startswith("line ")


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
