"""What the helpers of workers tell of cells and of their target, taken into the record.

Events come in groups, may come twice, and may come from a worker whose cells are somebody else's by now. What was
published counts whoever tells it; what else happens to a cell counts only from the worker that it is dealt to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.protocol import events
from headway.rules import dealing
from headway.rules.records import Cell, Evaluation, Run
from headway.rules.states import EVALUATION_MOVES, CellState, EvaluationState, check
from headway.store.base import Transaction

OWNER = "evaluation"
#: marks in a worker run's `work`: when it last made its evaluation pause or go on, and what it could not write then
MOVED, LACKS = "moved_at", "lacks"
#: as helpers told it before they told cells in groups; theirs may outlive an upgrade
_CELL, _CELL_STARTED = "cell", "cell_started"
_CELLS = (events.CELLS, _CELL)
#: cells of one merged event
MOST_CELLS = 500
#: seconds after a pause in which what was under way may still be published: it tells nothing of the target
IN_FLIGHT = 2.0
_CELLS_STARTED = (events.CELLS_STARTED, _CELL_STARTED)


def merged(told: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with those that tell of cells one after the other made one: so many take as long as one of them."""
    found: list[dict[str, Any]] = []
    for event in told:
        if event.get("event") != _CELLS[0] or not isinstance(event.get("cells"), list):
            found.append(event)
            continue
        cells = [{"at": event.get("at"), **one} for one in event["cells"] if isinstance(one, dict)]
        last = found[-1] if found else {}
        before = last.get("cells") if last.get("event") == _CELLS[0] else None
        if isinstance(before, list) and len(before) < MOST_CELLS:
            found[-1] = {**event, "cells": before + cells}
        else:
            found.append({**event, "cells": cells})
    return found


def weight(event: dict[str, Any]) -> int:
    """How much taking the event in takes, in plain events."""
    cells = event.get("cells")
    return 1 + len(cells) // 4 if isinstance(cells, list) else 1


def take_in(tx: Transaction, run: Run, event: dict[str, Any]) -> set[str]:
    """One event of the helper of `run`, a worker."""
    assert run.owner_id is not None
    kind = event.get("event")
    if kind in _CELLS:
        told = [event] if kind == _CELL else list(event["cells"])
        _published(tx, run.owner_id, told, float(event["at"]))
        if any(not one.get("found") for one in told):
            # what was found has been there before: it tells nothing of the target
            _resume(tx, run.id, run.owner_id, float(event["at"]), after=IN_FLIGHT)
        # while there are others, nothing follows that cannot wait until the evaluation is looked at by itself
        return set() if event.get("left") else {OWNER}
    if kind in _CELLS_STARTED:
        _started(tx, run, [event["cell"]] if kind == _CELL_STARTED else event["cells"])
        return set()
    if kind == events.CELL_INVALID:
        _invalid(tx, run, event)
        return {OWNER}
    if kind == events.PAUSED:
        _pause(tx, run.id, run.owner_id, event)
        return {OWNER}
    if kind == events.RESUMED:
        _resume(tx, run.id, run.owner_id, float(event["at"]))
        return {OWNER}
    return set()


def _own(tx: Transaction, evaluation_id: int, ids: Iterable[Any]) -> dict[int, Cell]:
    found = tx.evaluations.many_cells([int(i) for i in ids])
    return {cell.id: cell for cell in found if cell.evaluation_id == evaluation_id}


def _published(tx: Transaction, evaluation_id: int, told: list[dict[str, Any]], at: float) -> None:
    named = [one for one in told if isinstance(one.get("cell"), int) and one.get("publication")]
    own = _own(tx, evaluation_id, (one["cell"] for one in named))
    known = {cell.id: (cell.publication, cell.path) for cell in own.values() if cell.state is CellState.VALID}
    rows: dict[int, dict[str, Any]] = {}
    for one in named:
        if (cell := own.get(one["cell"])) is None:
            continue
        row = _row(cell, one, at)
        before = known.get(cell.id)
        # told again, or published where the outputs used to come to, after it was published where they come to now
        if before is not None and (row["publication"] == before[0] or row["path"] != before[1]):
            continue
        if cell.id in rows:
            # each publication counts
            tx.evaluations.publish(list(rows.values()))
            rows = {}
        rows[cell.id], known[cell.id] = row, (row["publication"], row["path"])
    tx.evaluations.publish(list(rows.values()))


def _row(cell: Cell, one: dict[str, Any], at: float) -> dict[str, Any]:
    outputs = one.get("outputs") or []
    return {
        "cell": cell.id,
        "publication": str(one["publication"]),
        "score": one.get("score"),
        "scores": one.get("scores") or {},
        "outputs": outputs,
        "path": str(one.get("path") or cell.path),
        "seconds": one.get("seconds"),
        "bytes": int(one.get("bytes") or sum(int(o.get("bytes") or 0) for o in outputs)),
        "files": int(one.get("files") or len(outputs)),
        "ended_at": float(one.get("at") or at),
    }


