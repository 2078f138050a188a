"""Packs: tar archives of small files. What is in one is found out here, whoever sends it.

A pack holds regular files alone; the name of each is the path that it had when it was packed. Any tar reader reads it;
this one refuses what `tarfile` passes over in silence: a damaged header, and headers of any size.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.rules.datasets import path_fault
from headway.storage.kinds.base import InvalidError

#: SHA-256, offset and bytes of a content
Packing = tuple[bytes, int, int]

_BLOCK = 512
#: of the description of one member: a long name, its pax records
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Packed:
    """What is in a pack."""

    #: of the whole tar
    sha256: str
    #: bytes
    size: int
    #: (SHA-256, offset, bytes) of each member, by offset
    contents: list[Packing]


@dataclass(frozen=True)
class _Member:
    name: str
    offset: int
    size: int


def inspect(path: Path) -> Packed:
    """Raises InvalidError for what is no whole tar of regular files, or has a member that would lead outside."""
    size = path.stat().st_size
    if size == 0:
        raise InvalidError("The pack is empty.", unfinished=True)
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
        memoryview(held) as view,
    ):
        found = [
            (hashlib.sha256(view[m.offset : m.offset + m.size]).digest(), m.offset, m.size) for m in _members(view)
        ]
        return Packed(hashlib.sha256(view).hexdigest(), size, found)


def index(contents: list[Packing]) -> bytes:
    """The index of a pack, as it lies beside it."""
    rows = [[sha256.hex(), offset, size] for sha256, offset, size in contents]
    return json.dumps({"contents": rows}, separators=(",", ":")).encode()


def _members(view: memoryview) -> Iterator[_Member]:
    """The regular files of a tar (ustar, GNU or pax)."""
    at, end = 0, len(view)
    said: dict[str, Any] = {}
    while True:
        if at + _BLOCK > end:
            raise InvalidError("The pack has no end.", unfinished=True)
        header = bytes(view[at : at + _BLOCK])
        at += _BLOCK
        if not header.strip(b"\0"):
            if bytes(view[at:]).strip(b"\0"):
                raise InvalidError("The pack goes on behind its end.")
            return
        size, kind = _size(header), header[156:157]
        if at + size > end:
            raise InvalidError("The pack is cut off.", unfinished=True)
        if kind in (b"L", b"x"):
            if size > _LONGEST:
                raise InvalidError("A member's name is too long.")
            said |= _DESCRIPTIONS[kind](bytes(view[at : at + size]))
        elif kind in (b"0", b"\0"):
            member = _Member(said.get("path") or _name(header), at, said.get("size", size))
            _check(member, end)
            yield member
            size, said = member.size, {}
        else:
            raise InvalidError(f"Member {_name(header)!r} is not a regular file.")
        at += -(-size // _BLOCK) * _BLOCK


def _check(member: _Member, end: int) -> None:
    if member.offset + member.size > end:
        raise InvalidError("The pack is cut off.", unfinished=True)
    if fault := path_fault(member.name):
        raise InvalidError(f"Member {member.name!r} {fault}.")


def _size(header: bytes) -> int:
    """Bytes of the member, once the header's checksum is right."""
    try:
        told = int(header[148:156].strip(b" \0") or b"0", 8)
        if told != sum(header[:148]) + 256 + sum(header[156:]):
            raise InvalidError("The pack is damaged: a header has another checksum.")
        field = header[124:136]
        # sizes of 8 GiB and more are binary
        size = int.from_bytes(field[1:], "big") if field[0] == 0x80 else int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        raise InvalidError("It is no tar archive.") from None
    if size < 0:
        raise InvalidError("It is no tar archive.")
    return size


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and (folder := header[345:500].split(b"\0", 1)[0]):
        name = folder + b"/" + name
    return _text(name)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise InvalidError(f"The name of member {name!r} is not UTF-8.") from None


def _long_name(content: bytes) -> dict[str, Any]:
    return {"path": _text(content.rstrip(b"\0"))}


def _pax(content: bytes) -> dict[str, Any]:
    """Path and size out of pax records, "LENGTH KEY=VALUE\\n" each."""
    found: dict[str, Any] = {}
    try:
        while content:
            length, _, _ = content.partition(b" ")
            record, content = content[: int(length)], content[int(length) :]
            key, equals, value = record[len(length) + 1 :].partition(b"=")
            if not equals or value[-1:] != b"\n" or len(record) != int(length):
                raise ValueError
            if key == b"path":
                found["path"] = _text(value[:-1])
            elif key == b"size":
                found["size"] = int(value[:-1])
                if found["size"] < 0:
                    raise ValueError
    except ValueError:
        raise InvalidError("The pack is damaged: the description of a member cannot be read.") from None
    return found


_DESCRIPTIONS: dict[bytes, Callable[[bytes], dict[str, Any]]] = {b"L": _long_name, b"x": _pax}
