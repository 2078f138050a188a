"""What an event means to the module that owns the run: checkpoints, cells, a replica's address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.controller import cell_events
from headway.protocol import events
from headway.rules.records import Attempt, Run
from headway.store.base import Transaction


def merged(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events, fewer: those that can be taken in together are one."""
    return cell_events.merged(events)


def weight(event: dict[str, Any]) -> int:
    """How much taking the event in takes, in plain events."""
    return cell_events.weight(event)


def take_in(tx: Transaction, run: Run, attempt: Attempt, event: dict[str, Any], now: float) -> set[str]:
    """Applies one event for the run's owner and returns the hint topics that follow."""
    kind = event.get("event")
    if kind == events.CHECKPOINT:
        return _checkpoint(tx, run, attempt, event)
    if run.owner == "evaluation" and run.owner_id is not None:
        return cell_events.take_in(tx, run, event)
    if kind == events.LISTENING:
        tx.runs.change_attempt(attempt.id, address=str(event["address"]))
        return {"routes"}
    if kind == events.READY:
        tx.runs.change_attempt(attempt.id, ready=True)
        return {"routes", "endpoint"}
    return set()


def _checkpoint(tx: Transaction, run: Run, attempt: Attempt, event: dict[str, Any]) -> set[str]:
    before = tx.products.checkpoint_named(run.id, str(event["name"]))
    if before is not None and before.removed_at is not None and float(event["at"]) <= before.removed_at:
        # a helper found it just before its bytes were removed
        return set()
    sha256, valid = str(event.get("sha256") or ""), bool(event["valid"])
    # each attempt's helper tells again what it finds published: whose it is and when it appeared stays as it was
    again = before is not None and valid and (before.sha256, before.valid) == (sha256, True)
    tx.products.put_checkpoint(
        run_id=run.id,
        name=str(event["name"]),
        attempt_id=before.attempt_id if before is not None and again else attempt.id,
        path=str(event.get("path") or ""),
        step=event.get("step"),
        epoch=event.get("epoch"),
        metrics=event.get("metrics") or {},
        bytes=int(event.get("bytes") or 0),
        sha256=sha256,
        format=str(event.get("format") or ""),
        valid=valid,
        reason=str(event.get("reason") or ""),
        created_at=before.created_at if before is not None and again else float(event["at"]),
        files=int(event.get("files") or 1),
        save_seconds=_seconds(event.get("save_seconds")),
        blocked_seconds=_seconds(event.get("blocked_seconds")),
    )
    return {"states"}


def _seconds(value: Any) -> float | None:
    return None if value is None else float(value)
