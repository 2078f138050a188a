"""Objects in what obstore speaks: S3, GCS, Azure, memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.storage.objects.base import STREAM_BLOCK, MissingObjectError, ObjectStore, Stored, check_key
from headway.storage.objects.faults import Fault, StoreFault, fault_of, faults_of, missing_of, status_of
from headway.storage.publish import file_digest
from headway.storage.verify import InvalidError

if TYPE_CHECKING:
    import obstore.store

#: bytes up to which a file goes in one request: packs and parts of datasets. Of a request that is cut off nothing stays
_WHOLE_BYTES = 128 << 20
#: of larger ones: least bytes of a part of an upload; S3 takes at most 10,000 parts
_PART_BYTES = 8 << 20
_MOST_PARTS = 9_000
_PARTS_AT_ONCE = 8


def _get(store: Any, key: str, options: Any = None) -> Any:
    import obstore

    return obstore.get(store, key, options=options)


class ObstoreStore(ObjectStore):
    """Uploads of large files go in parallel parts. What a store cannot do is found out and done without."""

    def __init__(self, store: obstore.store.ObjectStore, name: str = "", direct_host: str | None = None) -> None:
        """name: how people know it, for messages ("s3://bucket at host:9000"). direct_host: see ObjectStore."""
        self._store: Any = store
        self.name = name or "The object store"
        self.direct_host = direct_host
        #: whether a range is answered by that range: some S3-compatible servers give the whole; found out at the first
        self.ranges = True

    def put_file(self, key: str, path: Path, sha256: str | None = None) -> None:
        check_key(key)
        if sha256 is not None and (found := file_digest(path)) != sha256:
            raise InvalidError(f"Its SHA-256 is {found}, not {sha256}.")
        size = path.stat().st_size
        part = max(_PART_BYTES, -(-size // _MOST_PARTS))
        # opened here: a file that is missing is no fault of the store
        with open(path, "rb") as content:
            self._put(key, content, use_multipart=size > _WHOLE_BYTES, chunk_size=part, max_concurrency=_PARTS_AT_ONCE)

    def put_bytes(self, key: str, content: bytes) -> None:
        self._put(check_key(key), content)

    def _put(self, key: str, content: Any, **options: Any) -> None:
        import obstore

        with faults_of(self.name, "write an object"):
            try:
                obstore.put(self._store, key, content, **options)
            except obstore.exceptions.GenericError as error:
                # Swift accepts, without a tag, what another writer has replaced already
                if "ETag Header missing" not in str(error) or self.head(key) is None:
                    raise

    def get_bytes(self, key: str) -> bytes:
        import obstore

        check_key(key)
        with faults_of(self.name, "read an object", key):
            return bytes(obstore.get(self._store, key).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return b"".join(self.stream(key, start, length))

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        check_key(key)
        if length == 0 or (self.ranges and (start or length is not None)):
            found = self._ranged(key, start, length)
            if found is not None:
                return found
        with faults_of(self.name, "read an object", key):
            return self._cut(key, _get(self._store, key), start, length)

    def _ranged(self, key: str, start: int, length: int | None) -> Iterator[bytes] | None:
        """The blocks of a range; None when the store answers ranges with the whole object."""
        from obstore.exceptions import BaseError

        if length == 0:
            return self._nothing(key)
        wanted: Any = {"offset": start} if length is None else (start, start + length)
        try:
            answer = _get(self._store, key, {"range": wanted})
        except FileNotFoundError as error:
            raise missing_of(error, self.name, "read an object", key) from None
        except BaseError as error:
            if "non-partial" in str(error):
                self.ranges = False
                return None
            # stores differ in what they say about a range that begins behind the end
            if status_of(error) in (None, 416) and (size := self.head(key)) is not None and start >= size:
                return iter(())
            raise fault_of(error, self.name, "read an object") from None
        return self._blocks(key, answer.stream(STREAM_BLOCK), answer.range[1] - answer.range[0])

    def _nothing(self, key: str) -> Iterator[bytes]:
        if self.head(key) is None:
            raise MissingObjectError(key)
        return iter(())

    def _cut(self, key: str, answer: Any, start: int, length: int | None) -> Iterator[bytes]:
        """The blocks of a range out of an answer with the whole object."""
        size = int(answer.meta["size"])
        end = size if length is None else min(start + length, size)
        at = 0
        if start >= end:
            return
        for piece in self._blocks(key, answer.stream(STREAM_BLOCK), size):
            if wanted := piece[max(0, start - at) : max(0, end - at)]:
                yield wanted
            at += len(piece)
            if at >= end:
                return

    def _blocks(self, key: str, source: Any, length: int) -> Iterator[bytes]:
        """The blocks of obstore's stream, `length` bytes in all. A stream that ends early is a fault."""
        at = 0
        with faults_of(self.name, "read an object", key):
            for block in source:
                at += len(block)
                yield bytes(block)
        if at != length:
            raise StoreFault(Fault.TROUBLE, self.name, "read an object", f"{key} ended after {at} of {length} bytes")

    def fetch(self, key: str, path: Path) -> None:
        blocks = self.stream(key)
        with open(path, "xb") as out:
            for block in blocks:
                out.write(block)

    def head(self, key: str) -> int | None:
        import obstore

        check_key(key)
        try:
            with faults_of(self.name, "read an object", key):
                return int(obstore.head(self._store, key)["size"])
        except MissingObjectError:
            return None

    def list(self, prefix: str = "") -> Iterator[str]:
        yield from sorted(stored.key for stored in self.details(prefix))

    def details(self, prefix: str = "") -> Iterator[Stored]:
        import obstore

        below = check_key(prefix) if prefix else None
        with faults_of(self.name, "list objects"):
            for page in obstore.list(self._store, prefix=below):
                for found in page:
                    yield Stored(str(found["path"]), int(found["size"]), found["last_modified"].timestamp())

    def delete(self, key: str) -> None:
        import obstore

        # asked first: a server over folders may take a key that is none for a folder, and remove all that is in it
        if self.head(key) is None:
            return
        try:
            with faults_of(self.name, "delete an object", key):
                obstore.delete(self._store, key)
        except MissingObjectError:
            pass

    def sign_put(self, key: str, seconds: float) -> str | None:
        return self._sign("PUT", key, seconds)

    def sign_get(self, key: str, seconds: float) -> str | None:
        return self._sign("GET", key, seconds)

    def _sign(self, method: Any, key: str, seconds: float) -> str | None:
        import obstore

        check_key(key)
        if self.direct_host is None:
            return None
        with faults_of(self.name, "sign a URL"):
            return str(obstore.sign(self._store, method, key, timedelta(seconds=seconds)))
