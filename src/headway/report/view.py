"""From the api's report of an evaluation to what the browser draws: figures counted, names short, cells in rows.

`python -m headway.report.view` does it from stdin to stdout: the intervals of very many cells take seconds.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from headway import __version__
from headway.report import failures, said
from headway.rules import scores
from headway.rules.scores import Better, Estimate, Scores

#: scores of which figures are made, the main one first
MOST_SCORES = 12
#: curves that are judged and drawn
MOST_CURVES = 8
#: characters of a sentence from a failed cell
_LONGEST = 600
_EVALUATION = (
    "id", "name", "project", "state", "reason", "remedy", "cause", "path", "target", "cost", "runs", "ran", "reused",
    "pauses", "created_at", "ended_at", "policy", "follow", "jobs",
)  # fmt: skip
_STATES = ("valid", "invalid", "running", "waiting")
#: of a cell as it is drawn: in an evaluation that has ended, none waits or runs any more
STATES = (*_STATES, "unfinished", "untried")
_ENDED = ("succeeded", "failed", "stopped")
_PROVENANCE = (
    "by", "cases_sha256", "worker", "command", "check", "scorer", "snapshot", "commit", "dirty", "datasets",
    "environment", "spec", "currency",
)  # fmt: skip
_FACTS = ("width", "height", "frames", "seconds", "rate", "channels", "codec", "rows")
_SUFFIXES = {
    "video": (".mp4", ".webm", ".mov", ".mkv", ".avi", ".m4v"),
    "image": (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".avif", ".svg"),
    "audio": (".wav", ".mp3", ".flac", ".ogg", ".m4a", ".opus"),
    "text": (".json", ".jsonl", ".csv", ".txt", ".md", ".log"),
}


def build(data: Mapping[str, Any]) -> dict[str, Any]:
    """The drawing of a report: plain data for JSON.

    data: the answer of `GET .../evaluations/{id}/report`. Cells stand as [row, column, id, state, scores in
    the order of "scores", reason, cause, seconds, outputs, found]; equal reports give equal drawings.
    """
    rows, columns = list(data["rows"]), list(data["columns"])
    places = _Places(rows, columns)
    names = _score_names(data)
    evaluation, (axis, at) = data["evaluation"], _axis(rows)
    ended = evaluation["state"] in _ENDED
    cells = [_cell(cell, place, names, ended) for cell in data["cells"] if (place := places.of(cell)) is not None]
    drawn = [_row(row) for row in rows]
    counts = {state: sum(cell[3] == state for cell in cells) for state in STATES}
    curves = _curves(data.get("curves") or {}, at if axis == "epoch" else None)
    better = {name: _better(name, data) for name in names}
    return {
        "evaluation": {
            **{key: evaluation[key] for key in _EVALUATION if key in evaluation},
            "said": said.of(evaluation),
        },
        "counts": {**counts, "total": len(cells)},
        "score": names[0] if names else None,
        "scores": names,
        "better": better,
        "axis": axis,
        "apart": sorted(set(data.get("curves") or {}) - set(curves)) if axis == "epoch" else [],
        "provenance": _provenance(data.get("provenance") or {}),
        "rows": [{**row, "at": place} for row, place in zip(drawn, at, strict=True)],
        "columns": [_column(column) for column in columns],
        "cells": cells,
        "stats": {
            name: _figures(
                [(c[0], c[1], c[4][at]) for c in cells if c[3] == "valid"], better[name], rows, columns, curves
            )
            for at, name in enumerate(names)
        },
        "failures": failures.groups(cells, [row["name"] for row in drawn], [column["case"] for column in columns]),
        "curves": {name: curve for name, (curve, _) in curves.items()},
    }


def kind_of(output: Mapping[str, Any]) -> str:
    """How an output is shown: video, image, audio, text, or file (by name and size alone)."""
    kind = str(output.get("kind") or "file")
    if kind in ("video", "image", "audio"):
        return kind
    if kind in ("json", "csv"):
        return "text"
    name = str(output["name"]).lower()
    return next((known for known, suffixes in _SUFFIXES.items() if name.endswith(suffixes)), "file")


class _Places:
    """Which row and column a cell is of."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, Any]]) -> None:
        self._rows = {row["row"]: at for at, row in enumerate(rows)}
        self._columns = {(column["case"], column.get("repeat", 0)): at for at, column in enumerate(columns)}

    def of(self, cell: Mapping[str, Any]) -> tuple[int, int] | None:
        row = self._rows.get(cell.get("row") or cell.get("checkpoint"))
        column = self._columns.get((cell["case"], cell.get("repeat", 0)))
        return None if row is None or column is None else (row, column)


