"""Cases in lists, lines and tables: what is understood, and one sentence for everything else."""

from __future__ import annotations

import math
import time
from datetime import date
from typing import Any

import pytest

from headway.errors import UsageError
from headway.rules.casefile import Placed, distinct, from_lines, from_list, from_table, parse_cases


def listed(raw: Any, file: str) -> list[Placed]:
    return from_list(raw, file, lambda number, key: f"{file}: {number}/{key}")


def _distinct(found: Any) -> None:
    # `parse_cases` has done it already
    if found and isinstance(found[0], tuple):
        distinct(found)


def test_all_keys_of_a_case() -> None:
    whole = {"id": "a", "inputs": {"prompt": "x"}, "parameters": {"n": 1}, "expected": [1], "tags": ["t"]}
    assert parse_cases([whole], "cases.yaml") == [whole]
    assert distinct(listed({"cases": [{"id": "a", "tags": "t"}, 7]}, "cases.yaml")) == [
        {"id": "a", "inputs": {}, "parameters": {}, "tags": ["t"]},
        {"id": "7", "inputs": {}, "parameters": {}, "tags": []},
    ]


def test_lines() -> None:
    text = '{"id": "a", "inputs": {"prompt": "x"}}\n\n{"id": "b", "expected": "é"}\n'
    found = distinct(from_lines(text, "cases.jsonl"))
    assert [c["id"] for c in found] == ["a", "b"]
    assert found[0]["inputs"] == {"prompt": "x"} and found[1]["expected"] == "é"


def test_a_table() -> None:
    text = 'id,prompt,parameters.steps,inputs.seed.low,expected,tags\na,"a, b",20,1,{"n": 2},x y\n7,plain,,,,\n'
    assert distinct(from_table(text, "cases.csv")) == [
        {
            "id": "a",
            "inputs": {"prompt": "a, b", "seed.low": 1},
            "parameters": {"steps": 20},
            "tags": ["x", "y"],
            "expected": {"n": 2},
        },
        {"id": "7", "inputs": {"prompt": "plain"}, "parameters": {}, "tags": []},
    ]


def test_a_table_with_spaces_behind_its_commas() -> None:
    assert distinct(from_table("id, prompt\na,x\n", "cases.csv"))[0]["inputs"] == {"prompt": "x"}


@pytest.mark.parametrize(
    ("read", "given", "message"),
    [
        (listed, [{"id": "a"}, {"id": "a"}], r"f: 1/id: id 'a' is taken, by f: 0/id\."),
        (listed, [{"id": "a", "input": {}}], r"f: 0/input: unknown key 'input'\. Did you mean inputs\?"),
        (listed, ["a", {"inputs": {}}], r"f: 1/: the case has no id\."),
        (listed, [["a"]], r"f: 0/: the case is a list, not keys with values\."),
        (listed, [None], r"f: 0/: the case is empty, not keys with values\."),
        (listed, [{"id": "a b"}], r"f: 0/id: id is 'a b'\. It should be up to 100 letters"),
        (listed, [{"id": ["a"]}], r"f: 0/id: id is \['a'\]\."),
        (listed, [{"id": "a", "inputs": "x"}], r"f: 0/inputs: inputs is 'x'\."),
        (listed, [{"id": "a", "parameters": []}], r"f: 0/parameters: parameters is \[\]\."),
        (listed, [{"id": "a", "tags": [1]}], r"f: 0/tags: tags is \[1\]\."),
        (listed, [{"id": "a", "expected": date(2026, 1, 2)}], r"expected is a date, 2026-01-02\. Write it in quotes"),
        (listed, [{"id": "a", "inputs": {"b": [{"c": math.nan}]}}], r"f: 0/inputs: inputs\.b\.c is nan\."),
        (listed, [], r"f holds no cases\."),
        (listed, {"case": []}, r"f: unknown key 'case'\. Did you mean cases\?"),
        (parse_cases, [{"id": "a"}, {"id": "a"}], r"f\[1\]: id 'a' is taken, by f\[0\]\."),
        (from_lines, '{"id": "a"}\n{', r"f, line 2 is not JSON"),
        (from_lines, '{"id": "a"}\n\n{"id": "a"}', r"f, line 3: id 'a' is taken, by f, line 1\."),
        (from_lines, '{"id": "a"}\n{"inputs": {}}', r"f, line 2: the case has no id\."),
        (from_lines, '{"id": "a", "inputs": 3}', r"f, line 1: inputs is 3\."),
        (from_lines, "\n", r"f holds no cases\."),
        (from_table, "name\na\n", r"f has no column id: its columns are 'name'\. Name them .* with commas between"),
        (from_table, "id;prompt\na;b\n", r"f has no column id: its columns are 'id;prompt'\."),
        (from_table, "", r"f has no column id: it is empty\."),
        (from_table, "id,prompt,id\na,b,c\n", r"f has two columns 'id'\."),
        (from_table, "id,b\na,1,2\n", r"f, line 2 has other columns than the first line\."),
        (from_table, "id,b\na\n", r"f, line 2 has other columns than the first line\."),
        (from_table, 'id,b\na,"x\ny"\n,1\n', r"f, line 4: the case has no id\."),
        (from_table, 'id,b\na,"x\ny"\na,1\n', r"f, line 4: id 'a' is taken, by f, line 2\."),
        (from_table, 'id,b\na,1\nb,"x\n', r"f, line 3 is not CSV: unexpected end of data\."),
        (from_table, "id\n", r"f holds no cases\."),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_place(read: Any, given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        _distinct(read(given, "f"))
    assert "\n" not in str(caught.value)


def test_a_hundred_thousand_cases_take_moments() -> None:
    raw = [{"id": f"case-{n}", "inputs": {"prompt": "x"}} for n in range(100_000)]
    began = time.process_time()
    assert len(parse_cases(raw, "cases.yaml")) == 100_000
    assert time.process_time() - began < 3
