"""Job templates: gaps, what fills them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headway import templates as shipped
from headway.errors import UsageError
from headway.rules import templates

RAW = {
    "description": "A test",
    "parameters": {
        "script": None,
        "epochs": {"default": 3, "least": 1, "most": 100},
        "mode": {"default": "fast", "choices": ["fast", "slow"]},
        "ranks": 2,
    },
    "job": {
        "command": ["python", "{script}", "--epochs={epochs}", "{ranks}"],
        "processes": "{ranks}",
        "environment": {"MODE": "{mode}", "N": "{ranks}"},
        "tags": {"from": "template"},
        "parameters": {"seed": 7},
        "name": "train {script}",
    },
}


def test_gaps_are_filled_and_keep_their_type_outside_text() -> None:
    job = templates.fill(templates.parse(RAW), {"script": "a.py", "epochs": 5}, {})
    assert job == {
        "command": ["python", "a.py", "--epochs=5", "2"],
        "processes": 2,
        "environment": {"MODE": "fast", "N": "2"},
        "tags": {"from": "template"},
        "parameters": {"seed": 7, "script": "a.py", "epochs": 5, "mode": "fast", "ranks": 2},
        "name": "train a.py",
    }


def test_a_use_changes_fields_and_adds_to_mappings() -> None:
    changes = {"processes": 1, "environment": {"MODE": "x", "OTHER": "y"}, "parameters": {"seed": 8}}
    job = templates.fill(templates.parse(RAW), {"script": "a.py"}, changes)
    assert job["processes"] == 1
    assert job["environment"] == {"MODE": "x", "N": "2", "OTHER": "y"}
    assert job["parameters"]["seed"] == 8 and job["parameters"]["epochs"] == 3


def test_what_is_saved_is_what_was_parsed() -> None:
    body = templates.parse(RAW)
    assert templates.parse(body.to_json()) == body


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs script"),
        ({"script": "a.py", "epoch": 5}, "epochs"),
        ({"script": "a.py", "epochs": 0}, "1 at least"),
        ({"script": "a.py", "epochs": 101}, "100 at most"),
        ({"script": "a.py", "epochs": "many"}, "no number"),
        ({"script": "a.py", "mode": "medium"}, "fast, slow"),
    ],
)
def test_a_use_that_does_not_fit(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        templates.fill(templates.parse(RAW), given, {}, "template t")
    assert words in f"{caught.value.message} {caught.value.remedy}"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (None, "has no job"),
        ({"job": []}, "has no job"),
        ({"job": {"command": ["{nam}"]}, "parameters": {"name": 1}}, "name"),
        ({"job": {}, "parameter": {}}, "parameters"),
        ({"job": {}, "parameters": ["a"]}, "parameters"),
        ({"job": {}, "parameters": {"a-b": 1}}, "a-b"),
        ({"job": {}, "parameters": {"a": {"defalt": 1}}}, "default"),
        ({"job": {}, "parameters": {"a": {"default": 3, "choices": [1, 2]}}}, "1, 2"),
    ],
)
def test_what_is_no_template(raw: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        templates.parse(raw, "t.yaml")
    assert words in f"{caught.value.message} {caught.value.remedy}"


@pytest.mark.parametrize("name", shipped.NAMES)
def test_a_shipped_template_makes_a_job(name: str) -> None:
    body = shipped.shipped(name)
    assert body is not None and body.description
    given = {n: "true" for n, p in body.parameters.items() if p.required}
    job = templates.fill(body, given, {})
    assert all(isinstance(word, str) and "{" not in word for word in job["command"])
    assert isinstance(job.get("processes", 1), int) and isinstance(job.get("nodes", 1), int)
