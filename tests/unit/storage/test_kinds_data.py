from __future__ import annotations

import json
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from headway.storage.verify import InvalidError, check, check_schema


def reason(path: Path, kind: str, **rule: object) -> str:
    with pytest.raises(InvalidError) as fault:
        check(path, kind, rule)
    return fault.value.reason


def wrote(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# JSON

SCHEMA = {
    "type": "object",
    "required": ["score"],
    "properties": {
        "score": {"type": "number", "minimum": 0},
        "boxes": {"type": "array", "items": {"$ref": "#/$defs/b"}},
    },
    "$defs": {"b": {"type": "array", "minItems": 4}},
}


def test_json_that_meets_its_schema(tmp_path: Path) -> None:
    path = wrote(tmp_path / "a.json", '{"score": 0.5, "boxes": [[1, 2, 3, 4]]}')
    assert check(path, "json", {"schema": SCHEMA}) == {"type": "dict"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "It does not meet its schema: 'score' is a required property."),
        ('{"score": -1}', "It does not meet its schema: score: -1 is less than the minimum of 0."),
        ('{"score": 1, "boxes": [[1, 2, 3, 4], [1]]}', "boxes[1]: [1] is too short."),
        ("[]", "[] is not of type 'object'."),
        ('{"score": 1', "It is not JSON"),
    ],
)
def test_json_that_does_not_meet_its_schema(tmp_path: Path, text: str, says: str) -> None:
    assert says in reason(wrote(tmp_path / "a.json", text), "json", schema=SCHEMA)


def test_a_long_value_makes_no_long_reason(tmp_path: Path) -> None:
    path = wrote(tmp_path / "a.json", json.dumps(["x" * 10_000]))
    assert len(reason(path, "json", schema={"type": "object"})) < 400


def test_a_schema_elsewhere_is_never_fetched(tmp_path: Path) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1)

        def serve() -> None:
            try:
                connection, _ = server.accept()
                asked.append(connection.recv(100))
                connection.close()
            except TimeoutError:
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        elsewhere = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        said = reason(wrote(tmp_path / "a.json", "{}"), "json", schema={"$ref": elsewhere})
        thread.join()
    assert said == f"Its schema refers to {elsewhere}, which is not in it."
    assert not asked


def test_schemas_are_checked_when_they_are_given() -> None:
    check_schema(SCHEMA)
    check_schema(True)
    for wrong in ({"type": "objekt"}, {"minimum": "a"}, {"properties": {"a": 3}}):
        with pytest.raises(ValueError, match=r"in the schema\.$"):
            check_schema(wrong)


def test_an_older_draft_is_understood(tmp_path: Path) -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True}
    check_schema(schema)
    reason(wrote(tmp_path / "a.json", "3"), "json", schema=schema)


# CSV


def test_csv_tells_its_rows_and_columns(tmp_path: Path) -> None:
    path = wrote(tmp_path / "a.csv", '\ufeffid,text\r\n1,"two\nlines, one field"\r\n2,"a ""quote"""\r\n\r\n')
    facts = check(path, "csv", {"rows": 2, "columns": ["text"]})
    assert facts == {"format": "csv", "rows": 2, "columns": ["id", "text"]}
    assert check(wrote(tmp_path / "a.tsv", "a\tb\n1,5\t2\n"), "csv")["columns"] == ["a", "b"]
    assert check(wrote(tmp_path / "b.csv", "a,b\n"), "csv")["rows"] == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "It has no header."),
        (b"a,b\n1,2\n3", "Line 3 has 1 fields; the header has 2."),
        (b"a,b\n1,2,3\n", "Line 2 has 3 fields; the header has 2."),
        (b'a,b\n1,"cut', "It is not a whole CSV file"),
        (b"a,b\n1,2\n\0\0\0\0", "NUL bytes"),
        (b"a,b\n1,\xff\n", "It is not UTF-8"),
    ],
)
def test_what_is_no_whole_csv(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in reason(wrote(tmp_path / "a.csv", content), "csv")


def test_csv_that_is_not_what_was_asked_for(tmp_path: Path) -> None:
    path = wrote(tmp_path / "a.csv", "a,b\n1,2\n")
    assert reason(path, "csv", rows=2) == "It has 1 rows; 2 are asked for."
    assert reason(path, "csv", columns=["a", "c"]) == "It has no column 'c'; its columns are a, b."


# tensors


@pytest.mark.parametrize(
    "dtype", ["<f4", ">f8", "i8", "?", "c16", "U5", "S3", "<M8[ns]", [("x", "<f4"), ("y", "i4", (2,))]]
)
def test_npy_of_any_plain_type_and_one_cut_off_anywhere(tmp_path: Path, dtype: Any) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((3, 4), dtype=dtype))
    assert check(path, "tensors", {"shape": [3, -1]})["shape"] == [3, 4]
    whole = path.read_bytes()
    for keep in [*range(0, len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:keep])
        with pytest.raises(InvalidError) as fault:
            check(path, "tensors")
        assert fault.value.unfinished
    path.write_bytes(whole + b"x")
    reason(path, "tensors")


