"""Cases as people write them: lists in YAML or JSON, a line each in JSONL, a row each in CSV. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import unknown

KEYS = ("id", "inputs", "parameters", "expected", "tags")
#: where something stands, as an error names it: "cases.yaml, line 3". Made only when there is an error.
Place = Callable[[], str]
Placed = tuple[Place, dict[str, Any]]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ID_RULE = "up to 100 letters, digits, '.', '_' and '-', the first a letter or digit"


def parse_cases(raw: Any, file: str) -> list[dict[str, Any]]:
    """Cases that are listed in something else, such as a flow. Raises UsageError as `from_list` and `distinct` do."""
    return distinct(from_list(raw, file, lambda number, key: f"{file}[{number}]"))


def from_list(raw: Any, file: str, place: Callable[[int, str], str]) -> list[Placed]:
    """Cases of a loaded file: a list, or `{cases: [...]}`; each `{id, ...}` with `KEYS`, or just an id.

    place: where a case stands, by its number, or a key of it ("": the case). Raises UsageError for a case without an
    id, one of another type, or an unknown key.
    """
    if isinstance(raw, dict):
        for key in raw:
            if key != "cases":
                raise unknown("key", str(key), ("cases",), file)
        raw = raw.get("cases")
    if not isinstance(raw, list) or not raw:
        raise UsageError(f"{file} holds no cases.", "Write a list of {id: NAME, parameters: {...}}.")
    return [(partial(place, number, "id"), _case(item, partial(place, number))) for number, item in enumerate(raw)]


def from_lines(text: str, file: str) -> list[Placed]:
    """Cases of a JSONL file: a case a line, empty lines aside. Raises UsageError."""
    found: list[Placed] = []
    # not splitlines: a string of JSON may hold other ends of lines than \n
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{file}, line {number}"
            try:
                item = json.loads(line)
            except json.JSONDecodeError as error:
                words = f"{error.msg} at its character {error.pos + 1}"
                raise UsageError(f"{where} is not JSON: {words}.", "Correct that line.") from None
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{where} is not JSON: {error}.", "Correct that line.") from None
            found.append((partial(_same, where), _case(item, partial(_same, where))))
    if not found:
        raise UsageError(f"{file} holds no cases.", 'Write lines like {"id": "a", "inputs": {"prompt": "..."}}.')
    return found


def from_table(text: str, file: str) -> list[Placed]:
    """Cases of a CSV file with a line of names: `id`, `expected`, `tags` (split at spaces), `parameters.NAME`; every
    other column is an input of its name. Values that read as JSON are that, the rest is text. Raises UsageError.
    """
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows.fieldnames = names = [name.strip() for name in rows.fieldnames or []]
    if "id" not in names:
        known = f"its columns are {', '.join(map(repr, names))}" if names else "it is empty"
        raise UsageError(
            f"{file} has no column id: {known}.", "Name them in the first line, with commas between, one of them id."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{file} has two columns {twice[0]!r}.", "Give each a name of its own.")
    found: list[Placed] = []
    for number, row in _rows(rows, file):
        where = f"{file}, line {number}"
        if None in row or None in row.values():
            raise UsageError(f"{where} has other columns than the first line.", "Correct that line.")
        found.append((partial(_same, where), _case(_row(row), partial(_same, where))))
    if not found:
        raise UsageError(f"{file} holds no cases.", "Write one a line under the names.")
    return found


def _rows(rows: csv.DictReader[str], file: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row with the line that it begins in."""
    while True:
        begins = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise UsageError(f"{file}, line {begins} is not CSV: {error}.", "Correct its quotes and commas.") from None
        yield begins, row


def _row(row: dict[str, str]) -> dict[str, Any]:
    case: dict[str, Any] = {"id": row["id"].strip(), "inputs": {}, "parameters": {}, "tags": []}
    for name, text in row.items():
        if name == "tags":
            case["tags"] = text.split()
        elif name == "expected":
            case["expected"] = _value(text) if text else None
        elif name != "id" and text:
            part, dot, below = name.partition(".")
            place = part if dot and part in ("inputs", "parameters") else "inputs"
            case[place][below if dot and part == place else name] = _value(text)
    return case


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def distinct(cases: Iterable[Placed]) -> list[dict[str, Any]]:
    """The cases alone. Raises UsageError for an id twice."""
    found: dict[str, dict[str, Any]] = {}
    first: dict[str, Place] = {}
    for place, case in cases:
        if (earlier := first.setdefault(case["id"], place)) is not place:
            raise UsageError(f"{place()}: id {case['id']!r} is taken, by {earlier()}.", "Give each case its own id.")
        found[case["id"]] = case
    return list(found.values())


def _case(item: Any, place: Callable[[str], str]) -> dict[str, Any]:
    """place: where the case, or a key of it, stands."""
    raw = {"id": item} if isinstance(item, str | int) and not isinstance(item, bool) else item
    if not isinstance(raw, dict):
        raise UsageError(f"{place('')}: the case is {_kind(raw)}, not keys with values.", "Write {id: NAME, ...}.")
    for key in raw:
        if key not in KEYS:
            raise unknown("key", str(key), KEYS, place(str(key)))
    case: dict[str, Any] = {"id": _id(raw.get("id"), place)}
    for name in ("inputs", "parameters"):
        value = {} if raw.get(name) is None else raw[name]
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise UsageError(f"{place(name)}: {name} is {value!r}.", "It should be keys with values.")
        case[name] = value
    tags = raw.get("tags") or []
    tags = [tags] if isinstance(tags, str) else tags
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError(f"{place('tags')}: tags is {tags!r}.", "It should be text, or a list of texts.")
    case["tags"] = tags
    if raw.get("expected") is not None:
        case["expected"] = raw["expected"]
    for name in ("inputs", "parameters", "expected"):
        _jsonable(case.get(name), name, name, place)
    return case


def _id(given: Any, place: Callable[[str], str]) -> str:
    if given in (None, ""):
        raise UsageError(f"{place('')}: the case has no id.", "Add id: NAME.", code="missing_key")
    # an id of digits alone is a number in YAML
    text = str(given)
    if isinstance(given, dict | list) or not _ID.fullmatch(text):
        raise UsageError(f"{place('id')}: id is {given!r}.", f"It should be {_ID_RULE}.")
    return text


def _jsonable(value: Any, path: str, key: str, place: Callable[[str], str]) -> None:
    """That JSON can hold it: YAML has dates, sets, bytes and what is no finite number besides."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.__class__ not in _PLAIN:
                _jsonable(name, f"a key of {path}", key, place)
            if inner.__class__ not in _PLAIN:
                _jsonable(inner, f"{path}.{name}", key, place)
    elif isinstance(value, list):
        for inner in value:
            if inner.__class__ not in _PLAIN:
                _jsonable(inner, path, key, place)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{place(key)}: {path} is {value}.", "Give a finite number, or text in quotes.")
    elif value.__class__ not in _PLAIN:
        raise UsageError(f"{place(key)}: {path} is {_kind(value)}, {value}.", "Write it in quotes, as text.")


_PLAIN = (str, int, bool, type(None))


def _kind(value: object) -> str:
    return "empty" if value is None else f"a {type(value).__name__}"


def _same(where: str, key: str = "") -> str:
    return where
