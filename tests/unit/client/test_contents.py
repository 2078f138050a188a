"""Reading a version from its server."""

from __future__ import annotations

import hashlib
import io

import pytest
from PIL import Image

from headway.client import contents, statistics
from headway.errors import FailedError, UnreachableError

from .served import Served, version

FILES = {
    **{f"train/{n % 3}/{n:03}.png": bytes([n]) * (n * 97) for n in range(40)},
    "train/copy.png": bytes([7]) * (7 * 97),
    "large/文件.bin": bytes(range(256)) * 1000,
    "line\nend": b"x",
}


def read(of: contents.Version) -> dict[str, bytes]:
    return {row.path: b"".join(pieces) for row, pieces in of.contents(of.places())}


def test_every_content_in_order() -> None:
    served = Served(FILES)
    with version(served) as found:
        got = read(found)
        assert list(got) == [str(row["path"]) for row in served.rows]
        assert [path for path, _, _ in found.rows()] == list(got)
    assert got == FILES
    # many small files by one request
    assert len([path for path, _ in served.asked if "/packs/" in path]) == len(served.packs)


@pytest.mark.parametrize(
    "folder", ["train", "train/1", "train/2/020.png", "large", "line\nend", "a", "train/1/0", "zz"]
)
def test_the_places_of_a_folder_are_found_among_pages(folder: str) -> None:
    """Seven rows a page; before the first path, behind the last, in the middle."""
    with version(Served(FILES)) as found:
        expected = [row for row in found.places() if f"{row.path}/".startswith(f"{folder}/")]
        assert list(found.places(folder)) == expected


def test_small_windows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_WINDOW", 5000)
    with version(Served(FILES)) as found:
        assert read(found) == FILES


def test_a_server_that_ignores_ranges() -> None:
    served = Served(FILES, ignores_ranges=True)
    with version(served) as found:
        assert read(found) == FILES


def test_contents_far_apart_are_asked_for_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_GAP", 600)
    files = {f"{n:02}": bytes([n]) * 2000 for n in range(5)}
    served = Served(files)
    with version(served) as found:
        wanted = [row for row in found.places() if row.path in ("00", "01", "04")]
        assert [b"".join(pieces) for _, pieces in found.contents(wanted)] == [files["00"], files["01"], files["04"]]
    assert len(served.asked) == 2


@pytest.mark.parametrize("where", ["packs", "parts"])
def test_a_damaged_content(where: str) -> None:
    served = Served(FILES)
    damaged = getattr(served, where)
    name = next(iter(damaged))
    damaged[name] = damaged[name][:512] + b"!" + damaged[name][513:]
    with version(served) as found, pytest.raises(FailedError, match="is not what its version says"):
        read(found)


def test_a_pack_that_is_cut_off() -> None:
    served = Served(FILES)
    name = next(iter(served.packs))
    served.packs[name] = served.packs[name][:600]
    with version(served) as found, pytest.raises(FailedError, match=r"bytes at \d+, not"):
        read(found)


def test_a_server_that_goes_away() -> None:
    with version(Served(FILES, patience=3)) as found, pytest.raises(UnreachableError):
        read(found)


def test_one_file_is_seekable() -> None:
    content = FILES["large/文件.bin"]
    with version(Served(FILES)) as found, found.open("large/文件.bin", len(content)) as file:
        file.seek(-10, io.SEEK_END)
        assert file.read() == content[-10:]
        file.seek(1000)
        assert hashlib.sha256(file.read()).digest() == hashlib.sha256(content[1000:]).digest()


def test_statistics_of_a_version_in_the_store() -> None:
    made = io.BytesIO()
    Image.new("L", (8, 8), 50).save(made, "PNG")
    files = {
        "train/a/1.png": made.getvalue(),
        "test/a/2.png": made.getvalue(),
        "train/b/3.png": b"",
        "x.csv": b"a\n1\n",
    }
    with version(Served(files)) as found:
        facts = statistics.of(found)
    assert facts["images"]["mean"] == [50.0]
    assert facts["images"]["unreadable_paths"] == ["train/b/3.png"]
    assert [c["name"] for c in facts["tables"][0]["columns"]] == ["a"]
    assert {w["code"] for w in facts["warnings"]} >= {"leak", "unreadable", "class_set"}
