from __future__ import annotations

import math

import pytest

from headway.rules import adopting

RULES = [
    {"name": "out.mp4", "kind": "video"},
    {"name": "f/*.png", "kind": "image", "count": "2..3"},
    {"name": "*.json", "kind": "json"},
]


def test_each_file_is_held_to_the_first_rule_that_its_name_fits() -> None:
    found = ["out.mp4", "f/1.png", "f/2.png", "a.json"]
    assert [(o["name"], o["kind"]) for o in adopting.outputs(RULES, found)] == [
        ("out.mp4", "video"), ("f/1.png", "image"), ("f/2.png", "image"), ("a.json", "json"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (["f/1.png", "f/2.png", "a.json"], "There is no out.mp4."),
        (["out.mp4", "f/1.png", "a.json"], r"1 files are f/\*.png, not 2..3."),
        (["out.mp4", "f/1.png", "f/2.png", "f/3.png", "f/4.png", "a.json"], "4 files are"),
        (["out.mp4", "f/1.png", "f/2.png"], r"0 files are \*.json."),
    ],
)
def test_what_is_missing_is_said(found: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adopting.outputs(RULES, found)


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("a", None, (1, 1)),
        ("*", None, (1, math.inf)),
        ("*", 3, (3, 3)),
        ("*", "2..5", (2, 5)),
        ("*", "0..", (0, math.inf)),
    ],
)
def test_counts(name: str, count: int | str | None, expected: tuple[int, float]) -> None:
    assert adopting.count({"name": name, "count": count}) == expected


def test_numbers_are_finite_and_no_flags() -> None:
    assert adopting.numbers({"a": 1, "b": True, "c": "1", "d": math.nan, "e": 0.5}) == {"a": 1, "e": 0.5}
    assert adopting.numbers([1]) == {}


def test_names_of_a_checkpoint() -> None:
    assert adopting.names("job-2/epoch-1", "epoch-1.pt") == ["job-2/epoch-1", "epoch-1.pt", "epoch-1"]
