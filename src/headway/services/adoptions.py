"""Outputs from before: what an earlier loop left is verified and registered, and never run.

Also an evaluation's own outputs, by the index beside them, when the record of its cells was lost.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import RefusedError, UsageError
from headway.rules import adopting
from headway.rules import cells as cell_rules
from headway.rules.access import Action, Caller
from headway.rules.records import Cell, Checkpoint, Evaluation
from headway.rules.states import CellState, EvaluationState
from headway.services import access, evaluation_requests, evaluation_views, evaluations, quota
from headway.services.cell_checks import fault
from headway.services.context import Services
from headway.storage import indexes, writing
from headway.storage.claims import claim
from headway.storage.full import TargetFullError
from headway.storage.publish import Publication, publish_folder, verify_folder
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.verify import InvalidError
from headway.storage.verify import check as check_kind
from headway.store.base import Transaction
from headway.wire.evaluations import Adopted, AdoptRequest, CellFault

_BATCH = 500
_UNDONE = (CellState.WAITING, CellState.INVALID)


@dataclass
class _Batch:
    """What one call has come to."""

    found: int = 0
    missing: int = 0
    faults: list[CellFault] = field(default_factory=list)
    #: fields of the cells that are valid now, by their ids
    valid: dict[int, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Work:
    """What each cell of one call needs."""

    ctx: Services
    evaluation: Evaluation
    checkpoints: Mapping[int, Checkpoint]
    quota: ProjectQuota
    folder: Path
    request: AdoptRequest
    #: of a rebuilding: the index's lines by key
    index: Mapping[str, dict[str, Any]]


def adopt(ctx: Services, caller: Caller, project: str, evaluation_id: int, request: AdoptRequest) -> Adopted:
    """Registers what is valid of the outputs in a folder as cells of an evaluation that does not run.

    With a layout, copies are published by the commit protocol; without, the folder has an index.jsonl, and what that
    names is registered where it lies. A cell that something is there of and that is not valid is told with the
    reason, and left to run. Raises UsageError, NotFoundError, ForbiddenError, and RefusedError: it runs, the folder
    is another project's, what makes a cell valid cannot be looked at here, or the target is full.
    """
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        evaluation = evaluations.find(tx, home, evaluation_id)
        checkpoints = tx.evaluations.checkpoints(evaluation_id)
        counts = tx.evaluations.counts(evaluation_id)
    folder = Path(evaluation_requests.folder(ctx, home.name, request.folder, "folder"))
    _check(evaluation, request)
    index = {} if request.layout else _index(folder)
    work = _Work(ctx, evaluation, checkpoints, quota.of(ctx, home.name), folder, request, index)
    batch, following = _Batch(), None
    try:
        if request.layout and evaluation.target is not None and not request.dry_run:
            claim(ctx.root / cell_rules.outputs_folder(evaluation), ctx.root)
        following = _through(work, batch)
    except TargetFullError as full:
        raise RefusedError(f"{len(batch.valid)} were adopted. {full.message}", full.remedy, code=full.cause) from full
    finally:
        if batch.valid and not request.dry_run:
            _record(ctx, evaluation_id, batch.valid)
    if following is None and not request.dry_run:
        evaluation_views.publish_index(ctx, evaluation_id)
    return Adopted(
        found=batch.found,
        adopted=len(batch.valid),
        missing=batch.missing,
        faults=batch.faults,
        next=following,
        total=sum(counts.get(state, 0) for state in _UNDONE),
    )


def _check(evaluation: Evaluation, request: AdoptRequest) -> None:
    if evaluation.state in (EvaluationState.RUNNING, EvaluationState.PAUSED):
        raise RefusedError(
            f"Evaluation {evaluation.id} is {evaluation.state.value}.",
            f"Create it with `held: true`, or `headway eval stop {evaluation.id}` first.",
        )
    plan = evaluation.plan
    if not request.layout:
        return
    if plan.get("check") or plan.get("scorer"):
        raise RefusedError(
            f"Evaluation {evaluation.id} has a check or a scorer of its own, which is not run here.",
            "Adopt into one without, or let its cells run.",
        )
    if plan.get("score") is not None and plan.get("scores") != "file":
        raise RefusedError(
            f"The score of evaluation {evaluation.id} is in no file that could be adopted.",
            "Give `score: null`, or a score_file.",
        )
    several = len(plan["cases"]) * int(plan["repeats"]) > 1
    adopting.check(request.layout, plan["outputs"], case=several, repeat=int(plan["repeats"]) > 1)


def _index(folder: Path) -> dict[str, dict[str, Any]]:
    """The valid cells of the index by their keys. Raises UsageError when there is none."""
    try:
        lines = indexes.read(folder)
        return {str(line["key"]): line for line in lines if line.get("state") == CellState.VALID.value}
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"folder: {folder} has no {indexes.INDEX} that can be read ({type(error).__name__}).",
            "Give the folder of an evaluation, or say by `layout` where its outputs lie.",
        ) from error


def _through(work: _Work, batch: _Batch) -> int | None:
    """Cell by cell until all are looked at or the time is over; the cell to go on behind, if any is left."""
    until, last = time.monotonic() + work.request.seconds, work.request.after
    one = _found if work.request.layout else _indexed
    for cell in _undone(work):
        if last != work.request.after and time.monotonic() > until:
            return last
        last = cell.id
        try:
            values = one(work, cell)
        except InvalidError as error:
            batch.found += 1
            batch.faults.append(fault(cell, error.reason))
            continue
        if values is None:
            batch.missing += 1
        else:
            batch.found += 1
            batch.valid[cell.id] = values
    return None


def _undone(work: _Work) -> Iterator[Cell]:
    after = work.request.after
    while True:
        with work.ctx.store.read() as tx:
            found = tx.evaluations.cells(work.evaluation.id, _UNDONE, after=after, limit=_BATCH)
        yield from found
        if len(found) < _BATCH:
            return
        after = found[-1].id


def _found(work: _Work, cell: Cell) -> dict[str, Any] | None:
    """The cell's fields once its files are published; None when there are none of them. Raises InvalidError."""
    name = work.checkpoints[cell.checkpoint_id].name
    files: dict[str, Path] = {}
    for word in adopting.names(cell.row, name):
        words = {"checkpoint": word, "case": cell.case_id, "repeat": str(cell.repeat)}
        files = dict(_files(work.folder, work.request.layout, words))
        if files:
            break
    if not files:
        return None
    plan = work.evaluation.plan
    try:
        outputs = adopting.outputs(plan["outputs"], list(files))
    except ValueError as error:
        raise InvalidError(str(error)) from error
    for output in outputs:
        _check_file(files[output["name"]], output)
    scores = _scores(files[plan["score_file"]], plan) if plan.get("score") is not None else {}
    if work.request.dry_run:
        return {}
    manifest = {
        "key": cell.key,
        "cell": cell.id,
        "checkpoint": name,
        "case": cell.case_id,
        "score": scores.get(plan.get("score") or ""),
        "scores": scores,
        "seconds": None,
        "adopted": str(work.folder),
    }
    target = work.ctx.root / cell_rules.path(work.evaluation, cell.row, cell.case_id, cell.repeat)
    with _staged(work, cell, files) as staging:
        published = publish_folder(staging, target, outputs=outputs, manifest=manifest, quota=work.quota)
    if work.request.move:
        for path in files.values():
            path.unlink(missing_ok=True)
    return {**_fields(work.ctx, target, published), "cause": "adopted"}


