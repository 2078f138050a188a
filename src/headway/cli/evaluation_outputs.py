"""`headway eval target`, `verify`, `adopt`: where outputs lie, whether they are whole, and those from before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common
from headway.errors import FailedError, UsageError

if TYPE_CHECKING:
    from headway.wire.evaluations import CellFault

EvaluationId = Annotated[int, typer.Argument(help="Number of the evaluation.", show_default=False)]
#: faults that are printed
_MOST = 20


def target(
    evaluation: EvaluationId,
    folder: Annotated[
        str | None, typer.Argument(help="Absolute folder of the server; none: its own.", show_default=False)
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Send the outputs that are still to come to another folder. Those that are there stay."""
    with common.client() as client:
        view = client.evaluations.target(evaluation, folder)
    if as_json:
        common.print_json(view)
        return
    print(f"evaluation {view.id} is {view.state}; what is still to come goes to {view.target}")
    common.next_step(f"headway eval show {view.id}")


def verify(
    evaluation: EvaluationId,
    again: Annotated[bool, typer.Option("--again", help="Run what is damaged again at once.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Read all outputs again and compare them with what was recorded. Ends with 1 when something is damaged."""
    from headway.cli.progress import count_shown

    with common.client() as client, count_shown("cells", quiet=as_json) as progress:
        proof = client.evaluations.verify(evaluation, again=again, progress=progress)
    if as_json:
        common.print_json(proof)
    else:
        read = f"{proof.checked} cell{'s' if proof.checked != 1 else ''} read"
        print(f"{read}: {len(proof.faults)} damaged, {proof.bytes} bytes as recorded")
        _faults(proof.faults)
    if proof.faults and not again:
        are = "is" if len(proof.faults) == 1 else "are"
        raise FailedError(
            f"{len(proof.faults)} of {proof.checked} cells {are} not as recorded.",
            f"`headway eval retry {evaluation}` makes what is damaged again.",
        )
    if proof.faults and not as_json:
        common.next_step(f"headway eval show {evaluation}")


def adopt(
    evaluation: EvaluationId,
    folder: Annotated[Path, typer.Argument(help="Folder of the server with outputs from before.", show_default=False)],
    layout: Annotated[
        list[str] | None,
        typer.Option(
            "--layout",
            help="Where an output lies below it, such as clip.mp4={checkpoint}/{case}.mp4; may be repeated. "
            "Without any, what the folder's index.jsonl names is registered where it lies.",
            metavar="OUTPUT=PATTERN",
            show_default=False,
        ),
    ] = None,
    move: Annotated[bool, typer.Option("--move", help="Remove each file once its copy is registered.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check them, and register nothing.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Register outputs that were made without headway: those that are valid count, the rest is run."""
    from headway.cli.progress import count_shown

    if move and not layout:
        raise UsageError("--move is of files that a --layout names.", "Give --layout, or leave --move out.")
    places = common.pairs(layout or [], "--layout")
    with common.client() as client, count_shown("cells", quiet=as_json) as progress:
        found = client.evaluations.adopt(
            evaluation, str(folder.absolute()), places, move=move, dry_run=dry_run, progress=progress
        )
        view = client.evaluations.get(evaluation)
    if as_json:
        common.print_json(found)
        return
    would = "would be " if dry_run else ""
    left = f"{len(found.faults)} not valid, {found.missing} not there"
    print(f"{found.adopted} of {found.total} cells {would}adopted; {left}")
    _faults(found.faults)
    if dry_run:
        common.next_step("the same without --dry-run")
    elif view.state in ("failed", "stopped"):
        common.next_step(f"headway eval retry {evaluation}")
    else:
        common.next_step(f"headway eval show {evaluation}")


def _faults(faults: list[CellFault]) -> None:
    if faults:
        common.print_table(
            ["cell", "checkpoint", "case", "repeat", "reason"],
            [[f.cell, f.row, f.case, f.repeat, f.reason] for f in faults[:_MOST]],
        )
    if len(faults) > _MOST:
        print(f"and {len(faults) - _MOST} more: --json lists them all")
