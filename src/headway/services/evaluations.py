"""Evaluations: every checkpoint of a job on every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import cells as cell_rules
from headway.rules import checkpoints as checkpoint_rules
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice, unknown
from headway.rules.records import Checkpoint, Evaluation, Project, Run, Snapshot
from headway.rules.states import ENDED_RUNS, CellState, EvaluationState, RunState
from headway.services import access, jobs, requests, runs
from headway.services.context import Services, moment, moment_or_none, money
from headway.store.base import ConflictError, Transaction
from headway.wire.products import CellView, EvaluationRequest, EvaluationView

OWNER = "evaluation"
#: what an output can be checked as; see `storage.verify`
KINDS = ("file", "image", "json", "safetensors", "tar", "torch")
_OPEN_RUNS = frozenset(RunState) - ENDED_RUNS
_MOST_RUNS = 10_000


def create(ctx: Services, caller: Caller, project: str, request: EvaluationRequest) -> EvaluationView:
    """Puts the evaluation and all its cells into the record; the controller makes worker runs for them.

    With a key that was used before, the first evaluation. Raises UsageError, NotFoundError (job, checkpoint, snapshot,
    dataset), RefusedError (no valid checkpoint, too_large), ForbiddenError.
    """
    _check(request)
    try:
        with ctx.store.begin() as tx:
            home = access.project(tx, caller, project, Action.WORK)
            found = tx.evaluations.by_key(home.id, request.key) if request.key else None
            if found is not None:
                return view(ctx, tx, found, home.name)
            made = view(ctx, tx, _insert(ctx, tx, caller, home, request), home.name)
    except ConflictError:
        # somebody else asked with the same key at the same moment
        assert request.key is not None
        with ctx.store.read() as tx:
            home = access.project(tx, caller, project, Action.WORK)
            found = tx.evaluations.by_key(home.id, request.key)
            assert found is not None
            return view(ctx, tx, found, home.name)
    ctx.hint("evaluation", made.id)
    return made


def _check(request: EvaluationRequest) -> None:
    requests.entry(request.worker, "evaluate")
    requests.check_words((), request.environment)
    for what, names in (("case", [c.id for c in request.cases]), ("output", [o.name for o in request.outputs])):
        for name, count in Counter(names).items():
            if count > 1:
                raise UsageError(f"{what} {name!r} stands {count} times.", f"Give each {what} a name of its own.")
    for output in request.outputs:
        if output.kind not in KINDS:
            raise unknown("kind", output.kind, KINDS, f"outputs.{output.name}")
    names = [o.name for o in request.outputs]
    if request.score_file not in names:
        raise UsageError(
            f"score_file: {request.score_file!r} is none of the outputs.", advice(request.score_file, names)
        )


def _insert(ctx: Services, tx: Transaction, caller: Caller, home: Project, request: EvaluationRequest) -> Evaluation:
    job = jobs.find(tx, home, request.job)
    chosen = _checkpoints(tx, job, request.checkpoints)
    code = requests.snapshot(tx, home, request.snapshot)
    plan = _plan(tx, home, request, code)
    evaluation = tx.evaluations.add(
        project_id=home.id,
        name=request.name,
        state=EvaluationState.RUNNING,
        reason="",
        remedy="",
        cause=None,
        job_id=job.id,
        plan=plan,
        pauses=0,
        rounds=0,
        key=request.key,
        path="",
        submitted_by=caller.user_id,
        created_at=ctx.clock(),
        ended_at=None,
    )
    path = f"projects/{home.name}/evaluations/{evaluation.id}"
    tx.evaluations.change(evaluation.id, path=path)
    tx.evaluations.add_cells(_cells(evaluation.id, path, chosen, plan, code))
    made = tx.evaluations.get(evaluation.id)
    assert made is not None
    return made


def _checkpoints(tx: Transaction, job: Run, wanted: str | list[str]) -> list[Checkpoint]:
    found = tx.products.checkpoints(job.id)
    by_name = {c.name: c for c in found}
    if wanted == "all":
        chosen = [c for c in found if checkpoint_rules.usable(c)]
    else:
        names = [wanted] if isinstance(wanted, str) else wanted
        for name in names:
            if name not in by_name:
                raise NotFoundError(f"Job {job.id} has no checkpoint {name!r}.", advice(name, by_name))
            if not checkpoint_rules.usable(by_name[name]):
                what = "is not valid" if not by_name[name].valid else "is not there any more"
                raise RefusedError(f"Checkpoint {name} of job {job.id} {what}: {by_name[name].reason}", "Leave it out.")
        chosen = [by_name[n] for n in dict.fromkeys(names)]
    if not chosen:
        raise RefusedError(
            f"Job {job.id} has no valid checkpoint.", "Wait until it has published one.", code="no_checkpoints"
        )
    return chosen


def _plan(tx: Transaction, home: Project, request: EvaluationRequest, code: Snapshot) -> dict[str, Any]:
    spec = requests.spec(tx, request.spec)
    return {
        "cases": [c.model_dump() for c in request.cases],
        "worker": request.worker,
        "outputs": [o.model_dump() for o in request.outputs],
        "score_file": request.score_file,
        "score": request.score,
        "spec": spec.name,
        "workers": request.workers,
        "snapshot_id": code.id,
        "datasets": requests.datasets(tx, home, request.datasets),
        "environment": request.environment,
        "max_duration": request.max_duration,
        "retries": request.retries,
    }


def _cells(
    evaluation_id: int, path: str, chosen: Sequence[Checkpoint], plan: dict[str, Any], code: Snapshot
) -> list[dict[str, Any]]:
    stems = Counter(PurePosixPath(c.name).stem for c in chosen)
    rows = []
    for checkpoint in chosen:
        stem = PurePosixPath(checkpoint.name).stem
        folder = stem if stems[stem] == 1 else checkpoint.name
        for case in plan["cases"]:
            key = cell_rules.key(
                checkpoint.sha256,
                case,
                code.digest,
                plan["worker"],
                plan["outputs"],
                plan["score"],
                plan["datasets"],
            )
            rows.append(
                {
                    "evaluation_id": evaluation_id,
                    "checkpoint_id": checkpoint.id,
                    "case_id": case["id"],
                    "key": key,
                    "state": CellState.WAITING,
                    "run_id": None,
                    "score": None,
                    "scores": {},
                    "outputs": [],
                    "path": f"{path}/outputs/{folder}/{case['id']}",
                    "publication": None,
                    "ran": 0,
                    "tries": 0,
                    "reason": "",
                    "seconds": None,
                    "ended_at": None,
                }
            )
    return rows


def find(tx: Transaction, home: Project, evaluation_id: int) -> Evaluation:
    """Raises NotFoundError when the project has no such evaluation."""
    found = tx.evaluations.get(evaluation_id)
    if found is None or found.project_id != home.id:
        raise NotFoundError(
            f"Project {home.name} has no evaluation {evaluation_id}.", "`headway evaluation ls` lists them."
        )
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


def view(ctx: Services, tx: Transaction, evaluation: Evaluation, project: str) -> EvaluationView:
    counts = tx.evaluations.counts(evaluation.id)
    workers = [r.id for r in tx.runs.listing(owner=OWNER, owner_id=evaluation.id, limit=_MOST_RUNS)]
    return EvaluationView(
        id=evaluation.id,
        project=project,
        name=evaluation.name,
        state=evaluation.state.value,
        reason=evaluation.reason,
        remedy=evaluation.remedy,
        cause=evaluation.cause,
        job=evaluation.job_id,
        cells=sum(counts.values()),
        waiting=counts.get(CellState.WAITING, 0),
        running=counts.get(CellState.RUNNING, 0),
        valid=counts.get(CellState.VALID, 0),
        invalid=counts.get(CellState.INVALID, 0),
        ran=tx.evaluations.ran(evaluation.id),
        pauses=evaluation.pauses,
        runs=sorted(workers),
        cost=money(sum(tx.ledger.amounts(workers).values())),
        path=str(ctx.root / evaluation.path),
        created_at=moment(evaluation.created_at),
        ended_at=moment_or_none(evaluation.ended_at),
    )


def cells(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> list[CellView]:
    """By checkpoint, then in the order of the cases."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        evaluation = find(tx, home, evaluation_id)
        names = {c.id: c.name for c in tx.products.checkpoints(evaluation.job_id)}
        found = tx.evaluations.cells(evaluation.id)
    return [
        CellView(
            id=c.id,
            checkpoint=names[c.checkpoint_id],
            case=c.case_id,
            state=c.state.value,
            score=c.score,
            scores=c.scores,
            outputs=c.outputs,
            path=str(ctx.root / c.path),
            ran=c.ran,
            reason=c.reason,
            seconds=c.seconds,
        )
        for c in found
    ]


