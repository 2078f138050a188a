"""What no cluster of these nodes could ever hold is refused with the sentence that helps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.errors import RefusedError
from headway.rules.capacity import require_room
from headway.rules.records import Spec

from .conftest import node

GIB = 1 << 30
NODES = [node("n1", 8.0, 32 * GIB, ("A10",) * 4), node("n2", 8.0, 32 * GIB, ("A10",) * 2)]
ONE = Spec(name="s", cpus=1.0, memory_bytes=GIB, accelerators=0, accelerator_kind=None, price_hour=0)


@pytest.mark.parametrize(
    ("changes", "more", "sentence"),
    [
        ({"accelerators": 8}, {}, "asked 8 GPUs; the largest node has 4."),
        ({"accelerators": 1, "accelerator_kind": "B"}, {}, "asked 1 B GPUs; the largest node has 0."),
        ({"cpus": 9.0}, {}, "asked 9 CPUs; the largest node has 8."),
        ({"memory_bytes": 33 * GIB}, {}, "asked 33.0 GiB of memory; the largest node has 32.0 GiB."),
        ({}, {"count": 3}, "asked 3 nodes; there are 2."),
        ({}, {"count": 9, "least": {"nodes": 3}}, "asked 3 nodes; there are 2."),
        (
            {"accelerators": 4},
            {"count": 2},
            "asked 2 nodes with 1 CPUs, 1.0 GiB and 4 GPUs each; 1 of 2 has that much.",
        ),
    ],
)
def test_too_large(changes: dict[str, Any], more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RefusedError) as caught:
        require_room(replace(ONE, **changes), NODES, **more)
    assert caught.value.message == sentence
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, {"count": 2}),
        ({"accelerators": 8}, {"least": {"accelerators": 4}}),
        ({"accelerators": 4}, {"count": 4, "least": {"nodes": 2, "accelerators": 2}}),
        ({"cpus": 64.0, "memory_bytes": 512 * GIB}, {"least": {"cpus": 1.0, "memory_bytes": GIB}}),
    ],
)
def test_what_fits_at_least(changes: dict[str, Any], more: dict[str, Any]) -> None:
    require_room(replace(ONE, **changes), NODES, **more)


def test_with_no_node_known_nothing_is_refused() -> None:
    require_room(replace(ONE, cpus=999.0), [], count=99)
