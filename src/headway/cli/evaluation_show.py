"""`headway eval show` and `headway eval report`: an evaluation in the terminal, and as one HTML file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import common, heatmap
from headway.errors import NotFoundError, RefusedError, UsageError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.evaluations import EvaluationView

EvaluationId = Annotated[int, typer.Argument(help="Number of the evaluation.", show_default=False)]
#: groups of failures, and checkpoints not told apart from the best, that are named
_MOST = 6
_VERDICTS = {
    "worse": "After {since} the training went on ({curve} {low:.4g} to {high:.4g}) but {score} got worse: "
    "the last checkpoint is not the one to take.",
    "flat": "After {since} the training went on ({curve} {low:.4g} to {high:.4g}) while {score} did not get measurably "
    "better.",
    "together": "{curve} ({low:.4g} to {high:.4g}) and {score} got better together to the end.",
    "still": "{curve} and {score} say the same: nothing was won towards the end of the training.",
}


def show(
    evaluation: EvaluationId,
    score: Annotated[
        str | None, typer.Option(help="Another score than the main one.", metavar="NAME", show_default=False)
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Show an evaluation: coverage, a heatmap of its scores, the best checkpoint, failures by cause."""
    with common.client() as client:
        if as_json:
            common.print_json(client.evaluations.get(evaluation))
            return
        report = client.evaluations.report(evaluation)
    from headway.report import view

    drawing = view.build(report.model_dump(mode="json"))
    chosen = _chosen(drawing, score)
    common.print_fields(_summary(report.evaluation, drawing["counts"]))
    print()
    heatmap.show(drawing, chosen)
    _findings(drawing, chosen)
    _failures(drawing)
    steps = [f"headway eval report {evaluation} -o report.html"]
    if report.evaluation.state == "failed" or report.evaluation.invalid:
        from headway.client.flow import why

        steps.append(why(report.evaluation))
    if report.evaluation.state in ("failed", "stopped"):
        steps.append(f"headway eval retry {evaluation}")
    common.next_step(*steps)


def report(
    evaluation: EvaluationId,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write [evaluation-ID.html].", metavar="FILE", show_default=False),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="en or zh, which the file's button changes [the reader's browser's].", show_default=False),
    ] = None,
    limit: Annotated[
        str, typer.Option(help="Most bytes of outputs in the file; pictures of all come first.")
    ] = "40MiB",
    as_json: common.AsJson = False,
) -> None:
    """Write an evaluation as one HTML file with its outputs in it, which needs no server and no network."""
    from headway.rules.units import parse_size

    if language not in (None, "en", "zh"):
        raise UsageError(f"--language {language!r} is none of a report.", "Take en or zh.")
    most = parse_size(limit, "--limit")
    target = output or Path(f"evaluation-{evaluation}.html")
    with common.client() as client:
        size, held, missing = _write(client, evaluation, target, language, most, quiet=as_json)
    if as_json:
        common.print_json({"file": str(target.resolve()), "bytes": size, "embedded": held, "left_out": missing})
        return
    print(f"{target}  {size / 1024 / 1024:.1f} MiB, {held} outputs in it")
    if missing:
        print(f"{missing} are not in it, for want of room: --limit 500MiB takes more.")


def _write(
    client: Client, evaluation: int, target: Path, language: str | None, most: int, *, quiet: bool
) -> tuple[int, int, int]:
    """Bytes of the file, outputs in it, outputs left out. Raises RefusedError when it cannot be written."""
    from headway.cli.progress import count_shown
    from headway.report import media, page, view
    from headway.report.studio import Studio

    drawing = view.build(client.evaluations.report(evaluation).model_dump(mode="json"))

    def fetch(cell: int, name: str) -> bytes | None:
        try:
            return client.evaluations.file(evaluation, cell, name)
        except NotFoundError:
            return None

    studio = Studio()
    try:
        with count_shown("outputs", quiet=quiet) as progress:
            found = media.gather(drawing, fetch, studio.make, limit=most, progress=progress)
    finally:
        studio.close()
    content = page.render(drawing, found, at=datetime.now(timezone.utc), language=language).encode()
    try:
        target.write_bytes(content)
    except OSError as error:
        raise RefusedError(f"{target} cannot be written: {error.strerror}.", "Name another file with -o.") from error
    missing = sum("missing" in held for held in found["files"].values())
    return len(content), len(found["files"]) - missing, missing


def _chosen(drawing: Mapping[str, Any], asked: str | None) -> str | None:
    """The score to show. Raises UsageError for one that no cell has."""
    if asked is None or asked in drawing["scores"]:
        return asked or drawing["score"]
    known = ", ".join(drawing["scores"]) or "none"
    raise UsageError(f"No cell of this evaluation has a score {asked!r}.", f"There is: {known}.")


def _summary(view: EvaluationView, counts: Mapping[str, int]) -> dict[str, object]:
    names = {"running": "running", "waiting": "waiting", "invalid": "invalid"}
    if view.state in ("failed", "stopped"):  # no cell of it waits any more
        ended = {"invalid": "invalid", "unfinished": "not finished", "untried": "not tried"}
        names = {key: name for key, name in ended.items() if counts[key]}
    return {
        "evaluation": f"{view.id} {view.name}",
        "state": view.state,
        "reason": view.reason,
        "remedy": view.remedy,
        "forecast": view.forecast.get("sentence", "") if view.forecast.get("fits") is False else "",
        "cells": ", ".join([f"{view.valid} of {view.cells} valid", *(f"{counts[k]} {v}" for k, v in names.items())]),
        "published": f"{view.ran} outputs, {view.reused} found done, {view.pauses} pauses",
        "runs": ", ".join(map(str, view.runs)),
        "cost": f"{view.cost:.4f}",
        "outputs": view.target,
    }


def _findings(drawing: Mapping[str, Any], score: str | None) -> None:
    """The best checkpoint, and what the training curves say against the scores."""
    if score is None:
        return
    stats = drawing["stats"][score]
    names = [row["name"] for row in drawing["rows"]]
    fields: dict[str, object] = {}
    if best := stats["best"]:
        mean, low, high, _ = stats["rows"][best["row"]]
        interval = "" if low is None else f", 95% interval {low:.4g} to {high:.4g}"
        final = "" if best["final"] else " so far"
        fields[f"best{final}"] = f"{names[best['row']]} ({score} {mean:.4g}{interval})"
        tied = [names[row] for row in best["tied"]]
        more = f" and {len(tied) - _MOST} more" if len(tied) > _MOST else ""
        fields["as good"] = f"{', '.join(tied[:_MOST])}{more} (not told apart from it)" if tied else ""
    for curve, said in list(stats["verdicts"].items())[:1]:
        low, high = said["curve"]
        words = _VERDICTS[said["says"]]
        fields["training"] = words.format(since=names[said["since"]], curve=curve, low=low, high=high, score=score)
    if fields:
        print()
        common.print_fields(fields)


def _failures(drawing: Mapping[str, Any]) -> None:
    from headway.report.words import TEXTS

    found = drawing["failures"]
    if not found:
        return
    print()
    rows = []
    for failure in found[:_MOST]:
        cause = TEXTS.get(f"failed_{failure['cause']}") or TEXTS.get(f"cause_{failure['cause']}")
        rows.append([failure["count"], cause[0] if cause else failure["cause"], failure["reason"]])
    common.print_table(["cells", "failed because", "sentence"], rows)
    if len(found) > _MOST:
        print(f"and {len(found) - _MOST} other reasons", file=sys.stderr)
    print()
