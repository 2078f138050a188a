"""What all commands share: the client, tables, JSON, the words for states."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from headway.client import Client

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

#: set by the options before the command
chosen: dict[str, str | None] = {"project": None, "url": None}

_COLOURS = {
    "succeeded": "32",
    "ready": "32",
    "valid": "32",
    "running": "36",
    "starting": "36",
    "stopping": "33",
    "paused": "33",
    "queued": "34",
    "held": "35",
    "failed": "31",
    "invalid": "31",
    "stopped": "90",
}


def client(*, patience: float = 4.0) -> Client:
    """A client for the chosen server and project. Raises UnauthorizedError when there is no token."""
    from headway.client import Client

    return Client(chosen["url"], project=chosen["project"] or "default", patience=patience)


def group(help: str) -> typer.Typer:
    """A typer for the commands of one word."""
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def to_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    return value


def print_json(value: Any) -> None:
    """`value` (models, lists, plain data) as indented JSON."""
    print(json.dumps(to_json(value), ensure_ascii=False, indent=2, default=str))


def print_listing(
    items: Sequence[BaseModel], columns: Sequence[str], rows: Iterable[Sequence[object]], as_json: bool, empty: str
) -> None:
    """A listing: JSON, a table, or what to do when there is nothing."""
    if as_json:
        print_json(list(items))
    elif not items:
        print(empty)
    else:
        print_table(columns, rows)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, names: bool = False) -> None:
    """Aligned columns; numbers to the right; states coloured on a terminal; nothing is cut off.

    names: the columns are names of the user's, which are not put into capitals.
    """
    table = [[_text(v) for v in row] for row in rows]
    widths = [max([_width(c), *(_width(r[i]) for r in table)]) for i, c in enumerate(columns)]
    right = [bool(table) and all(_is_number(r[i]) for r in table) for i in range(len(columns))]
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for number, row in enumerate([[c if names else c.upper() for c in columns], *table]):
        cells = []
        for i, text in enumerate(row):
            gap = " " * (widths[i] - _width(text))
            last = i == len(row) - 1
            if number and colour and text in _COLOURS:
                text = f"\033[{_COLOURS[text]}m{text}\033[0m"
            cells.append(gap + text if right[i] else text if last else text + gap)
        print("  ".join(cells).rstrip())


def print_fields(fields: dict[str, object]) -> None:
    """Name and value, one a line; empty values are left out."""
    shown = {k: _text(v) for k, v in fields.items() if v not in (None, "", [], {})}
    width = max((len(k) for k in shown), default=0)
    for key, value in shown.items():
        print(f"{key:<{width}}  {value}")


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    # what others named their runs must neither break a table nor command the terminal
    return "".join(c if c.isprintable() or c in "\u3000" else repr(c)[1:-1] for c in str(value))


def cell_word(state: str, evaluation: str, tries: int = 0) -> str:
    """What a cell's state is called. evaluation: its evaluation's; where that has ended, nothing waits any more."""
    if state != "waiting" or evaluation not in ("failed", "stopped"):
        return state
    return "not finished" if tries else "not tried"


#: causes of which the run log says nothing, or not what counts
_TOLD_BY_DIAG = ("not_started", "prepare_failed", "hang", "runner_lost", "node_lost")


def logs_of(run: int, cause: str | None) -> str:
    """The command that shows why a run ended."""
    return f"headway logs {run}{' --kind diag' if cause in _TOLD_BY_DIAG else ''}"


def plain(value: object) -> str:
    """A value on one line: texts as they are, others as JSON."""
    return _text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace(",", "").isdigit()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def ago(when: datetime | None) -> str:
    """`3m ago`."""
    if when is None:
        return "-"
    seconds = max(0, int((datetime.now(timezone.utc) - when).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return f"{seconds}s ago"


def took(start: datetime | None, end: datetime | None) -> str:
    """From start to end (or until now) as `1m20s`."""
    from headway.rules.units import render_duration

    if start is None:
        return "-"
    return render_duration(((end or datetime.now(timezone.utc)) - start).total_seconds())


def next_step(*lines: str) -> None:
    """What to type next."""
    for index, line in enumerate(lines):
        print(f"{'next:' if not index else '     '} {line}")


def pairs(values: list[str], option: str) -> dict[str, str]:
    """`["a=1"]` -> `{"a": "1"}`. Raises UsageError naming the option."""
    found = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {value!r} is no NAME=VALUE.", f"Write it like {option} epochs=25.")
        found[key] = text
    return found


def scalar(text: str) -> Any:
    """A value as YAML would read it: numbers, booleans, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
