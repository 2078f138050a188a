from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.rules.forecast import FIRST_CELLS, Room, due, forecast

MB = 1 << 20


def test_the_headline_case_says_what_runs_out_first_and_when() -> None:
    rooms = [Room("/data", 40 * MB, 10_000, block=4096), Room("the quota of project default", 100 * MB, 400)]
    found = forecast(5, 5 * MB, 15, 420, rooms)
    assert not found["fits"]
    assert (found["needed_bytes"], found["needed_files"]) == (420 * MB, 1260)
    assert found["sentence"] == (
        "420 more cells take about 420.0 MiB in 1260 files; /data has 40.0 MiB left: that is reached after about 39. "
        "Free 384.1 MiB or raise that limit."
    )


@pytest.mark.parametrize(
    ("room", "what"),
    [
        (Room("/data", None, 3, block=4096), "/data has 3 inodes left: no more cell fits"),
        (Room("the quota of project p", None, 20), "the quota of project p has 20 files left: that is reached after "),
        (Room("/data", -5, None), "/data has 0 B left: no more cell fits"),
    ],
)
def test_each_limit_is_named(room: Room, what: str) -> None:
    found = forecast(5, 500, 15, 10, [Room("elsewhere", None, None), room])
    assert what in found["sentence"]
    assert not found["fits"]


def test_what_fits_is_said_too() -> None:
    found = forecast(5, 500, 15, 1, [Room("/data", 10 * MB, None, block=4096)])
    assert found == {
        "cells": 5, "bytes": 500, "files": 15, "needed_bytes": 100, "needed_files": 3, "fits": True,
        "sentence": "1 more cell takes about 100 B in 3 files.",
    }  # fmt: skip


@given(
    st.integers(1, 1000), st.integers(0, 1 << 40), st.integers(1, 10_000), st.integers(0, 100_000),
    st.integers(0, 1 << 50), st.integers(0, 1 << 30),
)  # fmt: skip
def test_it_fits_exactly_when_every_limit_allows_what_is_needed(
    seen: int, size: int, files: int, left: int, free: int, inodes: int
) -> None:
    found = forecast(seen, size, files, left, [Room("a", free, None), Room("b", None, inodes)])
    assert found["fits"] == (found["needed_bytes"] <= free and found["needed_files"] <= inodes)
    assert ("Free" in found["sentence"]) == (not found["fits"])
    assert found["needed_bytes"] >= size * left / seen


@pytest.mark.parametrize(
    ("known", "seen", "left", "expected"),
    [
        ({}, 0, 425, False),
        ({}, FIRST_CELLS - 1, 421, False),
        ({}, FIRST_CELLS, 420, True),
        ({}, 1, 1, True),
        ({"cells": 5, "fits": True}, 9, 400, False),
        ({"cells": 5, "fits": True}, 10, 400, True),
        ({"cells": 5, "fits": False}, 5, 400, True),
        ({"cells": 9, "fits": True}, 10, 0, True),
    ],
)
def test_when_it_is_due(known: dict, seen: int, left: int, expected: bool) -> None:
    assert due(known, seen, left) is expected