def stop(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> EvaluationView:
    """Stops it and its workers; what is published stays valid. One that has ended stays as it is."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        evaluation = find(tx, home, evaluation_id)
        if evaluation.state in (EvaluationState.RUNNING, EvaluationState.PAUSED):
            tx.evaluations.change(
                evaluation.id,
                state=EvaluationState.STOPPED,
                reason=f"{caller.name} stopped it.",
                remedy="",
                cause=None,
                ended_at=ctx.clock(),
            )
            for run in tx.runs.listing(owner=OWNER, owner_id=evaluation.id, states=_OPEN_RUNS, limit=_MOST_RUNS):
                runs.ask_to_stop(ctx, tx, run, f"{caller.name} stopped evaluation {evaluation.id}.")
        shown = view(ctx, tx, find(tx, home, evaluation_id), home.name)
    ctx.hint("evaluation", evaluation_id)
    ctx.hint("run")
    return shown


def retry(ctx: Services, caller: Caller, project: str, evaluation_id: int) -> EvaluationView:
    """Tries the cells that are not valid again; valid ones are never run again. One that runs stays as it is.

    Raises RefusedError when every cell is valid already.
    """
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        evaluation = find(tx, home, evaluation_id)
        if evaluation.state == EvaluationState.SUCCEEDED:
            raise RefusedError(f"Every cell of evaluation {evaluation_id} is valid.", "There is nothing to try again.")
        if evaluation.state in (EvaluationState.FAILED, EvaluationState.STOPPED):
            tx.evaluations.reset_cells(evaluation.id)
            tx.evaluations.change(
                evaluation.id, state=EvaluationState.RUNNING, reason="", remedy="", cause=None, ended_at=None, rounds=0
            )
        shown = view(ctx, tx, find(tx, home, evaluation_id), home.name)
    ctx.hint("evaluation", evaluation_id)
    return shown
