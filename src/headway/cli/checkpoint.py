"""`headway checkpoint`: what a job saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common

if TYPE_CHECKING:
    from headway.wire.runs import CheckpointView

app = common.group("Checkpoints of a job: list, verify, how often to save.")
JobId = Annotated[int, typer.Argument(help="Number of the job.", show_default=False)]


@app.command()
def ls(job: JobId, as_json: common.AsJson = False) -> None:
    """List a job's checkpoints, with what saving them took."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.checkpoints.ls(job)
    common.print_listing(
        found,
        ["checkpoint", "step", "epoch", "kind", "size", "state", "saved in", "blocked", "metrics", "path or reason"],
        [
            [
                c.name,
                c.step,
                c.epoch,
                c.format,
                render_size(c.bytes),
                state(c),
                _seconds(c.save_seconds),
                _seconds(c.blocked_seconds),
                " ".join(f"{k}={v:.4g}" for k, v in c.metrics.items() if isinstance(v, int | float)) or "-",
                c.path if state(c) == "valid" else c.reason,
            ]
            for c in found
        ],
        as_json,
        f"Job {job} has no checkpoints.",
    )


def state(found: CheckpointView) -> str:
    """ "valid", "invalid" or "removed"."""
    return "invalid" if not found.valid else "valid" if found.removed_at is None else "removed"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


@app.command()
def advise(job: JobId, as_json: common.AsJson = False) -> None:
    """Say how often to save, so that saving and losses cost least together."""
    with common.client() as client:
        found = client.checkpoints.advise(job)
    if as_json:
        common.print_json(found)
    else:
        print(found.text)


@app.command()
def verify(
    job: JobId,
    checkpoint: Annotated[list[str] | None, typer.Argument(help="Names; all when none.", show_default=False)] = None,
    as_json: common.AsJson = False,
) -> None:
    """Read every byte of published checkpoints; what is damaged is marked and never resumed from."""
    from headway.errors import FailedError
    from headway.rules.units import render_size

    with common.client() as client:
        names = checkpoint or [c.name for c in client.checkpoints.ls(job) if state(c) == "valid"]
        found = [client.checkpoints.verify(job, name) for name in names]
    common.print_listing(
        found,
        ["checkpoint", "state", "size", "took", "reason"],
        [
            [p.name, "valid" if p.valid else "invalid", render_size(p.bytes), f"{p.seconds:.2f} s", p.reason]
            for p in found
        ],
        as_json,
        f"Job {job} has no valid checkpoints.",
    )
    if damaged := [p.name for p in found if not p.valid]:
        raise FailedError(f"{len(damaged)} of {len(found)} are damaged: {', '.join(damaged)}.", "Resume from another.")
