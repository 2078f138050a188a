"""`headway ls`, `stop`: runs of every kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common
from headway.errors import NotFoundError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.runs import LogLineView

RunId = Annotated[int | None, typer.Argument(help="Number of the run; without one, the newest.", show_default=False)]


def ls(
    state: Annotated[str | None, typer.Option(help="Only runs in this state (or live).")] = None,
    owner: Annotated[str | None, typer.Option(help="Only these: job, evaluation or endpoint.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, newest first.")] = 50,
    as_json: common.AsJson = False,
) -> None:
    """List runs: jobs, evaluation workers, replicas."""
    with common.client() as client:
        found = client.runs.ls(state=state, owner=owner, limit=limit)
    common.print_listing(
        found,
        ["run", "kind", "name", "state", "spec", "took", "cost", "reason"],
        [
            [r.id, r.owner, r.name, r.state, r.spec, common.took(r.started_at, r.ended_at), f"{r.cost:.4f}", r.reason]
            for r in found
        ],
        as_json,
        "No runs yet. `headway job submit -- COMMAND` or `headway run FILE` starts one.",
    )


def newest(client: Client, run: int | None) -> int:
    """`run`, or the newest run's number. Raises NotFoundError when there is none."""
    if run is not None:
        return run
    found = client.runs.ls(limit=1)
    if not found:
        raise NotFoundError("There are no runs yet.", "`headway job submit -- COMMAND` starts one.")
    return found[0].id


def print_lines(lines: Iterable[LogLineView], as_json: bool) -> bool:
    """Each line as it comes; the rank in front where there are several. Returns whether there was any."""
    line = None
    for line in lines:
        if as_json:
            print(line.model_dump_json(), flush=True)
        else:
            print(f"[{line.rank}] {line.text}" if line.rank else line.text, flush=True)
    return line is not None


def stop(
    run: Annotated[int, typer.Argument(help="Number of the run.", show_default=False)],
    grace: Annotated[str | None, typer.Option(help="Time to save before it is killed, such as 30s.")] = None,
    reason: Annotated[str, typer.Option(help="Kept with the run.")] = "",
    as_json: common.AsJson = False,
) -> None:
    """Stop a run."""
    from headway.rules.units import parse_duration

    with common.client() as client:
        view = client.runs.stop(run, reason=reason, grace=parse_duration(grace, "--grace") if grace else None)
    if as_json:
        common.print_json(view)
        return
    if view.ended_at is None:
        print(f"run {view.id} is asked to stop; it has {view.grace:g} s to save")
        common.next_step(f"headway logs -f {view.id}")
    else:
        print(f"run {view.id} is {view.state}")
        again = view.owner == "job" and view.state in ("failed", "stopped")
        logs = [common.logs_of(view.id, view.cause)] if view.attempts else []
        common.next_step(*logs, *([f"headway job retry {view.id}"] if again else []))
