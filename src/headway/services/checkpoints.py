"""A job's checkpoints: how often to save them, and whether what was published is still what it was."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from headway.errors import NotFoundError, RefusedError
from headway.rules import checkpoints as rules
from headway.rules import intervals
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.rules.records import Attempt, Checkpoint
from headway.rules.units import render_duration
from headway.services import access
from headway.services.context import Services
from headway.storage.publish import file_digest, verify_folder
from headway.storage.verify import InvalidError, check
from headway.wire.checkpoints import CheckpointProof, IntervalAdvice

#: losses are counted over so many days
_WINDOW_SECONDS = 90 * 86400.0


def advise(ctx: Services, caller: Caller, run_id: int) -> IntervalAdvice:
    """The interval between checkpoints that costs least for this job.

    Raises RefusedError when none of its checkpoints says how long saving it took.
    """
    now = ctx.clock()
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
        found = tx.products.checkpoints(run.id)
        own = tx.runs.attempts(run.id)
        lost = intervals.losses(tx.runs.attempts_since(run.project_id, now - _WINDOW_SECONDS), now)
    saved = intervals.saving(found)
    if saved is None:
        raise RefusedError(
            f"No checkpoint of job {run.id} says how long saving it took.",
            "Save with `headway.save_checkpoint`, which measures it.",
            code="not_measured",
        )
    nodes = max([len(a.placement) for a in own], default=run.nodes) or 1
    mean, restart = lost.mean(nodes), _restart(own)
    told = intervals.advise(saved, mean, now=intervals.current(found), restart=restart)
    return IntervalAdvice(
        job=run.id,
        save_seconds=saved.save_seconds,
        blocked_seconds=saved.blocked_seconds,
        checkpoints=saved.checkpoints,
        losses=lost.count,
        node_seconds=lost.node_seconds,
        loss_every=mean,
        assumed=lost.count == 0,
        restart_seconds=restart,
        interval=told.interval,
        young=told.young,
        overhead=told.overhead,
        now=told.now,
        overhead_now=told.overhead_now,
        text=_words(saved, lost, nodes, mean, told),
    )


def _restart(attempts: list[Attempt]) -> float:
    taken = [a.launched_at - a.created_at for a in attempts if a.launched_at is not None]
    return max(0.0, statistics.median(taken)) if taken else 0.0


def _words(saved: intervals.Saving, lost: intervals.Losses, nodes: int, mean: float, told: intervals.Advice) -> str:
    blocked = ""
    if saved.blocked_seconds < 0.95 * saved.save_seconds:
        blocked = f", of which training stands still {_seconds(saved.blocked_seconds)}"
    every = render_duration(mean)
    hours = f"{lost.node_seconds / 3600:.3g} h"
    if lost.count:
        seen = f"{lost.count} loss{'es' * (lost.count > 1)} in {hours}"
        rate = f"a loss comes every {every} ({seen}{f' of all nodes; it runs on {nodes}' if nodes > 1 else ''})"
    else:
        rate = f"no loss was seen in {hours}, so one every {every} is assumed"
    now = ""
    if told.now is not None and told.overhead_now is not None:
        now = f" (now {_seconds(told.now)}, {_percent(told.overhead_now)})"
    return (
        f"Saving takes {_seconds(saved.save_seconds)}{blocked}; {rate}. "
        f"The interval that costs least is {_seconds(told.interval)}, {_percent(told.overhead)} of the time{now}."
    )


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def _percent(part: float) -> str:
    if part > 10:
        return "more than ten times" if part == float("inf") else f"{part:.0f} times"
    return f"{100 * part:.2g}%"


def verify(ctx: Services, caller: Caller, run_id: int, name: str) -> CheckpointProof:
    """Reads every byte of a published checkpoint. One that is damaged is marked as not valid, and never used again.

    Raises NotFoundError (no such checkpoint), RefusedError (removed, or never valid).
    """
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.WORK)
        by_name = {c.name: c for c in tx.products.checkpoints(run.id)}
    found = by_name.get(name)
    if found is None:
        raise NotFoundError(f"Job {run_id} has no checkpoint {name!r}.", advice(name, by_name))
    if not rules.usable(found):
        state = "was removed" if found.valid else "is not valid"
        raise RefusedError(f"Checkpoint {name} of job {run_id} {state}: {found.reason}", "Choose another.")
    began = time.monotonic()
    reason = _fault(ctx.root / found.path, found)
    seconds = time.monotonic() - began
    if reason:
        with ctx.store.begin() as tx:
            # unless it was saved again meanwhile
            tx.products.change_checkpoint(found, valid=False, reason=reason)
        ctx.hint("states")
    return CheckpointProof(name=name, valid=not reason, reason=reason, bytes=found.bytes, seconds=seconds)


def _fault(path: Path, found: Checkpoint) -> str:
    """Why it is not what was recorded; empty when it is."""
    try:
        if path.is_dir():
            digest = str(verify_folder(path).manifest.get("key"))
        else:
            check(path, found.format)
            digest = file_digest(path)
    except InvalidError as error:
        return error.reason
    except FileNotFoundError:
        return "It is gone."
    return "" if digest == found.sha256 else "It has other bytes than when it was published."
