"""Reading published outputs again: what somebody else has damaged is found, and can be run again."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.errors import RefusedError
from headway.rules import cells as cell_rules
from headway.rules.access import Action, Caller
from headway.rules.records import Cell, Evaluation
from headway.rules.states import CELL_MOVES, EVALUATION_MOVES, CellState, EvaluationState, check
from headway.services import access, evaluation_views, evaluations
from headway.services.context import Services
from headway.storage.publish import file_digest
from headway.storage.verify import inside
from headway.store.base import Transaction
from headway.wire.evaluations import CellFault, EvaluationProof, VerifyRequest

#: cells fetched at once
_BATCH = 500


def verify(ctx: Services, caller: Caller, project: str, evaluation_id: int, request: VerifyRequest) -> EvaluationProof:
    """Compares the outputs of valid cells with their sizes and checksums, for about `request.seconds`.

    A damaged cell becomes invalid, here and in every evaluation that shares its output; one of them that had
    succeeded has failed then. With `again` it waits instead, and this evaluation runs it again.
    """
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        _see_target(evaluations.find(tx, home, evaluation_id))
        total = tx.evaluations.counts(evaluation_id).get(CellState.VALID, 0)
    checked, size, damaged = 0, 0, list[tuple[Cell, str]]()
    last, following = request.after, None
    until = time.monotonic() + request.seconds
    for cell in _valid(ctx, evaluation_id, request.after):
        if checked and (time.monotonic() > until or checked == request.limit):
            following = last
            break
        reason = damage(ctx.root, cell)
        checked, last = checked + 1, cell.id
        if reason:
            damaged.append((cell, reason))
        else:
            size += cell.bytes
    if damaged:
        _take_back(ctx, home.id, evaluation_id, damaged, request.again)
    return EvaluationProof(
        checked=checked,
        bytes=size,
        faults=[fault(cell, reason) for cell, reason in damaged],
        next=following,
        total=total,
    )


def _see_target(evaluation: Evaluation) -> None:
    """Raises RefusedError when the folder that a user gave is away, with the disk that it is on, perhaps."""
    if evaluation.target is not None and not os.path.isdir(evaluation.target):
        raise RefusedError(
            f"{evaluation.target}, where the outputs of evaluation {evaluation.id} lie, is not there.",
            "Mount it or put it back. If it is lost, make the folder anew, and verify finds what is to be run again.",
            code="target_away",
        )


def fault(cell: Cell, reason: str) -> CellFault:
    return CellFault(cell=cell.id, row=cell.row, case=cell.case_id, repeat=cell.repeat, reason=reason)


def damage(root: Path, cell: Cell) -> str:
    """What is wrong with the cell's published files; empty when they are what was recorded.

    Raises RefusedError where that cannot be told: a disk that is away says nothing of what is on it.
    """
    folder = root / cell.path
    for output in cell.outputs:
        name = str(output["name"])
        if not inside(name):
            return f"The record names {name!r}."
        try:
            if (kind := _no_file(folder / name)) is not None:
                return f"{name} is {kind}."
            found = (folder / name).stat().st_size
            if found != output["bytes"]:
                return f"{name} has {found} bytes, not {output['bytes']}."
            if file_digest(folder / name) != output["sha256"]:
                return f"{name} has other bytes than when it was published."
        except (FileNotFoundError, NotADirectoryError):
            return f"{name} is gone."
        except OSError as error:
            raise RefusedError(
                f"{folder / name} cannot be read ({error.strerror or error}).",
                "Nothing was marked for it. Mend that, or remove the file, then verify again.",
                code="unreadable",
            ) from error
    return ""


def _no_file(path: Path) -> str | None:
    """What stands there instead of a file, followed nowhere. Raises OSError."""
    mode = path.lstat().st_mode
    return None if stat.S_ISREG(mode) else "a link" if stat.S_ISLNK(mode) else "no file"


def _valid(ctx: Services, evaluation_id: int, after: int) -> Iterator[Cell]:
    while True:
        with ctx.store.read() as tx:
            found = tx.evaluations.cells(evaluation_id, [CellState.VALID], after=after, limit=_BATCH)
        yield from found
        if len(found) < _BATCH:
            return
        after = found[-1].id


def _take_back(
    ctx: Services, project_id: int, evaluation_id: int, damaged: Sequence[tuple[Cell, str]], again: bool
) -> None:
    reasons = {(cell.key, cell.path): reason for cell, reason in damaged}
    with ctx.store.begin() as tx:
        sharing = [
            cell
            for cell in tx.evaluations.done(project_id, {cell.key for cell, _ in damaged})
            if (cell.key, cell.path) in reasons
        ]
        touched: dict[int, list[Cell]] = {}
        for cell in sharing:
            touched.setdefault(cell.evaluation_id, []).append(cell)
        for identity, cells in touched.items():
            found = tx.evaluations.get(identity)
            assert found is not None
            own = again and identity == evaluation_id
            for cell in cells:
                _unmake(tx, found, cell, reasons[cell.key, cell.path], again=own)
            _tell(ctx, tx, found, len(cells), again=own)
    for identity in touched:
        evaluation_views.publish_index(ctx, identity)
        ctx.hint("evaluation", identity)
    ctx.hint("states")


def _unmake(tx: Transaction, evaluation: Evaluation, cell: Cell, reason: str, *, again: bool) -> None:
    state = CellState.WAITING if again else CellState.INVALID
    tx.evaluations.change_cell(
        cell.id,
        state=check(CELL_MOVES, cell.state, state),
        reason="" if again else reason,
        cause=None if again else "damaged",
        # what was done elsewhere is done here this time
        path=cell_rules.path(evaluation, cell.row, cell.case_id, cell.repeat),
        run_id=None,
        tries=0,
        score=None,
        scores={},
        outputs=[],
        bytes=0,
        files=0,
    )


def _tell(ctx: Services, tx: Transaction, evaluation: Evaluation, count: int, *, again: bool) -> None:
    if again:
        if evaluation.state not in (EvaluationState.RUNNING, EvaluationState.PAUSED):
            evaluations.run_again(tx, evaluation)
    elif evaluation.state is EvaluationState.SUCCEEDED:
        what = "One published output was" if count == 1 else f"{count} published outputs were"
        tx.evaluations.change(
            evaluation.id,
            state=check(EVALUATION_MOVES, evaluation.state, EvaluationState.FAILED),
            reason=f"{what} found damaged; see the cells.",
            remedy=f"`headway eval retry {evaluation.id}` makes them again.",
            ended_at=ctx.clock(),
        )
