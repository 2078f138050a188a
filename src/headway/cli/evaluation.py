"""`headway eval`: evaluations and their cells."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli import common, evaluation_cases, evaluation_outputs, evaluation_run, evaluation_show, options
from headway.rules.nearest import unknown

app = common.group("Evaluations: every checkpoint on every case.")
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
        typer.Option(help="Only these: waiting, running, valid or invalid; may be repeated.", show_default=False),
    ] = None,
    case: Annotated[str | None, typer.Option(help="Only of this case.", show_default=False)] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Only of this checkpoint.", show_default=False)] = None,
    as_json: common.AsJson = False,
) -> None:
    """List the cells of an evaluation."""
    with common.client() as client:
        found = client.evaluations.cells(evaluation, states=_states(state or []))
    found = [c for c in found if case in (None, c.case) and checkpoint in (None, c.checkpoint, c.row)]
    common.print_listing(
        found,
        ["cell", "checkpoint", "case", "state", "score", "ran", "seconds", "path or reason"],
        [
            [
                c.id,
                c.row,
                f"{c.case}@{c.repeat}" if c.repeat else c.case,
                c.state,
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


def _states(given: list[str]) -> list[str]:
    known = ("waiting", "running", "valid", "invalid")
    for state in given:
        if state not in known:
            raise unknown("state", state, known, "--state")
    return given


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
    with common.client() as client:
        view = client.evaluations.stop(evaluation)
    if as_json:
        common.print_json(view)
    else:
        print(f"evaluation {view.id} is {view.state}: {view.valid} of {view.cells} valid")
        common.next_step(f"headway eval retry {view.id}")
