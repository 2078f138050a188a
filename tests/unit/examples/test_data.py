from __future__ import annotations

import filecmp
from pathlib import Path

from PIL import Image

from .conftest import Script


def files_of(folder: Path) -> list[Path]:
    return sorted(p.relative_to(folder) for p in folder.rglob("*.png"))


def test_every_image_is_in_exactly_one_split(data: Path) -> None:
    names = [p.name for p in files_of(data)]
    assert len(names) == len(set(names)) == 1797
    assert sorted(names) == [f"{i:04d}.png" for i in range(1797)]


def test_every_digit_is_shared_out_alike(data: Path) -> None:
    for digit in range(10):
        counts = [len(list((data / split / str(digit)).iterdir())) for split in ("train", "val", "test")]
        assert abs(counts[0] / sum(counts) - 0.7) < 0.01, (digit, counts)
        assert abs(counts[1] / sum(counts) - 0.1) < 0.01, (digit, counts)


def test_images_are_eight_bit_grey_and_span_the_range(data: Path) -> None:
    with Image.open(data / files_of(data)[0]) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "L", (8, 8))
        assert image.getextrema() == (0, 255)


def test_a_second_call_gives_the_same_bytes(tmp_path: Path, data: Path, script: Script) -> None:
    again = tmp_path / "again"
    assert script("make_data.py", str(again)).returncode == 0
    same, different, missing = filecmp.cmpfiles(data, again, [str(p) for p in files_of(data)], shallow=False)
    assert (len(same), different, missing) == (1797, [], [])


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path, script: Script) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("precious")
    done = script("make_data.py", str(mine))
    assert done.returncode == 1
    assert "move it away" in done.stderr
    assert [p.name for p in mine.iterdir()] == ["thesis.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
