"""Deals: which cells go to new worker runs, and what a worker's helper is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.controller.cell_events import OWNER
from headway.controller.loop import Desk
from headway.protocol.files import AttemptFolder
from headway.rules import cells as cell_rules
from headway.rules import dealing
from headway.rules.checkpoints import usable
from headway.rules.records import Cell, Checkpoint, Evaluation, Run
from headway.rules.states import Billing, CellState, EvaluationState, RunState
from headway.store.base import Transaction

COMMAND = ["python", "-m", "headway.script.worker"]
#: bytes of a checkpoint that are loaded in a second, about
LOAD_SPEED = 1e9
#: seconds between looks at a full target; and after which a worker gives its place back
RESUME_SECONDS, HOLD_SECONDS = 1.0, 120.0
#: so many cells in a row that fail alike end their worker
SAME_FAILURES = 8
_GONE = "Checkpoint {name} is not there any more."


@dataclass(frozen=True)
class Deal:
    """What is dealt, worked out before anything is written."""

    parts: list[list[Cell]]
    #: cells whose checkpoint is gone, by what is to be said of them
    gone: dict[str, list[int]]
    #: (cell, key) where its checkpoint has other bytes than when the cell was made
    keys: list[tuple[int, str]]

    @property
    def empty(self) -> bool:
        return not (any(self.parts) or self.gone or self.keys)


def prepare(tx: Transaction, evaluation: Evaluation, step: dealing.Step) -> Deal:
    """The parts of a deal, from the record. What another evaluation's workers are at is left to them."""
    found = [c for c in tx.evaluations.cells(evaluation.id, dealing.OPEN_CELLS) if c.run_id in step.deal]
    if len(tx.evaluations.active_ids()) > 1:
        theirs = tx.evaluations.dealt_elsewhere(evaluation.project_id, evaluation.id)
        found = [c for c in found if c.key not in theirs]
    checkpoints = tx.evaluations.checkpoints(evaluation.id)
    right = _keys(tx, evaluation, checkpoints)
    gone: dict[str, list[int]] = {}
    here, changed = [], []
    for cell in found:
        checkpoint = checkpoints[cell.checkpoint_id]
        if not usable(checkpoint):
            gone.setdefault(_GONE.format(name=checkpoint.name), []).append(cell.id)
            continue
        here.append(cell)
        if (key := right[checkpoint.id][cell.case_id, cell.repeat]) != cell.key:
            changed.append((cell.id, key))
    spec = tx.runs.spec(evaluation.plan["spec"])
    assert spec is not None, f"spec {evaluation.plan['spec']} is referred to and not there"
    most = int(evaluation.plan["workers"])
    wanted = dealing.workers_for(spec, tx.runs.nodes(), int(evaluation.plan.get("least_workers", 1)), most)
    parts = dealing.deal(
        here,
        max(1, step.workers - (most - wanted)),
        seconds=tx.evaluations.case_seconds(evaluation.id),
        loads={c.id: c.bytes / LOAD_SPEED for c in checkpoints.values()},
    )
    return Deal(parts, gone, changed)


def _keys(
    tx: Transaction, evaluation: Evaluation, checkpoints: Mapping[int, Checkpoint]
) -> dict[int, dict[tuple[str, int], str]]:
    """The key that each cell has while its checkpoint is what it is now, by checkpoint, then by case and repeat."""
    code = tx.runs.snapshot_by_id(int(evaluation.plan["snapshot_id"]))
    assert code is not None, f"snapshot {evaluation.plan['snapshot_id']} is referred to and not there"
    common = cell_rules.common_digest(evaluation.plan, code.digest)
    columns = cell_rules.columns(evaluation.plan)
    digests = [column.digest for column in columns]
    places = [(column.case, column.repeat) for column in columns]
    return {
        c.id: dict(zip(places, cell_rules.keys(common, [c.sha256], digests), strict=True)) for c in checkpoints.values()
    }


def apply(desk: Desk, tx: Transaction, evaluation: Evaluation, step: dealing.Step, deal: Deal) -> None:
    """Makes the worker runs. The evaluation and its open cells must be what the deal was worked out from."""
    for reason, ids in deal.gone.items():
        tx.evaluations.change_cells(
            ids, state=CellState.INVALID, run_id=None, reason=reason, cause="load", ended_at=desk.now()
        )
    for cell_id, key in deal.keys:
        tx.evaluations.change_cell(cell_id, key=key)
    valid = tx.evaluations.counts(evaluation.id).get(CellState.VALID, 0)
    for number, part in enumerate(deal.parts, start=1):
        run = tx.runs.add(**_worker(desk, tx, evaluation, number, valid))
        tx.evaluations.deal([cell.id for cell in part], run.id)
    tx.evaluations.change(evaluation.id, rounds=step.rounds)


