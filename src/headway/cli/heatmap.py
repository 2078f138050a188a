"""Checkpoints down, cases across, a colour for every score; plain numbers off a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headway.cli import common

if TYPE_CHECKING:
    from rich.text import Text

#: what stands for a cell without a score
_SIGNS = {"valid": "ok", "invalid": "x", "running": "..", "waiting": ""}
#: what is called otherwise than in a drawing
_CALLED = {"untried": "not tried", "unfinished": "not finished"}
# viridis: its lightness rises evenly, so that it reads the same with any kind of colour blindness
_COLOURS = [(68, 1, 84), (65, 68, 135), (42, 120, 142), (34, 168, 132), (122, 209, 81), (253, 231, 37)]
_NAME, _WIDE, _NARROW = 24, 5, 2


def show(drawing: Mapping[str, Any], score: str | None) -> None:
    """Prints the cells of a drawing (`headway.report.view.build`) by this score; without one their states."""
    if not drawing["cells"]:
        return
    if sys.stdout.isatty():
        _coloured(drawing, score, in_colour="NO_COLOR" not in os.environ)
    else:
        _plain(drawing, score)


def _plain(drawing: Mapping[str, Any], score: str | None) -> None:
    cells = _places(drawing)
    names = [_column(drawing, column) for column in drawing["columns"]]
    rows = []
    for at, row in enumerate(drawing["rows"]):
        found = [cells.get((at, column)) for column in range(len(names))]
        mean = [_mean(drawing, score, at)] if score else []
        rows.append([row["name"], *mean, *(_words(drawing, cell, score) for cell in found)])
    common.print_table(["checkpoint", *(["mean"] if score else []), *names], rows, names=True)


def _coloured(drawing: Mapping[str, Any], score: str | None, *, in_colour: bool) -> None:
    """As many cases as the window holds; without colour each one has its number."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    cells = _places(drawing)
    name = min(_NAME, max(len(row["name"]) for row in drawing["rows"]))
    room = console.width - name - 10
    columns = list(range(len(drawing["columns"])))
    wide = not in_colour or len(columns) * _WIDE <= room
    size = _WIDE if wide else _NARROW
    shown = columns[: max(1, room // size)]
    best = drawing["stats"][score]["best"] if score else None
    head = Text(" " * (name + 2) + ("   mean " if score else " "), style="dim")
    if wide:
        head.append("".join(f"{n + 1:^{size}}" for n in shown))
    console.print(head)
    for at, row in enumerate(drawing["rows"]):
        is_best = best is not None and best["row"] == at
        line = Text(f"{'*' if is_best else ' '} {_cut(row['name'], name):<{name}}", style="bold" if is_best else "")
        line.append(f"{_mean(drawing, score, at):>7} " if score else " ")
        for column in shown:
            line.append_text(_tile(drawing, cells.get((at, column)), score, size))
        console.print(line, no_wrap=True, overflow="crop")
    _legend(console, drawing, score, shown, (wide, in_colour))


def _legend(
    console: Any, drawing: Mapping[str, Any], score: str | None, shown: list[int], looks: tuple[bool, bool]
) -> None:
    """looks: whether cases have numbers, and cells colours."""
    wide, in_colour = looks
    if wide:
        names = [_column(drawing, drawing["columns"][n]) for n in shown]
        console.print("  ".join(f"{n}={name}" for n, name in enumerate(names, 1)), style="dim")
    if len(shown) < len(drawing["columns"]):
        console.print(
            f"the first {len(shown)} of {len(drawing['columns'])} cases; a wider window shows more", style="dim"
        )
    found = drawing["stats"][score]["range"] if score else None
    if found and in_colour:
        worst, best = found[:2] if drawing["better"][score] == "higher" else (found[1], found[0])
        console.print(f"{score} from {worst:.4g} (dark, worst) to {best:.4g} (bright, best)", style="dim")


def _tile(drawing: Mapping[str, Any], cell: Any, score: str | None, size: int) -> Text:
    from rich.text import Text

    state = cell[3] if cell else ""
    value = _value(drawing, cell, score)
    if value is None:
        style = {"invalid": "bold red", "running": "cyan", "valid": "green"}.get(state, "dim")
        sign = _SIGNS.get(state, "") or "·"
        return Text(f"{sign[: size - 1]:^{size}}", style=style)
    low, high = drawing["stats"][score]["range"][:2]
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 1.0
    red, green, blue = _colour(share if drawing["better"][score] == "higher" or high <= low else 1 - share)
    ink = "rgb(0,0,0)" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 110 else "rgb(255,255,255)"
    number = (f"{value * 100:.0f}" if low >= 0 and high <= 1 else f"{value:.3g}") if size == _WIDE else ""
    return Text(f"{number:^{size}}"[:size], style=f"{ink} on rgb({red},{green},{blue})")


def _colour(share: float) -> tuple[int, int, int]:
    place = share * (len(_COLOURS) - 1)
    low = min(int(place), len(_COLOURS) - 2)
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(_COLOURS[low], _COLOURS[low + 1], strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _places(drawing: Mapping[str, Any]) -> dict[tuple[int, int], Any]:
    return {(cell[0], cell[1]): cell for cell in drawing["cells"]}


def _value(drawing: Mapping[str, Any], cell: Any, score: str | None) -> float | None:
    if cell is None or score is None or cell[3] != "valid":
        return None
    value: float | None = cell[4][drawing["scores"].index(score)]
    return value


def _words(drawing: Mapping[str, Any], cell: Any, score: str | None) -> str:
    value = _value(drawing, cell, score)
    return f"{value:.3f}" if value is not None else "-" if cell is None else _CALLED.get(cell[3], cell[3])


def _mean(drawing: Mapping[str, Any], score: str | None, row: int) -> str:
    found = drawing["stats"][score]["rows"][row] if score else None
    return "-" if found is None else f"{found[0]:.3f}" if abs(found[0]) < 1000 else f"{found[0]:.3g}"


def _column(drawing: Mapping[str, Any], column: Mapping[str, Any]) -> str:
    repeated = any(c["repeat"] for c in drawing["columns"])
    return f"{column['case']}@{column['repeat']}" if repeated else str(column["case"])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
