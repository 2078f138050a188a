"""Cases on disk, by kind of file, and a folder of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headway.client import casefiles
from headway.errors import UsageError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cases.yaml", "- {id: a, inputs: {prompt: x}}\n"),
        ("cases.json", '{"cases": [{"id": "a", "inputs": {"prompt": "x"}}]}'),
        ("cases.jsonl", '{"id": "a", "inputs": {"prompt": "x"}}\n'),
        ("cases.csv", "id,prompt\na,x\n"),
    ],
)
def test_one_case_four_ways(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert casefiles.read(tmp_path / name, name) == [
        {"id": "a", "inputs": {"prompt": "x"}, "parameters": {}, "tags": []}
    ]


def test_a_table_as_a_spreadsheet_saves_it(tmp_path: Path) -> None:
    table = tmp_path / "cases.csv"
    table.write_bytes(b"\xef\xbb\xbf" + "id,prompt\r\na,猫\r\n".encode())
    assert casefiles.read(table, "cases.csv")[0]["inputs"] == {"prompt": "猫"}
    table.write_bytes("id,prompt\r\na,测试\r\n".encode("gbk"))
    with pytest.raises(UsageError) as caught:
        casefiles.read(table, "cases.csv")
    assert caught.value.message == f"{table}, line 2 is not UTF-8." and "UTF-8" in caught.value.remedy


def test_a_folder_has_a_case_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    (folder / "night").mkdir(parents=True)
    (folder / "a.yaml").write_text("parameters: {steps: 3}\n")
    (folder / "b.txt").write_text("a cat\n")
    (folder / "night" / "c.png").write_bytes(b"picture")
    (folder / "more.json").write_text('{"cases": ["d", "e"]}')
    (folder / ".hidden").write_text("x")
    found = {case["id"]: case for case in casefiles.read(folder, "cases/")}
    assert list(found) == ["a", "b", "d", "e", "night-c"]
    assert found["a"]["parameters"] == {"steps": 3}
    assert found["b"]["inputs"] == {"text": "a cat"}
    digest = hashlib.sha256(b"picture").hexdigest()
    assert found["night-c"]["inputs"] == {"file": "cases/night/c.png", "sha256": digest}


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        casefiles.read(tmp_path / "none.yaml", "none.yaml")
    (tmp_path / "bad.yaml").write_text("- {id: a\n")
    with pytest.raises(UsageError, match=r"bad\.yaml, line 2 is not YAML"):
        casefiles.read(tmp_path / "bad.yaml", "bad.yaml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty holds no cases"):
        casefiles.read(tmp_path / "empty", "empty")
    for name in ("a.txt", "a.png"):
        (tmp_path / "empty" / name).write_text("x")
    with pytest.raises(UsageError, match=r"empty/a\.txt: id 'a' is taken, by empty/a\.png\."):
        casefiles.read(tmp_path / "empty", "empty")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", "- a\n\n- id: b\n- id: b\n", "c.yaml, line 4: id 'b' is taken, by c.yaml, line 3."),
        ("c.yaml", "- a\n- inputs: {}\n  tags: [x]\n", "c.yaml, line 2: the case has no id."),
        ("c.yaml", "cases:\n- id: a\n  inputs:\n    x: 1\n  tags: 3\n", "c.yaml, line 5: tags is 3."),
        ("c.yaml", "- id: a\n  input: x\n", "c.yaml, line 2: unknown key 'input'."),
        ("c.yaml", "- id: a\n  expected: 2024-01-02\n", "c.yaml, line 2: expected is a date, 2024-01-02."),
        ("c.yaml", "- a\n- {id: b\n- c\n", "c.yaml, line 4 is not YAML: "),
        ("c.yaml", "- a\n\t- b\n", "c.yaml, line 2 is not YAML: "),
        ("c.yaml", "- {id: a, expected: 2024-13-01}\n", "c.yaml is not YAML: month must be in 1..12"),
        ("c.json", '[\n "a",\n "a"\n]', "c.json, line 3: id 'a' is taken, by c.json, line 2."),
        ("c.json", '[\n{"id": "a" "b"}\n]', "c.json, line 2 is not JSON: "),
        ("c.json", '[\n\t{"id": "a", "tags": 3}]', "c.json, line 2: tags is 3."),
        ("c.jsonl", '"a"\n{"id": "a"}\n', "c.jsonl, line 2: id 'a' is taken, by c.jsonl, line 1."),
        ("c.csv", "id,n\na,1\na,2\n", "c.csv, line 3: id 'a' is taken, by c.csv, line 2."),
        ("c", "- a\n- b: 3\n", "c, line 2: unknown key 'b'."),
    ],
)
def test_an_error_names_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    with pytest.raises(UsageError) as caught:
        casefiles.read(Path(name), name)
    assert caught.value.message.startswith(message)
    assert "\n" not in str(caught.value)


def test_numbers_of_json_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('[{"id": "a", "inputs": {"rate": 1e-3}}]')
    assert casefiles.read(tmp_path / "c.json", "c.json")[0]["inputs"] == {"rate": 0.001}