def _files(folder: Path, layout: Mapping[str, str], words: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """(name of the output, its file) of all that is there."""
    for name, pattern in layout.items():
        place = pattern.format(**words)
        if "*" not in name:
            if (folder / place).is_file():
                yield name, folder / place
            continue
        parent, _, last = place.rpartition("/")
        before, _, behind = last.partition("*")
        for path in sorted((folder / parent).glob(last)) if (folder / parent).is_dir() else []:
            yield name.replace("*", path.name[len(before) : len(path.name) - len(behind)]), path


def _check_file(path: Path, output: Mapping[str, Any]) -> None:
    try:
        check_kind(path, output["kind"], output)
    except InvalidError as error:
        raise InvalidError(f"{output['name']}: {error.reason}") from error
    except OSError as error:
        raise InvalidError(f"{output['name']} cannot be read ({error.strerror or error}).") from error


def _scores(path: Path, plan: Mapping[str, Any]) -> dict[str, float]:
    """The numbers in the score file. Raises InvalidError without one under the score's name."""
    try:
        found = adopting.numbers(json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InvalidError(f"{plan['score_file']} cannot be read ({error}).") from error
    if plan["score"] not in found:
        raise InvalidError(f"{plan['score_file']} holds no finite number under {plan['score']!r}.")
    return found


@contextlib.contextmanager
def _staged(work: _Work, cell: Cell, files: Mapping[str, Path]) -> Iterator[Path]:
    """A folder with the files under their outputs' names; links where that can be."""
    with writing.temporary(work.ctx.root / work.evaluation.path / "outputs" / f"adopting-{cell.id}") as staging:
        for name, path in files.items():
            place = staging / name
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.hardlink_to(path)
            except OSError:
                shutil.copyfile(path, place)
        yield staging


def _indexed(work: _Work, cell: Cell) -> dict[str, Any] | None:
    """The cell's fields as the index has them, when what it names is there. Raises InvalidError."""
    line = work.index.get(cell.key)
    if line is None:
        return None
    below = cell_rules.path(work.evaluation, cell.row, cell.case_id, cell.repeat)
    last = Path(below).relative_to(cell_rules.outputs_folder(work.evaluation))
    places = [work.folder / "outputs" / last, work.folder / last, work.ctx.root / below]
    own = work.ctx.project_folder(Path(work.evaluation.path).parts[1])
    named = work.ctx.root / str(line.get("path") or "")
    if not named.is_relative_to(work.ctx.root) or named.is_relative_to(own):
        places.insert(0, named)
    target = next((place for place in places if (place / MANIFEST).is_file()), None)
    if target is None:
        return None
    published = verify_folder(target)
    if published.manifest.get("key") != cell.key:
        raise InvalidError("What lies there was published for something else.")
    kept = {name: line[name] for name in ("ran", "ended_at", "cause") if line.get(name) is not None}
    return {**_fields(work.ctx, target, published), **kept}


def _fields(ctx: Services, target: Path, published: Publication) -> dict[str, Any]:
    manifest = published.manifest
    return {
        "score": manifest.get("score"),
        "scores": manifest.get("scores") or {},
        "outputs": published.outputs(),
        "path": str(target.relative_to(ctx.root) if target.is_relative_to(ctx.root) else target),
        "publication": published.id,
        "seconds": manifest.get("seconds"),
        "bytes": sum(f.bytes for f in published.files),
        "files": len(published.files),
        "ended_at": ctx.clock(),
    }


def _record(ctx: Services, evaluation_id: int, valid: Mapping[int, dict[str, Any]]) -> None:
    with ctx.store.begin() as tx:
        _check_still(tx, evaluation_id)
        for cell, values in valid.items():
            tx.evaluations.change_cell(cell, state=CellState.VALID, reason="", run_id=None, **values)
    ctx.hint("states")


def _check_still(tx: Transaction, evaluation_id: int) -> None:
    found = tx.evaluations.get(evaluation_id)
    if found is None or found.state in (EvaluationState.RUNNING, EvaluationState.PAUSED):
        raise RefusedError(f"Evaluation {evaluation_id} runs by now.", "What was copied is found by its workers.")
