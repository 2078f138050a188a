"""JSON, against a schema if there is one, and CSV."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from headway.storage.kinds.base import Facts, InvalidError, Rule, read_whole

#: characters of one field of a CSV file
_LONGEST_FIELD = 64 << 20


def json_file(path: Path, rule: Rule) -> Facts:
    try:
        value = json.loads(read_whole(path), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"It is not JSON ({error}).") from error
    schema = rule.get("schema")
    if schema is not None:
        _meets(value, schema)
    return {"type": type(value).__name__}


def check_schema(schema: Any) -> None:
    """Raises ValueError with one sentence when `schema` is not a JSON schema."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        _validator_class(validator_for, schema).check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"{_at(error)}{error.message} in the schema.") from error


def _meets(value: Any, schema: Any) -> None:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        fault = best_match(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value))
    except Unresolvable as error:
        raise InvalidError(f"Its schema refers to {error.ref}, which is not in it.") from error
    except RecursionError as error:
        raise InvalidError("It is too deep to be compared with its schema.") from error
    if fault is not None:
        message = fault.message if len(fault.message) < 300 else f"{fault.message[:300]}..."
        raise InvalidError(f"It does not meet its schema: {_at(fault)}{message}.")


@functools.lru_cache(maxsize=32)
def _validator(schema: str) -> Any:
    from jsonschema.validators import validator_for
    from referencing import Registry

    found = json.loads(schema)
    # with a registry of its own nothing is ever fetched from a network
    return _validator_class(validator_for, found)(found, registry=Registry())


def _validator_class(validator_for: Any, schema: Any) -> Any:
    from jsonschema import Draft202012Validator

    return validator_for(schema, default=Draft202012Validator)


def _at(fault: Any) -> str:
    place = fault.json_path.removeprefix("$").removeprefix(".")
    return f"{place}: " if place else ""


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def csv_file(path: Path, rule: Rule) -> Facts:
    """A header and rows of as many fields, in UTF-8; tabs part the fields of a .tsv file, commas those of others."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    rows = 0
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_no_nul(file), delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
            columns = next(reader, None)
            if not columns:
                raise InvalidError("It has no header.", unfinished=True)
            for row in reader:
                # a blank line at the end is no row
                if row and len(row) != len(columns):
                    raise InvalidError(
                        f"Line {reader.line_num} has {len(row)} fields; the header has {len(columns)}.",
                        unfinished=len(row) < len(columns),
                    )
                rows += bool(row)
    except csv.Error as error:
        raise InvalidError(f"It is not a whole CSV file ({error}).", unfinished=True) from error
    except UnicodeDecodeError as error:
        raise InvalidError(f"It is not UTF-8 ({error.reason} at byte {error.start}).") from error
    missing = [c for c in rule.get("columns") or () if c not in columns]
    if missing:
        raise InvalidError(f"It has no column {missing[0]!r}; its columns are {', '.join(columns[:20])}.")
    return {"format": "csv", "rows": rows, "columns": columns[:100]}


def _no_nul(file: IO[str]) -> Iterator[str]:
    for line in file:
        if "\0" in line:
            raise csv.Error("it holds NUL bytes, as a file has whose end was never written")
        yield line
