"""Cases as people write them: lists in YAML or JSON, a line each in JSONL, a row each in CSV. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import unknown

KEYS = ("id", "inputs", "parameters", "expected", "tags")


def parse_cases(raw: Any, file: str) -> list[dict[str, Any]]:
    """Cases of a loaded file: a list, or `{cases: [...]}`; each `{id, ...}` with `KEYS`, or just an id.

    Raises UsageError for a case without an id, an id twice, or an unknown key.
    """
    if isinstance(raw, dict):
        for key in raw:
            if key != "cases":
                raise unknown("key", str(key), ("cases",), file)
        raw = raw.get("cases")
    if not isinstance(raw, list) or not raw:
        raise UsageError(f"{file} holds no cases.", "Write a list of {id: NAME, parameters: {...}}.")
    places = [f"cases[{number}]" for number in range(len(raw))]
    return distinct([(where, _case(item, where, file)) for where, item in zip(places, raw, strict=True)], file)


def parse_lines(text: str, file: str) -> list[dict[str, Any]]:
    """Cases of a JSONL file: a case a line, empty lines aside. Raises UsageError."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                item = json.loads(line)
            except ValueError as error:
                raise UsageError(f"{file}: line {number} is not JSON: {error}.", "Correct that line.") from None
            found.append((f"line {number}", _case(item, f"line {number}", file)))
    if not found:
        raise UsageError(f"{file} holds no cases.", 'Write lines like {"id": "a", "inputs": {"prompt": "..."}}.')
    return distinct(found, file)


def parse_table(text: str, file: str) -> list[dict[str, Any]]:
    """Cases of a CSV file with a line of names: `id`, `expected`, `tags` (split at spaces), `parameters.NAME`; every
    other column is an input of its name. Values that read as JSON are that, the rest is text. Raises UsageError.
    """
    rows = csv.DictReader(io.StringIO(text))
    rows.fieldnames = names = [name.strip() for name in rows.fieldnames or []]
    if "id" not in names:
        known = f"its columns are {', '.join(map(repr, names))}" if names else "it is empty"
        raise UsageError(
            f"{file} has no column id: {known}.", "Name them in the first line, with commas between, one of them id."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{file} has two columns {twice[0]!r}.", "Give each a name of its own.")
    found = []
    for row in rows:
        where = f"line {rows.line_num}"
        if None in row or None in row.values():
            raise UsageError(f"{file}: {where} has other columns than the first line.", "Correct that line.")
        found.append((where, _row(row)))
    if not found:
        raise UsageError(f"{file} holds no cases.", "Write one a line under the names.")
    return distinct(found, file)


def _row(row: dict[str, str]) -> dict[str, Any]:
    case: dict[str, Any] = {"id": row["id"], "inputs": {}, "parameters": {}, "tags": []}
    for name, text in row.items():
        if name == "tags":
            case["tags"] = text.split()
        elif name == "expected":
            case["expected"] = _value(text) if text else None
        elif name != "id" and text:
            part, dot, below = name.partition(".")
            place = part if dot and part in ("inputs", "parameters") else "inputs"
            case[place][below if dot and part == place else name] = _value(text)
    return {k: v for k, v in case.items() if v is not None}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def distinct(cases: Iterable[tuple[str, dict[str, Any]]], file: str) -> list[dict[str, Any]]:
    """(where, case) -> cases. Raises UsageError for an id twice."""
    found: dict[str, dict[str, Any]] = {}
    for where, case in cases:
        if case["id"] in found:
            raise UsageError(f"{file}: {where}.id is {case['id']!r}, as an earlier case's.", "Give each its own id.")
        found[case["id"]] = case
    return list(found.values())


def _case(item: Any, where: str, file: str) -> dict[str, Any]:
    raw = {"id": item} if isinstance(item, str | int) and not isinstance(item, bool) else item
    if not isinstance(raw, dict):
        raise UsageError(f"{file}: {where} is a {type(raw).__name__}, not keys with values.", "Write {id: NAME, ...}.")
    for key in raw:
        if key not in KEYS:
            raise unknown("key", f"{where}.{key}", [f"{where}.{known}" for known in KEYS], file)
    if raw.get("id") in (None, ""):
        raise UsageError(f"{file}: {where} has no id.", f"Add {where}.id.", code="missing_key")
    # an id of digits alone is a number in YAML
    case: dict[str, Any] = {"id": str(raw["id"])}
    for name in ("inputs", "parameters"):
        value = raw.get(name) or {}
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise UsageError(f"{file}: {where}.{name} is {value!r}.", "It should be keys with values.")
        case[name] = value
    tags = raw.get("tags") or []
    tags = [tags] if isinstance(tags, str) else tags
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError(f"{file}: {where}.tags is {tags!r}.", "It should be text, or a list of texts.")
    case["tags"] = tags
    if raw.get("expected") is not None:
        case["expected"] = raw["expected"]
    return case
