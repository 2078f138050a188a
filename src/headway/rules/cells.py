"""Cells: one checkpoint on one case, known by a digest of all that its output depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def key(
    checkpoint_sha256: str,
    case: Mapping[str, Any],
    snapshot: str,
    worker: str,
    outputs: Sequence[Mapping[str, Any]],
    score: str,
    datasets: Sequence[Mapping[str, Any]],
) -> str:
    """SHA-256 (hexadecimal) over everything; a cell whose key is the same has the same output."""
    whole = [checkpoint_sha256, case, snapshot, worker, list(outputs), score, list(datasets)]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
