"""Evaluations: every checkpoint on every case."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import cells as cell_rules
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice, unknown
from headway.rules.records import Evaluation, Project
from headway.rules.states import EVALUATION_MOVES, OPEN_RUNS, CellState, EvaluationState, check
from headway.services import access, evaluation_requests, evaluation_views, requests, runs
from headway.services.context import Services
from headway.services.evaluation_requests import Resolved
from headway.services.evaluation_views import MOST_RUNS, OWNER
from headway.storage.mounts import UNMOUNTED
from headway.store.base import ConflictError, Transaction
from headway.wire.evaluations import (
    CellView,
    EvaluationPlan,
    EvaluationReport,
    EvaluationRequest,
    EvaluationView,
    TargetRequest,
)

#: cells in one answer
MOST_CELLS = 10_000
_OPEN = (EvaluationState.RUNNING, EvaluationState.PAUSED)
_UNDONE = (CellState.WAITING, CellState.RUNNING, CellState.INVALID)

view = evaluation_views.evaluation


def create(ctx: Services, caller: Caller, project: str, request: EvaluationRequest) -> EvaluationView:
    """Puts the evaluation and its cells into the record; the controller makes worker runs for those not done yet.

    A cell whose key is done in the project is valid at once. With a key that was used before, or asked for again as
    it was, the first evaluation. Raises UsageError, NotFoundError (job, checkpoint, snapshot, dataset), RefusedError
    (no valid checkpoint, too_large), ForbiddenError.
    """
    evaluation_requests.check(ctx, project, request)
    for last in (False, True):
        try:
            found, made = _first_or_made(ctx, caller, project, request)
            break
        except ConflictError:
            # somebody else asked for the same at the same moment
            if last:
                raise
    if made:
        ctx.hint("evaluation", found.id)
    return found


def _first_or_made(
    ctx: Services, caller: Caller, project: str, request: EvaluationRequest
) -> tuple[EvaluationView, bool]:
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        if found := _by_key(tx, home, request):
            return view(ctx, tx, found, home.name), False
        resolved = evaluation_requests.resolve(ctx, tx, home, request)
        if found := tx.evaluations.by_digest(home.id, resolved.digest):
            return view(ctx, tx, found, home.name), False
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        if evaluation_requests.choose(tx, home, request, resolved.jobs) != resolved.rows:
            resolved = evaluation_requests.resolve(ctx, tx, home, request)
        found = _by_key(tx, home, request) or tx.evaluations.by_digest(home.id, resolved.digest)
        if found is not None:
            return view(ctx, tx, found, home.name), False
        return view(ctx, tx, _insert(ctx, tx, caller, home, request, resolved), home.name), True


def _by_key(tx: Transaction, home: Project, request: EvaluationRequest) -> Evaluation | None:
    return tx.evaluations.by_key(home.id, request.key) if request.key else None


def _insert(
    ctx: Services, tx: Transaction, caller: Caller, home: Project, request: EvaluationRequest, resolved: Resolved
) -> Evaluation:
    held = "It is held until it is retried." if request.held else ""
    requests.hold(tx, resolved.plan["datasets"])
    evaluation = tx.evaluations.add(
        project_id=home.id,
        name=request.name,
        state=EvaluationState.STOPPED if request.held else EvaluationState.RUNNING,
        reason=held,
        remedy="",
        cause=None,
        job_id=resolved.jobs[0],
        plan=resolved.plan,
        pauses=0,
        rounds=0,
        key=request.key,
        path="",
        submitted_by=caller.user_id,
        created_at=ctx.clock(),
        ended_at=ctx.clock() if request.held else None,
        jobs=resolved.jobs,
        digest=resolved.digest,
        follow=request.follow,
        target=request.target and evaluation_requests.target(ctx, home.name, request.target, "target"),
        policy=request.policy,
    )
    tx.evaluations.change(evaluation.id, path=f"projects/{home.name}/evaluations/{evaluation.id}")
    made = tx.evaluations.get(evaluation.id)
    assert made is not None
    cells = cell_rules.new_cells(made, resolved.rows, resolved.columns, resolved.keys)
    tx.evaluations.add_new(home.id, made.id, cells)
    return made


def plan(ctx: Services, caller: Caller, project: str, request: EvaluationRequest) -> EvaluationPlan:
    """What `create` would make, and how much of it is done already. Raises as it does."""
    evaluation_requests.check(ctx, project, request)
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        resolved = evaluation_requests.resolve(ctx, tx, home, request)
        same = tx.evaluations.by_digest(home.id, resolved.digest)
        done = tx.evaluations.done_keys(home.id, resolved.keys)
    cells = len(resolved.keys)
    undone = sum(key not in done for key in resolved.keys)
    return EvaluationPlan(
        same=same.id if same else None,
        rows=[row for _, row in resolved.rows],
        columns=len(resolved.columns),
        cells=cells,
        done=cells - undone,
        to_run=undone,
        workers=min(request.workers, undone),
        example=cell_rules.effective_case(resolved.plan["cases"][0], request.parameters, 0, request.seed),
    )


def find(tx: Transaction, home: Project, evaluation_id: int) -> Evaluation:
    """Raises NotFoundError when the project has no such evaluation."""
    found = tx.evaluations.get(evaluation_id)
    if found is None or found.project_id != home.id:
        raise NotFoundError(f"Project {home.name} has no evaluation {evaluation_id}.", "`headway eval ls` lists them.")
    return found


def listing(ctx: Services, caller: Caller, project: str, *, limit: int = 100) -> list[EvaluationView]:
    """Newest first."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return [view(ctx, tx, e, home.name) for e in tx.evaluations.listing(home.id, limit=limit)]


