"""Cells: one checkpoint on one case, known by a digest of all that its output depends on, and where it lies.

A plan is an evaluation's request as the record has it, with its snapshot and datasets pinned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headway.rules.records import Checkpoint, Evaluation

#: what of a plan every cell's output depends on, beside the code
COMMON = (
    *("worker", "command", "outputs", "check", "scorer", "scores", "score_file", "score"),
    *("datasets", "environment"),
)
#: in a plan: what the outputs' file system was when cells were dealt first, see `storage.mounts.Mount`
MOUNT = "mount"


class Column(NamedTuple):
    """A case and which repeat of it."""

    case: str
    repeat: int
    #: of the effective case
    digest: str


def effective_cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What workers get, in the order of columns: each case as often as it is repeated, with all its parameters."""
    defaults, repeats, seed = plan.get("parameters") or {}, int(plan.get("repeats", 1)), int(plan.get("seed", 0))
    return [effective_case(case, defaults, repeat, seed) for case in plan["cases"] for repeat in range(repeats)]


def effective_case(case: Mapping[str, Any], defaults: Mapping[str, Any], repeat: int, seed: int) -> dict[str, Any]:
    return {
        "id": case["id"],
        "inputs": case.get("inputs") or {},
        "parameters": {**defaults, **(case.get("parameters") or {})},
        "expected": case.get("expected"),
        "tags": case.get("tags") or [],
        "repeat": repeat,
        "seed": seed + repeat,
    }


def columns(plan: Mapping[str, Any]) -> list[Column]:
    """The plan's columns in the order of `effective_cases`."""
    defaults, repeats, seed = plan.get("parameters") or {}, int(plan.get("repeats", 1)), int(plan.get("seed", 0))
    found = []
    for case in plan["cases"]:
        own = case.get("parameters") or {}
        # once a case, whatever its repeats
        merged = {**defaults, **own} if defaults else own
        text = _ENCODE([case["id"], case.get("inputs") or {}, merged, case.get("expected")])
        found += [Column(case["id"], n, _sha256(f"{text}\n{n}\n{seed + n}")) for n in range(repeats)]
    return found


def case_digest(case: Mapping[str, Any]) -> str:
    """Of an effective case; tags change nothing of an output."""
    text = _ENCODE([case["id"], case["inputs"], case["parameters"], case["expected"]])
    return _sha256(f"{text}\n{case['repeat']}\n{case['seed']}")


def common_digest(plan: Mapping[str, Any], code: str) -> str:
    """Of what all cells share. code: digest of the code, of which `plan["code"]` may name the part that counts."""
    # the same files give the same outputs, however they come
    uses = [{k: v for k, v in use.items() if k != "mode"} for use in plan.get("datasets") or []]
    shared = {**plan, "datasets": uses} if uses else plan
    return _sha256(_ENCODE([plan.get("code") or code, *(shared.get(name) for name in COMMON)]))


def key(common: str, checkpoint_sha256: str, case: str) -> str:
    """SHA-256 (hexadecimal) over everything; a cell whose key is the same has the same output."""
    return _sha256(f"{common}\n{checkpoint_sha256}\n{case}")


def keys(common: str, checkpoints_sha256: Iterable[str], cases: Iterable[str]) -> list[str]:
    """`key` of every case with every checkpoint, row by row."""
    raw, found = [case.encode() for case in cases], []
    for sha256 in checkpoints_sha256:
        first = hashlib.sha256(f"{common}\n{sha256}\n".encode())
        for case in raw:
            whole = first.copy()
            whole.update(case)
            found.append(whole.hexdigest())
    return found


def plan_digest(asked: Any, keys: Iterable[str]) -> str:
    """Of an evaluation: what was asked for, and the keys of its cells in whatever order."""
    whole = hashlib.sha256(_ENCODE(asked).encode())
    whole.update("".join(sorted(keys)).encode())
    return whole.hexdigest()


# where outputs lie


def outputs_folder(evaluation: Evaluation) -> str:
    """Folder of the evaluation's outputs: under the root, or absolute where a target was given."""
    if evaluation.target is None:
        return f"{evaluation.path}/outputs"
    return f"{evaluation.target.rstrip('/')}/evaluation-{evaluation.id}"


def place(case: str, repeat: int, repeats: int) -> str:
    """A cell's folder below its row's. A case's name has no @."""
    return f"{case}@{repeat}" if repeats > 1 else case


def path(evaluation: Evaluation, row: str, case: str, repeat: int) -> str:
    """Where the cell's output comes to."""
    return f"{outputs_folder(evaluation)}/{row}/{place(case, repeat, int(evaluation.plan.get('repeats', 1)))}"


def index_folder(evaluation: Evaluation) -> str:
    """Where the index of its outputs is published: beside them."""
    return evaluation.path if evaluation.target is None else outputs_folder(evaluation)


# new cells


class NewCell(NamedTuple):
    """What is a cell's own before anybody has tried it."""

    checkpoint_id: int
    case_id: str
    key: str
    path: str
    row: str
    repeat: int


def new_cells(
    evaluation: Evaluation, rows: Sequence[tuple[Checkpoint, str]], columns: Sequence[Column], keys: Iterable[str]
) -> list[NewCell]:
    """One of each column for each (checkpoint, row), as `Evaluations.add_new` takes them. keys: of all, row by row."""
    folder, repeats = outputs_folder(evaluation), int(evaluation.plan.get("repeats", 1))
    last = [(column, place(column.case, column.repeat, repeats)) for column in columns]
    places = ((checkpoint.id, row, column, below) for checkpoint, row in rows for column, below in last)
    return [
        NewCell(checkpoint, column.case, key, f"{folder}/{row}/{below}", row, column.repeat)
        for (checkpoint, row, column, below), key in zip(places, keys, strict=True)
    ]


_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
