"""`headway job`: training runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import common, runs

app = common.group("Training runs: submit, look, retry.")
JobId = Annotated[int, typer.Argument(help="Number of the job.", show_default=False)]


@app.command()
def ls(
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, newest first.")] = 50,
    as_json: common.AsJson = False,
) -> None:
    """List jobs."""
    with common.client() as client:
        found = client.jobs.ls(limit=limit)
    common.print_listing(
        found,
        ["job", "name", "state", "spec", "took", "cost", "checkpoints", "metrics", "reason"],
        [
            [
                j.id,
                j.name,
                j.state,
                j.spec,
                common.took(j.started_at, j.ended_at),
                f"{j.cost:.4f}",
                j.checkpoints,
                _metrics(j.metrics),
                j.reason,
            ]
            for j in found
        ],
        as_json,
        "No jobs yet. `headway job submit -- COMMAND` starts one.",
    )


def _metrics(metrics: dict[str, float]) -> str:
    return " ".join(f"{k}={v:.4g}" for k, v in list(metrics.items())[:4]) or "-"


@app.command()
def show(job: JobId, as_json: common.AsJson = False) -> None:
    """Show one job."""
    with common.client() as client:
        view = client.jobs.get(job)
    if as_json:
        common.print_json(view)
        return
    common.print_fields(
        {
            "job": view.id,
            "name": view.name,
            "state": view.state,
            "reason": view.reason,
            "command": " ".join(view.command),
            "parameters": " ".join(f"{k}={v}" for k, v in view.parameters.items()),
            "spec": f"{view.spec} ({view.cpus:g} CPUs, {view.accelerators} accelerators, {view.processes} processes)",
            "datasets": ", ".join(view.datasets),
            "code": f"{(view.snapshot or '')[:12]} commit {view.commit or '-'}{' (dirty)' if view.dirty else ''}"
            if view.snapshot
            else "",
            "took": common.took(view.started_at, view.ended_at),
            "cost": f"{view.cost:.4f}",
            "exit": f"{view.exit_code} ({view.cause})" if view.cause else "",
            "checkpoints": view.checkpoints,
            "metrics": _metrics(view.metrics),
            "output": view.output_path,
        }
    )
    common.next_step(f"headway logs {view.id}", f"headway job checkpoints {view.id}", f"headway job metrics {view.id}")


@app.command(context_settings={"ignore_unknown_options": True})
def submit(
    command: Annotated[list[str], typer.Argument(help="Program and arguments, after --.", show_default=False)],
    name: Annotated[str, typer.Option(help="A name to find it by.")] = "",
    spec: Annotated[str, typer.Option(help="Amount of resources; see `headway spec ls`.")] = "small",
    processes: Annotated[int, typer.Option(help="Processes (ranks) on the node.")] = 1,
    cpus: Annotated[float | None, typer.Option(help="CPUs, instead of the spec's.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory such as 4GiB, instead of the spec's.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Accelerators, instead of the spec's.")] = None,
    data: Annotated[list[str] | None, typer.Option(help="Dataset, such as digits@1; may be repeated.")] = None,
    code: Annotated[Path | None, typer.Option(help="Folder with the code, taken along as a snapshot.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for its environment; may be repeated.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE parameter; may be repeated.")] = None,
    max_duration: Annotated[str | None, typer.Option(help="Ends it after so long, such as 90m.")] = None,
    priority: Annotated[int, typer.Option(help="1 (last) to 9 (first).")] = 5,
    held: Annotated[bool, typer.Option("--held", help="Do not start it until released.")] = False,
    key: Annotated[str | None, typer.Option(help="A second submit with the same key returns the first run.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow its log until it ends.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Submit a training run: headway job submit --spec medium -- python train.py."""
    from headway.rules.units import parse_duration, parse_size

    values: dict[str, Any] = {
        "name": name,
        "spec": spec,
        "processes": processes,
        "cpus": cpus,
        "memory_bytes": parse_size(memory, "--memory") if memory else None,
        "accelerators": gpus,
        "datasets": data or [],
        "environment": common.pairs(env or [], "--env"),
        "parameters": {k: common.scalar(v) for k, v in common.pairs(param or [], "--param").items()},
        "max_duration": parse_duration(max_duration, "--max-duration") if max_duration else None,
        "priority": priority,
        "held": held,
    }
    if key:
        values["key"] = key
    with common.client() as client:
        if code is not None:
            values["snapshot"] = client.snapshots.push(code).digest
        view = client.jobs.submit(command, **values)
        if as_json and not follow:
            common.print_json(view)
        elif not as_json:
            print(f"job {view.id} is {view.state}" + (f": {view.reason}" if view.reason else ""))
        if follow:
            runs.print_lines(client.runs.follow(view.id), as_json)
            end(client.runs.wait(view.id))
        elif not as_json:
            common.next_step(f"headway logs -f {view.id}", f"headway job show {view.id}", f"headway stop {view.id}")


def end(view: Any) -> None:
    """Ends the command as the run ended. Raises FailedError unless it succeeded."""
    from headway.errors import FailedError

    if view.state != "succeeded":
        raise FailedError(
            f"Run {view.id} {view.state}: {view.reason}", f"`headway logs {view.id}` shows what it printed."
        )


@app.command()
def retry(job: JobId, as_json: common.AsJson = False) -> None:
    """Run a failed or stopped job again; it goes on from its newest checkpoint."""
    with common.client() as client:
        view = client.runs.retry(job)
    if as_json:
        common.print_json(view)
    else:
        print(f"job {view.id} is {view.state}")
        common.next_step(f"headway logs -f {view.id}")


@app.command()
def hold(job: JobId) -> None:
    """Keep a queued job from being placed."""
    with common.client() as client:
        print(f"job {job} is {client.runs.hold(job).state}")


@app.command()
def release(job: JobId) -> None:
    """Let a held job be placed."""
    with common.client() as client:
        print(f"job {job} is {client.runs.release(job).state}")


@app.command()
def checkpoints(job: JobId, as_json: common.AsJson = False) -> None:
    """List a job's checkpoints."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.runs.checkpoints(job)
    common.print_listing(
        found,
        ["checkpoint", "step", "epoch", "size", "state", "metrics", "path"],
        [
            [
                c.name,
                c.step,
                c.epoch,
                render_size(c.bytes),
                "valid" if c.valid else "invalid",
                _metrics(c.metrics),
                c.path if c.valid else c.reason,
            ]
            for c in found
        ],
        as_json,
        f"Job {job} has no checkpoints.",
    )


@app.command()
def metrics(job: JobId, as_json: common.AsJson = False) -> None:
    """Show a job's metrics: first, best and last value of each."""
    with common.client() as client:
        found = client.runs.metrics(job)
    rows = []
    for series in found:
        values = [p.value for p in series.points]
        if values:
            rows.append([series.name, len(values), values[0], min(values), max(values), values[-1]])
    common.print_listing(
        found, ["metric", "points", "first", "lowest", "highest", "last"], rows, as_json, f"Job {job} has no metrics."
    )