def get(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> EvaluationView:
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return view(ctx, tx, find(tx, home, evaluation_id), home.name)


def cells(
    ctx: Services,
    caller: Caller,
    project: str,
    evaluation_id: int,
    *,
    states: Collection[str] = (),
    after: int = 0,
    limit: int = MOST_CELLS,
) -> list[CellView]:
    """In the order in which they were made (by checkpoint, then case), behind the cell `after`; those in `states`."""
    for state in states:
        if state not in [known.value for known in CellState]:
            raise unknown("state", state, [known.value for known in CellState])
    wanted = [CellState(state) for state in states] or None
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        evaluation = find(tx, home, evaluation_id)
        checkpoints = tx.evaluations.checkpoints(evaluation.id)
        found = tx.evaluations.cells(evaluation.id, wanted, after=after, limit=min(limit, MOST_CELLS))
    return evaluation_views.cells(ctx, found, checkpoints)


def report(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> EvaluationReport:
    """All of it for a report: rows, columns, cells, training curves of its first job."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        evaluation = find(tx, home, evaluation_id)
    curves = evaluation_views.curves(ctx, caller, evaluation.jobs[0])
    return evaluation_views.report(ctx, caller, project, evaluation, curves)


def file(ctx: Services, caller: Caller, project: str, evaluation_id: int, cell_id: int, name: str) -> Path:
    """A published output file of a valid cell. Raises NotFoundError."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        evaluation = find(tx, home, evaluation_id)
        cell = tx.evaluations.cell(cell_id)
    if cell is None or cell.evaluation_id != evaluation.id:
        raise NotFoundError(f"Evaluation {evaluation_id} has no cell {cell_id}.", "`headway eval cells` lists them.")
    if cell.state is not CellState.VALID:
        raise NotFoundError(f"Cell {cell_id} is {cell.state.value}.", "Only a valid cell has outputs.")
    known = [str(output["name"]) for output in cell.outputs]
    if name not in known:
        raise NotFoundError(f"Cell {cell_id} has no output {name!r}.", advice(name, known))
    path = ctx.root / cell.path / name
    # the worker wrote it, or somebody after it: what it may lead to is nobody's to read
    if not path.is_file() or path.is_symlink() or path.resolve() != (ctx.root / cell.path).resolve() / name:
        raise NotFoundError(f"{path} is gone.", f"`headway eval verify {evaluation_id}` finds what is damaged.")
    return path


def stop(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> EvaluationView:
    """Stops it and its workers; what is published stays valid. One that has ended stays as it is."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        evaluation = find(tx, home, evaluation_id)
        if evaluation.state in _OPEN:
            tx.evaluations.change(
                evaluation.id,
                state=check(EVALUATION_MOVES, evaluation.state, EvaluationState.STOPPED),
                reason=f"{caller.name} stopped it.",
                remedy="",
                cause=None,
                ended_at=ctx.clock(),
            )
            _stop_workers(ctx, tx, evaluation, f"{caller.name} stopped evaluation {evaluation.id}.")
        shown = view(ctx, tx, find(tx, home, evaluation_id), home.name)
    ctx.hint("evaluation", evaluation_id)
    ctx.hint("run")
    return shown


def _stop_workers(ctx: Services, tx: Transaction, evaluation: Evaluation, why: str) -> None:
    for run in tx.runs.listing(owner=OWNER, owner_id=evaluation.id, states=OPEN_RUNS, limit=MOST_RUNS):
        runs.ask_to_stop(ctx, tx, run, why)


def retry(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> EvaluationView:
    """Tries the cells that are not valid again; valid ones are never run again. One that runs stays as it is.

    One that follows jobs looks for new checkpoints again. Raises RefusedError when every cell is valid already.
    """
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        evaluation = find(tx, home, evaluation_id)
        if evaluation.state is EvaluationState.SUCCEEDED and not evaluation.follow:
            raise RefusedError(f"Every cell of evaluation {evaluation_id} is valid.", "There is nothing to try again.")
        if evaluation.state not in _OPEN:
            tx.evaluations.reset_cells(evaluation.id)
            tx.evaluations.reuse(evaluation.id, home.id)
            run_again(tx, evaluation)
        shown = view(ctx, tx, find(tx, home, evaluation_id), home.name)
    ctx.hint("evaluation", evaluation_id)
    return shown


def run_again(tx: Transaction, evaluation: Evaluation) -> None:
    """Lets one that has ended or is paused go on."""
    tx.evaluations.change(
        evaluation.id,
        state=check(EVALUATION_MOVES, evaluation.state, EvaluationState.RUNNING),
        reason="",
        remedy="",
        cause=None,
        ended_at=None,
        rounds=0,
    )


def target(ctx: Services, caller: Caller, project: str, evaluation_id: int, request: TargetRequest) -> EvaluationView:
    """Sends the outputs that are still to come to another folder; those that are there stay valid where they are.

    Its workers are asked to stop, and their cells are dealt again. One that is paused goes on; one that has ended
    stays so until it is retried. Raises UsageError, RefusedError (a folder of another project, nothing to come).
    """
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        evaluation = find(tx, home, evaluation_id)
        if evaluation.state is EvaluationState.SUCCEEDED and not evaluation.follow:
            raise RefusedError(f"Evaluation {evaluation_id} has all its outputs.", "Nothing is still to come.")
        folder = request.folder and evaluation_requests.target(ctx, home.name, request.folder, "folder")
        if request.folder is not None and not folder:
            raise UsageError("folder: it is empty.", "Give an absolute folder, or none for the evaluation's own.")
        # the same one again: what is there now is meant, not what was mounted there before
        if folder != evaluation.target or evaluation.cause == UNMOUNTED:
            _move(
                ctx, tx, evaluation, folder or None, f"{caller.name} changed the target of evaluation {evaluation_id}."
            )
        shown = view(ctx, tx, find(tx, home, evaluation_id), home.name)
    ctx.hint("evaluation", evaluation_id)
    ctx.hint("run")
    return shown


def _move(ctx: Services, tx: Transaction, evaluation: Evaluation, folder: str | None, why: str) -> None:
    left = sorted({*evaluation.plan.get("left_folders", []), cell_rules.outputs_folder(evaluation)})
    # the controller tidies these up when the evaluation has ended
    plan = {**evaluation.plan, "left_folders": left, cell_rules.MOUNT: None}
    tx.evaluations.change(evaluation.id, target=folder, forecast={}, plan=plan)
    moved = tx.evaluations.get(evaluation.id)
    assert moved is not None
    undone = tx.evaluations.cells(evaluation.id, _UNDONE)
    tx.evaluations.move_cells([(c.id, cell_rules.path(moved, c.row, c.case_id, c.repeat)) for c in undone])
    open_cells = [c.id for c in undone if c.state is not CellState.INVALID]
    tx.evaluations.change_cells(open_cells, state=CellState.WAITING, run_id=None)
    _stop_workers(ctx, tx, evaluation, why)
    if evaluation.state is EvaluationState.PAUSED:
        run_again(tx, evaluation)
