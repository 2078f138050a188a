"""`headway dataset pack` and `unpack`: versions as WebDataset, TFRecord or Parquet, and the reverse."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import common
from headway.errors import UsageError


def pack(
    reference: Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="webdataset, tfrecord or parquet.", show_default=False)],
    into: Annotated[
        Path, typer.Option(help="Folder for the files, empty or not there yet.", metavar="DIR", show_default=False)
    ],
    shard_bytes: Annotated[str, typer.Option(help="About how large each file becomes.", metavar="SIZE")] = "256MiB",
    as_json: common.AsJson = False,
) -> None:
    """Write a version as files of another format; the same command goes on where it was cut off."""
    from headway.cli.progress import bytes_shown
    from headway.client import contents, convert
    from headway.rules.nearest import unknown
    from headway.rules.units import parse_size, render_size

    if form not in convert.FORMATS:
        raise unknown("format", form, list(convert.FORMATS))
    limit = parse_size(shard_bytes, "--shard-bytes")
    if limit < 1:
        raise UsageError("--shard-bytes is 0.", "Give a size such as 256MiB.")
    with common.client() as client:
        view = client.datasets.find(reference)
        version = contents.Version(client.transport, client.project, view.name, view.version)
        with bytes_shown(f"packing {view.name}@{view.version}", quiet=as_json) as progress:
            packed = convert.pack(
                version, form, into, digest=view.digest, size=view.bytes, shard_bytes=limit, progress=progress
            )
    if as_json:
        common.print_json({"into": str(into), "format": form, **vars(packed)})
        return
    before = len(packed.shards) - packed.made
    again = f", {before} of them were there" if before else ""
    what = f"{_many(packed.files, 'file')}, {render_size(packed.bytes)}, in {_many(len(packed.shards), 'shard')}"
    print(f"{view.name}@{view.version}: {what}{again}")
    shards = str(into / f"*{convert.FORMATS[form].ending}")
    common.next_step(f"ls {shlex.quote(str(into))}", f"headway dataset unpack {shards} --into FOLDER")


def unpack(
    files: Annotated[
        list[Path], typer.Argument(help="Files that end in .tar, .tfrecord or .parquet.", show_default=False)
    ],
    into: Annotated[
        Path | None,
        typer.Option(help="Folder for what is in them, empty or not there yet.", metavar="DIR", show_default=False),
    ] = None,
    push: Annotated[
        str | None, typer.Option(help="Push it as a version of this dataset.", metavar="NAME", show_default=False)
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Unpack WebDataset, TFRecord or Parquet files that hold a dataset, into a folder or as a new version."""
    from headway.client import convert

    if (into is None) == (push is None):
        raise UsageError("unpack needs one place for what is in the files.", "Give --into DIR or --push NAME.")
    sources = [(path, convert.format_of(path)) for path in files]
    if into is not None:
        found = _unpacked(sources, into, as_json)
        if as_json:
            common.print_json({"into": str(into), **vars(found)})
            return
        print(f"{into}: {_described(found)}")
        common.next_step(f"headway dataset push {shlex.quote(str(into))} NAME")
        return
    with tempfile.TemporaryDirectory(prefix="headway-unpack-") as folder:
        _push(str(push), _unpacked(sources, Path(folder), as_json), Path(folder), as_json)


def _unpacked(sources: list[tuple[Path, Any]], into: Path, quiet: bool) -> Any:
    from headway.cli.progress import count_shown
    from headway.client import convert

    with count_shown("unpacking", quiet=quiet) as progress:
        return convert.unpack(sources, into, progress=progress)


def _push(name: str, found: Any, folder: Path, as_json: bool) -> None:
    """Pushes the folder, and shows the version."""
    with common.client() as client:
        view = client.datasets.push(name, folder)
    if as_json:
        common.print_json(view)
        return
    print(f"{view.name}@{view.version}: {_described(found)}")
    common.next_step(f"headway dataset stats {view.name}@{view.version} --refresh")


def _described(found: Any) -> str:
    from headway.rules.units import render_size

    return f"{_many(found.files, 'file')}, {render_size(found.bytes)}"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("s" if count != 1 else "")
