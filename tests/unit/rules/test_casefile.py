"""Cases in lists, lines and tables: what is understood, and one sentence for everything else."""

from __future__ import annotations

import time

import pytest

from headway.errors import UsageError
from headway.rules.casefile import parse_cases, parse_lines, parse_table


def test_all_keys_of_a_case() -> None:
    whole = {"id": "a", "inputs": {"prompt": "x"}, "parameters": {"n": 1}, "expected": [1], "tags": ["t"]}
    assert parse_cases([whole], "cases.yaml") == [whole]
    assert parse_cases({"cases": [{"id": "a", "tags": "t"}, 7]}, "cases.yaml") == [
        {"id": "a", "inputs": {}, "parameters": {}, "tags": ["t"]},
        {"id": "7", "inputs": {}, "parameters": {}, "tags": []},
    ]


def test_lines() -> None:
    text = '{"id": "a", "inputs": {"prompt": "x"}}\n\n{"id": "b", "expected": "é"}\n'
    found = parse_lines(text, "cases.jsonl")
    assert [c["id"] for c in found] == ["a", "b"]
    assert found[0]["inputs"] == {"prompt": "x"} and found[1]["expected"] == "é"


def test_a_table() -> None:
    text = 'id,prompt,parameters.steps,inputs.seed.low,expected,tags\na,"a, b",20,1,{"n": 2},x y\n7,plain,,,,\n'
    assert parse_table(text, "cases.csv") == [
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
    assert parse_table("id, prompt\na,x\n", "cases.csv")[0]["inputs"] == {"prompt": "x"}


@pytest.mark.parametrize(
    ("read", "given", "message"),
    [
        (parse_cases, [{"id": "a"}, {"id": "a"}], r"f: cases\[1\]\.id is 'a', as an earlier case's\."),
        (parse_cases, [{"id": "a", "input": {}}], r"f: unknown key 'cases\[0\]\.input'\. Did you mean .*inputs\?"),
        (parse_cases, [{"inputs": {}}], r"f: cases\[0\] has no id\."),
        (parse_cases, [["a"]], r"f: cases\[0\] is a list, not keys with values\."),
        (parse_cases, [{"id": "a", "inputs": "x"}], r"f: cases\[0\]\.inputs is 'x'\."),
        (parse_cases, [{"id": "a", "tags": [1]}], r"f: cases\[0\]\.tags is \[1\]\."),
        (parse_cases, [], r"f holds no cases\."),
        (parse_cases, {"case": []}, r"f: unknown key 'case'\. Did you mean cases\?"),
        (parse_lines, '{"id": "a"}\n{', r"f: line 2 is not JSON"),
        (parse_lines, '{"id": "a"}\n{"id": "a"}', r"f: line 2\.id is 'a', as an earlier case's\."),
        (parse_lines, "\n", r"f holds no cases\."),
        (parse_table, "name\na\n", r"f has no column id: its columns are 'name'\. Name them .* with commas between"),
        (parse_table, "id;prompt\na;b\n", r"f has no column id: its columns are 'id;prompt'\."),
        (parse_table, "", r"f has no column id: it is empty\."),
        (parse_table, "id,prompt,id\na,b,c\n", r"f has two columns 'id'\."),
        (parse_table, "id,b\na,1,2\n", r"f: line 2 has other columns than the first line\."),
        (parse_table, "id,b\na\n", r"f: line 2 has other columns than the first line\."),
        (parse_table, "id\n", r"f holds no cases\."),
    ],
)
def test_what_is_wrong_is_one_sentence(read, given, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match=message) as caught:
        read(given, "f")
    assert "\n" not in str(caught.value)


def test_a_hundred_thousand_cases_take_moments() -> None:
    raw = [{"id": f"case-{n}", "inputs": {"prompt": "x"}} for n in range(100_000)]
    began = time.process_time()
    assert len(parse_cases(raw, "cases.yaml")) == 100_000
    assert time.process_time() - began < 3
