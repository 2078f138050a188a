"""What datasets are made of, as all sides agree on it: references, paths, a version's order and digest. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from headway.errors import UsageError

#: a pack of small files is closed when it holds this many bytes
PACK_BYTES = 64 << 20
#: a file of at least this many bytes is not packed: it travels by itself, in parts
LARGE_BYTES = 32 << 20
#: bytes of one part of a large file; the last one is shorter
PART_BYTES = 64 << 20
#: rows of one page of a manifest, and of one request that tells rows
PAGE_ROWS = 10_000

#: longest name of a file or folder, and longest path, in bytes of UTF-8; most folders above a file
NAME_BYTES, PATH_BYTES, DEPTH = 255, 3072, 200

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_quoted = json.JSONEncoder(ensure_ascii=False).encode
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class Mode(str, Enum):
    """How a run gets a dataset."""

    #: files in place out of the node's cache, fetched before the user process starts
    CACHE = "cache"
    #: packs are read as the script asks for them, through `headway.data`
    STREAM = "stream"
    #: the folder that the version was pushed from, read where it is
    LINK = "link"


@dataclass(frozen=True)
class Reference:
    """`[channel=]name[@version][:mode]`"""

    name: str
    #: None: the newest
    version: int | None = None
    #: folder that it is found in; "" is the dataset's name
    channel: str = ""
    mode: Mode = Mode.CACHE

    def __str__(self) -> str:
        said = f"{self.channel}=" if self.channel else ""
        said += self.name + (f"@{self.version}" if self.version is not None else "")
        return said if self.mode is Mode.CACHE else f"{said}:{self.mode.value}"


def parse_reference(text: str) -> Reference:
    """Raises UsageError for what is none, naming the part at fault."""
    channel, equals, rest = text.rpartition("=")
    rest, colon, mode = rest.partition(":")
    name, at, number = rest.partition("@")
    if equals and not is_name(channel):
        raise UsageError(
            f"datasets: {channel!r} is no name of a channel.", "Use lower-case letters, digits, and . _ - inside."
        )
    if not is_name(name):
        raise UsageError(f"datasets: {text!r} names no dataset.", "Write NAME, NAME@VERSION or NAME@VERSION:MODE.")
    if at and not _NUMBER.fullmatch(number):
        raise UsageError(f"datasets: {number!r} in {text!r} is no version.", f"Write a number, such as {name}@1.")
    if colon and mode not in {m.value for m in Mode}:
        raise UsageError(f"datasets: {mode!r} in {text!r} is no mode.", "Write cache, stream or link.")
    return Reference(
        name=name, version=int(number) if at else None, channel=channel, mode=Mode(mode) if colon else Mode.CACHE
    )


def is_name(text: str) -> bool:
    """Whether a dataset or a channel may be called so."""
    return _NAME.fullmatch(text) is not None


def order(path: str) -> list[str]:
    """The key that a version's files are sorted by: a folder's content stands together, as in a sorted walk."""
    return path.split("/")


def group(path: str) -> str:
    """What files of one sample share, as WebDataset has it: the path up to the first dot of its last part.

    In `order` those whose names have a dot stand together; one without is no part of a WebDataset sample.
    """
    folder, slash, name = path.rpartition("/")
    return folder + slash + name.split(".", 1)[0]


def path_fault(path: str) -> str | None:
    """Why no version can hold a file under that path, as the end of a sentence; None: it can.

    Any name is good that a Linux folder can hold as UTF-8, line ends and Chinese among them.
    """
    parts = path.split("/")
    if not path or any(p in ("", ".", "..") for p in parts):
        return "does not stay inside the dataset"
    if "\0" in path:
        return "has a NUL in it"
    try:
        encoded = path.encode()
        longest = max(len(p.encode()) for p in parts)
    except UnicodeEncodeError:
        return "is not UTF-8"
    if longest > NAME_BYTES or len(encoded) > PATH_BYTES:
        return f"is too long (a name may have {NAME_BYTES} bytes, a path {PATH_BYTES})"
    if len(parts) - 1 > DEPTH:
        return f"lies in more than {DEPTH} folders"
    return None


def folded(path: str) -> str:
    """Paths that fold alike are one file on a disk that ignores case (macOS, Windows)."""
    return unicodedata.normalize("NFC", path).casefold()


#: path, bytes, SHA-256 in hexadecimal
Row = tuple[str, int, str]


def digest(rows: Iterable[Row]) -> str:
    """The digest of a version with these files, given in `order`: SHA-256 of their `lines`."""
    running = hashlib.sha256()
    for line in lines(rows):
        running.update(line)
    return running.hexdigest()


def lines(rows: Iterable[Row]) -> Iterator[bytes]:
    """What is digested: each row as a line of compact JSON, ["a/b.png",20000,"9f86..."]."""
    for row in rows:
        yield line(*row)


def line(path: str, size: int, sha256: str) -> bytes:
    """One row as it is digested."""
    return f'[{_quoted(path)},{size},"{sha256}"]\n'.encode()
