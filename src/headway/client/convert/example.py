"""`tf.train.Example` as protocol buffer bytes: the one message that records hold, and nothing else of it.

Example  { Features features = 1 }
Features { map<string, Feature> feature = 1 }     an entry: { string key = 1, Feature value = 2 }
Feature  { oneof: BytesList bytes_list = 1, FloatList float_list = 2, Int64List int64_list = 3 }
BytesList { repeated bytes value = 1 }
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def head(values: list[tuple[str, bytes]], last: str, length: int) -> bytes:
    """An Example up to the content of its last feature, which has `length` bytes and is all that is missing.

    So a record of any size is written without being held. values: the features before it.
    """
    # from the inside outwards: each message begins with the length of what it holds
    inner = _begin(1, length)
    inner = _begin(1, len(inner) + length) + inner
    inner = _field(1, last.encode()) + _begin(2, len(inner) + length) + inner
    inner = _begin(1, len(inner) + length) + inner
    before = b"".join(_field(1, _field(1, key.encode()) + _field(2, _field(1, _field(1, v)))) for key, v in values)
    return _begin(1, len(before) + len(inner) + length) + before + inner


def features(message: memoryview) -> dict[str, memoryview | None]:
    """The features of an Example: the first of their bytes, None for numbers and empty lists.

    Raises ValueError for what is none.
    """
    found: dict[str, memoryview | None] = {}
    for part in _all(message, 1):
        for entry in _all(part, 1):
            key = b"".join(bytes(k) for k in _all(entry, 1))
            value = next(
                (first for feature in _all(entry, 2) for kind in _all(feature, 1) for first in _all(kind, 1)), None
            )
            found[key.decode()] = value
    return found


def _begin(field: int, length: int) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(length)


def _field(field: int, content: bytes) -> bytes:
    return _begin(field, len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    number = shift = 0
    while shift < 64:
        if at >= len(message):
            raise ValueError("it is cut off")
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("a number in it is too long")


def _all(message: memoryview, wanted: int) -> Iterator[memoryview]:
    """Every field of bytes with that number; other fields are passed over."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(message, at)
            continue
        if kind == _BYTES:
            length, at = _read_varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"it has a field of unknown type {kind}")
        if at + length > len(message):
            raise ValueError("it is cut off")
        if kind == _BYTES and tag >> 3 == wanted:
            yield message[at : at + length]
        at += length
