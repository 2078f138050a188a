"""An evaluation's request, resolved against the record: its plan, its rows and columns, the digest of it all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import cells, evalchecks, selection
from headway.rules import jobs as rules
from headway.rules.records import Checkpoint, Project, Snapshot
from headway.services import evaluation_targets, jobs, requests
from headway.services.context import Services
from headway.storage.verify import check_schema
from headway.store.base import Transaction
from headway.wire.evaluations import EvaluationRequest, OutputRule
from headway.wire.runs import Spot

#: folders in headway's home, beside the root
_OF_HOME = ("hints", "log", "cache", "console")
#: what of a request is no part of the plan
_APART = frozenset({"name", "jobs", "cases", "outputs", "key", "snapshot", "held", "target", "datasets", "spot"})


@dataclass(frozen=True)
class Resolved:
    """What an evaluation is of, as the record was at one moment."""

    plan: dict[str, Any]
    code: Snapshot
    jobs: list[int]
    #: (checkpoint, its row's name)
    rows: list[tuple[Checkpoint, str]]
    #: what was asked for and is no part of the plan, but of the evaluation's digest
    asked: dict[str, Any]

    @cached_property
    def columns(self) -> list[cells.Column]:
        return cells.columns(self.plan)

    @cached_property
    def common(self) -> str:
        return cells.common_digest(self.plan, self.code.digest)

    @cached_property
    def keys(self) -> list[str]:
        """Of all cells, row by row."""
        sha256 = [checkpoint.sha256 for checkpoint, _ in self.rows]
        return cells.keys(self.common, sha256, [column.digest for column in self.columns])

    @cached_property
    def digest(self) -> str:
        """Of the evaluation; of one that follows its jobs whatever checkpoints there are by now."""
        small = {name: value for name, value in self.plan.items() if name != "cases"}
        tags = [case["tags"] for case in self.plan["cases"] if case["tags"]]
        of = [column.digest for column in self.columns] if self.plan["follow"] else self.keys
        return cells.plan_digest([small, self.jobs, self.asked, tags], of)


def check(ctx: Services, home: str, request: EvaluationRequest) -> None:
    """Raises UsageError for what is wrong with the request whatever the record has, RefusedError for its target."""
    evalchecks.check(request)
    requests.check_words(request.command or (), request.environment)
    for output in request.outputs:
        _check_schema(output)
    if request.target is not None:
        target(ctx, home, request.target, "target")


def target(ctx: Services, home: str, given: str, what: str) -> str:
    """A folder for outputs. Raises as `folder` does, and RefusedError for one of headway's own, or that cannot be."""
    plain = folder(ctx, home, given, what)
    real = Path(os.path.realpath(plain))
    # hints lie in headway's home, unless its path is too long for them
    home_folder = ctx.hints.parent if ctx.hints is not None and ctx.hints.name == _OF_HOME[0] else None
    for own in (ctx.root, *(home_folder / name for name in _OF_HOME if home_folder is not None)):
        if real.is_relative_to(os.path.realpath(own)):
            raise RefusedError(
                f"{what}: {given} is one of headway's own folders.", f"Use one outside {own}.", code="no_target"
            )
    evaluation_targets.require(plain, what)
    return plain


def folder(ctx: Services, home: str, given: str, what: str) -> str:
    """A folder of the user's, absolute and plain. Raises UsageError, and RefusedError for what is not the project's."""
    if not given.startswith("/") or ".." in PurePosixPath(given).parts:
        raise UsageError(f"{what}: {given!r} is no absolute folder.", "Begin it with / and leave out `..`.")
    plain = os.path.normpath(given)
    real, root = Path(os.path.realpath(plain)), Path(os.path.realpath(ctx.root))
    own = root / "projects" / home
    if root.is_relative_to(real) or (real.is_relative_to(root) and not real.is_relative_to(own)):
        raise RefusedError(f"{what}: {given} is no folder of project {home}.", f"Use one outside {ctx.root}.")
    return plain


