from __future__ import annotations

from typing import Any

import pytest

from headway.protocol.cellwords import case_file, fill, names_case

CASE: dict[str, Any] = {
    "id": "cat",
    "inputs": {"prompt": "a cat; rm -rf $HOME", "steps": 3, "id": "inner"},
    "parameters": {"steps": 20, "guidance-scale": 7.5, "flags": ["a", "ü"], "fast": True, "none": None},
    "repeat": 2,
    "seed": 42,
}


def one(text: str) -> str:
    return fill([text], "/c/epoch 3.pt", "epoch-3.pt", CASE, "/runs/out")[0]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{checkpoint}", "/c/epoch 3.pt"),
        ("--name={checkpoint.name}", "--name=epoch-3.pt"),
        ("{case.id}-{repeat}-{seed}", "cat-2-42"),
        ("{case.prompt}", "a cat; rm -rf $HOME"),
        ("{case.steps}", "20"),
        ("{case.guidance-scale}", "7.5"),
        ("{case.flags}", '["a", "ü"]'),
        ("{case.fast} {case.none}", "true null"),
        ("{out}/x.mp4", "/runs/out/x.mp4"),
        ("{case}", "/runs/out.case.json"),
        ('{"a": {"b": {}}}', '{"a": {"b": {}}}'),
        ("{{out}} {out}", "{out} /runs/out"),
        ("${HOME:-x} {1..3}", "${HOME:-x} {1..3}"),
    ],
)
def test_a_word_is_filled_in_and_stays_one_word(text: str, filled: str) -> None:
    assert one(text) == filled


def test_what_a_value_holds_is_never_filled_in_again() -> None:
    case = {**CASE, "parameters": {"prompt": "{out} {case.id}"}}
    assert fill(["{case.prompt}"], "c", "n", case, "/out") == ["{out} {case.id}"]


@pytest.mark.parametrize("word", ["checkpoints", "case.absent", "case.", "prompt", "steps", "out.x"])
def test_an_unknown_word_is_named(word: str) -> None:
    with pytest.raises(KeyError) as unknown:
        one(f"x{{{word}}}")
    assert unknown.value.args == (word,)


def test_the_case_is_a_file_only_where_it_is_asked_for() -> None:
    assert names_case(["run", "--case={case}"])
    assert not names_case(["run", "{case.id}", "{{case}}"])
    assert case_file("/a/b/") == "/a/b.case.json"
