from __future__ import annotations

from typing import Any

import pytest

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import selection
from headway.rules.records import Checkpoint


def checkpoint(number: int, name: str = "", **changes: Any) -> Checkpoint:
    values: dict[str, Any] = {
        "id": number, "run_id": 1, "attempt_id": "1-1", "name": name or f"epoch-{number}.pt", "path": "p", "step": None,
        "epoch": number, "metrics": {}, "bytes": 1, "sha256": "s", "format": "torch", "valid": True, "reason": "",
        "created_at": 1.0,
    }  # fmt: skip
    return Checkpoint(**{**values, **changes})


TEN = [checkpoint(n) for n in range(1, 11)]


@pytest.mark.parametrize(
    ("plan", "chosen"),
    [
        ({}, range(1, 11)),
        ({"checkpoints": "all"}, range(1, 11)),
        ({"every": 3}, [3, 6, 9]),
        ({"checkpoints": "epoch-1*.pt"}, [1, 10]),
        ({"checkpoints": ["epoch-3.pt", "epoch-[12].pt"]}, [1, 2, 3]),
        ({"checkpoints": "epoch-?.pt", "every": 4}, [4, 8]),
        ({"checkpoints": "other"}, []),
    ],
)
def test_a_choice(plan: dict[str, Any], chosen: Any) -> None:
    assert [c.id for c in selection.choose([*TEN[5:], *TEN[:5]], plan)] == list(chosen)


def test_one_that_was_removed_moves_no_other_and_one_that_was_never_valid_does_not_count() -> None:
    found = [checkpoint(n, removed_at=2.0 if n in (1, 6) else None, valid=n != 2) for n in range(1, 11)]
    assert [c.id for c in selection.choose(found, {"every": 2})] == [3, 5, 7, 9]
    assert [c.id for c in selection.choose(found, {"every": 5})] == []
    assert 6 not in [c.id for c in selection.choose(found, {})]


def test_names_that_are_not_there_are_said() -> None:
    found = [*TEN, checkpoint(11, valid=False, reason="cut off"), checkpoint(12, removed_at=3.0, reason="old")]
    selection.require(found, "all", [1])
    selection.require(found, ["epoch-1.pt", "epoch-1?.pt"], [1])
    with pytest.raises(NotFoundError, match=r"Job 1 has no checkpoint 'epoch-1'.*epoch-1\.pt"):
        selection.require(found, "epoch-1", [1])
    with pytest.raises(NotFoundError, match="Jobs 1, 2 have no checkpoint like"):
        selection.require(found, ["step-*"], [1, 2])
    with pytest.raises(RefusedError, match="is not valid: cut off"):
        selection.require(found, ["epoch-11.pt"], [1])
    with pytest.raises(RefusedError, match="not there any more"):
        selection.require(found, ["epoch-12.pt"], [1])


def test_the_best_by_a_metric() -> None:
    losses = [0.5, 0.2, None, 0.2, 0.9]
    found = [checkpoint(n, metrics={} if v is None else {"loss": v}) for n, v in enumerate(losses, start=1)]
    assert [c.id for c in selection.best(found, 1, "loss", "min")] == [2]
    assert [c.id for c in selection.best(found, 3, "loss", "min")] == [1, 2, 4]
    assert [c.id for c in selection.best(found, 1, "loss", "max")] == [5]
    found.append(checkpoint(6, metrics={"accuracy": 1, "note": "text"}))
    for by, known, words in (
        ("los", found, "no checkpoint has a metric 'los'; they have accuracy, loss. Did you mean loss?"),
        ("fvd", found, "no checkpoint has a metric 'fvd'; they have accuracy, loss. Take one of these."),
        ("note", found[-1:], "no checkpoint has a metric 'note'; they have accuracy. Take one of these."),
        ("loss", found[2:3], "no checkpoint has a metric of its own, so none is the best by 'loss'. Leave it out"),
    ):
        with pytest.raises(UsageError) as caught:
            selection.best(known, 1, by, "min")
        assert words in str(caught.value) and caught.value.code == "unknown_metric"


def test_what_no_new_checkpoint_could_be_cannot_be_followed() -> None:
    selection.check_follow("all", None)
    selection.check_follow(["epoch-1.pt", "epoch-*"], None)
    with pytest.raises(UsageError, match="best"):
        selection.check_follow("all", 3)
    with pytest.raises(UsageError, match=r"epoch-1\.pt"):
        selection.check_follow(["epoch-1.pt"], None)


def test_rows_have_names_of_their_own() -> None:
    found = [checkpoint(1, "a.pt"), checkpoint(2, "a.safetensors"), checkpoint(3, "b.pt"), checkpoint(4, "step-0.5")]
    assert selection.row_names(found, (), several=False) == {1: "a.pt", 2: "a.safetensors", 3: "b", 4: "step-0.5"}
    later = [checkpoint(5, "b.safetensors"), checkpoint(6, "c.pt")]
    assert selection.row_names(later, ["b", "a.pt"], several=False) == {5: "b.safetensors", 6: "c"}
    two = [checkpoint(1, "a.pt"), checkpoint(2, "a.pt", run_id=2)]
    assert selection.row_names(two, (), several=True) == {1: "job-1/a", 2: "job-2/a"}
    assert selection.row_names([checkpoint(7, "a")], ["a"], several=False) == {7: "a@7"}
