"""Metrics from TensorBoard's event files, of whatever library wrote them: read as they grow, told to the runner.

A file is records of eight bytes of length, their checksum, an `Event` message, its checksum. Only what a scalar needs
is decoded. With each batch of points goes a mark, `{"file", "offset"}`, which the runner appends to metrics.jsonl
together with them: a helper that is started again, and a later attempt, go on behind it, so that each point is there
once.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.helper.voice import Voice
from headway.protocol import names
from headway.protocol.files import AttemptFolder
from headway.protocol.summaries import Finder

READ_SECONDS = 1.0
#: looks for new files: one of so many reads
LOOK_EVERY = 3
#: points told at once
BATCH = 1000
#: bytes read at once; a longer record (images) is passed over unread
BLOCK, LONGEST = 4 << 20, 64 << 20
_HEAD = struct.Struct("<QI")
#: parts of a path that say nothing: usual folders, and the names that libraries invent for each start
_SILENT = re.compile(
    r"(runs|logs|log|tensorboard|tb|tb_logs|lightning_logs|version_\d+|[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*)\Z"
)


class CorruptError(Exception):
    """A checksum does not hold."""


def prefix(place: str, path: str) -> str:
    """What a file's metrics are named with: its folders below `place` that say something, "train/" for logs/train."""
    parts = os.path.relpath(os.path.dirname(path), place).split(os.sep)
    return "".join(f"{part}/" for part in parts if part not in (".", "..") and not _SILENT.match(part))


# -- records


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _table()


def checksum(data: bytes) -> int:
    """The masked CRC-32C of TFRecord files."""
    crc, table = 0xFFFFFFFF, _CRC
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def points(path: str, offset: int) -> Iterator[tuple[list[tuple[int, str, float, float]], int]]:
    """Of each whole record from `offset` on: its points (step, tag, value, time), and the offset behind it.

    Ends before a record that is not there completely. Raises CorruptError, OSError.
    """
    with open(path, "rb", BLOCK) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(offset)
        while len(head := file.read(_HEAD.size)) == _HEAD.size and any(head):
            length, check = _HEAD.unpack(head)
            if checksum(head[:8]) != check:
                raise CorruptError(f"{path}: no record begins at byte {offset}.")
            if offset + length + 16 > size:
                return
            found: list[tuple[int, str, float, float]] = []
            if length > LONGEST:
                file.seek(length + 4, os.SEEK_CUR)
            else:
                body = file.read(length + 4)
                message = body[:length]
                try:
                    found = list(_event(message))
                except (IndexError, struct.error, UnicodeDecodeError) as error:
                    raise CorruptError(f"{path}: the record at byte {offset} cannot be read.") from error
                # what holds no scalar need not be right: checking every image would cost more than all else
                if found and checksum(message) != int.from_bytes(body[length:], "little"):
                    raise CorruptError(f"{path}: the record at byte {offset} is not what was written.")
            offset += length + 16
            yield found, offset


# -- messages


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field: an int, or bytes for what has a length or is fixed. Raises IndexError."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind, len(data) + 1)
        if at + size > len(data):
            raise IndexError("a field is longer than its message")
        yield key >> 3, data[at : at + size]
        at += size


def _event(data: bytes) -> Iterator[tuple[int, str, float, float]]:
    """Event: wall_time = 1, step = 2, summary = 5, of which value = 1."""
    when, step, summary = 0.0, 0, b""
    for number, value in _fields(data):
        if number == 1:
            (when,) = struct.unpack("<d", value)
        elif number == 2:
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5:
            summary = value
    for number, value in _fields(summary):
        if number == 1 and (found := _scalar(value)) is not None:
            yield step, found[0], found[1], when


def _scalar(data: bytes) -> tuple[str, float] | None:
    """Summary.Value: tag = 1, simple_value = 2, tensor = 8."""
    tag, number_found = "", None
    for number, value in _fields(data):
        if number == 1:
            tag = value.decode()
        elif number == 2:
            (number_found,) = struct.unpack("<f", value)
            number_found = _short(number_found)
        elif number == 8:
            number_found = _tensor(value)
    return None if number_found is None or not tag or tag.startswith("_hparams_") else (tag, number_found)


