"""Checks a file by its kind, without ever running what is in it: a pickle is read opcode by opcode, never unpickled."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

Facts = dict[str, Any]


class InvalidError(Exception):
    """What is in the file is not what it should be. `reason`: one sentence, without the path.

    unfinished: the file may simply not be written to its end yet.
    """

    def __init__(self, reason: str, *, unfinished: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unfinished = unfinished


#: globals that the pickle of a plain state dict (tensors, numbers, strings, lists, dicts) may name
_ALLOWED = {
    "collections": {"OrderedDict"},
    "torch": {
        *("Size", "device"),
        *(f"{t}Storage" for t in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte")),
        *("BoolStorage", "ComplexFloatStorage", "ComplexDoubleStorage", "UntypedStorage"),
        *("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"),
        *("uint16", "uint32", "uint64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
    },
    "torch.storage": {"UntypedStorage"},
    "torch._utils": {"_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"},
    "torch.nn.parameter": {"Parameter"},
    "_codecs": {"encode"},
    # arrays and numbers of NumPy, such as the state of its random numbers
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
}
#: bytes of a data.pkl or a safetensors header
LONGEST_HEADER = 256 << 20
_BLOCK = 1 << 20


def check(path: Path, kind: str) -> Facts:
    """Facts about `path` as a file of `kind` (see KINDS). Raises InvalidError, OSError, or ValueError: unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; known are {', '.join(sorted(KINDS))}")
    if not path.is_file() or path.is_symlink():
        raise InvalidError("There is no such file." if not path.exists() else "It is not a regular file.")
    return KINDS[kind](path)


def kind_of(path: Path) -> str:
    """What a checkpoint with this name must be: "torch" or "safetensors"."""
    return "safetensors" if path.suffix == ".safetensors" else "torch"


# -- checkpoints


def _torch(path: Path) -> Facts:
    facts, pickle = archive(path)
    allowed_pickle(pickle)
    return facts


def _torch_archive(path: Path) -> Facts:
    """Whole, whatever its pickle names: what only its own trainer reads again, such as an optimiser's state."""
    return archive(path)[0]


def archive(file: Path | IO[bytes]) -> tuple[Facts, bytes]:
    """Facts about a whole zip archive of torch.save, and its pickle. Raises InvalidError."""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(file) as found:
            entries = found.infolist()
            names = [e.filename for e in entries]
            if len(set(names)) != len(names):
                raise InvalidError("The zip archive names a member twice.")
            if any(e.compress_type != zipfile.ZIP_STORED for e in entries):
                raise InvalidError("The zip archive has compressed members; torch.save writes none.")
            pickles = [e for e in entries if e.filename.endswith("/data.pkl") and e.filename.count("/") == 1]
            if len(pickles) != 1:
                raise InvalidError("The zip archive holds no data.pkl, so torch.save did not write it.")
            if pickles[0].file_size > LONGEST_HEADER:
                raise InvalidError("data.pkl is larger than any state dict's.")
            for entry in entries:
                # reading a member to its end compares its CRC
                with found.open(entry) as member:
                    while member.read(_BLOCK):
                        pass
            pickle = found.read(pickles[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, RuntimeError) as error:
        raise InvalidError(f"It is not a whole zip archive of torch.save ({error}).", unfinished=True) from error
    prefix = pickles[0].filename.removesuffix("data.pkl") + "data/"
    return {"format": "torch", "storages": sum(n.startswith(prefix) for n in names)}, pickle


def plain_values(content: bytes) -> Iterator[str | int]:
    """The strings and integers that a pickle pushes, in order. Nothing is run. Raises InvalidError: no pickle."""
    import pickletools

    memo: dict[int, str | int | None] = {}
    top: str | int | None = None
    try:
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name == "MEMOIZE":
                memo[len(memo)] = top
            elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[int(argument or 0)] = top
            elif name not in ("PROTO", "FRAME"):
                known = name in ("GET", "BINGET", "LONG_BINGET")
                top = memo.get(int(argument or 0)) if known else argument if _is_plain(name, argument) else None
                if top is not None:
                    yield top
    except Exception as error:
        raise InvalidError(f"It is not a whole pickle ({error}).", unfinished=True) from error


def _is_plain(opcode: str, argument: Any) -> bool:
    return ("UNICODE" in opcode and isinstance(argument, str)) or (
        opcode.startswith(("BININT", "INT", "LONG")) and isinstance(argument, int)
    )


def allowed_pickle(content: bytes) -> None:
    """Raises InvalidError when the pickle names anything but what a plain state dict needs, or is not a pickle."""
    import pickletools

    # strings in the order they were pushed; a STACK_GLOBAL takes the last two
    strings: list[str | None] = []
    memo: dict[int, str | None] = {}
    top: str | None = None
    try:
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name == "GLOBAL":
                module, _, attribute = str(argument).partition(" ")
                _allow(module, attribute)
                top = None
            elif name == "STACK_GLOBAL":
                if len(strings) < 2 or strings[-1] is None or strings[-2] is None:
                    raise InvalidError("Its pickle names a global that cannot be told before it is run.")
                _allow(strings[-2], strings[-1])
                top = None
            elif name in ("INST", "OBJ", "EXT1", "EXT2", "EXT4", "PERSID", "NEXT_BUFFER", "READONLY_BUFFER"):
                raise InvalidError(f"Its pickle uses {name}, which no state dict needs.")
            elif name == "MEMOIZE":
                memo[len(memo)] = top
            elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[int(argument or 0)] = top
            elif name in ("GET", "BINGET", "LONG_BINGET"):
                top = memo.get(int(argument or 0))
                strings.append(top)
            elif name not in ("PROTO", "FRAME"):
                top = argument if isinstance(argument, str) and "UNICODE" in name else None
                strings.append(top)
    except InvalidError:
        raise
    except Exception as error:
        raise InvalidError(f"data.pkl is not a pickle ({error}).") from error


def _allow(module: str, attribute: str) -> None:
    if attribute not in _ALLOWED.get(module, ()):
        raise InvalidError(f"Its pickle names {module}.{attribute}, which a plain state dict does not need.")


_SIZES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("I32", "U32", "F32"), 4),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 8),
}