def _cell(cell: Mapping[str, Any], place: tuple[int, int], names: Sequence[str], ended: bool) -> list[Any]:
    found = {**(cell.get("scores") or {})}
    if names and cell.get("score") is not None:
        found[names[0]] = cell["score"]
    outputs = [_output(o) for o in cell.get("outputs") or []]
    values = [_number(found.get(name)) for name in names]
    state, reason, cause = _state(cell, ended), (cell.get("reason") or "")[:_LONGEST], cell.get("cause") or ""
    seconds, reused = _number(cell.get("seconds")), int(not cell.get("ran", 1))
    return [*place, cell["id"], state, values, reason, cause, seconds, outputs, reused]


def _state(cell: Mapping[str, Any], ended: bool) -> str:
    state = cell["state"] if cell["state"] in _STATES else "waiting"
    if ended and state in ("waiting", "running"):
        return "unfinished" if state == "running" or cell.get("tries") else "untried"
    return str(state)


def _provenance(found: Mapping[str, Any]) -> dict[str, Any]:
    """What it was made of, without what is not said, and the headway that draws it."""
    known = {key: found[key] for key in _PROVENANCE if found.get(key)}
    return {"headway": __version__, **known}


def _output(output: Mapping[str, Any]) -> dict[str, Any]:
    facts = {key: output[key] for key in _FACTS if output.get(key) is not None}
    known = {"name": output["name"], "bytes": output.get("bytes", 0), "sha": output.get("sha256", "")}
    return {**known, "as": kind_of(output), **facts}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    metrics = {k: _number(v) for k, v in (row.get("metrics") or {}).items()}
    return {
        "name": row["row"],
        **{key: row.get(key) for key in ("job", "step", "epoch", "sha256", "created_at")},
        "metrics": {k: v for k, v in metrics.items() if v is not None},
    }


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: column.get(key) for key in ("inputs", "parameters", "expected", "tags")}
    return {"case": column["case"], "repeat": column.get("repeat", 0), **{k: v for k, v in known.items() if v}}


def _score_names(data: Mapping[str, Any]) -> list[str]:
    """The main score first; only those that a cell has a number of."""
    main = data.get("score")
    names = list(dict.fromkeys([*([main] if main else []), *(data.get("scores") or [])]))
    seen: set[str] = set()
    for cell in data["cells"]:
        seen.update(name for name, value in (cell.get("scores") or {}).items() if _number(value) is not None)
        if main and _number(cell.get("score")) is not None:
            seen.add(main)
    return [name for name in names if name in seen][:MOST_SCORES]


def _better(name: str, data: Mapping[str, Any]) -> Better:
    """Of the main score what was asked for; of another what its name says, else as the main one."""
    asked: Better = "lower" if data.get("better") == "lower" else "higher"
    return asked if name == data.get("score") else scores.direction(name) or asked


def _curves(
    found: Mapping[str, Sequence[Sequence[float]]], epochs: Sequence[float | None] | None
) -> dict[str, tuple[list[list[float]], Better | None]]:
    """Losses first, then what else a name tells the direction of, then the rest.

    epochs: of the rows, when they are put on epochs: a curve that counts something else is left out.
    """
    order = {"lower": 0, "higher": 1, None: 2}
    named = sorted(found, key=lambda name: (order[scores.direction(name)], len(name), name))
    finite = {name: [[float(x), float(y)] for x, y in found[name] if _number(y) is not None] for name in named}
    last = None if epochs is None else max(place for place in epochs if place is not None) + 1
    return {
        name: (points, scores.direction(name))
        for name, points in finite.items()
        if len(points) > 1 and (last is None or points[-1][0] <= last)
    }


