"""Versions as WebDataset, TFRecord and Parquet, read by other readers, and unpacked again."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.client import contents, convert
from headway.client.convert import example, packing, parquet, target, tfrecord, unpacking
from headway.client.convert.member import Member
from headway.errors import FailedError, HeadwayError, RefusedError, UnreachableError, UsageError
from headway.rules.datasets import PATH_BYTES, path_fault

from .served import Served, tree, version

FILES = {
    **{f"train/{n % 2}/{n:03}.{kind}": bytes([n]) * (n * 50) for n in range(12) for kind in ("png", "json")},
    "train/copy.png": bytes([7]) * (7 * 50),
    "测试/名字 ü.txt": "内容".encode(),
    "line\nend/tab\t.a": b"x",
    "without": b"",
    "long/" + "a" * 200 + "/" + "b" * 200 + ".txt": b"long",
    "large.bin": bytes(range(256)) * 1000,
}
FORMATS = list(convert.FORMATS)


def pack(served: Served, found: contents.Version, kind: str, into: Path, shard_bytes: int = 20_000) -> packing.Packed:
    return convert.pack(found, kind, into, digest=served.digest, size=served.bytes, shard_bytes=shard_bytes)


def packed(kind: str, into: Path, files: dict[str, bytes], shard_bytes: int = 20_000) -> list[Path]:
    served = Served(files)
    with version(served) as found:
        return [into / shard for shard in pack(served, found, kind, into, shard_bytes).shards]


def unpack(paths: list[Path], into: Path) -> unpacking.Unpacked:
    return convert.unpack([(path, convert.format_of(path)) for path in paths], into)


# -- there and back


@pytest.mark.parametrize("kind", FORMATS)
def test_there_and_back(tmp_path: Path, kind: str) -> None:
    shards = packed(kind, tmp_path / "shards", FILES)
    assert len(shards) > 2
    assert sorted(os.listdir(tmp_path / "shards")) == [s.name for s in shards]
    found = unpack(shards, tmp_path / "back")
    assert tree(tmp_path / "back") == FILES
    assert (found.files, found.bytes) == (len(FILES), sum(map(len, FILES.values())))


_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=60)
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join).filter(lambda path: path_fault(path) is None)


@settings(max_examples=40, deadline=None)
@given(files=st.dictionaries(_PATHS, st.binary(max_size=600), min_size=1, max_size=8), kind=st.sampled_from(FORMATS))
def test_any_names_and_contents_come_back(
    files: dict[str, bytes], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    form, folder = convert.FORMATS[kind], tmp_path_factory.mktemp("any")
    path = folder / f"x{form.ending}"
    writer = form.write(path)
    for name, content in files.items():
        writer.add(Member(name, len(content), hashlib.sha256(content).hexdigest(), iter([content])))
    writer.close()
    assert {m.path: b"".join(m.pieces) for m in form.read(path)} == files


# -- other readers


def test_webdataset_reads_it(tmp_path: Path) -> None:
    import webdataset

    files = {p: c for p, c in FILES.items() if p.startswith("train/") and "copy" not in p}
    shards = packed("webdataset", tmp_path, files, shard_bytes=3000)
    assert len(shards) > 2
    samples = list(webdataset.WebDataset([str(s) for s in shards], shardshuffle=False))
    # none is torn by the end of a shard
    assert {(s["__key__"], s["png"], s["json"]) for s in samples} == {
        (path[:-4], content, files[path[:-4] + ".json"]) for path, content in files.items() if path.endswith(".png")
    }


def test_pyarrow_reads_it(tmp_path: Path) -> None:
    from pyarrow import dataset

    packed("parquet", tmp_path, FILES)
    table = dataset.dataset(tmp_path, format="parquet").to_table()
    assert table.schema.names == ["path", "bytes", "label", "sha256"]
    assert {row["path"]: row["bytes"] for row in table.to_pylist()} == FILES
    assert {row["path"]: row["label"] for row in table.to_pylist()}["train/1/001.png"] == "1"
    assert {row["path"]: row["label"] for row in table.to_pylist()}["without"] is None


def test_tensorflow_s_records_are_read_by_another_reader(tmp_path: Path) -> None:
    from tfrecord import tfrecord_loader as loader

    got = {}
    for shard in packed("tfrecord", tmp_path, FILES):
        kinds = {"path": "byte", "bytes": "byte", "sha256": "byte"}
        for record in loader(str(shard), None, kinds):
            content = bytes(record["bytes"])
            got[bytes(record["path"]).decode()] = content
            assert bytes(record["sha256"]).decode() == hashlib.sha256(content).hexdigest()
    assert got == FILES


def test_an_example_is_what_protobuf_makes_of_it() -> None:
    """Against the message as it is defined, compiled by protobuf itself."""
    made = _example_message()
    head = example.head([("path", b"a/b"), ("label", b"")], "bytes", 3)
    message = made.FromString(head + b"xyz")
    assert {k: list(v.bytes_list.value) for k, v in message.features.feature.items()} == {
        "path": [b"a/b"],
        "label": [b""],
        "bytes": [b"xyz"],
    }
    other = made()
    other.features.feature["path"].bytes_list.value.append(b"p" * 300)
    other.features.feature["numbers"].int64_list.value.extend([1, 2, -3])
    other.features.feature["floats"].float_list.value.append(0.5)
    found = example.features(memoryview(other.SerializeToString()))
    assert {k: v and bytes(v) for k, v in found.items()}["path"] == b"p" * 300
    assert set(found) == {"path", "numbers", "floats"}


def _example_message() -> type:
    from google.protobuf import descriptor_pb2 as pb
    from google.protobuf import descriptor_pool, message_factory

    file = pb.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, int, str]) -> pb.DescriptorProto:
        made = file.message_type.add(name=name)
        for field, number, label, kind, of in fields:
            made.field.add(name=field, number=number, label=label, type=kind, type_name=of or None)
        return made

    one, many = 1, 3
    message("BytesList", ("value", 1, many, 12, ""))
    message("FloatList", ("value", 1, many, 2, ""))
    message("Int64List", ("value", 1, many, 3, ""))
    lists = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
    message("Feature", *((name, n, one, 11, f".tensorflow.{of}") for n, (name, of) in enumerate(lists, start=1)))
    features = message("Features", ("feature", 1, many, 11, ".tensorflow.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=one, type=9)
    entry.field.add(name="value", number=2, label=one, type=11, type_name=".tensorflow.Feature")
    message("Example", ("features", 1, one, 11, ".tensorflow.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


# -- interrupted, refused


@pytest.mark.parametrize("kind", FORMATS)
def test_a_packing_that_was_cut_off_goes_on(tmp_path: Path, kind: str) -> None:
    whole = [p.read_bytes() for p in packed(kind, tmp_path / "whole", FILES)]
    served = Served(FILES, patience=9)
    with version(served) as found:
        with pytest.raises(UnreachableError):
            pack(served, found, kind, tmp_path / "shards")
        there = {p.name: p.stat().st_ino for p in (tmp_path / "shards").glob("*[0-9].*")}
        assert 0 < len(there) < len(whole)
        assert (tmp_path / "shards" / target.MARK).exists()
        served.patience = 1_000_000
        again = pack(served, found, kind, tmp_path / "shards")
    assert again.made == len(whole) - len(there)
    assert [(tmp_path / "shards" / s).read_bytes() for s in again.shards] == whole
    assert all((tmp_path / "shards" / name).stat().st_ino == inode for name, inode in there.items())
    assert sorted(os.listdir(tmp_path / "shards")) == again.shards


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    served = Served(FILES, patience=9)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    with version(served) as found:
        with pytest.raises(RefusedError, match="full is not empty"):
            pack(served, found, "webdataset", tmp_path / "full")
        with pytest.raises(UnreachableError):
            pack(served, found, "webdataset", tmp_path / "begun")
        with pytest.raises(RefusedError, match="is an unfinished conversion of something else"):
            pack(served, found, "parquet", tmp_path / "begun")
        with pytest.raises(UsageError, match="cannot be used"):
            pack(served, found, "parquet", tmp_path / "full/mine/below")
    assert os.listdir(tmp_path / "full") == ["mine"]


def test_a_file_that_a_format_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "largest", 100_000)
    with pytest.raises(UsageError, match=r"'large.bin' has .*, and this format holds files of up to"):
        packed("parquet", tmp_path / "shards", FILES)
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_content_makes_no_shard(tmp_path: Path, kind: str) -> None:
    served = Served(FILES)
    for name, part in served.parts.items():
        served.parts[name] = b"!" + part[1:]
    with version(served) as found, pytest.raises(FailedError, match=r"large.bin.* is not what its version says"):
        pack(served, found, kind, tmp_path)
    assert not any(b"!" + FILES["large.bin"][1:100] in p.read_bytes() for p in tmp_path.iterdir())


# -- what is unpacked may be anything


def tar(path: Path, *entries: tarfile.TarInfo | tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as made:  # type: ignore[call-overload]
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                made.addfile(entry)
            else:
                member = tarfile.TarInfo(entry[0])
                member.size = len(entry[1])
                made.addfile(member, io.BytesIO(entry[1]))
    return path


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (("../out", b"x"), "'../out' does not stay inside"),
        (("/etc/out", b"x"), "'/etc/out' does not stay inside"),
        (("a/../../out", b"x"), "does not stay inside"),
        (special("link", tarfile.SYMTYPE, "/etc"), "'link' is a link to '/etc'"),
        (special("hard", tarfile.LNKTYPE, "fine"), "'hard' is a link to 'fine'"),
        (special("null", tarfile.CHRTYPE), "'null' is a device"),
        (special("pipe", tarfile.FIFOTYPE), "'pipe' is a device"),
        (("fine", b"again"), "'fine' is there twice"),
        (("fine/below", b"x"), "'fine/below' is there twice, or as file and folder"),
        (("n" * 300, b"x"), "is too long"),
        (("\udcff.bin", b"x"), "is not UTF-8"),
    ],
)
def test_members_that_are_refused(tmp_path: Path, entry: tarfile.TarInfo | tuple[str, bytes], sentence: str) -> None:
    path = tar(tmp_path / "x.tar", ("fine", b"x"), entry)
    (tmp_path / "back").mkdir()
    with pytest.raises(UsageError, match=sentence):
        unpack([path], tmp_path / "back")
    assert os.listdir(tmp_path / "back") == []
    assert sorted(os.listdir(tmp_path)) == ["back", "x.tar"]


def test_tars_of_others(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tar.gz", special("./a", tarfile.DIRTYPE), ("./a/b", b"x"), mode="w:gz")
    unpack([path], tmp_path / "back")
    assert tree(tmp_path / "back") == {"a/b": b"x"}


@pytest.mark.parametrize("kind", FORMATS)
def test_cut_off_anywhere(tmp_path: Path, kind: str) -> None:
    whole = packed(kind, tmp_path / "shards", {"a/1.png": b"x" * 700, "a/2.png": b"y" * 30, "b": b""}, 1 << 20)[0]
    content = whole.read_bytes()
    # the padding after a tar's end mark is no loss
    end = content.rstrip(b"\0") if kind == "webdataset" else content
    for length in {0, *range(1, len(end), 37), 512, 1024, len(end) - 1}:
        cut = tmp_path / f"cut{whole.suffix}"
        cut.write_bytes(content[:length])
        with pytest.raises(UsageError):
            unpack([cut], tmp_path / "back")
        assert os.listdir(tmp_path / "back") == []


@pytest.mark.parametrize("kind", FORMATS)
def test_noise_is_an_error_or_harmless(tmp_path: Path, kind: str) -> None:
    """Whatever byte is changed: a clear error, or files inside the folder."""
    whole = packed(kind, tmp_path / "shards", {"a/1.png": b"x" * 30, "b/2.png": b"y" * 30}, 1 << 20)[0]
    content = whole.read_bytes()
    for at in range(0, len(content), max(1, len(content) // 150)):
        changed = tmp_path / f"changed{whole.suffix}"
        changed.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            unpack([changed], tmp_path / f"{at}")
        except HeadwayError as error:
            assert error.remedy
            assert os.listdir(tmp_path / f"{at}") == []
    assert not [p for p in tmp_path.iterdir() if p.name not in ("shards", changed.name) and not p.name.isdecimal()]


def test_a_header_that_is_damaged_is_not_the_end(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tar", ("a", b"x"), ("b", b"y"))
    content = bytearray(path.read_bytes())
    content[1024 + 148] ^= 1
    path.write_bytes(content)
    with pytest.raises(UsageError, match="a header is damaged"):
        unpack([path], tmp_path / "back")


def test_a_record_that_was_changed(tmp_path: Path) -> None:
    (path,) = packed("tfrecord", tmp_path / "shards", {"a": b"hello"})
    path.write_bytes(path.read_bytes().replace(b"hello", b"hullo"))
    with pytest.raises(UsageError, match="record 1: its content does not fit its checksum"):
        unpack([path], tmp_path / "back")


def test_files_of_others_are_said_to_be_such(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet as tables

    tables.write_table(pa.table({"image": [b"x"]}), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="has no columns path and bytes, only image"):
        unpack([tmp_path / "other.parquet"], tmp_path / "back")
    wrong = pa.table({"path": ["a"], "bytes": [b"x"], "sha256": ["0" * 64]})
    tables.write_table(wrong, tmp_path / "wrong.parquet")
    with pytest.raises(UsageError, match="'a' is not what its SHA-256 says"):
        unpack([tmp_path / "wrong.parquet"], tmp_path / "back")
    form = tfrecord
    message = example.head([], "image", 1) + b"x"
    length = struct.pack("<Q", len(message))
    (tmp_path / "other.tfrecord").write_bytes(length + form._masked(length) + message + form._masked(message))
    with pytest.raises(UsageError, match="record 1: it has no path and bytes, only image"):
        unpack([tmp_path / "other.tfrecord"], tmp_path / "back")
    with pytest.raises(UsageError, match="none of the endings"):
        convert.format_of(Path("x.zip"))
    with pytest.raises(UsageError, match=r"gone\.tar cannot be read"):
        unpack([tmp_path / "gone.tar"], tmp_path / "back")


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_HARMLESS", 1 << 20)
    bomb = tar(tmp_path / "bomb.tar.gz", ("zeros", bytes(8 << 20)), mode="w:gz")
    with pytest.raises(RefusedError, match="looks like a bomb"):
        unpack([bomb], tmp_path / "back")
    assert os.listdir(tmp_path / "back") == []


def test_a_name_that_fills_the_memory(tmp_path: Path) -> None:
    entry = special("x", tarfile.GNUTYPE_LONGNAME)
    entry.size = 1 << 40
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    with pytest.raises(UsageError, match="a name in it takes 1099511627776 bytes"):
        unpack([tmp_path / "x.tar.gz"], tmp_path / "back")


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    served = Served(FILES)
    with version(served) as found, pytest.raises(RefusedError, match="are to be written"):
        convert.pack(found, "webdataset", tmp_path, digest=served.digest, size=1 << 60)
    assert os.listdir(tmp_path) == []


def test_one_that_was_killed_is_not_taken_for_whole(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tar", ("a", b"x"))
    target.begin(tmp_path / "back", {"unpack": [str(path)]})
    with pytest.raises(RefusedError, match="left of an unpacking that was cut off"):
        unpack([path], tmp_path / "back")


def test_the_longest_path(tmp_path: Path) -> None:
    name = "/".join(["d" * 200] * 15)
    assert len(name) < PATH_BYTES
    for kind in FORMATS:
        unpack(packed(kind, tmp_path / kind, {name: b"x"}), tmp_path / f"{kind}-back")
        assert tree(tmp_path / f"{kind}-back") == {name: b"x"}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_disk_that_fills_up_meanwhile(tmp_path: Path, disk: Path, kind: str) -> None:
    shards = packed(kind, tmp_path / "shards", FILES)
    with pytest.raises(FailedError, match="cannot be written: No space left on device"):
        unpack(shards, disk / "back")
    assert os.listdir(disk / "back") == []
    served = Served(FILES)
    with version(served) as found, pytest.raises(FailedError, match="cannot be written: No space left on device"):
        pack(served, found, kind, disk / "more", shard_bytes=1)
    there = [p.name for p in (disk / "more").iterdir()]
    assert target.MARK in there
    # no half shard
    assert not [name for name in there if name.endswith(".tmp")]
