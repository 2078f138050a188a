"""`headway dataset rm` and `gc`: versions, and bytes, that are wanted no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.datasets import GcView

#: objects that are shown
_SHOWN = 20


def rm(
    reference: Annotated[str, typer.Argument(help="NAME@VERSION; NAME with --all.", show_default=False)],
    every: Annotated[bool, typer.Option("--all", help="Every version of NAME.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Remove a version that nothing refers to; its bytes go with `headway dataset gc`."""
    with common.client() as client:
        removed = [client.datasets.rm(name, version) for name, version in _chosen(client, reference, every)]
    if as_json:
        common.print_json(removed)
        return
    for one in removed:
        print(f"{one.name}@{one.version} is removed")
    common.next_step("headway dataset gc")


def _chosen(client: Client, reference: str, every: bool) -> list[tuple[str, int]]:
    """Raises UsageError for one without a version, unless all are meant, and NotFoundError."""
    name, at, _ = reference.partition("@")
    if at and every:
        raise UsageError(f"{reference} names one version, and --all means all.", f"Leave out one: {name} --all.")
    if at:
        found = client.datasets.find(reference)
        return [(found.name, found.version)]
    versions = client.datasets.versions(name)
    if not every:
        there = ", ".join(f"{name}@{v.version}" for v in versions) or "none"
        raise UsageError(f"{name} names no version.", f"Name one (there is {there}), or all of them with --all.")
    return [(v.name, v.version) for v in versions]


def gc(
    remove: Annotated[bool, typer.Option("--yes", help="Remove it; otherwise it is only shown.")] = False,
    older_than: Annotated[
        str, typer.Option(help="What a push has used since then stays, such as 24h.", metavar="DURATION")
    ] = "24h",
    as_json: common.AsJson = False,
) -> None:
    """Show, or remove, what lies in the project's store and belongs to no version."""
    from headway.rules.units import parse_duration

    seconds = parse_duration(older_than, "--older-than")
    with common.client() as client:
        found = client.datasets.gc(dry_run=not remove, older_than=seconds)
    if as_json:
        common.print_json(found)
    else:
        _print_garbage(found, older_than)


def _print_garbage(found: GcView, older_than: str) -> None:
    from headway.rules.units import render_size

    if not found.objects:
        print(f"Nothing lies there that belongs to no version and has not been used for {older_than}.")
        return
    common.print_table(
        ["object", "size", "why"], [(item.key, render_size(item.bytes), item.why) for item in found.items[:_SHOWN]]
    )
    if more := found.objects - len(found.items[:_SHOWN]):
        print(f"and {more} more")
    done = "would go" if found.dry_run else "removed"
    print(f"{found.objects} objects, {render_size(found.bytes)} {done}")
    if found.dry_run:
        common.next_step("headway dataset gc --yes" + (f" --older-than {older_than}" if older_than != "24h" else ""))
