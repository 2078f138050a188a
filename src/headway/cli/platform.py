"""`headway node`, `spec`, `bill`: what there is and what it costs."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli import common

nodes = common.group("Nodes: the machines.")
specs = common.group("Specs: named amounts of resources with their prices.")


@nodes.command("ls")
def node_ls(as_json: common.AsJson = False) -> None:
    """List nodes and what is free on them."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.platform.nodes()
    common.print_listing(
        found,
        ["node", "engine", "cpus free", "memory free", "accelerators free", "declared"],
        [
            [
                n.name,
                n.engine,
                f"{n.free_cpus:g} of {n.cpus:g}",
                f"{render_size(n.free_memory_bytes)} of {render_size(n.memory_bytes)}",
                f"{len(n.free_accelerators)} of {len(n.accelerators)}",
                "yes" if n.declared else "no",
            ]
            for n in found
        ],
        as_json,
        "No nodes yet: the controller has not looked.",
    )


@specs.command("ls")
def spec_ls(as_json: common.AsJson = False) -> None:
    """List specs."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.platform.specs()
    common.print_listing(
        found,
        ["spec", "cpus", "memory", "accelerators", "kind", "an hour"],
        [
            [
                s.name,
                f"{s.cpus:g}",
                render_size(s.memory_bytes),
                s.accelerators,
                s.accelerator_kind,
                f"{s.price_hour:.2f}",
            ]
            for s in found
        ],
        as_json,
        "There are no specs.",
    )


def bill(
    since: Annotated[str | None, typer.Option(help="From this time on, such as 2026-12-01.")] = None,
    run: Annotated[int | None, typer.Option(help="Only this run.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Show what every attempt has cost."""
    with common.client() as client:
        found = client.platform.bill(client.runs.project, since=since, run=run)
    if as_json:
        common.print_json(found)
        return
    if found.entries:
        common.print_table(
            ["attempt", "kind", "spec", "started", "seconds", "an hour", "amount"],
            [
                [
                    e.attempt,
                    e.owner,
                    e.spec,
                    common.ago(e.started_at),
                    f"{e.seconds:.1f}",
                    f"{e.price_hour:.2f}",
                    f"{e.amount:.6f}",
                ]
                for e in found.entries
            ],
        )
    print(f"total: {found.total:.6f} {found.currency}")
