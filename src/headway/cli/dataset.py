"""`headway dataset`: each command is in the module of its kind."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli import (
    cache,
    common,
    dataset_convert,
    dataset_history,
    dataset_keep,
    dataset_look,
    dataset_push,
    dataset_stats,
)

app = common.group("Datasets: named, immutable, content-addressed versions.")
Reference = Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)]


app.command()(dataset_push.push)
app.command()(dataset_look.ls)
app.command()(dataset_look.cat)
app.command()(dataset_look.pull)


@app.command()
def show(reference: Reference, as_json: common.AsJson = False) -> None:
    """Show a version."""
    with common.client() as client:
        view = client.datasets.find(reference)
    if as_json:
        common.print_json(view)
    else:
        dataset_push.print_version(view)


app.command()(dataset_stats.stats)
app.command()(dataset_convert.pack)
app.command()(dataset_convert.unpack)
app.command()(cache.warm)
app.command()(dataset_history.versions)
app.command()(dataset_history.diff)
app.command()(dataset_history.verify)
app.command()(dataset_keep.rm)
app.command()(dataset_keep.gc)
