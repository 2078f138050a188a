"""Numbers from lines."""

from __future__ import annotations

import pytest

from headway.runner.metrics import MetricReader


@pytest.mark.parametrize(
    ("line", "points"),
    [
        ("loss=0.12", [(0, "loss", 0.12)]),
        ("step=40 loss: 1e-3 lr=.5", [(40, "loss", 0.001), (40, "lr", 0.5)]),
        ("Epoch 3/25 - val/acc = 0.91", [(3, "val/acc", 0.91)]),
        ("epoch [4/25] loss=-2", [(4, "loss", -2.0)]),
        ('{"step": 7, "loss": 0.5, "ok": true, "name": "x"}', [(7, "loss", 0.5)]),
        ("step=5 epoch=1 loss=1", [(5, "loss", 1.0)]),
        ("at 12:30:45 on 2026-12-01", []),
        ("listening on http://127.0.0.1:8000/", []),
        ("nothing here", []),
        ("{not json: 3", []),
    ],
)
def test_built_in_forms(line: str, points: list[tuple[int, str, float]]) -> None:
    assert MetricReader([]).read_block(line.encode() + b"\n") == points


def test_a_line_without_a_step_is_at_the_last_one() -> None:
    reader = MetricReader([])
    assert reader.read_block(b"epoch 2\nloss=1\n") == [(2, "loss", 1.0)]


def test_patterns_of_other_platforms_are_taken_as_they_are() -> None:
    reader = MetricReader([{"Name": "val", "Regex": r"val is (\S+);"}])
    assert reader.read_block(b"val is 0.5;\nval is none;\n") == [(0, "val", 0.5)]


@pytest.mark.parametrize("regex", ["(", "no group", "(a)(b)"])
def test_a_pattern_that_cannot_be_used_is_said(regex: str) -> None:
    assert len(MetricReader([{"name": "m", "regex": regex}]).refused) == 1


def test_a_line_of_data_is_no_report() -> None:
    assert MetricReader([]).read_block(b"loss=1 " + b"x" * 5000 + b"\n") == []
