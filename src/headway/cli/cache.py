"""`headway cache`: what the nodes' caches of data hold, and care for the one of this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli import common
from headway.errors import FailedError

app = common.group("Caches: the data that nodes keep for their runs.")


@app.command()
def ls(as_json: common.AsJson = False) -> None:
    """List the cache of each node: what it holds, how often it had what runs asked for, what it has evicted."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.caches.ls()
    common.print_listing(
        found,
        ["node", "held", "limit", "in use", "files", "hit rate", "fetched", "evicted", "as of"],
        [
            [
                c.node,
                render_size(c.bytes),
                render_size(c.high_bytes),
                render_size(c.pinned_bytes),
                c.files,
                None if c.hit_rate is None else f"{c.hit_rate:.0%}",
                render_size(c.miss_bytes),
                render_size(c.evicted_bytes),
                common.ago(c.at),
            ]
            for c in found
        ],
        as_json,
        "No cache yet: no run has used a dataset. `headway dataset warm NAME` fills one.",
    )


@app.command()
def verify(as_json: common.AsJson = False) -> None:
    """Read all that this machine's cache holds; what is damaged is removed, and fetched again when it is wanted."""
    from headway import bootstrap, config

    removed = bootstrap.verify_cache(config.load().settings)
    if as_json:
        common.print_json({"removed": removed})
    else:
        print(f"{len(removed)} damaged files were removed" if removed else "all is as it should be")
    if removed:
        raise FailedError(
            f"{len(removed)} files of the cache were damaged.", "They are fetched again; check the disk if it recurs."
        )


@app.command()
def clear(as_json: common.AsJson = False) -> None:
    """Remove all that no live run uses from this machine's cache."""
    from headway import bootstrap, config
    from headway.rules.units import render_size

    units, size = bootstrap.clear_cache(config.load().settings)
    if as_json:
        common.print_json({"units": units, "bytes": size})
    else:
        print(f"{render_size(size)} were removed")


def warm(
    reference: Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)],
    node: Annotated[list[str] | None, typer.Option(help="Node; several times for several [all].")] = None,
    mode: Annotated[str, typer.Option(help="cache: files; stream: packs.")] = "cache",
    spec: Annotated[str, typer.Option(help="What the short runs may use.")] = "small",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is there.")] = True,
    as_json: common.AsJson = False,
) -> None:
    """Fetch a version into the caches of nodes ahead of time, by a short run on each."""
    with common.client() as client:
        runs = client.caches.warm(reference, nodes=node or [], mode=mode, spec=spec)
        if wait:
            runs = [client.runs.wait(run.id) for run in runs]
    if as_json:
        common.print_json(runs)
    else:
        for run in runs:
            print(f"run {run.id} ({run.name}): {run.state}{' ' + run.reason if run.reason else ''}")
    failed = [run for run in runs if run.state in ("failed", "stopped")]
    if failed:
        raise FailedError(f"Run {failed[0].id} {failed[0].state}.", f"`headway logs {failed[0].id} --diag` says why.")
    if not as_json:
        common.next_step("headway cache ls")
