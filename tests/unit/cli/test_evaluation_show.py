"""The heatmap in a terminal and off one."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from headway.cli import heatmap
from headway.report import view


def drawing(cases: int = 3, better: str = "higher") -> dict[str, Any]:
    cells = [
        {
            "id": 10 * r + c,
            "row": row,
            "case": f"case-{c}",
            "state": "valid",
            "score": r / 2,
            "scores": {"score": r / 2},
        }
        for r, row in enumerate(("one", "two", "three"))
        for c in range(cases)
    ]
    cells[0] |= {"state": "invalid", "score": None, "scores": {}, "reason": "broken"}
    return view.build({
        "evaluation": {"state": "running"},
        "rows": [{"row": row, "step": s} for s, row in enumerate(("one", "two", "three"))],
        "columns": [{"case": f"case-{c}", "repeat": 0} for c in range(cases)], "cells": cells,
        "scores": ["score"], "score": "score", "better": better, "curves": {},
    })  # fmt: skip


def test_off_a_terminal_it_is_numbers_with_the_mean_of_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    heatmap.show(drawing(), "score")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["checkpoint", "mean", "case-0", "case-1", "case-2"]
    assert lines[1].split() == ["one", "0.000", "invalid", "0.000", "0.000"]
    assert lines[3].split() == ["three", "1.000", "1.000", "1.000", "1.000"]


@pytest.mark.parametrize(
    ("state", "first", "second"), [("running", "waiting", "waiting"), ("stopped", "not tried", "not finished")]
)
def test_nothing_waits_in_one_that_has_ended(
    state: str, first: str, second: str, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = {"row": "one", "state": "waiting", "score": None, "scores": {}}
    heatmap.show(
        view.build({
            "evaluation": {"state": state}, "rows": [{"row": "one", "step": 0}], "score": None, "scores": [],
            "columns": [{"case": "a", "repeat": 0}, {"case": "b", "repeat": 0}], "better": "higher", "curves": {},
            "cells": [{**raw, "id": 1, "case": "a"}, {**raw, "id": 2, "case": "b", "tries": 1}],
        }),
        None,
    )  # fmt: skip
    assert re.split(r"\s{2,}", capsys.readouterr().out.splitlines()[1].strip()) == ["one", first, second]


@pytest.mark.parametrize(("better", "worst", "best"), [("higher", 1, 3), ("lower", 3, 1)])
def test_on_a_terminal_the_best_is_the_brightest(
    better: str, worst: int, best: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    heatmap.show(drawing(better=better), "score")
    lines = capsys.readouterr().out.splitlines()

    def ground(line: str) -> int:
        return sum(map(int, re.findall(r"48;2;(\d+);(\d+);(\d+)", line)[-1]))

    assert ground(lines[worst]) == sum((68, 1, 84))
    assert ground(lines[best]) == sum((253, 231, 37))


def test_what_does_not_fit_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    heatmap.show(drawing(200), "score")
    shown = capsys.readouterr().out
    assert "of 200 cases; a wider window shows more" in " ".join(shown.split())
    assert all(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= 60 for line in shown.splitlines())


def test_a_terminal_without_colour_shows_numbers_that_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    heatmap.show(drawing(50), "score")
    shown = capsys.readouterr().out
    assert "48;2;" not in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[1].split()[3:7] == ["0", "0", "0", "0"] and lines[3].split()[2:5] == ["1.000", "100", "100"]
    assert "of 50 cases; a wider window shows more" in " ".join(lines)