def _safetensors(path: Path) -> Facts:
    total = path.stat().st_size
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
        spans = []
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            begin, end = tensor["data_offsets"]
            size = _SIZES.get(tensor["dtype"])
            if size is not None and math.prod(tensor["shape"]) * size != end - begin:
                raise InvalidError(f"Tensor {name} takes {end - begin} bytes, which its shape and type do not.")
            spans.append((begin, end))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidError("Its header is not that of a safetensors file.", unfinished=True) from error
    at = 0
    for begin, end in sorted(spans):
        if begin != at or end < begin:
            raise InvalidError("Its tensors overlap or leave a gap.")
        at = end
    if total != 8 + length + at:
        raise InvalidError(
            f"It has {total} bytes; its header tells of {8 + length + at}.", unfinished=total < 8 + length + at
        )
    return {"format": "safetensors", "tensors": len(spans)}


# -- outputs


def _image(path: Path) -> Facts:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            image.load()
            return {"format": image.format, "width": image.width, "height": image.height}
    except UnidentifiedImageError as error:
        raise InvalidError("It is not an image.") from error
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidError(f"The image cannot be decoded to its end ({error}).", unfinished=True) from error


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _json(path: Path) -> Facts:
    try:
        value = json.loads(path.read_bytes(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"It is not JSON ({error}).") from error
    return {"type": type(value).__name__}


def _file(path: Path) -> Facts:
    if path.stat().st_size == 0:
        raise InvalidError("It is empty.", unfinished=True)
    return {}


def _any(path: Path) -> Facts:
    return {}


# -- archives


def _tar(path: Path) -> Facts:
    import tarfile

    members = 0
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                members += 1
                content = archive.extractfile(member) if member.isreg() else None
                if content and _length(content) != member.size:
                    raise InvalidError(f"Member {member.name} is cut off.", unfinished=True)
            _whole_tar(path, archive.offset)
    except tarfile.TarError as error:
        raise InvalidError(f"It is not a whole tar archive ({error}).", unfinished=True) from error
    return {"members": members}


def _pack(path: Path) -> Facts:
    """A tar whose members are regular files, each named by the SHA-256 of its content."""
    import hashlib
    import tarfile

    contents: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise InvalidError(f"Member {member.name} is not a regular file.")
                digest = hashlib.sha256()
                size = _length(content, digest.update)
                if size != member.size or digest.hexdigest() != member.name:
                    raise InvalidError(f"Member {member.name} has other bytes than its name says.")
                contents[member.name] = (member.offset_data, member.size)
            _whole_tar(path, archive.offset)
    except tarfile.TarError as error:
        raise InvalidError(f"It is not a whole tar archive ({error}).", unfinished=True) from error
    return {"contents": contents}


def _whole_tar(path: Path, end: int) -> None:
    """A tar ends with zero blocks; without them its tail may be missing."""
    with open(path, "rb") as file:
        file.seek(end)
        tail = file.read(_BLOCK)
    if len(tail) < 512 or tail.strip(b"\0"):
        raise InvalidError("The tar archive has no end.", unfinished=True)


def _length(content: IO[bytes], each: Callable[[bytes], object] = lambda block: None) -> int:
    size = 0
    while block := content.read(_BLOCK):
        each(block)
        size += len(block)
    return size


#: kind -> its check. "file": not empty; "any": whatever it holds
KINDS: dict[str, Callable[[Path], Facts]] = {
    "torch": _torch,
    "torch_archive": _torch_archive,
    "safetensors": _safetensors,
    "image": _image,
    "json": _json,
    "tar": _tar,
    "pack": _pack,
    "file": _file,
    "any": _any,
}


def inside(name: str) -> bool:
    """Whether a name from outside is a plain relative path: no "..", not absolute, no empty or NUL parts."""
    parts = name.split("/")
    return bool(name) and "\0" not in name and not os.path.isabs(name) and all(p not in ("", ".", "..") for p in parts)