def _axis(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[float | None]]:
    """What rows are put on beside the training curves, and where each one is: steps, or epochs where no row has one."""
    for axis in ("step", "epoch"):
        found = [_number(row.get(axis)) for row in rows]
        if any(place is not None for place in found):
            return axis, found
    return "step", [None for _ in rows]


def _figures(
    found: Sequence[tuple[int, int, float | None]],
    better: Better,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Mapping[str, Any]],
    curves: Mapping[str, tuple[list[list[float]], Better | None]],
) -> dict[str, Any]:
    """Of one score: means with intervals, the best, differences to it, verdicts on the curves, the range of colours."""
    cases = {case: at for at, case in enumerate(dict.fromkeys(c["case"] for c in columns))}
    of_rows: list[list[tuple[int, float]]] = [[] for _ in rows]
    of_columns: list[list[float]] = [[] for _ in columns]
    for row, column, value in found:
        if value is not None:
            of_rows[row].append((cases[columns[column]["case"]], value))
            of_columns[column].append(value)
    table = Scores([scores.mean_by_case(values, len(cases)) for values in of_rows], better=better)
    best = table.best()
    every = range(len(rows))
    return {
        "rows": [_estimate(table.estimate(row)) for row in every],
        "columns": [_short(math.fsum(v) / len(v)) if v else None for v in of_columns],
        "best": best and {"row": best.row, "tied": list(best.tied), "final": best.is_final},
        "differences": [
            _estimate(table.difference(best.row, row)) if best and row != best.row else None for row in every
        ],
        "verdicts": _verdicts(table, rows, curves),
        "range": _range([value for values in of_columns for value in values]),
    }


def _verdicts(
    table: Scores, rows: Sequence[Mapping[str, Any]], curves: Mapping[str, tuple[list[list[float]], Better | None]]
) -> dict[str, Any]:
    """By curve; the curves are of the first job, so its rows alone are held against them."""
    job = next((row.get("job") for row in rows), None)
    places = zip(rows, _axis(rows)[1], strict=True)
    steps = {n: at for n, (row, at) in enumerate(places) if at is not None and row.get("job") == job}
    found = {}
    for name, (points, direction) in list(curves.items())[:MOST_CURVES]:
        if direction is None:
            continue
        verdict = scores.verdict(table, steps, [(x, y) for x, y in points], direction)
        if verdict is not None:
            found[name] = {
                "says": verdict.says, "since": verdict.since, "last": verdict.last, "better": direction,
                "curve": [verdict.curve_since, verdict.curve_last], "difference": _estimate(verdict.difference),
            }  # fmt: skip
    return found


def _range(values: list[float]) -> list[Any] | None:
    """Lowest and highest for the colours, and whether values lie beyond them: a few far ones must not make all others
    look alike."""
    if not values:
        return None
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    inner = ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]
    if len(ordered) >= 50 and inner[1] > inner[0] and high - low > 3 * (inner[1] - inner[0]):
        return [inner[0], inner[1], low < inner[0], high > inner[1]]
    return [low, high, False, False]


def _estimate(estimate: Estimate | None) -> list[Any] | None:
    if estimate is None:
        return None
    shown = [None if v is None else _short(v) for v in (estimate.mean, estimate.low, estimate.high)]
    return [*shown, estimate.cases]


def _short(value: float) -> float:
    return float(f"{value:.9g}")


def _number(value: object) -> float | None:
    """A finite number; None for anything else (JSON has no NaN)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


if __name__ == "__main__":
    json.dump(build(json.load(sys.stdin)), sys.stdout, separators=(",", ":"), allow_nan=False)