def _short(value: float) -> float:
    """The shortest decimal that is this 32-bit number: 0.1, not 0.10000000149011612."""
    return float(f"{value:.8g}") if math.isfinite(value) else value


#: by data type: format, and the number of the field with values of that type
_TYPES = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10)}


def _tensor(data: bytes) -> float | None:
    """TensorProto: dtype = 1, tensor_shape = 2, tensor_content = 4, values by type. None: it is no single number."""
    kind, content, values = 0, b"", {}
    for number, value in _fields(data):
        if number == 1:
            kind = value
        elif number == 2:
            for _, dimension in _fields(value):
                if any(n == 1 and size != 1 for n, size in _fields(dimension)):
                    return None
        elif number == 4:
            content = value
        else:
            values[number] = value
    if kind not in _TYPES:
        return None
    form, field = _TYPES[kind]
    raw = content or values.get(field)
    if isinstance(raw, bytes) and kind in (3, 9) and not content:
        raw = _varint(raw, 0)[0]
    if isinstance(raw, int):
        return float(raw - (1 << 64) if raw >> 63 else raw)
    if raw is None or len(raw) != struct.calcsize(form):
        return None
    (found,) = struct.unpack(form, raw)
    return _short(found) if kind == 1 else float(found)


# -- watching


class Summaries:
    """A thread that looks under OUTPUT_PATH and the working folder."""

    def __init__(self, launch: dict[str, Any], folder: Path, voice: Voice) -> None:
        """folder: the attempt's."""
        output = launch.get("environment", {}).get(names.OUTPUT_PATH)
        self._finder = Finder(place for place in (output, launch.get("cwd")) if place)
        self._voice = voice
        #: file -> offset behind what was told
        self._offsets = marks(folder)
        self._broken: set[str] = set()
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name="summaries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """The last look."""
        self._finish.set()
        self._thread.join()

    def _run(self) -> None:
        files: list[tuple[str, str]] = []
        turn = 0
        while not self._finish.is_set():
            if turn % LOOK_EVERY == 0:
                files = self._finder.look()
            turn += 1
            self.read(files)
            self._finish.wait(READ_SECONDS)
        self.read(self._finder.look())

    def read(self, files: list[tuple[str, str]]) -> None:
        """Tells what is new in files, each with the place under which it was found."""
        for place, path in files:
            try:
                if os.stat(path).st_size > self._offsets.get(path, 0) and path not in self._broken:
                    self._read(path, prefix(place, path))
            except OSError:
                continue  # it was removed
            except CorruptError as error:
                self._broken.add(path)
                self._voice.log(f"{error} No further metrics are read from this file.")

    def _read(self, path: str, before: str) -> None:
        batch: list[dict[str, Any]] = []
        offset = start = self._offsets.get(path, 0)
        try:
            for found, offset in points(path, start):
                batch += [{"step": s, "name": before + tag, "value": v, "t": t} for s, tag, v, t in found]
                if len(batch) >= BATCH:
                    self._tell(path, offset, batch)
                    batch = []
        finally:
            if batch or offset > self._offsets.get(path, 0):
                self._tell(path, offset, batch)

    def _tell(self, path: str, offset: int, batch: list[dict[str, Any]]) -> None:
        self._voice.tell(points=batch, mark={"file": path, "offset": offset})
        self._offsets[path] = offset


def marks(folder: Path) -> dict[str, int]:
    """File -> offset behind what is in the metrics of this attempt, or of one of this run before it."""
    found: dict[str, int] = {}
    run, _, number = folder.name.rpartition("-")
    attempts = range(1, int(number) + 1) if number.isdigit() else ()
    for attempt in (folder.with_name(f"{run}-{n}") for n in attempts):
        try:
            with open(AttemptFolder(attempt).node().metrics, "rb") as file:
                lines = [line for line in file if line.startswith(b'{"mark"')]
        except OSError:
            continue
        for line in lines:
            try:
                mark = json.loads(line)["mark"]
                found[str(mark["file"])] = max(found.get(str(mark["file"]), 0), int(mark["offset"]))
            except (ValueError, KeyError, TypeError):
                continue
    return found
