"""Whether a media file is as long as its own structure says: what a decoder often forgives a file that was cut off."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO

from headway.storage.kinds.base import InvalidError

_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"moof", b"sidx")
_EBML, _SEGMENT = 0x1A45DFA3, 0x18538067
#: an Ogg page is no longer than this
_OGG_PAGE = 27 + 255 + 255 * 255
#: in place of a size: written as it came, never filled in
_STREAMED = (0, 0xFFFFFFFF)


def whole(path: Path) -> None:
    """Raises InvalidError (unfinished) when the file is shorter than it says. Of unknown structures it says nothing."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(16)
        if head[4:8] in _BOXES:
            _boxes(file, size)
        elif head[:4] == b"RIFF":
            _riff(file, size)
        elif head[:4] == _EBML.to_bytes(4, "big"):
            _matroska(file, size)
        elif head[:4] == b"OggS":
            _ogg(file, size)
        elif head[:4] == b"GIF8":
            _tail(file, size, b";", 16)
        elif head[:3] == b"ID3" or (head[:1] == b"\xff" and head[1:2] > b"\xdf"):
            _mp3(file, size, head)
        elif head[:8] == b"\x89PNG\r\n\x1a\n":
            _tail(file, size, b"IEND\xaeB`\x82", 4096)


def _cut() -> InvalidError:
    return InvalidError("It is cut off before its end.", unfinished=True)


def _boxes(file: IO[bytes], size: int) -> None:
    """ISO base media (mp4, mov, m4a): boxes one after the other."""
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(16)
        if len(head) < 8:
            raise _cut()
        (length,) = struct.unpack(">I", head[:4])
        if length == 0:
            return  # the last box goes on to the end of the file, whatever that is
        if length == 1:
            if len(head) < 16:
                raise _cut()
            (length,) = struct.unpack(">Q", head[8:])
        if length < 8:
            raise InvalidError("Its boxes are damaged.")
        at += length
    if at > size:
        raise _cut()


def _riff(file: IO[bytes], size: int) -> None:
    """AVI, WAV, WebP: chunks one after the other, mostly one."""
    at = first = 0
    while at < size:
        file.seek(at)
        head = file.read(8)
        if head[:4] != b"RIFF" or len(head) < 8:
            return
        (length,) = struct.unpack("<I", head[4:])
        if length in _STREAMED:
            return
        first, at = at + 12, at + 8 + length
    if at > size + 1 or (at == size + 1 and not _ends_odd(file, first, size)):
        raise _cut()


def _ends_odd(file: IO[bytes], at: int, size: int) -> bool:
    """Whether only the padding of the last chunk is missing, which some count but do not write."""
    while at < size:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return False
        (length,) = struct.unpack("<I", head[4:])
        at += 8 + length
        if at == size:
            return bool(length % 2)
        at += length % 2
    return False


def _mp3(file: IO[bytes], size: int, head: bytes) -> None:
    """The first frame mostly tells how many bytes of frames there are."""
    start = 0
    if head[:3] == b"ID3":
        # seven bits a byte
        start = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=False))
    file.seek(start)
    frame = file.read(256)
    at = max(frame.find(b"Xing"), frame.find(b"Info"))
    if 0 < at <= 40 and len(frame) >= at + 16:
        flags, *numbers = struct.unpack(">III", frame[at + 4 : at + 16])
        # the number of frames comes before that of bytes, where it is told
        if flags & 2 and start + numbers[flags & 1] > size:
            raise _cut()


def _matroska(file: IO[bytes], size: int) -> None:
    at = 0
    while at < size:
        file.seek(at)
        name = _number(file, keep=True)
        length = _number(file, keep=False)
        if name is None or length is None or length < 0:
            return
        at = file.tell() + length
        if name == _SEGMENT and at > size:
            raise _cut()


def _number(file: IO[bytes], *, keep: bool) -> int | None:
    """A number of EBML; with its length marker if `keep`. None: there is none; -1: unknown."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    width = 9 - first[0].bit_length()
    raw = first + file.read(width - 1)
    value = int.from_bytes(raw, "big")
    if keep:
        return value
    value &= (1 << (7 * width)) - 1
    return -1 if value == (1 << (7 * width)) - 1 else value


def _ogg(file: IO[bytes], size: int) -> None:
    file.seek(max(0, size - _OGG_PAGE))
    tail = file.read()
    at = tail.rfind(b"OggS")
    # the flag of a stream's last page
    if at < 0 or len(tail) < at + 27 or not tail[at + 5] & 4:
        raise _cut()
    count = tail[at + 26]
    if len(tail) < at + 27 + count + sum(tail[at + 27 : at + 27 + count]):
        raise _cut()


def _tail(file: IO[bytes], size: int, end: bytes, within: int) -> None:
    file.seek(max(0, size - within))
    if end not in file.read():
        raise _cut()