def _started(tx: Transaction, run: Run, ids: Iterable[Any]) -> None:
    assert run.owner_id is not None
    by_tries: dict[int, list[int]] = {}
    for cell in _own(tx, run.owner_id, ids).values():
        if cell.run_id == run.id and cell.state in (CellState.WAITING, CellState.INVALID):
            by_tries.setdefault(cell.tries, []).append(cell.id)
    for tries, started in by_tries.items():
        tx.evaluations.change_cells(started, state=CellState.RUNNING, tries=tries + 1)


def _invalid(tx: Transaction, run: Run, event: dict[str, Any]) -> None:
    assert run.owner_id is not None
    for cell in _own(tx, run.owner_id, [event["cell"]]).values():
        if cell.run_id == run.id and cell.state is not CellState.VALID:
            tx.evaluations.change_cell(
                cell.id,
                state=CellState.INVALID,
                reason=str(event.get("reason") or ""),
                cause=str(event["cause"]) if event.get("cause") else None,
                tries=max(cell.tries, int(event.get("tries") or 1)),
                ended_at=float(event["at"]),
            )


# Workers meet the same full target, each in its own time, and their events are taken in worker by worker. So the times
# in the events decide: one from before the evaluation last paused or went on is no news. Each worker run keeps, among
# its owner's notes, when it last moved its evaluation.


def _moves(tx: Transaction, evaluation_id: int) -> tuple[float, int | None]:
    """When a worker last moved the evaluation, and which one."""
    runs = tx.runs.listing(owner=OWNER, owner_id=evaluation_id, limit=1000)
    return max(((float(run.work.get(MOVED, 0.0)), run.id) for run in runs), default=(0.0, None))


def note(tx: Transaction, run_id: int, **marks: Any) -> None:
    """Adds to the notes that the run's owner keeps of it."""
    # read anew: an earlier event of the same batch may have written there
    if (run := tx.runs.get(run_id)) is not None:
        tx.runs.change(run_id, work={**run.work, **marks})


def _pause(tx: Transaction, run_id: int, evaluation_id: int, event: dict[str, Any]) -> None:
    if event.get("held"):
        # it gives its place back, and what is left of its cells is nobody's fault
        note(tx, run_id, **{dealing.EXCUSED: True})
    state, at = tx.evaluations.state(evaluation_id), float(event["at"])
    if state not in (EvaluationState.RUNNING, EvaluationState.PAUSED):
        return
    last, mover = _moves(tx, evaluation_id)
    evaluation = tx.evaluations.get(evaluation_id)
    if evaluation is None or at < last:
        return
    if state is EvaluationState.PAUSED and (mover != run_id or event.get("cause") == evaluation.cause):
        return  # what one waits for is what all wait for, until that one meets something else
    figures = event.get("figures") or {}
    lacks = [event.get("path"), figures.get("needed_bytes") or 0, figures.get("needed_files") or 0]
    note(tx, run_id, **{MOVED: at, LACKS: lacks})
    stop_for(tx, evaluation, event)


def _resume(tx: Transaction, run_id: int, evaluation_id: int, at: float, *, after: float = 0.0) -> None:
    """after: seconds after the pause from which on such an event counts."""
    if tx.evaluations.state(evaluation_id) is not EvaluationState.PAUSED:
        return
    if at < _moves(tx, evaluation_id)[0] + after:
        return
    note(tx, run_id, **{MOVED: at})
    go_on(tx, evaluation_id)


def lacks(tx: Transaction, evaluation_id: int) -> tuple[str | None, int, int]:
    """What the worker that paused the evaluation could not write: (folder, bytes, files)."""
    mover = _moves(tx, evaluation_id)[1]
    run = tx.runs.get(mover) if mover is not None else None
    found = run.work.get(LACKS) if run is not None else None
    return (found[0], int(found[1]), int(found[2])) if found else (None, 0, 0)


def stop_for(tx: Transaction, evaluation: Evaluation, full: dict[str, Any]) -> None:
    """Pauses it, or says what else it waits for. full: cause, message and remedy, as `TargetFullError.to_json`."""
    paused = EvaluationState.PAUSED
    tx.evaluations.change(
        evaluation.id,
        state=paused if evaluation.state is paused else check(EVALUATION_MOVES, evaluation.state, paused),
        cause=str(full.get("cause") or ""),
        reason=str(full.get("message") or ""),
        remedy=str(full.get("remedy") or ""),
        pauses=evaluation.pauses + 1,
    )


def go_on(tx: Transaction, evaluation_id: int) -> None:
    if tx.evaluations.state(evaluation_id) is EvaluationState.PAUSED:
        running = check(EVALUATION_MOVES, EvaluationState.PAUSED, EvaluationState.RUNNING)
        tx.evaluations.change(evaluation_id, state=running, cause=None, reason="", remedy="")
