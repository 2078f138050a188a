"""What workers say that they are done with, made into what is to be published: its outputs settled, its scores read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.helper.dealing import Cell, Failure
from headway.helper.scores import NoScoreError, scores_of
from headway.storage.full import TargetFullError
from headway.storage.group import Wanted
from headway.storage.mounts import Mounted
from headway.storage.settling import Settled, settle_cells
from headway.storage.verify import InvalidError

_THREADS = 4


@dataclass(frozen=True)
class Result:
    """A cell whose worker says that it is done."""

    cell: Cell
    #: where its outputs are staged
    out: Path
    seconds: float | None
    #: as the worker told them; None: they are in the score file
    scores: Any
    size: int


#: what is to be published, or why nothing is; None: the outputs are gone, whoever took them
Outcome = Wanted | Failure | TargetFullError | None


class Settler:
    """By the rules of one deal. Used by one thread; checks are spread over several."""

    def __init__(self, rule: Mapping[str, Any], mounted: Mounted) -> None:
        self._rule, self._mounted = rule, mounted
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="settle")

    def settle(self, group: Sequence[Result]) -> list[Outcome]:
        """Of each its outcome. What lies on a file system that is away is not gone: raises TargetFullError."""
        found = self._settle(group)
        if any(not isinstance(one, Wanted) for one in found):
            self._mounted.check()
        return found

    def _settle(self, group: Sequence[Result]) -> list[Outcome]:
        scores = [self._scores(result) for result in group]
        scored = [result.out for result, found in zip(group, scores, strict=True) if isinstance(found, dict)]
        settled = iter(settle_cells(scored, self._rule["outputs"], self._pool))
        found: list[Outcome] = []
        for result, told in zip(group, scores, strict=True):
            outcome = next(settled) if isinstance(told, dict) else told
            if isinstance(outcome, Settled):
                assert isinstance(told, dict)
                found.append(self._wanted(result, outcome, told))
            elif isinstance(outcome, InvalidError):
                found.append(_unless_gone(result, Failure("invalid_output", outcome.reason)))
            elif isinstance(outcome, OSError):
                why = f"Its outputs cannot be read: {outcome.strerror or outcome}."
                found.append(Failure("invalid_output", why))
            else:
                found.append(outcome)
        return found

    def _scores(self, result: Result) -> dict[str, float] | Failure | TargetFullError | None:
        try:
            return scores_of(self._rule, result.out, result.scores)
        except NoScoreError as error:
            return _unless_gone(result, Failure("no_score", str(error)))
        except TargetFullError as full:
            return full

    def _wanted(self, result: Result, settled: Settled, scores: dict[str, float]) -> Wanted:
        rule = self._rule
        checkpoint, case = rule["checkpoints"][result.cell.checkpoint], rule["cases"][result.cell.case]
        manifest = {
            "key": result.cell.key,
            "cell": result.cell.id,
            "checkpoint": checkpoint["name"],
            "row": checkpoint.get("row"),
            "case": case["id"],
            "repeat": case.get("repeat", 0),
            "score": scores.get(rule["score"]) if rule.get("score") is not None else None,
            "scores": scores,
            "seconds": result.seconds,
        }
        return Wanted(settled, Path(rule["target"]) / result.cell.path, manifest)


def _unless_gone(result: Result, failure: Failure) -> Failure | None:
    return failure if result.out.is_dir() else None
