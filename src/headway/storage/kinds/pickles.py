"""Pickles, read opcode by opcode and never unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headway.storage.kinds.base import InvalidError

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
