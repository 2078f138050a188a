"""What is in a pack is what `tarfile` reads in it, and nothing that it should not hold gets through."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from headway.storage import packs
from headway.storage.verify import InvalidError

NAMES = ["a/b.txt", "empty", "数据/x\ny", "deep/" * 30 + "leaf", "n" * 200]


def made(path: Path, format: int, names: list[str] = NAMES) -> Path:
    with tarfile.open(path, "w", format=format) as tar:
        for number, name in enumerate(names):
            member = tarfile.TarInfo(name)
            member.size = 0 if name == "empty" else 511 + number
            tar.addfile(member, io.BytesIO(bytes([number]) * member.size))
    return path


def by_tarfile(path: Path) -> list[packs.Packing]:
    found = []
    with tarfile.open(path) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            found.append((hashlib.sha256(content.read()).digest(), member.offset_data, member.size))
    return found


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_it_is_read_as_tarfile_reads_it(tmp_path: Path, format: int) -> None:
    path = made(tmp_path / "t.tar", format)
    found = packs.inspect(path)
    assert found.contents == by_tarfile(path)
    assert (found.sha256, found.size) == (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    rows = [[sha256.hex(), offset, size] for sha256, offset, size in found.contents]
    assert json.loads(packs.index(found.contents)) == {"contents": rows}


def test_ustar_names_in_two_fields(tmp_path: Path) -> None:
    path = made(tmp_path / "t.tar", tarfile.USTAR_FORMAT, ["deep/" * 25 + "leaf", "x"])
    assert packs.inspect(path).contents == by_tarfile(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_only_regular_files(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        member = tarfile.TarInfo("x")
        member.type, member.linkname = kind, "y"
        tar.addfile(member)
    with pytest.raises(InvalidError, match=r"'x/?' is not a regular file"):
        packs.inspect(tmp_path / "t.tar")


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "../" + "long/" * 40 + "x"])
def test_names_stay_inside(tmp_path: Path, name: str, format: int) -> None:
    with pytest.raises(InvalidError, match="does not stay inside"):
        packs.inspect(made(tmp_path / "t.tar", format, [name]))


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_cut_off_anywhere_it_is_not_whole(tmp_path: Path, format: int) -> None:
    whole = made(tmp_path / "t.tar", format).read_bytes()
    # tar ends with two blocks of zeros, and padding: one of them is enough
    end = len(whole.rstrip(b"\0")) // 512 * 512 + 512
    for length in range(0, end, 256):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(InvalidError):
            packs.inspect(tmp_path / "cut")


def test_a_damaged_header_or_anything_else_is_refused(tmp_path: Path) -> None:
    whole = bytearray(made(tmp_path / "t.tar", tarfile.GNU_FORMAT).read_bytes())
    for at in (0, 124, 130, 150, 156):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(InvalidError):
            packs.inspect(tmp_path / "damaged")
    for text in (b"x" * 2048, b"\xff" * 1024):
        (tmp_path / "damaged").write_bytes(text)
        with pytest.raises(InvalidError):
            packs.inspect(tmp_path / "damaged")


@pytest.mark.parametrize("record", [b"0 path=x\n", b"-5 a=b\n", b"x", b"9 size=-1\n", b"999 path=x\n"])
def test_descriptions_that_cannot_be_read(tmp_path: Path, record: bytes) -> None:
    with tarfile.open(tmp_path / "t.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        member = tarfile.TarInfo("pax")
        member.type, member.size = b"x", len(record)
        tar.fileobj.write(member.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0"))  # type: ignore[union-attr]
    with pytest.raises(InvalidError):
        packs.inspect(tmp_path / "t.tar")
