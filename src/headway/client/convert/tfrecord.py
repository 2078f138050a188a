"""TFRecord: one `tf.train.Example` a file, with the features path, label, sha256 and bytes.

A record is its length (8 bytes), a checksum of that, the message, a checksum of that: CRC-32C, masked.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headway.client.convert import example
from headway.client.convert.member import Member
from headway.errors import UsageError

ending = ".tfrecord"
#: a protocol buffer ends at 2 GiB, and readers hold a record whole
largest: int | None = 1 << 30
#: bytes that a record may have more than its file: path and the rest
_MORE = 1 << 16
_LENGTH, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


class Checksum:
    """CRC-32C over pieces."""

    def __init__(self) -> None:
        try:
            import google_crc32c
        except ImportError:
            raise UsageError(
                "TFRecord needs the package google-crc32c.", "Install it: pip install google-crc32c."
            ) from None
        self._extend = google_crc32c.extend
        self._value = 0

    def add(self, piece: bytes) -> None:
        self._value = self._extend(self._value, piece)

    def masked(self) -> bytes:
        """As the format stores it: a checksum of bytes that hold checksums would be weak."""
        rotated = (self._value >> 15 | self._value << 17) & 0xFFFFFFFF
        return _CHECKSUM.pack((rotated + 0xA282EAD8) & 0xFFFFFFFF)


def _masked(content: bytes) -> bytes:
    checksum = Checksum()
    checksum.add(content)
    return checksum.masked()


class TfRecordWriter:
    def __init__(self, path: Path) -> None:
        Checksum()  # says at once that it is not installed
        self._file = open(path, "wb")  # noqa: SIM115

    def add(self, member: Member) -> None:
        values = [("path", member.path.encode()), ("sha256", (member.sha256 or "").encode())]
        if member.label:
            values.append(("label", member.label.encode()))
        head = example.head(values, "bytes", member.size)
        length = _LENGTH.pack(len(head) + member.size)
        self._file.write(length + _masked(length) + head)
        checksum = Checksum()
        checksum.add(head)
        for piece in member.pieces:
            checksum.add(piece)
            self._file.write(piece)
        self._file.write(checksum.masked())

    def close(self) -> None:
        self._file.close()


write = TfRecordWriter


def read(path: Path) -> Iterator[Member]:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        number = 0
        while file.tell() < size:
            number += 1
            try:
                yield _member(_record(file, size))
            except ValueError as error:
                raise UsageError(f"{path}: record {number}: {error}.", "Get the file again, or make it anew.") from None


def _record(file: BinaryIO, size: int) -> bytes:
    """The next message. Raises ValueError."""
    length = file.read(_LENGTH.size)
    if file.read(_CHECKSUM.size) != _masked(length):
        raise ValueError("its length does not fit its checksum, so this is no TFRecord file, or it is cut off")
    (count,) = _LENGTH.unpack(length)
    if count > size - file.tell():
        raise ValueError("it is cut off")
    if count > (largest or 0) + _MORE:
        raise ValueError(f"it has {count} bytes, more than a record may have here")
    message = file.read(count)
    if file.read(_CHECKSUM.size) != _masked(message):
        raise ValueError("its content does not fit its checksum")
    return message


def _member(message: bytes) -> Member:
    found = example.features(memoryview(message))
    path, content = found.get("path"), found.get("bytes")
    if path is None or content is None:
        raise ValueError(f"it has no path and bytes, only {', '.join(sorted(found)) or 'nothing'}")
    sha256 = bytes(found.get("sha256") or b"").decode()
    return Member(bytes(path).decode(), len(content), sha256 or None, iter([bytes(content)]))
