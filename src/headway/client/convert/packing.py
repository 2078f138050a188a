"""A version as files of another format."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headway.client.contents import Version
from headway.client.convert import target
from headway.client.convert.formats import FORMATS
from headway.client.convert.member import Format, Member
from headway.errors import RefusedError, UsageError
from headway.rules.datasets import group
from headway.rules.units import render_size
from headway.wire.datasets import PlacedRow

#: bytes of files that make a shard, where nothing else is said
SHARD_BYTES = 256 << 20
#: files of a shard at most, and bytes that each takes beside its content
_SHARD_FILES, _BESIDE = 100_000, 1024


@dataclass(frozen=True)
class Packed:
    #: names of the files, in order
    shards: list[str]
    #: of them, made now; the others were there from a run that was cut off
    made: int
    files: int
    bytes: int


def pack(
    version: Version,
    kind: str,
    into: Path,
    *,
    digest: str,
    size: int,
    shard_bytes: int = SHARD_BYTES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Packed:
    """Writes `NAME-000000.tar` and so on into a folder that is empty, or goes on in one that the same call left.

    kind: one of `FORMATS`. digest, size: of the version; size in bytes. shard_bytes: about how large a file becomes.
    Each file appears when it is whole. Those of one WebDataset sample are in one shard. progress: told (bytes, in all).
    Raises RefusedError for a folder with other things in it, UsageError for a file that the format cannot hold,
    FailedError when the disk is full or a content is damaged.
    """
    form = FORMATS[kind]
    _check_sizes(version, form)
    what = {"dataset": f"{version.name}@{version.version}", "digest": digest, "format": kind, "shard": shard_bytes}
    target.begin(into, what)
    with target.forgotten_if_bare(into):
        _check_room(into, size - sum(path.stat().st_size for path in into.glob(f"*{form.ending}")))
        shards: list[str] = []
        made = files = done = 0
        for rows in split(version.places(), shard_bytes):
            name = f"{version.name}-{len(shards):06}{form.ending}"
            shards.append(name)
            if not (into / name).exists():
                made += 1
                _write(version, form, into / name, rows, partial(_tell, progress, done, size))
            files += len(rows)
            done += sum(row.bytes for row in rows)
            progress(done, size)
        target.finish(into)
    return Packed(shards, made, files, done)


def _tell(progress: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _check_sizes(version: Version, form: Format) -> None:
    """Whether the format can hold each file."""
    for path, size, _ in version.rows() if form.largest else ():
        if form.largest and size > form.largest:
            raise UsageError(
                f"{path!r} has {render_size(size)}, and this format holds files of up to {render_size(form.largest)}.",
                "Use --format webdataset, which holds any.",
            )


def _check_room(into: Path, left: int) -> None:
    free = shutil.disk_usage(into).free
    if left > free:
        raise RefusedError(
            f"{into} has {render_size(free)} free, and {render_size(left)} are to be written.",
            "Make room there, or name another folder.",
            code="no_space",
        )


def _write(version: Version, form: Format, path: Path, rows: list[PlacedRow], progress: Callable[[int], None]) -> None:
    def write(temporary: Path) -> None:
        done = 0
        with closing(form.write(temporary)) as writer:
            for row, pieces in version.contents(rows):
                writer.add(Member(row.path, row.bytes, row.sha256, pieces))
                done += row.bytes
                progress(done)

    target.publish(path, write)


def split(rows: Iterable[PlacedRow], limit: int) -> Iterator[list[PlacedRow]]:
    """Rows by shards of about `limit` bytes. The same rows always make the same shards."""
    shard: list[PlacedRow] = []
    size, last = 0, ""
    for row in rows:
        now = group(row.path)
        is_full = size + row.bytes + _BESIDE > limit or len(shard) >= _SHARD_FILES
        if shard and is_full and now != last:
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += row.bytes + _BESIDE
        last = now
    if shard:
        yield shard