def _check_schema(output: OutputRule) -> None:
    if output.schema_ is not None:
        try:
            check_schema(output.schema_)
        except ValueError as error:
            raise UsageError(f"outputs.{output.name}: schema is no JSON schema: {error}", "Correct it.") from None


def resolve(ctx: Services, tx: Transaction, home: Project, request: EvaluationRequest) -> Resolved:
    """Raises NotFoundError (job, checkpoint, snapshot, dataset), UsageError, RefusedError (no_checkpoints)."""
    wanted = list(dict.fromkeys(request.jobs))
    code = requests.snapshot(tx, home, request.snapshot)
    plan = _plan(ctx, tx, home, request, code)
    rows = choose(tx, home, request, wanted)
    return Resolved(plan, code, wanted, rows, {"name": request.name, "target": request.target})


def choose(
    tx: Transaction, home: Project, request: EvaluationRequest, wanted: Sequence[int]
) -> list[tuple[Checkpoint, str]]:
    """The request's checkpoints as they are now, with the names of their rows."""
    chosen: list[Checkpoint] = []
    found: list[Checkpoint] = []
    plan = {"checkpoints": request.checkpoints, "every": request.every}
    for number in wanted:
        of_job = tx.products.checkpoints(_job(tx, home, number))
        found += of_job
        chosen += selection.choose(of_job, plan)
    if not request.follow:
        selection.require(found, request.checkpoints, wanted)
        if not chosen:
            raise _nothing(wanted, found)
    if request.best is not None and request.by is not None:
        chosen = selection.best(chosen, request.best, request.by, request.mode)
    names = selection.row_names(chosen, (), several=len(wanted) > 1)
    return [(checkpoint, names[checkpoint.id]) for checkpoint in chosen]


def _job(tx: Transaction, home: Project, number: int) -> int:
    try:
        return jobs.find(tx, home, number).id
    except NotFoundError as error:
        # a flow asks before its job is there: that alone is wrong then
        raise NotFoundError(error.message, error.remedy, code="job_unknown") from None


def _nothing(wanted: Sequence[int], found: Sequence[Checkpoint]) -> RefusedError:
    what = f"Job {wanted[0]} has" if len(wanted) == 1 else f"Jobs {', '.join(map(str, wanted))} have"
    if any(c.valid and c.removed_at is None for c in found):
        return RefusedError(f"{what} too few checkpoints for that choice.", "Choose more.", code="no_checkpoints")
    return RefusedError(f"{what} no valid checkpoint.", "Wait until there is one, or follow.", code="no_checkpoints")


def _plan(ctx: Services, tx: Transaction, home: Project, request: EvaluationRequest, code: Snapshot) -> dict[str, Any]:
    spec = requests.spec(tx, request.spec)
    given = {name: getattr(request, name) for name in EvaluationRequest.model_fields if name not in _APART}
    return {
        **given,
        "cases": [_case(c) for c in request.cases],
        "outputs": _outputs(request),
        "spec": spec.name,
        "snapshot_id": code.id,
        "datasets": requests.datasets(ctx, tx, home, request.datasets),
        "spot": _spot(request.spot),
    }


def _spot(given: Spot | None) -> dict[str, Any]:
    """`Run.spot` of the workers; {} where they run on demand."""
    return rules.spot("spot", given.model_dump(), given.model_fields_set) if given is not None else {}


def _case(case: Any) -> dict[str, Any]:
    # several times as fast as model_dump, of which a hundred thousand take a second
    return {
        "id": case.id,
        "inputs": case.inputs,
        "parameters": case.parameters,
        "expected": case.expected,
        "tags": case.tags,
    }


def _outputs(request: EvaluationRequest) -> list[dict[str, Any]]:
    """The rules, and one for the file that the score is read from: it is part of what is published."""
    given = [output.given() for output in request.outputs]
    from_file = request.score is not None and request.scorer is None and request.scores == "file"
    name = request.score_file or ""
    if from_file and not any(fnmatchcase(name, output["name"]) for output in given):
        given.append({"name": name, "kind": "json"})
    return given
