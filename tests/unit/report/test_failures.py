"""Failures in groups."""

from __future__ import annotations

from typing import Any

from headway.report import failures


def cell(row: int, column: int, reason: str, cause: str = "exception", state: str = "invalid") -> list[Any]:
    return [row, column, row * 10 + column, state, [], reason, cause, None, [], 0]


def test_a_group_keeps_one_example_how_many_and_where_the_largest_first() -> None:
    cells = [
        cell(0, 0, "no memory at 0x1"), cell(0, 1, "no memory at 0x2"), cell(1, 0, "bad prompt"),
        cell(1, 1, "no memory at 0x3"), cell(2, 1, "no memory at 0x4", cause="killed"), cell(2, 0, "", state="valid"),
    ]  # fmt: skip
    found = failures.groups(cells, ["a", "b", "c"], ["x", "y"])
    assert [(f["cause"], f["reason"], f["count"], f["rows"], f["columns"], f["cells"]) for f in found] == [
        ("exception", "no memory at 0x1", 3, 2, 2, [0, 11, 1]),
        ("exception", "bad prompt", 1, 1, 1, [10]),
        ("killed", "no memory at 0x4", 1, 1, 1, [21]),
    ]


def test_no_more_examples_than_a_table_has_room_for() -> None:
    many = [cell(row, column, f"cell {row}.{column}") for row in range(9) for column in range(9)]
    (found,) = failures.groups(many, [f"r{n}" for n in range(9)], [f"c{n}" for n in range(9)])
    assert (found["count"], len(found["cells"])) == (81, failures.MOST_CELLS)
    assert {one // 10 for one in found["cells"][:9]} == set(range(9))
