"""What an event means to the module that owns the run: checkpoints, cells, a replica's address."""

from __future__ import annotations

from typing import Any

from headway.controller import evaluate
from headway.protocol import events
from headway.rules.records import Attempt, Run
from headway.store.base import Transaction


def take_in(tx: Transaction, run: Run, attempt: Attempt, event: dict[str, Any], now: float) -> set[str]:
    """Applies one event for the run's owner and returns the hint topics that follow."""
    kind = event.get("event")
    if kind == events.CHECKPOINT:
        return _checkpoint(tx, run, attempt, event)
    if run.owner == "evaluation" and run.owner_id is not None:
        return evaluate.take_in(tx, run, event)
    if kind == events.LISTENING:
        tx.runs.change_attempt(attempt.id, address=str(event["address"]))
        return {"routes"}
    if kind == events.READY:
        tx.runs.change_attempt(attempt.id, ready=True)
        return {"routes", "endpoint"}
    return set()


def _checkpoint(tx: Transaction, run: Run, attempt: Attempt, event: dict[str, Any]) -> set[str]:
    tx.products.put_checkpoint(
        run_id=run.id,
        name=str(event["name"]),
        attempt_id=attempt.id,
        path=str(event.get("path") or ""),
        step=event.get("step"),
        epoch=event.get("epoch"),
        metrics=event.get("metrics") or {},
        bytes=int(event.get("bytes") or 0),
        sha256=str(event.get("sha256") or ""),
        format=str(event.get("format") or ""),
        valid=bool(event["valid"]),
        reason=str(event.get("reason") or ""),
        created_at=float(event["at"]),
    )
    return {"states"}
