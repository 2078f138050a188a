"""What statistics say of folders, and which warnings they give."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from headway.client import statistics
from headway.client.statistics import images, readers
from headway.errors import FailedError
from headway.rules.datasets import Row, order


def rows(folder: Path) -> Iterator[Row]:
    paths = sorted((p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()), key=order)
    for path in paths:
        content = (folder / path).read_bytes()
        yield path, len(content), hashlib.sha256(content).hexdigest()


def of(folder: Path) -> dict[str, Any]:
    found = statistics.of(statistics.Folder(folder, lambda: rows(folder)))
    json.dumps(found, allow_nan=False)
    return found


def image(path: Path, value: Any = 10, mode: str = "L", size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


def text(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def said(found: dict[str, Any], code: str) -> list[str]:
    return [w["text"] for w in found["warnings"] if w["code"] == code]


def codes(found: dict[str, Any]) -> set[str]:
    return {w["code"] for w in found["warnings"]}


# -- class folders


def test_class_folders(tmp_path: Path) -> None:
    for split, label, name, grey in (("train", "0", "a", 10), ("train", "1", "b", 20), ("test", "0", "c", 30)):
        image(tmp_path / split / label / f"{name}.png", grey)
    text(tmp_path / "readme.md", "hello")
    found = of(tmp_path)
    assert found["splits"] == {"test": {"0": 1}, "train": {"0": 1, "1": 1}}
    assert found["classes"] == {"test": ["0"], "train": ["0", "1"]}
    assert found["images"]["sizes"] == {"8x8": 3}
    assert found["images"]["modes"] == {"L": 3}
    assert found["images"]["mean"] == [20.0]
    assert found["images"]["std"] == [pytest.approx(8.165, abs=0.001)]
    assert found["kinds"] == {"image": 3, "text": 1}
    assert statistics.warning_texts(found) == ["test has no images of 1."]


@pytest.mark.parametrize(
    ("paths", "splits"),
    [
        (["cat/a", "dog/b"], {"all": {"cat": 1, "dog": 1}}),
        (["pets/cat/a", "pets/dog/b"], {"all": {"cat": 1, "dog": 1}}),
        (["set/train/cat/a", "set/Test/cat/b"], {"train": {"cat": 1}, "Test": {"cat": 1}}),
        (["train2017/cat/a", "val2017/cat/b"], {"train2017": {"cat": 1}, "val2017": {"cat": 1}}),
        # a class folder may hold folders; a folder reader takes the outer one
        (["train/cat/left/a", "train/cat/right/b"], {"train": {"cat": 2}}),
        # one class of many is called like a split
        (["bus/a", "plane/b", "train/c"], {"all": {"bus": 1, "plane": 1, "train": 1}}),
        (["a", "b"], {}),
    ],
)
def test_which_folders_are_splits_and_classes(tmp_path: Path, paths: list[str], splits: object) -> None:
    for number, path in enumerate(paths):
        image(tmp_path / f"{path}.png", number)
    assert of(tmp_path)["splits"] == splits


def test_a_split_that_lacks_a_class_numbers_the_others_differently(tmp_path: Path) -> None:
    for number, path in enumerate(["train/ant", "train/bee", "train/cow", "val/ant", "val/cow"]):
        image(tmp_path / path / "x.png", number)
    (warning,) = of(tmp_path)["warnings"]
    assert warning["code"] == "class_set"
    assert (warning["split"], warning["labels"]) == ("val", ["bee"])
    assert warning["text"].endswith("cow is 1 here and 2 there.")


def test_a_class_without_images(tmp_path: Path) -> None:
    image(tmp_path / "train/cat/a.png")
    text(tmp_path / "train/dog/note.txt", "none yet")
    assert said(of(tmp_path), "empty_class") == ["train has no images of dog, though there are files."]


def test_numbers_as_class_folders_are_sorted_as_texts(tmp_path: Path) -> None:
    for number in range(11):
        image(tmp_path / str(number) / "a.png", number)
    found = of(tmp_path)
    assert found["classes"]["all"][:3] == ["0", "1", "10"]
    assert said(found, "class_order") == [
        "Class folders are numbered as texts are sorted: index 2 is 10, not 2. Name them with zeros in front (10)."
    ]


def test_uneven_classes(tmp_path: Path) -> None:
    for number in range(11):
        image(tmp_path / "many" / f"{number}.png", number)
    image(tmp_path / "few" / "a.png", 99)
    assert said(of(tmp_path), "uneven") == ["all is uneven: 1 of few, 11 of many."]


# -- one content more than once


def test_leaks_duplicates_and_conflicts(tmp_path: Path) -> None:
    for path in ("train/cat/a.png", "train/cat/b.png", "test/cat/c.png", "train/dog/d.png"):
        image(tmp_path / path, 7)
    image(tmp_path / "test/dog/e.png", 8)
    found = of(tmp_path)
    assert found["duplicates"]["files"] == 3
    assert found["leaks"] == [
        {
            "splits": ["train", "test"],
            "contents": 1,
            "files": 1,
            "bytes": (tmp_path / "test/cat/c.png").stat().st_size,
            "examples": [["train/cat/a.png", "test/cat/c.png"]],
        }
    ]
    assert {"leak", "label_conflict", "duplicates"} == codes(found)
    assert found["warnings"][0]["code"] == "leak"


def test_a_note_that_lies_everywhere_is_no_leak(tmp_path: Path) -> None:
    for number, split in enumerate(("train", "test")):
        image(tmp_path / split / "cat" / "a.png", number)
        text(tmp_path / split / "LICENSE.txt", "mine")
        text(tmp_path / split / "cat" / "empty.txt", "")
    found = of(tmp_path)
    assert "leaks" not in found
    assert found["empty_files"] == 2
    assert codes(found) == {"empty_files"}


# -- images


def test_images_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    image(tmp_path / "cat/whole.png", 1)
    text(tmp_path / "cat/no.png", b"no image at all")
    text(tmp_path / "cat/half.png", _cut(tmp_path / "cat/whole.png"))
    found = of(tmp_path)
    assert found["images"]["unreadable_paths"] == ["cat/half.png", "cat/no.png"]
    assert said(found, "unreadable") == ["2 images cannot be read, the first is cat/half.png."]


def _cut(whole: Path) -> bytes:
    content = whole.read_bytes()
    return content[: len(content) // 2]


def test_an_image_bomb_is_not_decoded(tmp_path: Path) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )
    text(tmp_path / "bomb.png", bomb)
    found = of(tmp_path)
    assert found["images"]["too_large"] == 1
    assert codes(found) == {"too_large"}


def test_mixed_channels_and_sizes(tmp_path: Path) -> None:
    image(tmp_path / "a/1.png", 5, "L")
    image(tmp_path / "a/2.png", (10, 20, 30), "RGB")
    image(tmp_path / "a/3.png", (10, 20, 30), "RGB", (4, 4))
    image(tmp_path / "a/4.png", (10, 20, 30, 0), "RGBA")
    found = of(tmp_path)
    assert found["images"]["channels"] == {"3": 2, "1": 1, "4": 1}
    assert found["images"]["mean"] == [10.0, 20.0, 30.0]
    assert said(found, "mixed_channels") == ["Images have different numbers of channels: 2 with 3, 1 with 1, 1 with 4."]
    assert said(found, "mixed_sizes") == ["Images have 2 different sizes."]


def test_many_images_are_sampled_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "SAMPLE", 10)
    for number in range(95):
        image(tmp_path / ("a" if number < 50 else "b") / f"{number:02}.png", 0 if number < 50 else 100)
    told: list[tuple[str, int, int]] = []
    found = statistics.of(statistics.Folder(tmp_path, lambda: rows(tmp_path)), lambda *how_far: told.append(how_far))
    assert found["images"]["sampled"]
    assert found["images"]["read"] == 10
    assert found["images"]["count"] == 95
    assert found["images"]["mean"] == [50.0]
    assert told[-1] == ("images", 10, 10)


# -- tables


def table(path: Path, *lines: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


def columns(found: dict[str, Any], number: int = 0) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in found["tables"][number]["columns"]}


def test_csv(tmp_path: Path) -> None:
    table(
        tmp_path / "all.csv",
        ["id", "size", "text", "ok", "code", "nothing", "either"],
        [1, 0.5, "two\nlines, 你好", "true", "007", "", "1"],
        [2, 3, "x", "False", "010", "NA", "one"],
        [3, "", "y", "TRUE", "100", "", "2"],
    )
    found = of(tmp_path)
    assert found["tables"][0]["rows"] == 3
    assert {n: c["type"] for n, c in columns(found).items()} == {
        "id": "int",
        "size": "float",
        "text": "text",
        "ok": "bool",
        "code": "mixed",
        "nothing": "empty",
        "either": "mixed",
    }
    assert columns(found)["id"] == {"name": "id", "type": "int", "missing": 0, "min": 1, "max": 3, "mean": 2.0}
    assert columns(found)["text"]["characters"] == {"min": 1, "mean": 5.0, "max": 13}
    assert columns(found)["size"]["missing"] == 1
    assert said(found, "missing_values")[0] == "size is missing in 33% of the rows of all.csv."


def test_csv_of_other_shapes(tmp_path: Path) -> None:
    text(tmp_path / "bare.csv", "1,2\n3,4\n")
    text(tmp_path / "semicolons.csv", "\ufeffa;b\r\n1;2\r\n")
    text(tmp_path / "tabs.tsv", "a\tb\n1\t2\n")
    text(tmp_path / "packed.csv.gz", gzip.compress(b"c,d\n1,2\n"))
    text(tmp_path / "ragged.csv", "e,f\n1,2\n1,2,3\n4,5\n")
    text(tmp_path / "binary.csv", b"\xff\xfe\x00")
    text(tmp_path / "empty.csv", b"")
    found = of(tmp_path)
    names = {t["example"]: [c["name"] for c in t["columns"]] for t in found["tables"]}
    assert names == {
        "bare.csv": ["column 1", "column 2"],
        "packed.csv.gz": ["c", "d"],
        "ragged.csv": ["e", "f"],
        "semicolons.csv": ["a", "b"],
    }
    assert said(found, "bad_rows") == ["1 damaged row, the first at ragged.csv:3."]
    assert said(found, "unreadable") == ["2 tables cannot be read, the first is binary.csv."]


def test_parts_of_a_table_are_one(tmp_path: Path) -> None:
    for number in range(3):
        table(tmp_path / f"train-0000{number}-of-00003.csv", ["a"], [number], [number])
    table(tmp_path / "test.csv", ["a"], [1])
    found = of(tmp_path)
    assert [(t["split"], t["files"], t["rows"]) for t in found["tables"]] == [("test", 1, 1), ("train", 3, 6)]


def test_a_long_table_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "FILE_BYTES", 2000)
    text(tmp_path / "a.csv", "n,m\n" + "12345,1\n" * 1000)
    text(tmp_path / "b.jsonl", '{"n": 1234567}\n' * 1000)
    # cut within a character
    text(tmp_path / "c.csv", "n,k\n12345," + "汉字" * 1000)
    text(tmp_path / "d.csv", "w\n" + "汉\n" * 1000)
    tables = of(tmp_path)["tables"]
    assert len(tables) == 4
    assert [t["read_rows"] for t in tables if t["example"] == "c.csv"] == [0]
    for found in (t for t in tables if t["example"] != "c.csv"):
        assert not found["exact"]
        assert 100 < found["read_rows"] < 600
        assert not found["bad_rows"]


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"text": "hello", "n": 1, "tags": ["a"], "more": {"a": 1}},
        {"text": "you", "n": None},
        {"n": 2.5, "text": "我们"},
        {"n": float("nan"), "text": "\ud800 \0"},
        {"n": 10**400, "text": "x"},
    ]
    text(tmp_path / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + "not json\n")
    found = of(tmp_path)
    assert {n: (c["type"], c["missing"]) for n, c in columns(found).items()} == {
        "text": ("text", 0),
        "n": ("float", 2),
        "tags": ("list", 4),
        "more": ("object", 4),
    }
    assert columns(found)["n"]["max"] == 2.5
    assert said(found, "bad_rows") == ["1 damaged row, the first at train.jsonl:6."]


def test_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    made = pa.table({"label": [0, 1, None], "text": ["a", "bb", "ccc"], "image": [{"bytes": b"x", "path": "p"}] * 3})
    parquet.write_table(made, tmp_path / "test-00000-of-00001.parquet")
    text(tmp_path / "broken.parquet", b"PAR1 no")
    found = of(tmp_path)
    assert found["tables"][0]["split"] == "test"
    assert found["tables"][0]["rows"] == 3
    assert {n: (c["type"], c["missing"]) for n, c in columns(found).items()} == {
        "label": ("int", 1),
        "text": ("text", 0),
        "image": ("object", 0),
    }
    assert found["labels"] == {"label": {"test": {"0": 1, "1": 1}}}
    assert "unreadable" in codes(found)


@pytest.mark.parametrize(
    ("training", "testing", "code", "sentence"),
    [
        ([0, 1, -1], [0, 1], "label_range", "label is -1 in 1 row of train: no loss takes a negative class."),
        ([0, 1, 3], [0], "label_gap", "label goes from 0 to 3, and 2 never occurs."),
        (
            [1, 2, 3],
            [1],
            "label_start",
            "label goes from 1 to 3: losses count classes from 0, so this needs 4 of them.",
        ),
        ([0, 1], [0, 2, 2], "label_set", "label in test is 2 in 2 rows, which train never has."),
        (["a", "b"], ["a", "B"], "label_set", "label in test is B in 1 row, which train never has."),
    ],
)
def test_labels_in_tables(tmp_path: Path, training: list[Any], testing: list[Any], code: str, sentence: str) -> None:
    table(tmp_path / "train.csv", ["x", "label"], *[[0.5, value] for value in training])
    table(tmp_path / "test.csv", ["x", "label"], *[[0.5, value] for value in testing])
    found = of(tmp_path)
    assert found["labels"]["label"]["train"] == {str(v): 1 for v in training}
    assert said(found, code) == [sentence]


def test_labels_beyond_the_named_classes(tmp_path: Path) -> None:
    text(tmp_path / "classes.txt", "cat\ndog\n")
    table(tmp_path / "data.csv", ["x", "label"], [0.1, 0], [0.2, 1], [0.3, 2])
    assert said(of(tmp_path), "label_range") == ["label goes up to 2 in the table, and 2 classes are named: 0 to 1."]


def test_a_quantity_is_no_class(tmp_path: Path) -> None:
    table(tmp_path / "train.csv", ["target"], *[[n * 997 + 5] for n in range(100)])
    assert not codes(of(tmp_path))


def test_other_columns_in_another_split(tmp_path: Path) -> None:
    table(tmp_path / "train.csv", ["a", "b", "label"], [1, 2, 0], [1, 2, 1])
    table(tmp_path / "test.csv", ["a", "b"], [1, 2])
    table(tmp_path / "val.csv", ["b", "a", "label"], [2, 1, 0])
    assert said(of(tmp_path), "columns") == [
        "test.csv has no label.",
        "val.csv has its columns in another order than train.csv.",
    ]


def test_rows_that_are_in_training_and_test(tmp_path: Path) -> None:
    def line(number: int) -> list[Any]:
        return [f"a question that is long enough, number {number}", number / 7, number % 2]

    heads = ["id", "question", "score", "label"]
    table(tmp_path / "train.csv", heads, *[[n, *line(n)] for n in range(50)])
    # other numbers and labels hide nothing; what is short is the same by chance
    table(tmp_path / "test.csv", heads, *[[n + 900, *line(n)[:2], 0] for n in range(49, 60)], [1, "yes", 1, 0])
    table(tmp_path / "short" / "train.csv", ["answer"], ["yes"])
    text(tmp_path / "val.jsonl", json.dumps({"label": 5, "score": 3 / 7, "question": line(3)[0]}) + "\n")
    found = of(tmp_path)
    assert said(found, "row_leak") == [
        "1 row of test is in train too, such as row 1 of test.csv (row 50 of train.csv).",
        "1 row of val is in train too, such as row 1 of val.jsonl (row 4 of train.csv).",
    ]


# -- texts


def test_texts(tmp_path: Path) -> None:
    text(tmp_path / "train/pos/1.txt", "one two three")
    text(tmp_path / "train/neg/2.txt", "四个汉字")
    text(tmp_path / "train/neg/3.txt", b"\xff\xfe")
    found = of(tmp_path)
    assert found["sample_kind"] == "text"
    assert found["splits"] == {"train": {"neg": 2, "pos": 1}}
    assert found["texts"]["characters"] == {"min": 4, "mean": 8.5, "max": 13}
    assert found["texts"]["words"] == {"min": 1, "mean": 2.0, "max": 3}
    assert found["texts"]["tokens"] == 7
    assert said(found, "unreadable") == ["1 text cannot be read, the first is train/neg/3.txt."]


# -- all of it


def test_old_warnings_are_sentences_already() -> None:
    old = {"warnings": ["test has no images of 1.", {"code": "leak", "text": "A leak."}]}
    assert statistics.warning_texts(old) == ["test has no images of 1.", "A leak."]
    assert statistics.warning_texts({}) == []


def test_nothing_but_other_files(tmp_path: Path) -> None:
    text(tmp_path / "weights.bin", b"1")
    found = of(tmp_path)
    assert found["splits"] == {}
    assert not found["warnings"]


def test_a_temporary_folder_without_room(tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    many = (("a/" + "n" * 200 + str(n), 1, "0" * 64) for n in range(40_000))
    with pytest.raises(FailedError, match="statistics cannot be made: database or disk is full"):
        statistics.of(statistics.Folder(tmp_path, lambda: many))
    assert os.listdir(disk) == []


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    image(tmp_path / "data/a/1.png")
    of(tmp_path / "data")
    assert os.listdir(temporary) == []
