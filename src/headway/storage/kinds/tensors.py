"""Files of tensors: safetensors, .npy and .npz, by their headers and sizes alone; NumPy is not needed."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from headway.storage.kinds.base import BLOCK, Facts, InvalidError, Rule
from headway.storage.kinds.torchfiles import LONGEST_HEADER, torch

#: bytes of an element
_SIZES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 8),
}
_MAGIC = b"\x93NUMPY"
_NO_SHAPES = "The shapes in a torch file cannot be told; save it as .safetensors, .npy or .npz."


def tensors(path: Path, rule: Rule) -> Facts:
    """By suffix, and without a known one by how it begins."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return npy(path, rule)
    if suffix == ".npz":
        return npz(path, rule)
    if suffix == ".safetensors":
        return safetensors(path, rule)
    if suffix in (".pt", ".pth", ".ckpt", ".bin"):
        return _torch(path, rule)
    with open(path, "rb") as file:
        head = file.read(len(_MAGIC))
    return npy(path, rule) if head == _MAGIC else (_torch if head[:2] == b"PK" else safetensors)(path, rule)


def _torch(path: Path, rule: Rule) -> Facts:
    if rule.get("shape") is not None:
        raise InvalidError(_NO_SHAPES)
    return torch(path, rule)


def safetensors(path: Path, rule: Rule) -> Facts:
    total = path.stat().st_size
    header, length = _header(path)
    spans, shapes, dtypes = [], [], []
    try:
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            begin, end = tensor["data_offsets"]
            size = _SIZES.get(tensor["dtype"])
            if size is not None and math.prod(tensor["shape"]) * size != end - begin:
                raise InvalidError(f"Tensor {name} takes {end - begin} bytes, which its shape and type do not.")
            spans.append((begin, end))
            shapes.append((name, list(tensor["shape"])))
            dtypes.append(str(tensor["dtype"]))
        spans.sort()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidError("Its header is not that of a safetensors file.", unfinished=True) from error
    at = 0
    for begin, end in spans:
        if begin != at or end < begin:
            raise InvalidError("Its tensors overlap or leave a gap.")
        at = end
    _whole(total, 8 + length + at)
    return {"format": "safetensors", **_facts(shapes, dtypes, rule)}


def _header(path: Path) -> tuple[dict[str, Any], int]:
    with open(path, "rb") as file:
        head = file.read(8)
        if len(head) < 8:
            raise InvalidError("It is shorter than a safetensors header.", unfinished=True)
        (length,) = struct.unpack("<Q", head)
        if length > LONGEST_HEADER:
            raise InvalidError("It does not begin with a safetensors header.", unfinished=True)
        raw = file.read(length)
    if len(raw) < length:
        raise InvalidError("Its header is cut off.", unfinished=True)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidError("Its header is not that of a safetensors file.", unfinished=True) from error
    if not isinstance(header, dict):
        raise InvalidError("Its header is not that of a safetensors file.", unfinished=True)
    return header, length


def npy(path: Path, rule: Rule) -> Facts:
    with open(path, "rb") as file:
        shape, dtype, size = _npy_header(file)
        _whole(os.fstat(file.fileno()).st_size, file.tell() + size)
    return {"format": "npy", **_facts([(path.name, shape)], [dtype], rule)}


def npz(path: Path, rule: Rule) -> Facts:
    import zipfile
    import zlib

    shapes, dtypes = [], []
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as member:
                    shape, dtype, size = _npy_header(member)
                    # reading a member to its end compares its CRC
                    read = 0
                    while block := member.read(BLOCK):
                        read += len(block)
                _whole(read, size)
                shapes.append((entry.filename.removesuffix(".npy"), shape))
                dtypes.append(dtype)
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, RuntimeError) as error:
        raise InvalidError(f"It is not a whole .npz file ({error}).", unfinished=True) from error
    if not shapes:
        raise InvalidError("It holds no array.")
    return {"format": "npz", **_facts(shapes, dtypes, rule)}


def _npy_header(file: IO[bytes]) -> tuple[list[int], str, int]:
    """Shape, type and bytes of the array that begins here; `file` is then where its bytes begin."""
    head = file.read(8)
    if len(head) < 8 or head[:6] != _MAGIC:
        raise InvalidError("It does not begin as an .npy file does.", unfinished=len(head) < 8)
    wide = head[6] > 1
    (length,) = struct.unpack("<I" if wide else "<H", file.read(4 if wide else 2).ljust(4 if wide else 2, b"\0"))
    raw = file.read(min(length, BLOCK))
    try:
        header = ast.literal_eval(raw.decode("utf-8" if head[6] > 2 else "latin-1").strip())
        shape = [int(n) for n in header["shape"]]
        return shape, _type(header["descr"]), math.prod(shape) * _itemsize(header["descr"])
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
        raise InvalidError("Its header is not that of an .npy file.", unfinished=len(raw) < length) from error


def _type(descr: Any) -> str:
    return descr if isinstance(descr, str) else "struct"


def _itemsize(descr: Any) -> int:
    """Bytes of one element of a NumPy type, as headers write it. Raises ValueError."""
    if isinstance(descr, list):
        fields = [(field[1], field[2] if len(field) > 2 else ()) for field in descr]
        return sum(_itemsize(kind) * math.prod((n,) if isinstance(n, int) else n) for kind, n in fields)
    found = re.fullmatch(r"[<>|=]?([?a-zA-Z])(\d*)(\[\w+\])?", descr) if isinstance(descr, str) else None
    if found is None:
        raise ValueError(descr)
    if found[1] == "O":
        raise InvalidError("It holds Python objects, which only unpickling could read; save plain arrays.")
    size = int(found[2] or 1)
    return size * 4 if found[1] == "U" else size


def _whole(total: int, told: int) -> None:
    if total != told:
        raise InvalidError(f"It has {total} bytes; its header tells of {told}.", unfinished=total < told)


def _facts(shapes: Sequence[tuple[str, list[int]]], dtypes: Sequence[str], rule: Rule) -> Facts:
    """Raises InvalidError when a tensor has not the shape of the rule, in which -1 stands for any length."""
    wanted = rule.get("shape")
    for name, shape in shapes if wanted is not None else ():
        assert wanted is not None
        if len(shape) != len(wanted) or any(w not in (-1, n) for n, w in zip(shape, wanted, strict=True)):
            raise InvalidError(f"{name} has the shape {shape}; {list(wanted)} is asked for.")
    if wanted is not None and not shapes:
        raise InvalidError("It holds no tensor.")
    facts: Facts = {"tensors": len(shapes)}
    return facts | ({"shape": shapes[0][1], "dtype": dtypes[0]} if len(shapes) == 1 else {})
