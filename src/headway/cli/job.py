"""`headway job`: training runs."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli import checkpoint, common, submit
from headway.cli.options import Grouped

app = common.group("Training runs: submit, look, pause, change, clone, retry.")
JobId = Annotated[int, typer.Argument(help="Number of the job.", show_default=False)]


@app.command()
def ls(
    state: Annotated[str | None, typer.Option(help="Only jobs in this state, or live, ended, open.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE or NAME; may be repeated: all of them.")] = None,
    name: Annotated[str | None, typer.Option(help="Only jobs with this in their name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, newest first.")] = 50,
    as_json: common.AsJson = False,
) -> None:
    """List jobs."""
    with common.client() as client:
        found = client.jobs.ls(limit=limit, state=state, tags=tag or (), name=name)
    chosen = state or tag or name
    common.print_listing(
        found,
        ["job", "name", "state", "spec", "took", "cost", "checkpoints", "metrics", "reason"],
        [
            [
                j.id,
                j.name,
                j.state,
                f"{j.nodes} x {j.spec}" if j.nodes > 1 else j.spec,
                common.took(j.started_at, j.ended_at),
                f"{j.cost:.4f}",
                j.checkpoints,
                _metrics(j.metrics),
                j.reason,
            ]
            for j in found
        ],
        as_json,
        "No such jobs." if chosen else "No jobs yet. `headway job submit -- COMMAND` starts one.",
    )


def _metrics(metrics: dict[str, float]) -> str:
    return " ".join(f"{k}={v:.4g}" for k, v in list(metrics.items())[:4]) or "-"


@app.command()
def show(job: JobId, as_json: common.AsJson = False) -> None:
    """Show one job: what it asked for, where it ran, how each attempt ended, and what to do next."""
    from headway.cli.jobview import fields, next_steps

    with common.client() as client:
        view = client.jobs.get(job)
        attempts = client.runs.attempts(job)
    if as_json:
        common.print_json({**view.model_dump(mode="json"), "tries": [a.model_dump(mode="json") for a in attempts]})
        return
    common.print_fields({**fields(view), "metrics": _metrics(view.metrics) if view.metrics else ""})
    if attempts:
        print()
        common.print_table(
            ["attempt", "state", "nodes", "took", "cost", "cause", "what happened"],
            [
                [
                    a.id,
                    a.state,
                    ",".join(a.nodes),
                    common.took(a.started_at, a.ended_at),
                    f"{a.cost:.4f}",
                    a.cause,
                    a.reclaim_reason or a.message or "-",
                ]
                for a in attempts
            ],
        )
    common.next_step(*next_steps(view))


@app.command()
def attempts(job: JobId, as_json: common.AsJson = False) -> None:
    """List a job's attempts: where each ran, and how it ended."""
    with common.client() as client:
        found = client.runs.attempts(job)
    common.print_listing(
        found,
        ["attempt", "state", "nodes", "began", "took", "exit", "cause", "what happened"],
        [
            [
                a.id,
                a.state,
                ",".join(a.nodes),
                common.ago(a.started_at),
                common.took(a.started_at, a.ended_at),
                a.exit_code,
                a.cause,
                a.reclaim_reason or a.message or "-",
            ]
            for a in found
        ],
        as_json,
        f"Job {job} was not placed yet.",
    )


app.command(cls=Grouped)(submit.submit)
app.command(cls=Grouped)(submit.clone)
app.command(cls=Grouped)(submit.change)


@app.command()
def pause(job: JobId, as_json: common.AsJson = False) -> None:
    """Have a job save and leave its place; `headway job resume` lets it go on from there."""
    with common.client() as client:
        view = client.runs.pause(job)
    if as_json:
        common.print_json(view)
        return
    waits = view.state == "held"
    print(f"job {job} is held" if waits else f"job {job} is asked to pause; it has {view.grace:g} s to save")
    common.next_step(f"headway job resume {job}", f"headway job show {job}")


@app.command()
def resume(job: JobId, as_json: common.AsJson = False) -> None:
    """Let a paused or held job go on: it is queued again, and starts from its newest checkpoint."""
    with common.client() as client:
        view = client.runs.resume(job)
    if as_json:
        common.print_json(view)
        return
    print(f"job {job} is {view.state}")
    common.next_step(f"headway logs -f {job}")


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
                checkpoint.state(c),
                _metrics(c.metrics),
                c.path if checkpoint.state(c) == "valid" else c.reason,
            ]
            for c in found
        ],
        as_json,
        f"Job {job} has no checkpoints.",
    )


@app.command()
def metrics(
    job: JobId,
    name: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated.")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw each.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Show a job's metrics: first, best and last value of each."""
    with common.client() as client:
        found = client.runs.metrics(job, name or ())
    rows = []
    for series in found:
        values = [p.value for p in series.points]
        if values:
            rows.append([series.name, series.total, values[0], min(values), max(values), values[-1]])
    empty = f"Job {job} has no metrics." if not name else f"Job {job} has no metric {', '.join(name)}."
    common.print_listing(found, ["metric", "points", "first", "lowest", "highest", "last"], rows, as_json, empty)
    if plot and not as_json:
        from headway.cli.chart import chart

        for series in found:
            print("", f"{series.name} by step", *chart([(p.step, p.value) for p in series.points]), sep="\n")


@app.command()
def usage(job: JobId, as_json: common.AsJson = False) -> None:
    """Show what a job used, for each attempt and node: CPUs, memory, disk, network, accelerators."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.runs.usage(job)
    rows = []
    for node in found:
        some = node.samples
        busy = [d.busy_percent for s in some for d in s.accelerators]
        rows.append(
            [
                node.attempt,
                node.node,
                f"{sum(s.cpus for s in some) / len(some):.2f}",
                render_size(max(s.memory_bytes for s in some)),
                *(
                    f"{render_size(int(sum(getattr(s, key) for s in some) / len(some)))}/s"
                    for key in ("read_bytes", "write_bytes", "received_bytes", "sent_bytes")
                ),
                f"{sum(busy) / len(busy):.0f}%" if busy else "-",
            ]
        )
    heads = ["attempt", "node", "cpus", "memory", "read", "written", "received", "sent", "accelerators busy"]
    common.print_listing(found, heads, rows, as_json, f"Job {job} has no samples yet.")
