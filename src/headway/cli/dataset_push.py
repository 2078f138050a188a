"""`headway dataset push`: a folder, an archive, a file or a URL becomes a version."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common, dataset_stats
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.datasets import DatasetVersionView


def push(
    source: Annotated[
        str, typer.Argument(help="Folder, archive (tar, zip), file, or http(s) URL of one.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Take files and folders too whose names begin with a dot.")
    ] = False,
    skip_links: Annotated[
        bool, typer.Option("--skip-links", help="Leave out links that lead to folders, out of the source, or nowhere.")
    ] = False,
    skip_unreadable: Annotated[bool, typer.Option("--skip-unreadable", help="Leave out what cannot be read.")] = False,
    no_stats: Annotated[bool, typer.Option("--no-stats", help="Make no statistics.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Push files as a new version. Only what is missing is sent; interrupted, the same command goes on."""
    from headway.cli.progress import push_shown
    from headway.client.pushing.entries import Choice

    source, name = _in_order(source, name)
    choice = Choice(hidden=hidden, skip_links=skip_links, skip_unreadable=skip_unreadable)
    with common.client() as client:
        with push_shown(name, quiet=as_json) as progress:
            view = client.datasets.push(name, source, choice=choice, progress=progress, notes=_note)
        if not view.statistics and not no_stats:
            view = _measured(client, view, Path(source), as_json)
    if as_json:
        common.print_json(view)
        return
    print_version(view)
    common.next_step(
        f"headway dataset verify {view.name}@{view.version}", f"headway job submit --data {view.name} -- COMMAND"
    )


def _in_order(source: str, name: str) -> tuple[str, str]:
    """Source and name; given the other way round, as it was once, they are understood too."""
    from headway.client.pushing.sources import is_url
    from headway.rules.datasets import is_name

    there = is_url(source) or Path(source).exists()
    if there or not is_name(source) or not (is_url(name) or Path(name).exists()):
        return source, name
    _note(f"taken as `headway dataset push {name} {source}`: the source comes first.")
    return name, source


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _measured(client: Client, view: DatasetVersionView, source: Path, quiet: bool) -> DatasetVersionView:
    """The version with statistics; it is as good without them."""
    with dataset_stats.shown(quiet=quiet) as progress:
        try:
            return client.datasets.measure(view, source if source.is_dir() else None, progress=progress)
        except HeadwayError as error:
            _note(f"no statistics: {error.message} `headway dataset stats {view.name} --refresh` makes them.")
            return view


def print_version(view: DatasetVersionView) -> None:
    """A version and its statistics."""
    from headway.rules.units import render_size

    fields: dict[str, object] = {
        "dataset": f"{view.name}@{view.version}",
        "files": view.files,
        "size": render_size(view.bytes),
        "sent": render_size(view.sent_bytes),
        "digest": view.digest[:16],
        "source": common.plain(view.source),
        "pushed": f"{common.ago(view.created_at)} by {view.created_by}",
    }
    if view.damaged:
        fields["damaged"] = "yes; pushing the same files again mends it"
    common.print_fields(fields)
    dataset_stats.print_statistics(view.statistics)
