"""What all wire models share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from headway.errors import UsageError

#: what a column of whole numbers holds
_LARGEST = 2**63 - 1
#: how deep lists and mappings may lie in each other; JSON is not written much deeper by what answers with it
_DEEPEST = 64


class Request(BaseModel):
    """Asked of the API: an unknown key is an error, and so is a value that no record can give back as it was."""

    model_config = ConfigDict(extra="forbid")
    #: whether each value is bounded by its own type, so that nothing is left to be looked for: it takes long in many
    bounded: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _keepable(cls, given: Any) -> Any:
        """Raises UsageError; one such value in a record would make every listing with it fail."""
        if not cls.bounded:
            _check(given, "")
        return given


class Bounded(Request):
    """A request with many values."""

    bounded = True


def _check(value: Any, where: str, depth: int = 0) -> None:
    if _is_plain(value):
        return
    if depth > _DEEPEST:
        raise UsageError(f"{where[:80]} is nested more than {_DEEPEST} deep.", "Make it flatter.")
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, (int, float)):
        _check_number(value, where)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check(key, where, depth)
            if not _is_plain(inner):
                _check(inner, f"{where}.{key}" if where else str(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check(inner, where, depth + 1)


def _check_number(value: float, where: str) -> None:
    if isinstance(value, int):
        if abs(value) > _LARGEST:
            raise UsageError(f"{where or 'The number'} is too large.", "Give a smaller number.")
    elif not math.isfinite(value):
        raise UsageError(f"{where or 'The number'} is {value}.", "Give a finite number.")


def _is_plain(value: Any) -> bool:
    """Whether it can be kept for sure: what nearly all of a hundred thousand cases is made of, told quickly."""
    kind = type(value)
    if kind is str:
        return "\0" not in value and value.isascii()
    return -_LARGEST <= value <= _LARGEST if kind is int else value is None or kind is bool


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise UsageError(f"{where or 'The text'}: {text[:80]!r} holds a zero byte.", "Take it out.")
    # half of a surrogate pair, which JSON can name, is nothing that can be written anywhere
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"{where or 'The text'}: {text[:80]!a} is not Unicode text.", "Correct that value.")


def keys_at(model: Any, path: Sequence[Any]) -> list[str]:
    """The keys that `model` knows at `path` (keys and list positions); empty when that cannot be told."""
    for part in path:
        if isinstance(part, int):
            continue
        outer = _model_of(model)
        field = outer.model_fields.get(str(part)) if outer else None
        model = field.annotation if field else None
    found = _model_of(model)
    return list(found.model_fields) if found else []


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model in `M`, `list[M]`, `dict[str, M]` or `M | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        if found := _model_of(inner):
            return found
    return None


class Answer(BaseModel):
    """Given by the API: a client ignores keys that a newer server has added."""

    # a loss may be NaN: as text it comes back as what it was, where null would be no number
    model_config = ConfigDict(extra="ignore", from_attributes=True, ser_json_inf_nan="strings")


class ErrorBody(Answer):
    code: str
    message: str
    remedy: str = ""


class Problem(Answer):
    """The one shape of an error."""

    error: ErrorBody
