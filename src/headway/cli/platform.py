"""`headway node`, `queue`, `spec`, `price`, `bill`: what there is, what waits for it, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common

if TYPE_CHECKING:
    from datetime import datetime

    from headway.wire.platform import NodeRunView

nodes = common.group("Nodes: the machines.")
specs = common.group("Specs: named amounts of resources with their prices.")
prices = common.group("Prices on the spot market.")
queue = common.group("The queue: what waits, why, and in which order.")
NodeName = Annotated[str, typer.Argument(help="Name of the node.", show_default=False)]
RunId = Annotated[int, typer.Argument(help="Number of the run.", show_default=False)]


@nodes.command("ls")
def node_ls(as_json: common.AsJson = False) -> None:
    """List nodes, what is free on them, and what runs there until when."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.platform.nodes()
    common.print_listing(
        found,
        ["node", "state", "cpus free", "memory free", "accelerators free", "runs"],
        [
            [
                n.name,
                n.state,
                f"{n.free_cpus:g} of {n.cpus:g}",
                f"{render_size(n.free_memory_bytes)} of {render_size(n.memory_bytes)}",
                f"{len(n.free_accelerators)} of {len(n.accelerators)}",
                ", ".join(_held(r) for r in n.runs) or None,
            ]
            for n in found
        ],
        as_json,
        "No nodes yet: the controller has not looked.",
    )
    for node in [] if as_json else found:
        if node.reason:
            print(f"{node.name} is {node.state}: {node.reason}")


def _held(run: NodeRunView) -> str:
    """`17 (spot, until 14:20)`."""
    words = ["spot"] if run.billing == "spot" else []
    if run.leaving:
        words.append("leaving")
    elif run.until is not None:
        words.append(f"until {_clock(run.until)}")
    return f"{run.run} ({', '.join(words)})" if words else str(run.run)


def _clock(when: datetime) -> str:
    here = when.astimezone()
    today = here.date() == here.now().date()
    return here.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")


@nodes.command("drain")
def node_drain(
    node: NodeName,
    reason: Annotated[str, typer.Option(help="Shown with the node.")] = "",
    as_json: common.AsJson = False,
) -> None:
    """Place nothing new on a node; what runs there goes on."""
    with common.client() as client:
        view = client.platform.drain(node, reason=reason)
    if as_json:
        common.print_json(view)
        return
    left = f"; {_count(len({r.run for r in view.runs}), 'run')} there go on" if view.runs else ""
    print(f"node {view.name} takes nothing new{left}")
    spot = any(r.billing == "spot" for r in view.runs)
    common.next_step(*([f"headway node reclaim {node}"] if spot else []), f"headway node undrain {node}")


@nodes.command("undrain")
def node_undrain(node: NodeName, as_json: common.AsJson = False) -> None:
    """Let a drained node take runs again."""
    with common.client() as client:
        view = client.platform.undrain(node)
    if as_json:
        common.print_json(view)
        return
    print(f"node {view.name} is {view.state}")
    common.next_step("headway queue ls")


@nodes.command("reclaim")
def node_reclaim(
    node: NodeName,
    grace: Annotated[
        str | None, typer.Option(help="Time to save, such as 120s; without it what each run says of itself.")
    ] = None,
    run: Annotated[int | None, typer.Option(help="Only this run.")] = None,
    reason: Annotated[str, typer.Option(help="Kept with the attempts.")] = "",
    as_json: common.AsJson = False,
) -> None:
    """The drill: ask the spot runs on a node to save and leave, as its machine would.

    They are queued again, and go on from their newest valid checkpoint.
    """
    from headway.rules.units import parse_duration

    seconds = parse_duration(grace, "--grace") if grace else None
    with common.client() as client:
        view = client.platform.reclaim(node, grace=seconds, run=run, reason=reason)
    if as_json:
        common.print_json(view)
        return
    if view.asked:
        print(f"asked to save and leave {node}: {_list(view.asked)}")
    if view.already:
        print(f"asked before: {_list(view.already)}")
    if view.stay and run is None:
        print(f"on it and not on spot, so they stay: {_list(view.stay)}")
    common.next_step(*(f"headway logs -f {i}" for i in [*view.asked, *view.already][:1]), "headway queue ls")


def _list(runs: list[int]) -> str:
    return f"run{'s' if len(runs) > 1 else ''} {', '.join(map(str, runs))}"


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


# -- the queue


@queue.command("ls")
def queue_ls(
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, next first.")] = 50,
    as_json: common.AsJson = False,
) -> None:
    """List what waits in the project, next first, and why each does."""
    with common.client() as client:
        found = client.platform.queue(client.runs.project, limit=limit)
    if as_json:
        common.print_json(found)
        return
    if not found.entries:
        print("Nothing waits.")
        return
    common.print_table(
        ["place", "run", "kind", "name", "priority", "waiting", "why"],
        [
            [
                e.place,
                e.run,
                e.owner,
                e.name,
                f"{e.priority} -> {e.effective_priority}" if e.effective_priority != e.priority else str(e.priority),
                common.took(e.queued_at, None),
                e.waits,
            ]
            for e in found.entries
        ],
    )
    if found.total > len(found.entries):
        print(f"and {found.total - len(found.entries)} more")
    if len(found.entries) > 1:
        common.next_step("headway queue move RUN --first")


@queue.command("move")
def queue_move(
    run: RunId,
    before: Annotated[int | None, typer.Option(help="Right before this run.")] = None,
    first: Annotated[bool, typer.Option("--first", help="Before all of its priority.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Behind all of its priority.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Change a waiting run's place among those of its project and priority."""
    from headway.errors import UsageError

    if (before is not None) + first + last != 1:
        raise UsageError("Where to is not clear.", "Give one of --before RUN, --first and --last.")
    with common.client() as client:
        view = client.platform.move(run, before=before, first=first, last=last)
    if as_json:
        common.print_json(view)
        return
    where = f"right before run {before}" if before is not None else "first" if first else "last"
    print(f"run {view.id} is {where} among those of priority {view.priority}")
    common.next_step("headway queue ls")


# -- prices


@prices.command("ls")
def price_ls(as_json: common.AsJson = False) -> None:
    """List what each spec costs on the spot market now, and within the last day."""
    with common.client() as client:
        found = client.platform.prices()
    common.print_listing(
        found,
        ["spec", "spot an hour", "on demand", "saves", "day's low", "day's high", "since"],
        [
            [
                p.spec,
                f"{p.spot:.4f}",
                f"{p.on_demand:.4f}",
                f"{1 - p.spot / p.on_demand:.0%}" if p.on_demand else None,
                f"{p.low:.4f}",
                f"{p.high:.4f}",
                common.ago(p.since) if p.known else "no price known: on demand",
            ]
            for p in found
        ],
        as_json,
        "There are no specs.",
    )
    if not as_json and not any(p.known for p in found):
        print("No spot prices are known; the setting `prices` (HEADWAY_PRICES) names a file or a feed of them.")


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
            ["attempt", "kind", "spec", "billing", "started", "seconds", "an hour", "amount"],
            [
                [
                    e.attempt,
                    e.owner,
                    e.spec,
                    e.billing,
                    common.ago(e.started_at),
                    f"{e.seconds:.1f}",
                    f"{e.price_hour:.2f}",
                    f"{e.amount:.6f}",
                ]
                for e in found.entries
            ],
        )
    print(f"total: {found.total:.6f} {found.currency}")
