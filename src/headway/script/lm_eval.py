"""Reads the results that lm-evaluation-harness wrote (`lm_eval --output_path`)."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: the measure that a task is known by, the first that it has
_MAIN = ("acc_norm", "acc", "exact_match", "pass@1", "f1", "word_perplexity", "bleu")


def read(folder: str | os.PathLike[str]) -> dict[str, float]:
    """Numbers by name, of the newest results*.json anywhere below `folder`.

    With one task a name is its measure (`acc`, `exact_match/strict-match`), with several `TASK/MEASURE`; groups come
    before the tasks in them. `score` is the first one's main measure. Raises FileNotFoundError or ValueError.
    """
    path = _newest(folder)
    with open(path, encoding="utf-8") as file:
        found: Any = json.load(file)
    tasks: dict[str, Any] = {**(found.get("groups") or {}), **(found.get("results") or {})}
    numbers: dict[str, float] = {}
    for task, measures in tasks.items():
        begin = f"{task}/" if len(tasks) > 1 else ""
        for name, value in measures.items():
            if _number(value):
                numbers[begin + _plain(name)] = float(value)
    if not numbers:
        raise ValueError(f"{os.path.basename(path)} has no results")
    first = next(task for task, measures in tasks.items() if any(_number(v) for v in measures.values()))
    begin = f"{first}/" if len(tasks) > 1 else ""
    return {"score": numbers[_main(numbers, begin)], **numbers}


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _main(numbers: dict[str, float], begin: str) -> str:
    own = [name for name in numbers if name.startswith(begin) and not name.endswith("_stderr")]
    for measure in _MAIN:
        for name in own:
            if name[len(begin) :].split("/")[0] == measure:
                return name
    return own[0] if own else next(iter(numbers))


def _plain(name: str) -> str:
    """`acc,none` -> `acc`; `exact_match_stderr,strict-match` -> `exact_match/strict-match_stderr`."""
    measure, _, way = name.partition(",")
    if way in ("", "none"):
        return measure
    error = measure.endswith("_stderr")
    return f"{measure.removesuffix('_stderr')}/{way}{'_stderr' if error else ''}"


def _newest(folder: str | os.PathLike[str]) -> str:
    found = [
        os.path.join(at, name)
        for at, _, names in os.walk(folder)
        for name in names
        if name.startswith("results") and name.endswith(".json")
    ]
    if not found:
        raise FileNotFoundError("lm-evaluation-harness wrote no results*.json")
    return max(found, key=lambda path: (os.stat(path).st_mtime_ns, path))
