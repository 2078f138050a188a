"""From the api's report to a drawing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from headway import __version__
from headway.report import view

from .example import report


def told(row: int, column: int) -> dict[str, Any]:
    if (row, column) == (1, 2):
        return {"state": "invalid", "score": None, "scores": {}, "cause": "killed", "reason": "killed by SIGSEGV"}
    return {}


def test_it_is_plain_json_in_the_order_of_rows_and_columns() -> None:
    data = report(3, 4, told=told)
    drawing = view.build(data)
    assert json.loads(json.dumps(drawing, allow_nan=False)) == drawing
    assert [cell[:3] for cell in drawing["cells"]] == [[r, c, r * 4 + c + 1] for r in range(3) for c in range(4)]
    assert {state: n for state, n in drawing["counts"].items() if n} == {"valid": 11, "invalid": 1, "total": 12}
    assert drawing["evaluation"]["target"] == data["evaluation"]["target"]
    assert drawing == view.build(data)


def test_means_leave_out_what_is_not_valid_and_the_best_is_so_far() -> None:
    stats = view.build(report(3, 4, told=told))["stats"]["score"]
    assert [row[3] for row in stats["rows"]] == [4, 3, 4]
    assert stats["best"]["final"] is False
    assert stats["differences"][stats["best"]["row"]] is None


def test_the_main_score_comes_first_and_losses_are_better_when_lower() -> None:
    drawing = view.build(report(3, 4))
    assert drawing["scores"] == ["score", "sharpness_loss"]
    assert drawing["better"] == {"score": "higher", "sharpness_loss": "lower"}
    assert next(iter(drawing["curves"])) == "loss"


def test_a_fall_of_the_score_while_the_loss_falls_is_said() -> None:
    assert view.build(report())["stats"]["score"]["verdicts"]["loss"]["says"] == "worse"
    rising = report(shape=lambda share: 0.2 + 0.6 * share)
    assert view.build(rising)["stats"]["score"]["verdicts"]["loss"]["says"] == "together"


def test_without_cells_scores_or_steps_there_is_still_a_drawing() -> None:
    assert view.build(report(0, 3))["counts"]["total"] == 0
    bare = report(2, 2, told=lambda row, column: {"score": None, "scores": {"f1": float("nan"), "ok": True}})
    bare.update(score=None, scores=["f1", "ok"], curves={})
    for row in bare["rows"]:
        row["step"] = None
    drawing = view.build(bare)
    assert (drawing["score"], drawing["scores"], drawing["stats"]) == (None, [], {})


def test_a_far_value_does_not_make_all_others_look_alike() -> None:
    far = report(10, 10, told=lambda row, column: {"score": 1e6, "scores": {}} if (row, column) == (0, 0) else {})
    low, high, _, above = view.build(far)["stats"]["score"]["range"]
    assert low < high < 2 and above


def test_as_a_process_it_says_the_same() -> None:
    data = report(2, 3)
    done = subprocess.run(
        [sys.executable, "-I", "-m", "headway.report.view"], input=json.dumps(data), capture_output=True, text=True
    )
    assert json.loads(done.stdout) == view.build(data)


def test_checkpoints_that_know_epochs_alone_are_put_on_epochs_with_the_curves_that_count_them() -> None:
    by_epoch = report(shape=lambda share: 0.2 + 0.6 * share)
    for row in by_epoch["rows"]:
        row["step"] = None
    by_epoch["curves"] = {"loss": [[n, 2 / n] for n in range(1, 26)], "grad_norm": [[n, 1.0] for n in range(0, 900, 9)]}
    drawing = view.build(by_epoch)
    assert (drawing["axis"], [row["at"] for row in drawing["rows"][:3]]) == ("epoch", [1, 2, 3])
    assert (list(drawing["curves"]), drawing["apart"]) == (["loss"], ["grad_norm"])
    assert drawing["stats"]["score"]["verdicts"]["loss"]["says"] == "together"
    assert view.build(report())["axis"] == "step"


def test_names_of_any_kind_are_told_apart() -> None:
    names = ["</script><b>", "a/../b", "\u202e\u2028x", "__proto__", "'\"&;--"]
    data = report(5, 5)
    known = {row["row"]: name for row, name in zip(data["rows"], names, strict=True)}
    cases = {column["case"]: f"case {name}" for column, name in zip(data["columns"], names, strict=True)}
    for row in data["rows"]:
        row["row"] = known[row["row"]]
    for column in data["columns"]:
        column["case"] = cases[column["case"]]
    for cell in data["cells"]:
        cell["row"], cell["case"] = known[cell["row"]], cases[cell["case"]]
        cell["scores"] = {"score": cell["score"], "__proto__": 0.5}
    data["scores"] = ["score", "__proto__"]
    drawing = view.build(data)
    assert [row["name"] for row in drawing["rows"]] == names
    assert drawing["counts"]["valid"] == 25
    assert drawing["scores"] == ["score", "__proto__"]


@pytest.mark.parametrize(
    ("state", "cell", "tries", "shown"),
    [
        ("running", "waiting", 0, "waiting"),
        ("paused", "waiting", 0, "waiting"),
        ("running", "waiting", 1, "waiting"),
        ("running", "running", 1, "running"),
        ("stopped", "waiting", 0, "untried"),
        ("failed", "waiting", 0, "untried"),
        ("failed", "waiting", 1, "unfinished"),
        ("stopped", "running", 1, "unfinished"),
        ("succeeded", "waiting", 0, "untried"),
    ],
)
def test_none_waits_or_runs_in_an_evaluation_that_has_ended(state: str, cell: str, tries: int, shown: str) -> None:
    waits = {"state": cell, "score": None, "scores": {}, "tries": tries}
    drawing = view.build(report(2, 2, state=state, told=lambda row, column: waits if row else {}))
    assert [cell[3] for cell in drawing["cells"]] == ["valid", "valid", shown, shown]
    assert drawing["counts"][shown] == 2


def test_failures_that_are_alike_are_one_group() -> None:
    def fails(row: int, column: int) -> dict[str, Any]:
        why = f"no memory at 0x{row}f for epoch-{row + 1} after {column}.5 s"
        return {"state": "invalid", "cause": "exception", "reason": why} if column == 1 else {}

    (group,) = view.build(report(3, 4, told=fails))["failures"]
    assert (group["count"], group["rows"], group["columns"]) == (3, 3, 1)
    assert (group["reason"], group["cells"]) == ("no memory at 0x0f for epoch-1 after 1.5 s", [2, 6, 10])


def test_what_it_was_made_of_stands_in_the_drawing_without_what_is_not_said() -> None:
    data = report(2, 2)
    drawn = view.build(data)["provenance"]
    assert drawn == {"headway": __version__, **{key: said for key, said in data["provenance"].items() if said}}
    assert "scorer" not in drawn and drawn["environment"] == ["HF_HOME"]
