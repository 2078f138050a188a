"""Packs as they are filled: a tar in memory, its members read straight into place."""

from __future__ import annotations

import functools
import hashlib
import tarfile
from typing import NamedTuple

from headway.rules.datasets import group

_BLOCK = 512
#: what ends a tar: two empty blocks
_END = 2 * _BLOCK
#: most files of one pack, so that what is known of each stays small beside the pack
MOST_FILES = 20_000

_ustar = b"0000644\0" + b"0000000\0" * 2


class Content(NamedTuple):
    """One file's bytes in a pack."""

    path: str
    sha256: str
    offset: int
    bytes: int
    #: where its header begins: what is cut out with it
    start: int


class Pack:
    """A tar that grows in a buffer of a fixed size. Members keep their order and are told by `contents`."""

    def __init__(self, buffer: bytearray | memoryview, size: int) -> None:
        """size: bytes of the tar at most."""
        self.view = memoryview(buffer)
        self.contents: list[Content] = []
        self.end = 0
        self.size = size

    def fits(self, path: str, size: int) -> bool:
        """Whether a file of that name and size has room."""
        if len(self.contents) >= MOST_FILES:
            return False
        return self.end + len(header(path, size)) + -(-size // _BLOCK) * _BLOCK + _END <= self.size

    def place(self, path: str, size: int) -> memoryview:
        """Where the next file's bytes go; it is not in the pack before `keep`."""
        start = self.end + len(header(path, size))
        return self.view[start : start + size]

    def keep(self, path: str, size: int, sha256: str) -> None:
        """Takes what was read into `place` as a member."""
        head = header(path, size)
        start = self.end
        offset = start + len(head)
        self.view[start:offset] = head
        self.end = _filled(self.view, offset + size)
        self.contents.append(Content(path, sha256, offset, size, start))

    def drop(self, known: set[str]) -> None:
        """Cuts out contents that need not be sent."""
        kept: list[Content] = []
        to = 0
        for content, following in zip(self.contents, [*self.contents[1:], None], strict=True):
            if content.sha256 in known:
                continue
            stop = following.start if following is not None else self.end
            shift = content.start - to
            if shift:
                self.view[to : to + stop - content.start] = self.view[content.start : stop]
            kept.append(Content(content.path, content.sha256, content.offset - shift, content.bytes, to))
            to += stop - content.start
        self.contents, self.end = kept, to

    def hand_over(self, path: str, other: Pack) -> None:
        """Moves what belongs to one sample with `path` from the end of this one to another that is empty.

        Nothing is moved when this one holds nothing else.
        """
        first = len(self.contents)
        while first and group(self.contents[first - 1].path) == group(path):
            first -= 1
        if first == 0:
            return
        for content in self.contents[first:]:
            other.place(content.path, content.bytes)[:] = self.view[content.offset : content.offset + content.bytes]
            other.keep(content.path, content.bytes, content.sha256)
        if first < len(self.contents):
            self.end = self.contents[first].start
            del self.contents[first:]

    def close(self) -> memoryview:
        """The whole tar."""
        self.view[self.end : self.end + _END] = bytes(_END)
        return self.view[: self.end + _END]


def _filled(view: memoryview, end: int) -> int:
    """Zeros up to the next block; where that begins."""
    following = -(-end // _BLOCK) * _BLOCK
    view[end:following] = bytes(following - end)
    return following


@functools.lru_cache(maxsize=2)  # asked for a few times in a row
def header(path: str, size: int) -> bytes:
    """The header of a regular file: always the same for the same path and size, so that packs repeat."""
    name, prefix = path.encode(), b""
    if len(name) > 100:
        cut = name.rfind(b"/", len(name) - 101, 156)
        if cut <= 0:
            return _pax(path, size)
        prefix, name = name[:cut], name[cut + 1 :]
    head = b"".join(
        (
            name.ljust(100, b"\0"),
            _ustar,
            b"%011o\0" % size,
            b"00000000000\0",  # time of modification
            b"        ",  # the checksum counts as blanks
            b"0".ljust(101, b"\0"),  # a regular file, no link
            b"ustar\00000",
            bytes(80),
            prefix.ljust(155, b"\0"),
            bytes(12),
        )
    )
    return b"%b%06o\0 %b" % (head[:148], sum(head), head[156:])


def _pax(path: str, size: int) -> bytes:
    entry = tarfile.TarInfo(path)
    entry.size = size
    return entry.tobuf(tarfile.PAX_FORMAT)


def digest(view: memoryview) -> str:
    return hashlib.sha256(view).hexdigest()
