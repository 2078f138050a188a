"""Commands as people write them: one text, with places for parameters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import unknown

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def fill(command: str, parameters: Mapping[str, Any], where: str = "command") -> list[str]:
    """The words of `command` with `{name}` filled in. Raises UsageError for a name that is no parameter."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in parameters:
            raise unknown("parameter", match[1], parameters, where)
        return str(parameters[match[1]])

    return [_PLACEHOLDER.sub(value, word) for word in split(command, where)]


def fill_words(words: Sequence[str], parameters: Mapping[str, Any]) -> list[str]:
    """`words` with `{name}` filled in where that is a parameter; other braces are the words' own."""
    return [_PLACEHOLDER.sub(lambda m: str(parameters.get(m[1], m[0])), word) for word in words]


def split(command: str, where: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{where} {command!r} cannot be read: {error}.", "Close its quotes.") from None
    if not words:
        raise UsageError(f"{where} is empty.", "Write a program and its arguments.")
    return words
