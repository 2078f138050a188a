"""`headway eval`: evaluations, their cells and the heatmap of scores."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common

if TYPE_CHECKING:
    from rich.text import Text

    from headway.wire.products import CellView, EvaluationView

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
        "No evaluations yet. An `evaluate` stage in a flow.yaml makes one: `headway run FILE`.",
    )


def summary(view: EvaluationView) -> dict[str, object]:
    """What `show` prints above the heatmap."""
    return {
        "evaluation": f"{view.id} {view.name}",
        "state": view.state,
        "reason": view.reason,
        "remedy": view.remedy,
        "cells": f"{view.valid} of {view.cells} valid, {view.running} running, {view.waiting} waiting, "
        f"{view.invalid} invalid",
        "published": f"{view.ran} outputs, {view.pauses} pauses",
        "runs": ", ".join(map(str, view.runs)),
        "cost": f"{view.cost:.4f}",
        "outputs": view.path,
    }


@app.command()
def show(evaluation: EvaluationId, as_json: common.AsJson = False) -> None:
    """Show an evaluation and its scores as a heatmap."""
    with common.client() as client:
        view = client.evaluations.get(evaluation)
        cells = [] if as_json else client.evaluations.cells(evaluation)
    if as_json:
        common.print_json(view)
        return
    common.print_fields(summary(view))
    heatmap(cells)
    if view.invalid:
        common.next_step(f"headway eval cells {view.id} --state invalid")
    else:
        common.next_step(f"headway eval cells {view.id} --json", f"headway model register NAME --job {view.job}")


def heatmap(cells: list[CellView]) -> None:
    """Checkpoints down, cases across, coloured from the lowest score to the highest; plain numbers off a terminal."""
    cases = list(dict.fromkeys(c.case for c in cells))
    checkpoints = list(dict.fromkeys(c.checkpoint for c in cells))
    by_place = {(c.checkpoint, c.case): c for c in cells}
    scores = [c.score for c in cells if c.score is not None]
    if not scores:
        return
    low, high = min(scores), max(scores)
    if not sys.stdout.isatty():
        rows = []
        for checkpoint in checkpoints:
            found = (by_place.get((checkpoint, case)) for case in cases)
            rows.append([checkpoint, *(f"{c.score:.3f}" if c and c.score is not None else "-" for c in found)])
        common.print_table(["checkpoint", *cases], rows, names=True)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 0))
    table.add_column("checkpoint  ")
    for number in range(1, len(cases) + 1):
        table.add_column(f" {number:>2} ", justify="right")
    for checkpoint in checkpoints:
        row = [Text(f"{checkpoint}  ")]
        for case in cases:
            cell = by_place.get((checkpoint, case))
            row.append(_tile(cell.score if cell else None, low, high))
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print("  ".join(f"{n} {case}" for n, case in enumerate(cases, 1)), style="dim", highlight=False)
    console.print(f"scores from {low:.3f} (red) to {high:.3f} (green)", style="dim", highlight=False)


def _tile(score: float | None, low: float, high: float) -> Text:
    from rich.text import Text

    if score is None:
        return Text("  - ", style="dim")
    share = (score - low) / (high - low) if high > low else 1.0
    red, green = int(200 * min(1.0, 2 * (1 - share))), int(160 * min(1.0, 2 * share))
    return Text(f"{score * 100:4.0f}" if high <= 1 else f"{score:4.3g}", style=f"white on rgb({red},{green},60)")


@app.command()
def cells(
    evaluation: EvaluationId,
    state: Annotated[str | None, typer.Option(help="Only these: waiting, running, valid or invalid.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """List the cells of an evaluation."""
    with common.client() as client:
        found = [c for c in client.evaluations.cells(evaluation) if state in (None, c.state)]
    common.print_listing(
        found,
        ["cell", "checkpoint", "case", "state", "score", "ran", "seconds", "path or reason"],
        [
            [
                c.id,
                c.checkpoint,
                c.case,
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
