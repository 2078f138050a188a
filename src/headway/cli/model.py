"""`headway model`: registered versions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import common
from headway.errors import FailedError, NotFoundError

app = common.group("Models: checked, registered weights with their predictor.")


@app.command()
def ls(
    name: Annotated[str | None, typer.Argument(help="Versions of this one.", show_default=False)] = None,
    as_json: common.AsJson = False,
) -> None:
    """List models, or the versions of one."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.models.versions(name) if name else client.models.ls()
    common.print_listing(
        found,
        ["model", "version", "state", "format", "size", "from", "made"],
        [
            [
                m.name,
                m.version,
                m.state,
                m.format,
                render_size(m.bytes),
                f"job {m.source.get('job')} {m.source.get('checkpoint', '')}",
                common.ago(m.created_at),
            ]
            for m in found
        ],
        as_json,
        "No models yet. `headway model register NAME --job JOB --predictor FILE:CLASS` makes one.",
    )


@app.command()
def versions(
    name: Annotated[str, typer.Argument(help="Name of the model.", show_default=False)], as_json: common.AsJson = False
) -> None:
    """List the versions of a model."""
    ls(name, as_json)


def _origin(source: dict[str, Any]) -> str:
    """What a reader wants of where a version comes from; `--json` has all."""
    said = {**source, "data": " ".join(source.get("datasets") or []), "code": str(source.get("snapshot") or "")[:12]}
    keys = ("job", "checkpoint", "evaluation", "case", "score", "data", "code")
    return ", ".join(
        f"{k} {said[k]:.4g}" if k == "score" else f"{k} {said[k]}" for k in keys if said.get(k) not in (None, "")
    )


@app.command()
def show(
    reference: Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)],
    as_json: common.AsJson = False,
) -> None:
    """Show a model version."""
    from headway.rules.units import render_size

    name, _, number = reference.partition("@")
    with common.client() as client:
        versions = sorted(client.models.versions(name), key=lambda v: -v.version)
    view = next((v for v in versions if not number or str(v.version) == number), None)
    if view is None:
        raise NotFoundError(f"There is no model {reference}.", "`headway model ls` lists those that there are.")
    if as_json:
        common.print_json(view)
        return
    common.print_fields(
        {
            "model": f"{view.name}@{view.version}",
            "state": view.state,
            "reason": view.reason,
            "from": _origin(view.source),
            "format": view.format,
            "size": render_size(view.bytes),
            "sha256": view.sha256,
            "predictor": view.predictor.get("entry"),
            "path": view.path,
        }
    )
    common.next_step(f"headway endpoint deploy {view.name} --model {view.name}@{view.version}")


@app.command()
def register(
    name: Annotated[str, typer.Argument(help="Name of the model.", show_default=False)],
    job: Annotated[int, typer.Option(help="Job that made the checkpoint.")],
    predictor: Annotated[str, typer.Option(help="FILE:CLASS in the code folder.")],
    checkpoint: Annotated[str, typer.Option(help="Name of a checkpoint, or best.")] = "best",
    evaluation: Annotated[
        int | None, typer.Option("--eval", help="Evaluation whose scores decide what is best.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="Case whose score decides.")] = None,
    code: Annotated[Path, typer.Option(help="Folder with the predictor.")] = Path("."),
    as_json: common.AsJson = False,
) -> None:
    """Register a job's checkpoint as a new version."""
    with common.client() as client:
        snapshot = client.snapshots.push(code).digest
        view = client.models.register(
            name,
            job=job,
            checkpoint=checkpoint,
            evaluation=evaluation,
            case=case,
            predictor=predictor,
            snapshot=snapshot,
        )
        view = client.models.wait(name, view.version)
    if as_json:
        common.print_json(view)
    else:
        print(f"{view.name}@{view.version} is {view.state}" + (f": {view.reason}" if view.reason else ""))
        common.next_step(f"headway endpoint deploy {name} --model {name}@{view.version}")
    if view.state != "ready":
        raise FailedError(f"{view.name}@{view.version} is {view.state}: {view.reason}", "Register another checkpoint.")
