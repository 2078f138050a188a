"""Outputs from before: where they lie, and which rule of the evaluation each is held to."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import advice, unknown

WORDS = ("checkpoint", "case", "repeat")


def check(layout: Mapping[str, str], rules: Sequence[Mapping[str, Any]], *, case: bool, repeat: bool) -> None:
    """Raises UsageError for a layout that no file can be found by, or that leaves an output out.

    case, repeat: whether there are several of them, so that a place must say which one it is of.
    """
    for name, place in layout.items():
        words = _words(name, place)
        if case and not {"case", "repeat"} & words:
            raise UsageError(f"layout.{name}: {place!r} is the same for every case.", "Put {case} in.")
        if repeat and "repeat" not in words:
            raise UsageError(f"layout.{name}: {place!r} is the same for every repeat.", "Put {repeat} in.")
        if place.startswith("/") or ".." in PurePosixPath(place).parts:
            raise UsageError(f"layout.{name}: {place!r} is not below the folder.", "Write it from the folder on.")
        stars = [text.rpartition("/")[2].count("*") for text in (name, place)]
        if stars != [name.count("*"), place.count("*")] or stars[0] != stars[1] or stars[0] > 1:
            raise UsageError(
                f"layout.{name}: the stars in it do not fit.", "Put one in the last part of both, or none."
            )
        known = [str(rule["name"]) for rule in rules]
        if not any(fnmatchcase(name, rule) for rule in known):
            raise UsageError(f"layout: {name!r} is no output of the evaluation.", advice(name, known))
    for rule in rules:
        if not any(fnmatchcase(name, rule["name"]) for name in layout):
            raise UsageError(f"layout: it does not say where {rule['name']} lies.", "Add it.")


def _words(name: str, place: str) -> set[str]:
    try:
        parsed = list(string.Formatter().parse(place))
    except ValueError as error:
        raise UsageError(f"layout.{name}: {place!r} cannot be read ({error}).", "Close each brace.") from error
    found = {word for _, word, _, _ in parsed if word is not None}
    for word in found:
        if word not in WORDS:
            raise unknown("word", word, WORDS, f"layout.{name}")
    if any(form or how for _, word, form, how in parsed if word is not None):
        raise UsageError(f"layout.{name}: {place!r} formats a word.", "Write the word alone.")
    return found


def names(row: str, checkpoint: str) -> list[str]:
    """What a checkpoint may be called in the names of files, the likeliest first."""
    return list(dict.fromkeys([row, checkpoint, PurePosixPath(checkpoint).stem, PurePosixPath(row).name]))


def outputs(rules: Sequence[Mapping[str, Any]], found: Sequence[str]) -> list[dict[str, Any]]:
    """Each found file with the first rule that its name fits. Raises ValueError: a sentence of what is missing."""
    taken: dict[str, dict[str, Any]] = {}
    for rule in rules:
        fits = [name for name in found if fnmatchcase(name, rule["name"])]
        low, high = count(rule)
        if not low <= len(fits) <= high:
            asked = f", not {rule['count']}" if rule.get("count") else ""
            what = f"{len(fits)} files are" if "*" in rule["name"] else "There is no"
            raise ValueError(f"{what} {rule['name']}{asked}.")
        for name in fits:
            taken.setdefault(name, {**rule, "name": name})
    return list(taken.values())


def count(rule: Mapping[str, Any]) -> tuple[int, float]:
    """Least and most files that a rule stands for."""
    asked = rule.get("count")
    if asked is None:
        return 1, math.inf if "*" in rule["name"] else 1
    low, dots, high = str(asked).partition("..")
    return int(low), (float(high) if high else math.inf) if dots else int(low)


def numbers(raw: Any) -> dict[str, float]:
    """The finite numbers of a JSON object."""
    given = raw.items() if isinstance(raw, dict) else ()
    return {
        str(name): value
        for name, value in given
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }
