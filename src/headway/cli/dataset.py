"""`headway dataset`: push, list, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import cache, common, dataset_convert, dataset_look, dataset_stats
from headway.errors import FailedError

app = common.group("Datasets: named, immutable, content-addressed versions.")
Reference = Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)]


@app.command()
def push(
    name: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
    folder: Annotated[Path, typer.Argument(help="Folder with the files.", show_default=False)],
    as_json: common.AsJson = False,
) -> None:
    """Push a folder as a new version; contents that are there already are not sent again."""
    from headway.cli.progress import bytes_shown
    from headway.client import push as pushing
    from headway.client import statistics

    pushing_folder = folder.absolute()
    if pushing_folder.is_dir():
        rows = [(f.path, f.bytes, f.sha256) for f in pushing.scan(pushing_folder)]
        found = statistics.of(statistics.Folder(pushing_folder, lambda: iter(rows)))
    else:
        found = {}
    with common.client() as client, bytes_shown(f"pushing {name}", quiet=as_json) as progress:
        view = client.datasets.push(name, pushing_folder, statistics=found, progress=progress)
    if as_json:
        common.print_json(view)
        return
    print_version(view)
    common.next_step(f"headway dataset verify {name}@{view.version}", f"headway job submit --data {name} -- COMMAND")


def print_version(view: Any) -> None:
    """A version and its statistics. view: a `wire.products.DatasetVersionView`."""
    from headway.rules.units import render_size

    common.print_fields(
        {
            "dataset": f"{view.name}@{view.version}",
            "files": view.files,
            "size": render_size(view.bytes),
            "digest": view.digest[:16],
            "source": view.source,
            "pushed": f"{common.ago(view.created_at)} by {view.created_by}",
        }
    )
    dataset_stats.print_statistics(view.statistics)


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
        print_version(view)


app.command()(dataset_stats.stats)
app.command()(dataset_convert.pack)
app.command()(dataset_convert.unpack)
app.command()(cache.warm)


@app.command()
def verify(reference: Reference, as_json: common.AsJson = False) -> None:
    """Read every file of a version on the server and compare it with its checksum."""
    from headway.rules.units import render_size

    with common.client() as client:
        version = client.datasets.find(reference)
        found = client.datasets.verify(version.name, version.version)
    if as_json:
        common.print_json(found)
    else:
        print(f"{found.name}@{found.version}: {found.files} files, {render_size(found.bytes)} read")
        for path, reason in found.faults.items():
            print(f"  {path}: {reason}")
    if found.faults:
        raise FailedError(
            f"{len(found.faults)} files of {reference} are not what was pushed.", "Push the folder again."
        )