def _worker(desk: Desk, tx: Transaction, evaluation: Evaluation, number: int, valid: int) -> dict[str, Any]:
    plan = evaluation.plan
    spec = tx.runs.spec(plan["spec"])
    assert spec is not None, f"spec {plan['spec']} is referred to and not there"
    values = new_run(
        project_id=evaluation.project_id,
        owner=OWNER,
        owner_id=evaluation.id,
        name=f"{evaluation.name} worker {number}",
        command=COMMAND,
        environment=plan.get("environment") or {},
        spec=spec.name,
        cpus=spec.cpus,
        memory_bytes=spec.memory_bytes,
        accelerators=spec.accelerators,
        accelerator_kind=spec.accelerator_kind,
        max_duration=plan.get("max_duration"),
        retries=int(plan.get("retries", 3)),
        snapshot_id=plan["snapshot_id"],
        datasets=plan.get("datasets") or [],
        work={"evaluation": evaluation.id, "round": evaluation.rounds + 1, dealing.VALID_BEFORE: valid},
        submitted_by=evaluation.submitted_by,
        now=desk.now(),
    )
    if spot := plan.get("spot"):
        values |= {"billing": Billing.SPOT, "spot": spot}
    if evaluation.policy == dealing.SPARE:
        # behind everybody, and gone when anybody else wants its place
        market = spot or {"bid": "market", "max_price": None, "max_discount": None}
        values |= {"billing": Billing.SPOT, "spot": {**market, "protection": 0.0}, "priority": 1}
    return values


def new_run(*, now: float, **given: Any) -> dict[str, Any]:
    """The fields of a run that an owner adds, with the rest at their beginning."""
    return {
        "state": RunState.QUEUED,
        "reason": "",
        "parameters": {},
        "processes": 1,
        "priority": 5,
        "grace": 30.0,
        "attempts": 0,
        "losses": 0,
        "key": None,
        "created_at": now,
        "started_at": None,
        "ended_at": None,
        "exit_code": None,
        "cause": None,
        "stop_at": None,
        "stop_reason": "",
        **given,
    }


# what a worker's helper is told


def plan(desk: Desk, tx: Transaction, run: Run, folder: AttemptFolder) -> dict[str, Any]:
    """`plan["cells"]` of a worker's launch: what is left of its cells, with all that they need."""
    assert run.owner_id is not None
    evaluation = tx.evaluations.get(run.owner_id)
    assert evaluation is not None
    asked, root = evaluation.plan, desk.services.root
    dealt = tx.evaluations.dealt(run.id, dealing.OPEN_CELLS)
    if evaluation.state not in (EvaluationState.RUNNING, EvaluationState.PAUSED):
        dealt = []  # it has ended meanwhile
    found = tx.evaluations.checkpoints(evaluation.id)
    right = _keys(tx, evaluation, {c.checkpoint_id: found[c.checkpoint_id] for c in dealt})
    # one whose checkpoint went or changed after the deal is left to the next
    kept = [c for c in dealt if usable(found[c.checkpoint_id]) and right[c.checkpoint_id][c.case_id, c.repeat] == c.key]
    checkpoints = _indexed(c.checkpoint_id for c in kept)
    effective = {(case["id"], case["repeat"]): case for case in cell_rules.effective_cases(asked)}
    cases = _indexed((c.case_id, c.repeat) for c in kept)
    repeats = int(asked.get("repeats", 1))
    rows = {c.checkpoint_id: c.row for c in kept}
    return {
        "target": str(root / cell_rules.outputs_folder(evaluation)),
        "mount": asked.get(cell_rules.MOUNT),
        # others may have been given it, too
        "shared": evaluation.target is not None,
        "work": str(folder.work),
        **{name: asked.get(name) for name in ("worker", "command", "check", "scorer", "score_file", "score")},
        "scores": asked.get("scores") or "file",
        "outputs": asked.get("outputs") or [],
        "checkpoints": [_checkpoint(desk, found[i], rows[i]) for i in checkpoints],
        "cases": [effective[case] for case in cases],
        "deal": [
            [
                c.id,
                checkpoints[c.checkpoint_id],
                cases[c.case_id, c.repeat],
                f"{c.row}/{cell_rules.place(c.case_id, c.repeat, repeats)}",
                c.key,
            ]
            for c in kept
        ],
        "tries": int(asked.get("tries") or 2),
        "timeout": asked.get("cell_timeout"),
        "resume_seconds": RESUME_SECONDS,
        "hold_seconds": HOLD_SECONDS,
        "same_failures": SAME_FAILURES,
    }


def _checkpoint(desk: Desk, found: Checkpoint, row: str) -> dict[str, Any]:
    path = str(desk.services.root / found.path)
    return {"id": found.id, "name": found.name, "row": row, "path": path, "sha256": found.sha256}


def _indexed(values: Any) -> dict[Any, int]:
    """Each different value with its place among them."""
    return {value: index for index, value in enumerate(dict.fromkeys(values))}