def test_npy_of_odd_shapes_and_long_headers(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for array in (np.float32(3), np.zeros((0, 5)), np.asfortranarray(np.ones((2, 3)))):
        np.save(path, array)
        assert check(path, "tensors")["shape"] == list(np.shape(array))
    np.save(path, np.zeros(2, dtype=[(f"field{n}", "f4") for n in range(6000)]))
    assert check(path, "tensors")["dtype"] == "struct"


def test_shapes_that_are_not_what_was_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4)))
    assert reason(tmp_path / "a.npy", "tensors", shape=[3]) == "a.npy has the shape [3, 4]; [3] is asked for."
    assert reason(tmp_path / "a.npy", "tensors", shape=[4, 4]) == "a.npy has the shape [3, 4]; [4, 4] is asked for."


def test_arrays_of_objects_are_refused_unread(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "Python objects" in reason(tmp_path / "a.npy", "tensors")
    np.savez(tmp_path / "a.npz", np.array([{}], dtype=object), allow_pickle=True)
    assert "Python objects" in reason(tmp_path / "a.npz", "tensors")


def test_npz_and_one_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for save in (np.savez, np.savez_compressed):
        save(path, a=np.arange(1000), b=np.ones((1000,)))
        assert check(path, "tensors", {"shape": [1000]}) == {"format": "npz", "tensors": 2}
        whole = path.read_bytes()
        for keep in (0, 10, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:keep])
            reason(path, "tensors")
        flipped = bytearray(whole)
        flipped[len(whole) // 3] ^= 0x55
        path.write_bytes(flipped)
        reason(path, "tensors")


def test_tensors_are_told_apart_by_suffix_and_without_one_by_content(tmp_path: Path) -> None:
    save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "a.safetensors")
    np.save(tmp_path / "a.npy", np.zeros(3))
    torch.save({"a": torch.zeros(3)}, tmp_path / "a.pt")
    for name, told in (("a.safetensors", "safetensors"), ("a.npy", "npy"), ("a.pt", "torch")):
        assert check(tmp_path / name, "tensors")["format"] == told
        assert check((tmp_path / name).rename(tmp_path / told), "tensors")["format"] == told
    assert "cannot be told" in reason(tmp_path / "torch", "tensors", shape=[3])


@pytest.mark.parametrize(
    "header", ["[]", "3", '{"a": 1}', '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}']
)
def test_odd_headers_of_safetensors(tmp_path: Path, header: str) -> None:
    path = wrote(tmp_path / "a.safetensors", struct.pack("<Q", len(header)) + header.encode())
    assert reason(path, "safetensors") == "Its header is not that of a safetensors file."


# what all have in common


def test_a_rule_says_nothing_about_what_its_kind_does_not_know(tmp_path: Path) -> None:
    path = wrote(tmp_path / "a.json", "{}")
    check(path, "json", {"name": "a.json", "kind": "json", "width": 3, "count": 5, "schema": None})


def test_the_least_size_counts_for_every_kind(tmp_path: Path) -> None:
    path = wrote(tmp_path / "a.json", "{}")
    check(path, "json", {"min_bytes": 2})
    for kind in ("json", "file", "any", "csv", "tensors"):
        assert reason(path, kind, min_bytes=3) == "It has 2 bytes; at least 3 are asked for."
