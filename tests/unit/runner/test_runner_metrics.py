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


def test_lines_of_one_shape_are_read_as_each_by_itself() -> None:
    lines = [f"epoch {n}/9 [12:30:{n:02}] Step={n * 10} loss={n / 7:.4f} lr: {10.0**-n} - acc {n}" for n in range(10)]
    lines.insert(5, "saved to /tmp/loss=3/x")
    singly, together = MetricReader([]), MetricReader([])
    want = [point for line in lines for point in singly.read_block(line.encode() + b"\n")]
    first, rest = lines[:5], lines[6:]
    got = together.read_block("\n".join(first).encode() + b"\n")
    got += together.read_block((lines[5] + "\n").encode())
    got += together.read_block("\n".join(rest).encode() + b"\n")
    assert got == want and len(got) == 20
    assert got[:2] == [(0, "loss", 0.0), (0, "lr", 1.0)] and got[-2][0] == 90


def test_where_no_step_was_ever_named_values_are_counted() -> None:
    reader = MetricReader([])
    assert reader.read_block(b"loss=3\nloss=2\nacc=1\n") == [(0, "loss", 3.0), (1, "loss", 2.0), (0, "acc", 1.0)]
    assert reader.read_block(b"step 7\nloss=1\n") == [(7, "loss", 1.0)]


def test_a_printed_dict_as_trainers_print_it() -> None:
    reader = MetricReader([])
    line = b"{'loss': 2.5, 'grad_norm': '1.25', 'learning_rate': 5e-05, 'epoch': 0.01}\n"
    assert reader.read_block(line * 2)[4:] == [
        (1, "loss", 2.5),
        (1, "grad_norm", 1.25),
        (1, "learning_rate", 5e-05),
        (1, "epoch", 0.01),
    ]


def test_a_pattern_that_matched_nothing_is_known() -> None:
    reader = MetricReader([{"name": "a", "regex": r"a=(\d+)"}, {"name": "b", "regex": r"b=(\d+)"}])
    reader.read_block(b"a=1\n")
    assert reader.unmatched == {"b": r"b=(\d+)"}
