"""Which checkpoints an evaluation is of, and what their rows are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import checkpoints as rules
from headway.rules.nearest import advice, nearest
from headway.rules.records import Checkpoint

ALL = "all"


def patterns(wanted: str | Sequence[str]) -> list[str]:
    """The names and globs of a request's `checkpoints`; of all of them none."""
    given = [wanted] if isinstance(wanted, str) else list(wanted)
    return [] if given == [ALL] else given


def is_glob(name: str) -> bool:
    return any(c in name for c in "*?[")


def check_follow(wanted: str | Sequence[str], best: int | None) -> None:
    """Raises UsageError for what a checkpoint that is still to come could never be part of."""
    if best is not None:
        raise UsageError("follow and best do not go together.", "Follow all, every k-th or a pattern.")
    given = patterns(wanted)
    if given and not any(is_glob(name) for name in given):
        raise UsageError(
            f"follow: no new checkpoint will be called {given[0]!r}.", 'Follow "all", or a pattern like epoch-*.pt.'
        )


def choose(found: Sequence[Checkpoint], plan: Mapping[str, Any]) -> list[Checkpoint]:
    """The usable ones of one job that `checkpoints` and `every` ask for, in their order.

    Every k-th is counted over all that were ever valid and match, so that one that is removed moves no other. Names
    that no checkpoint has are passed over: see `require`.
    """
    wanted, every = patterns(plan.get("checkpoints") or ALL), int(plan.get("every") or 1)
    matching = [c for c in sorted(found, key=rules.order) if c.valid and _matches(c.name, wanted)]
    return [c for c in matching[every - 1 :: every] if rules.usable(c)]


def require(found: Sequence[Checkpoint], wanted: str | Sequence[str], jobs: Sequence[int]) -> None:
    """Raises NotFoundError for a name or glob that no checkpoint has, RefusedError for one that is not to be had."""
    what = f"Job {jobs[0]} has" if len(jobs) == 1 else f"Jobs {', '.join(map(str, jobs))} have"
    for name in patterns(wanted):
        matching = [c for c in found if _matches(c.name, [name])]
        if not matching:
            kind = "checkpoint like" if is_glob(name) else "checkpoint"
            raise NotFoundError(f"{what} no {kind} {name!r}.", advice(name, {c.name for c in found}))
        if not any(rules.usable(c) for c in matching) and not is_glob(name):
            first = matching[0]
            why = "is not valid" if not first.valid else "is not there any more"
            raise RefusedError(f"Checkpoint {name} of job {first.run_id} {why}: {first.reason}", "Leave it out.")


def best(found: Sequence[Checkpoint], count: int, by: str, mode: str) -> list[Checkpoint]:
    """The `count` best by a metric of their own, in the order that they came in; of two alike the earlier one.

    Raises UsageError when none has that metric.
    """
    told = [c for c in found if _is_number(c.metrics.get(by))]
    if not told:
        raise _no_metric(by, sorted({name for c in found for name, value in c.metrics.items() if _is_number(value)}))
    sign = -1 if mode == "max" else 1
    kept = {c.id for c in sorted(told, key=lambda c: (sign * float(c.metrics[by]), c.id))[:count]}
    return [c for c in found if c.id in kept]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _no_metric(by: str, known: Sequence[str]) -> UsageError:
    if not known:
        return UsageError(
            f"best: no checkpoint has a metric of its own, so none is the best by {by!r}.",
            "Leave it out, or give the training's headway.save_checkpoint its metrics.",
            code="unknown_metric",
        )
    near = nearest(by, known)
    return UsageError(
        f"best: no checkpoint has a metric {by!r}; they have {', '.join(known)}.",
        f"Did you mean {near}?" if near else "Take one of these.",
        code="unknown_metric",
    )


def row_names(chosen: Iterable[Checkpoint], taken: Iterable[str], *, several: bool) -> dict[int, str]:
    """A folder name for each checkpoint's row, by its id: its name without suffix where that is enough.

    taken: names that are given already. several: whether the evaluation is of several jobs.
    """
    chosen = list(chosen)
    used = set(taken)
    stems = Counter(_row(c, _stem(c.name), several) for c in chosen)
    names: dict[int, str] = {}
    for checkpoint in chosen:
        stem = _row(checkpoint, _stem(checkpoint.name), several)
        whole = _row(checkpoint, checkpoint.name, several)
        free = [n for n in ([stem] if stems[stem] == 1 else []) + [whole, f"{whole}@{checkpoint.id}"] if n not in used]
        names[checkpoint.id] = free[0]
        used.add(free[0])
    return names


def _stem(name: str) -> str:
    """Without the suffix of a file; what is behind the dot of step-0.5 is none."""
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix) if suffix[1:2].isalpha() else name


def _row(checkpoint: Checkpoint, name: str, several: bool) -> str:
    return f"job-{checkpoint.run_id}/{name}" if several else name


def _matches(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(name == w or fnmatchcase(name, w) for w in wanted)
