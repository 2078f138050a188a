"""The columns of a channel: what is written is what every process maps, and damage is told."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol import columns

PACKS = st.binary(min_size=32, max_size=32).map(bytes.hex)
# surrogates stand for the bytes of names that are not UTF-8
PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.sampled_from("\udc80\udcff"))
ROWS = st.lists(
    st.tuples(PATHS, st.integers(0, 2**63), st.just("") | PACKS, st.none() | PACKS, st.integers(0, 2**40)), max_size=20
)


def built(rows: list[tuple[str, int, str, str | None, int]]) -> columns.Builder:
    builder = columns.Builder()
    for path, size, sha256, pack, offset in rows:
        builder.add(path, size, sha256, builder.number(pack, 64) if pack else -1, offset if pack else 0)
    return builder


@given(rows=ROWS)
def test_each_row_comes_back_as_it_was(rows: list[tuple[str, int, str, str | None, int]]) -> None:
    builder = built(rows)
    for found in (builder.columns(), pickle.loads(pickle.dumps(builder.columns()))):
        assert len(found) == len(rows)
        for row, (path, size, sha256, pack, offset) in enumerate(rows):
            assert (found.path(row), found.sizes[row]) == (path, size)
            assert found.sha256(row) == (bytes.fromhex(sha256) or bytes(32))
            assert (found.packs[found.pack[row]][0] if found.pack[row] >= 0 else None) == pack
            assert found.offsets[row] == (offset if pack else 0)


@given(rows=ROWS)
def test_a_pack_is_read_from_its_beginning_to_its_end(rows: list[tuple[str, int, str, str | None, int]]) -> None:
    found = built(rows).columns()
    assert sorted(found.order) == list(range(len(rows)))
    # packs in the order they came; what is in none comes last
    places = [(found.pack[row] if found.pack[row] >= 0 else len(rows), found.offsets[row], row) for row in found.order]
    assert places == sorted(places)


def test_the_file_is_mapped_anew_by_a_process_that_is_not_forked(tmp_path: Path) -> None:
    builder = built([("a.png", 3, "ab" * 32, "cd" * 32, 512), ("子/b\n.png", 0, "", None, 0)])
    numbers = [builder.number("ef" * 32, 10), builder.number("01" * 32, 5)]
    builder.add_parts("large.bin", 15, "23" * 32, numbers)
    path = tmp_path / columns.FILE
    builder.write(str(path))
    found = columns.read(str(path))
    there = pickle.dumps(found)
    assert len(there) < 300, "the rows do not travel"
    for one in (found, pickle.loads(there)):
        assert [one.path(row) for row in range(3)] == ["a.png", "子/b\n.png", "large.bin"]
        assert one.packs == [("cd" * 32, 64), ("ef" * 32, 10), ("01" * 32, 5)]
        assert one.parts == {2: [1, 2]}
    assert [p.name for p in tmp_path.iterdir()] == [columns.FILE]


@pytest.mark.parametrize("left", ["", "{", "[]\n", "{}\n", "head", "half"])
def test_a_damaged_file_is_told(tmp_path: Path, left: str) -> None:
    path = tmp_path / columns.FILE
    built([("a", 1, "ab" * 32, "cd" * 32, 0), ("b", 1, "ab" * 32, "cd" * 32, 512)]).write(str(path))
    whole = path.read_bytes()
    head = whole.index(b"\n") + 1
    path.write_bytes({"head": whole[:head], "half": whole[: (head + len(whole)) // 2]}.get(left, left.encode()))
    with pytest.raises((ValueError, KeyError, TypeError)):
        columns.read(str(path))
