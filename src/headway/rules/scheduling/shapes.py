"""The shape of a run: all that decides where and when it may be placed, but its turn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from headway.rules.records import Run
from headway.rules.states import Billing


def shape(
    *,
    nodes: int,
    least: Mapping[str, Any],
    cpus: float,
    memory_bytes: int,
    accelerators: int,
    accelerator_kind: str | None,
    owner: str,
    billing: Billing | str,
    spot: Mapping[str, Any],
    avoid: Sequence[str],
    max_duration: float | None,
) -> str:
    """16 hexadecimal digits. Two runs of one shape are interchangeable: where one does not fit, the other does not."""
    facts = [nodes, least, float(cpus), memory_bytes, accelerators, accelerator_kind, owner, Billing(billing).value]
    facts += [spot, sorted(avoid), max_duration]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def shape_of(run: Run) -> str:
    """The shape of `run` as it is now."""
    return shape(
        nodes=run.nodes,
        least=run.least,
        cpus=run.cpus,
        memory_bytes=run.memory_bytes,
        accelerators=run.accelerators,
        accelerator_kind=run.accelerator_kind,
        owner=run.owner,
        billing=run.billing,
        spot=run.spot,
        avoid=run.avoid,
        max_duration=run.max_duration,
    )
