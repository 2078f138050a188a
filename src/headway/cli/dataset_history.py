"""`headway dataset versions`, `diff` and `verify`: what a dataset was, what changed, whether it is still so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common
from headway.errors import FailedError, UsageError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.datasets import DatasetVersionView, DiffView, VerifyView

_MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}


def versions(
    name: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
    as_json: common.AsJson = False,
) -> None:
    """List a dataset's versions, oldest first."""
    with common.client() as client:
        print_versions(client.datasets.versions(name), as_json)


def print_versions(found: list[DatasetVersionView], as_json: bool) -> None:
    from headway.rules.units import render_size

    common.print_listing(
        found,
        ["version", "files", "size", "digest", "pushed", "by", "sent"],
        [
            [
                f"{v.name}@{v.version}{' (damaged)' if v.damaged else ''}",
                v.files,
                render_size(v.bytes),
                v.digest[:12],
                common.ago(v.created_at),
                v.created_by,
                render_size(v.sent_bytes),
            ]
            for v in found
        ],
        as_json,
        "It has no versions.",
    )


def diff(
    older: Annotated[str, typer.Argument(help="NAME, the newest, or NAME@VERSION.", show_default=False)],
    newer: Annotated[
        str | None, typer.Argument(help="Without it OLDER is compared with the version before it.", show_default=False)
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Show what differs between two versions."""
    with common.client() as client:
        if newer is None:
            older, newer = _before(client, older)
        found = client.datasets.diff(older, newer)
    if as_json:
        common.print_json(found)
    else:
        _print_diff(found)


def _before(client: Client, reference: str) -> tuple[str, str]:
    """The version that came before the one that is named, and that one. Raises UsageError where there is none."""
    found = client.datasets.find(reference)
    earlier = [v.version for v in client.datasets.versions(found.name) if v.version < found.version]
    if not earlier:
        raise UsageError(
            f"No version of {found.name} is older than {found.name}@{found.version}.", "Name another one to compare."
        )
    return f"{found.name}@{max(earlier)}", f"{found.name}@{found.version}"


def _print_diff(found: DiffView) -> None:
    from headway.rules.units import render_size

    counts = {word: getattr(found, word) for word in _MARKS}
    said = [f"{count} {word}" for word, count in counts.items() if count]
    new = [f"{render_size(found.new_bytes)} of new content"] if found.new_bytes else []
    print(f"{found.older} -> {found.newer}: {', '.join([*said, f'{found.same} as before', *new])}")
    for change in found.changes:
        was = f" (was {common.plain(change.before)})" if change.before is not None else ""
        print(f"{_MARKS[change.what]} {render_size(change.bytes):>10}  {common.plain(change.path)}{was}")
    if more := sum(counts.values()) - len(found.changes):
        print(f"and {more} more")


def verify(
    reference: Annotated[str, typer.Argument(help="NAME, the newest, or NAME@VERSION.", show_default=False)],
    sample: Annotated[
        str | None, typer.Option(help="Read only this share of the files, such as 5% or 0.05.", show_default=False)
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Have the server read a version's files and compare them with their checksums."""
    share = None if sample is None else _share(sample)
    with common.client() as client:
        version = client.datasets.find(reference)
        found = client.datasets.verify(version.name, version.version, share)
    if as_json:
        common.print_json(found)
    else:
        _print_verified(found)
    if found.faulty:
        raise FailedError(
            f"{found.name}@{found.version} is damaged (files read: {found.read_files}, faults: {found.faulty}).",
            "Push the same files again: that mends it.",
        )


def _share(text: str) -> float:
    """0.05 of `5%` or `0.05`. Raises UsageError."""
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--sample {text!r} is no share of the files.", "Write 5% or 0.05.")
    return share


def _print_verified(found: VerifyView) -> None:
    from headway.rules.units import render_size

    whole = found.read_files == found.files
    read = f"all {found.files} files" if whole else f"{found.read_files} of {found.files} files"
    size = render_size(found.read_bytes) + ("" if whole else f" of {render_size(found.bytes)}")
    well = ", nothing amiss" if found.read_files else ": the sample chose none"
    print(f"{found.name}@{found.version}: {read} read ({size}){'' if found.faulty else well}")
    for path, reason in found.faults.items():
        print(f"  {common.plain(path)}: {reason}" if path else f"  {reason}")
    if more := found.faulty - len(found.faults):
        print(f"  and {more} more")
