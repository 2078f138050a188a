"""`headway dataset ls`, `cat` and `pull`: what is in a version."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common
from headway.cli.dataset_history import print_versions
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.client import Client

Version = Annotated[str, typer.Argument(help="NAME, the newest, or NAME@VERSION.", show_default=False)]


def ls(
    name: Annotated[
        str | None, typer.Argument(help="NAME lists its versions, NAME@VERSION its files.", show_default=False)
    ] = None,
    folder: Annotated[str, typer.Argument(help="Only the files below this.", show_default=False)] = "",
    as_json: common.AsJson = False,
) -> None:
    """List datasets, the versions of one, or the files of a version."""
    with common.client() as client:
        if name and "@" in name:
            _list_files(client, name, folder, as_json)
        elif folder:
            raise UsageError(f"{name} is no version, and only a version has files.", f"Write {name}@VERSION {folder}.")
        elif name:
            print_versions(client.datasets.versions(name), as_json)
        else:
            _list_newest(client, as_json)


def _list_newest(client: Client, as_json: bool) -> None:
    from headway.rules.units import render_size

    found = client.datasets.ls()
    common.print_listing(
        found,
        ["dataset", "version", "files", "size", "digest", "pushed"],
        [[d.name, d.version, d.files, render_size(d.bytes), d.digest[:12], common.ago(d.created_at)] for d in found],
        as_json,
        "No datasets yet. `headway dataset push FOLDER NAME` makes one.",
    )


def _list_files(client: Client, reference: str, folder: str, as_json: bool) -> None:
    from headway.rules.units import render_size

    rows = client.datasets.files(reference, folder)
    if as_json:
        common.print_json([{"path": path, "bytes": size, "sha256": sha256} for path, size, sha256 in rows])
        return
    # a line each as they come: there may be a million
    for path, size, sha256 in rows:
        print(f"{render_size(size):>10}  {sha256[:12]}  {common.plain(path)}")


def cat(
    reference: Version,
    path: Annotated[str, typer.Argument(help="The file's path in the version.", show_default=False)],
) -> None:
    """Write a file of a version to the standard output."""
    with common.client() as client:
        for piece in client.datasets.cat(reference, path):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def pull(
    reference: Version,
    into: Annotated[Path, typer.Argument(help="Folder for the files; made if need be.", show_default=False)],
    path: Annotated[str, typer.Option(help="Only this file, or the files below this folder.", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there with other contents.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Copy a version's files into a folder; given again it fetches what is missing."""
    from headway.cli.progress import bytes_shown
    from headway.rules.units import render_size

    with common.client() as client, bytes_shown(f"pulling {reference}", quiet=as_json) as progress:
        found = client.datasets.find(reference)
        of_bytes = 0 if path else found.bytes
        done = client.datasets.pull(
            reference, into, path=path, force=force, told=lambda p: progress(p.bytes, max(of_bytes, p.bytes))
        )
    if as_json:
        common.print_json(
            {"dataset": found.name, "version": found.version, "into": os.path.abspath(into), **vars(done)}
        )
        return
    there = done.files - done.fetched_files
    said = [f"{done.fetched_files} fetched ({render_size(done.fetched_bytes)})"] if done.fetched_files else []
    said += [f"{there} were there"] if there else []
    print(f"{found.name}@{found.version} is in {into}: {', '.join(said)}, all checked.")
