"""An evaluation made by hand: as the api tells it, 25 checkpoints on 17 prompts, each with a playing video."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable
from typing import Any

from headway.testing.films import film

WORDS = ["one", "two", "three", "crossing", "bouncing", "falling", "spinning", "slow", "fast", "left", "right", "up"]
Files = dict[tuple[int, str], bytes]


def report(
    rows: int = 25,
    columns: int = 17,
    *,
    state: str = "succeeded",
    shape: Callable[[float], float] = lambda share: 0.9 - 1.1 * (share - 0.6) ** 2,
    outputs: Callable[[int, int], list[dict[str, Any]]] = lambda row, column: [],
    told: Callable[[int, int], dict[str, Any]] = lambda row, column: {},
    **evaluation: Any,
) -> dict[str, Any]:
    """The answer of `GET .../report`. shape: mean score by the share of the training; told: changes to a cell."""
    chance = random.Random(4)
    hard = [chance.uniform(-0.15, 0.1) for _ in range(columns)]
    cells = []
    for row in range(rows):
        for column in range(columns):
            score = min(1.0, max(0.0, shape((row + 1) / rows) + hard[column] + chance.gauss(0, 0.04)))
            cell = {
                "id": row * columns + column + 1, "checkpoint": f"epoch-{row + 1}", "row": f"epoch-{row + 1}", "job": 7,
                "case": _case(column), "repeat": 0, "state": "valid", "score": round(score, 4),
                "scores": {"score": round(score, 4), "sharpness_loss": round(1.2 - score + chance.gauss(0, 0.02), 4)},
                "outputs": outputs(row, column), "path": "", "ran": 1, "reason": "", "cause": None, "seconds": 0.42,
                **told(row, column),
            }  # fmt: skip
            cells.append(cell)
    return {
        "evaluation": {
            "id": 3, "project": "default", "name": "moving-digits", "state": state, "reason": "", "remedy": "",
            "cause": None, "path": "evaluations/3", "target": "/data/evaluations/3/outputs",
            "cost": 0.31, "runs": [9, 10],
            "created_at": "2026-12-02T09:00:00Z", "ended_at": "2026-12-02T09:07:10Z" if state == "succeeded" else None,
            "forecast": {}, **evaluation,
        },
        "rows": [
            {
                "checkpoint": 100 + row, "name": f"epoch-{row + 1}", "row": f"epoch-{row + 1}", "job": 7,
                "step": 40 * (row + 1), "epoch": row + 1, "metrics": {"loss": round(2 * math.exp(-row / 6), 4)},
                "sha256": hashlib.sha256(str(row).encode()).hexdigest(), "created_at": "2026-12-02T08:00:00Z",
                "counts": _counts([c for c in cells if c["row"] == f"epoch-{row + 1}"]),
            }
            for row in range(rows)
        ],
        "columns": [
            {
                "case": _case(column), "repeat": 0,
                "inputs": {"prompt": f"the digit {column % 10} moving {_case(column)}"},
                "parameters": {"frames": 16, "seed": column}, "expected": None,
                "tags": ["hard"] if column % 3 == 0 else ["easy"],
                "counts": _counts([c for c in cells if c["case"] == _case(column)]),
            }
            for column in range(columns)
        ],
        "cells": cells,
        "provenance": {
            "by": "mia", "cases_sha256": "ca" * 32, "worker": "evaluate.py:Digits", "command": None, "check": None,
            "scorer": None, "snapshot": "c0" * 32, "commit": "d58cb69", "dirty": True, "datasets": ["digits@1"],
            "environment": ["HF_HOME"], "spec": "small", "currency": "USD",
        },
        "scores": ["score", "sharpness_loss"],
        "score": "score",
        "better": "higher",
        "curves": {
            "lr": [[s, 0.001] for s in range(0, 40 * rows + 1, 20)],
            "loss": [[s, 2 * math.exp(-s / 240) + 0.05 * chance.random()] for s in range(0, 40 * rows + 1, 4)],
        },
    }  # fmt: skip


def videos(rows: int = 25, columns: int = 17) -> tuple[Callable[[int, int], list[dict[str, Any]]], Files]:
    """Outputs of every cell for `report`, and their contents by (cell's id, name)."""
    files: Files = {}

    def outputs(row: int, column: int) -> list[dict[str, Any]]:
        cell = row * columns + column + 1
        files[cell, "out.mp4"] = film(row, column, frames=16)
        files[cell, "score.json"] = json.dumps({"score": row / rows, "words": "</script><b>"}).encode()
        return [_output(name, files[cell, name], kind) for name, kind in (("out.mp4", "video"), ("score.json", "json"))]

    return outputs, files


def _output(name: str, content: bytes, kind: str) -> dict[str, Any]:
    facts = {"width": 64, "height": 64, "frames": 16, "seconds": 2.0} if kind == "video" else {}
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "bytes": len(content), "sha256": digest, "kind": kind, **facts}


def _case(column: int) -> str:
    more = f"-{column // len(WORDS)}" if column >= len(WORDS) else ""
    return f"{WORDS[column % len(WORDS)]}-digits{more}"


def _counts(cells: list[dict[str, Any]]) -> dict[str, int]:
    return {s: sum(c["state"] == s for c in cells) for s in ("valid", "invalid", "running", "waiting")}
