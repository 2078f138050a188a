"""`headway eval`: evaluations and their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common, evaluation_cases, evaluation_outputs, evaluation_run, evaluation_show, options
from headway.errors import NotFoundError
from headway.rules.nearest import nearest, unknown

if TYPE_CHECKING:
    from headway.wire.evaluations import CellView

app = common.group("Evaluations: every checkpoint on every case.")
#: names that an error lists
_MOST = 12
EvaluationId = Annotated[int, typer.Argument(help="Number of the evaluation.", show_default=False)]


@app.command()
def ls(as_json: common.AsJson = False) -> None:
    """List evaluations."""
    with common.client() as client:
        found = client.evaluations.ls()
    common.print_listing(
        found,
        ["eval", "name", "state", "job", "cells", "valid", "invalid", "ran", "paused", "cost", "reason"],
        [
            [e.id, e.name, e.state, e.job, e.cells, e.valid, e.invalid, e.ran, e.pauses, f"{e.cost:.4f}", e.reason]
            for e in found
        ],
        as_json,
        "No evaluations yet. `headway eval run` makes one, or an `evaluate` stage in a flow.yaml.",
    )


app.command(cls=options.Grouped)(evaluation_run.run)
app.command()(evaluation_show.show)
app.command()(evaluation_show.report)
app.command()(evaluation_outputs.target)
app.command()(evaluation_outputs.verify)
app.command()(evaluation_outputs.adopt)
app.command()(evaluation_cases.cases)


@app.command()
def cells(
    evaluation: EvaluationId,
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these: waiting (or not tried), running, valid or invalid; may be repeated.", show_default=False
        ),
    ] = None,
    case: Annotated[str | None, typer.Option(help="Only of this case.", show_default=False)] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Only of this checkpoint.", show_default=False)] = None,
    as_json: common.AsJson = False,
) -> None:
    """List the cells of an evaluation."""
    with common.client() as client:
        view = client.evaluations.get(evaluation)
        of_states = client.evaluations.cells(evaluation, states=_states(state or []))
        found = [c for c in of_states if case in (None, c.case) and checkpoint in (None, c.checkpoint, c.row)]
        if not found and (case or checkpoint):
            _require(client.evaluations.cells(evaluation), evaluation, case, checkpoint)
    common.print_listing(
        found,
        ["cell", "checkpoint", "case", "state", "score", "ran", "seconds", "path or reason"],
        [
            [
                c.id,
                c.row,
                f"{c.case}@{c.repeat}" if c.repeat else c.case,
                common.cell_word(c.state, view.state, c.tries),
                c.score,
                c.ran,
                c.seconds,
                c.path if c.state == "valid" else c.reason,
            ]
            for c in found
        ],
        as_json,
        "No such cells.",
    )


def _require(every: list[CellView], evaluation: int, case: str | None, checkpoint: str | None) -> None:
    """Raises NotFoundError for a case or a checkpoint that the evaluation has not."""
    cases, names = {c.case for c in every}, {c.checkpoint for c in every}
    rows = {c.row for c in every}
    for what, asked, known, as_well in (("case", case, cases, cases), ("checkpoint", checkpoint, names, rows)):
        if asked is None or asked in known | as_well:
            continue
        near = nearest(asked, known)
        few = (
            f"Known: {', '.join(sorted(known))}."
            if len(known) <= _MOST
            else f"`headway eval cells {evaluation}` has them."
        )
        raise NotFoundError(
            f"Evaluation {evaluation} has no {what} {asked!r}.", f"Did you mean {near}?" if near else few
        )


def _states(given: list[str]) -> list[str]:
    known = ("waiting", "running", "valid", "invalid")
    found = ["waiting" if state in ("not tried", "not finished") else state for state in given]
    for state in found:
        if state not in known:
            raise unknown("state", state, known, "--state")
    return found


@app.command()
def retry(evaluation: EvaluationId, as_json: common.AsJson = False) -> None:
    """Try the cells of a failed or stopped evaluation that are not valid again, with the code that it was made with."""
    with common.client() as client:
        view = client.evaluations.retry(evaluation)
    if as_json:
        common.print_json(view)
    else:
        print(f"evaluation {view.id} is {view.state}: {view.valid} of {view.cells} valid")
        common.next_step(f"headway eval show {view.id}")


@app.command()
def stop(evaluation: EvaluationId, as_json: common.AsJson = False) -> None:
    """Stop an evaluation. Its valid cells stay."""
    from headway.client.evaluations import ENDED

    with common.client() as client:
        before = client.evaluations.get(evaluation)
        view = client.evaluations.stop(evaluation)
    if as_json:
        common.print_json(view)
        return
    had = f"had {view.state} before" if before.state in ENDED else f"is {view.state}"
    print(f"evaluation {view.id} {had}: {view.valid} of {view.cells} valid")
    common.next_step(f"headway eval {'show' if view.state == 'succeeded' else 'retry'} {view.id}")
