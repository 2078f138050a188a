"""The contract of object stores as a suite: subclass ObjectStoreSuite and give a fixture `objects` with an empty store.

class TestMyStore(ObjectStoreSuite):
    @pytest.fixture
    def objects(self): return MyStore(...)
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from headway.storage.objects import MissingObjectError, ObjectStore
from headway.storage.verify import InvalidError


class ObjectStoreSuite:
    #: False for a store that may say, while an object is replaced, that there is none
    replaces_at_once = True

    @pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000])
    def test_bytes_come_back(self, objects: ObjectStore, content: bytes) -> None:
        objects.put_bytes("a/b.bin", content)
        assert objects.get_bytes("a/b.bin") == content
        assert objects.head("a/b.bin") == len(content)

    def test_a_file_comes_back(self, objects: ObjectStore, tmp_path: Path) -> None:
        # larger than one part of a multipart upload
        content = bytes(range(256)) * (12 << 12)
        (tmp_path / "in").write_bytes(content)
        objects.put_file("a/large.bin", tmp_path / "in", hashlib.sha256(content).hexdigest())
        objects.fetch("a/large.bin", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == content

    def test_a_file_with_other_bytes_is_refused(self, objects: ObjectStore, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(b"abc")
        with pytest.raises(InvalidError):
            objects.put_file("a/f", tmp_path / "in", "0" * 64)
        assert objects.head("a/f") is None

    @pytest.mark.parametrize(
        ("start", "length", "found"), [(0, 3, b"012"), (4, 2, b"45"), (8, 9, b"89"), (10, 5, b""), (0, 0, b"")]
    )
    def test_ranges(self, objects: ObjectStore, start: int, length: int, found: bytes) -> None:
        objects.put_bytes("r", b"0123456789")
        assert objects.get_range("r", start, length) == found
        assert b"".join(objects.stream("r", start, length)) == found

    def test_a_stream_comes_in_blocks(self, objects: ObjectStore) -> None:
        content = bytes(range(256)) * 12_000
        objects.put_bytes("s", content)
        blocks = list(objects.stream("s"))
        assert b"".join(blocks) == content
        assert all(blocks)
        for start, length in ((5, None), (1_000_000, 1_500_000), (len(content) - 3, 100), (len(content), None)):
            end = len(content) if length is None else start + length
            assert b"".join(objects.stream("s", start, length)) == content[start:end]

    def test_a_stream_may_be_left(self, objects: ObjectStore) -> None:
        objects.put_bytes("s", bytes(3 << 20))
        assert next(iter(objects.stream("s")))
        assert objects.get_bytes("s") == bytes(3 << 20)

    def test_what_is_missing(self, objects: ObjectStore, tmp_path: Path) -> None:
        objects.put_bytes("a/b", b"x")
        for key in ("nothing", "a", "a/b/c", "a/bb"):
            assert objects.head(key) is None
            with pytest.raises(MissingObjectError):
                objects.get_bytes(key)
            with pytest.raises(MissingObjectError):
                objects.get_range(key, 0, 1)
            for length in (None, 0, 1):
                with pytest.raises(MissingObjectError):
                    objects.stream(key, 0, length)
            with pytest.raises(MissingObjectError):
                objects.fetch(key, tmp_path / "out")
            assert not (tmp_path / "out").exists()
            assert objects.local(key) is None
            objects.delete(key)
        assert objects.get_bytes("a/b") == b"x"

    def test_an_object_is_replaced_and_removed(self, objects: ObjectStore) -> None:
        objects.put_bytes("k", b"one")
        objects.put_bytes("k", b"another")
        assert objects.get_bytes("k") == b"another"
        objects.delete("k")
        assert objects.head("k") is None

    def test_lists_by_folder(self, objects: ObjectStore) -> None:
        for key in ("p/one/b", "p/one/a", "p/one/deep/c", "p/oneself", "q"):
            objects.put_bytes(key, b"x")
        assert list(objects.list("p/one")) == ["p/one/a", "p/one/b", "p/one/deep/c"]
        assert list(objects.list()) == ["p/one/a", "p/one/b", "p/one/deep/c", "p/oneself", "q"]
        assert list(objects.list("nothing")) == []

    def test_details_tell_sizes_and_times(self, objects: ObjectStore) -> None:
        began = time.time()
        for number, key in enumerate(("p/one/a", "p/one/deep/b", "p/two/c")):
            objects.put_bytes(key, bytes(number))
        found = {s.key: s for s in objects.details("p/one")}
        assert {k: s.bytes for k, s in found.items()} == {"p/one/a": 0, "p/one/deep/b": 1}
        # clocks of stores count whole seconds, and are not ours
        assert all(abs(s.modified - began) < 3600 for s in found.values())
        assert len(list(objects.details())) == 3
        assert list(objects.details("nothing")) == []

    def test_signed_urls_give_and_take(self, objects: ObjectStore) -> None:
        put, get = objects.sign_put("u/new", 600), objects.sign_get("u/new", 600)
        assert (put is None) == (get is None) == (objects.direct_host is None)
        if put is None or get is None:
            return
        assert urlsplit(put).netloc == objects.direct_host
        urlopen(Request(put, data=b"0123456789", method="PUT"), timeout=60).close()
        assert objects.get_bytes("u/new") == b"0123456789"
        with urlopen(get, timeout=60) as answer:
            assert answer.read() == b"0123456789"

    @pytest.mark.parametrize("key", ["", "/a", "../a", "a/../b", "a//b", "a/.hidden", "./a", "a/", "a b", "ä"])
    def test_what_is_no_key(self, objects: ObjectStore, key: str) -> None:
        for call in (objects.get_bytes, objects.head, objects.delete, lambda k: objects.put_bytes(k, b"")):
            with pytest.raises(ValueError, match="no object key"):
                call(key)

    def _read(self, objects: ObjectStore, key: str) -> bytes:
        while True:
            try:
                return objects.get_bytes(key)
            except MissingObjectError:
                if self.replaces_at_once:
                    raise

    def test_a_reader_sees_one_whole_object(self, objects: ObjectStore) -> None:
        contents = [bytes([n]) * 300_000 for n in range(4)]
        objects.put_bytes("k", contents[0])
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(objects.put_bytes, "k", c) for c in contents * 2]
            assert all(self._read(objects, "k") in contents for _ in range(8))
            for done in writing:
                done.result()
