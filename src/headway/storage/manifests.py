"""Manifests: what files a version has, and where their contents are. Read page by page, so that a million is no burden.

The root is small JSON, {"format": 2, "digest", "files", "bytes", "created", "packs", "pages"}; `packs` are
["pack" | "part", SHA-256, bytes], `pages` [first path, rows, start, length], the latter two a range of the rows. The
rows are gzip members one after another, one a page; a row is a line of JSON, [path, bytes, SHA-256, number of the pack,
offset] or, of a large file, [path, bytes, SHA-256, [numbers of its parts]]. They stand in `rules.datasets.order`.

Before there were pages a manifest was one object {"files": [{path, bytes, sha256, pack, offset}]}: still read.
"""

from __future__ import annotations

import bisect
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headway.rules import datasets as rules
from headway.storage import layout
from headway.storage.kinds.base import InvalidError
from headway.storage.objects import ObjectStore

FORMAT = 2
#: a few per cent larger than the usual 6, in a third of the time: most of a row is a SHA-256
_LEVEL = 2
#: rows that are parsed together where few may be wanted
_SOME = 100


@dataclass(frozen=True)
class Placed:
    """A file of a version, with the place of its content."""

    path: str
    bytes: int
    sha256: str
    #: SHA-256 of the pack it is in, and where it begins; None: a large file
    pack: str | None
    offset: int | None
    #: of a large file: SHA-256 and bytes of each part, in order
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Stored:
    """A pack or part that the version's contents are in."""

    #: "pack" or "part"
    kind: str
    sha256: str
    bytes: int


class Manifest:
    """A version's files. Safe for threads; holds the root alone, and of one of before all rows."""

    def __init__(self, store: ObjectStore, project: str, root: dict[str, Any]) -> None:
        self._store, self._project = store, project
        self.digest = str(root["digest"])
        self.files, self.bytes = int(root["files"]), int(root["bytes"])
        #: seconds since the epoch
        self.created = float(root.get("created", 0.0))
        self.packs = [Stored(str(kind), str(sha256), int(size)) for kind, sha256, size in root["packs"]]
        self._pages = [(str(first), int(rows), int(start), int(length)) for first, rows, start, length in root["pages"]]
        self._firsts = [rules.order(first) for first, _, _, _ in self._pages]

    @property
    def pages(self) -> int:
        return len(self._pages)

    def page(self, number: int) -> list[Placed]:
        """One page's rows. Raises IndexError, MissingObjectError, InvalidError for damage that can be seen in it."""
        _, count, start, length = self._pages[number]
        return self._parsed(self._lines(self._packed(start, length), count))

    def rows(self) -> Iterator[Placed]:
        """All of them, in order. Raises InvalidError, after the last one, where they are not the digest's."""
        seen = hashlib.sha256()
        for page in self._all_pages():
            for row in page:
                seen.update(rules.line(row.path, row.bytes, row.sha256))
            yield from page
        if seen.hexdigest() != self.digest:
            raise InvalidError(f"The rows of manifest {self.digest[:12]} are not what its name says.")

    def find(self, path: str) -> Placed | None:
        """The file under that path; None when there is none."""
        for row in self.since(path):
            return row if row.path == path else None
        return None

    def since(self, path: str, *, after: bool = False) -> Iterator[Placed]:
        """The rows from the first on that does not stand before `path`; after: that stands behind it."""
        key = rules.order(path)
        first = max(0, bisect.bisect_right(self._firsts, key) - 1)
        yield from self._tail(first, key, after)
        for number in range(first + 1, self.pages):
            yield from self.page(number)

    def _tail(self, number: int, key: list[str], after: bool) -> Iterator[Placed]:
        """What `since` gives of its first page: of a page's thousands only those rows are parsed that are taken."""
        if not self._pages:
            return
        _, count, start, length = self._pages[number]
        lines = self._lines(self._packed(start, length), count)
        with self._read():
            cut = bisect.bisect_right if after else bisect.bisect_left
            at = cut(lines, key, key=lambda line: rules.order(json.loads(line)[0]))
        for first in range(at, count, _SOME):
            yield from self._parsed(lines[first : first + _SOME])

    def _all_pages(self) -> Iterator[list[Placed]]:
        """By one request, of which as much is held as a page needs."""
        blocks = self._store.stream(layout.rows_key(self._project, self.digest))
        held, at = bytearray(), 0
        for _, count, start, length in self._pages:
            while at + len(held) < start + length and (block := next(blocks, b"")):
                held += block
            yield self._parsed(self._lines(bytes(held[start - at : start - at + length]), count))
            del held[: start - at + length]
            at = start + length

    def _packed(self, start: int, length: int) -> bytes:
        return self._store.get_range(layout.rows_key(self._project, self.digest), start, length)

    def _lines(self, packed: bytes, count: int) -> list[bytes]:
        with self._read():
            lines = gzip.decompress(packed).splitlines()
        if len(lines) != count:
            raise InvalidError(f"A page of manifest {self.digest[:12]} has {len(lines)} rows, not {count}.")
        return lines

    def _parsed(self, lines: Sequence[bytes]) -> list[Placed]:
        with self._read():
            return [self._placed(row) for row in json.loads(b"[" + b",".join(lines) + b"]")]

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Raises InvalidError for what comes of damaged rows."""
        try:
            yield
        except (OSError, EOFError, zlib.error, ValueError, TypeError, LookupError, AttributeError) as error:
            raise InvalidError(f"The rows of manifest {self.digest[:12]} are damaged ({error}).") from error

    def _placed(self, row: list[Any]) -> Placed:
        if len(row) == 5:
            return Placed(row[0], row[1], row[2], self.packs[row[3]].sha256, row[4], ())
        parts = tuple((self.packs[n].sha256, self.packs[n].bytes) for n in row[3])
        return Placed(row[0], row[1], row[2], None, None, parts)


class _Former(Manifest):
    """A manifest of before there were pages."""

    def __init__(self, store: ObjectStore, project: str, digest: str, raw: dict[str, Any]) -> None:
        files = sorted(raw["files"], key=lambda f: rules.order(f["path"]))
        packs = sorted({str(f["pack"]) for f in files})
        sizes = [store.head(layout.pack_key(project, pack)) or 0 for pack in packs]
        count = range(0, len(files), rules.PAGE_ROWS)
        root = {
            "digest": digest,
            "files": len(files),
            "bytes": sum(int(f["bytes"]) for f in files),
            "created": raw.get("created", 0.0),
            "packs": [[layout.PACK, pack, size] for pack, size in zip(packs, sizes, strict=True)],
            "pages": [[files[n]["path"], min(rules.PAGE_ROWS, len(files) - n), n, 0] for n in count],
        }
        super().__init__(store, project, root)
        self._rows = [Placed(f["path"], f["bytes"], f["sha256"], f["pack"], f["offset"], ()) for f in files]

    def page(self, number: int) -> list[Placed]:
        _, count, start, _ = self._pages[number]
        return self._rows[start : start + count]

    def _tail(self, number: int, key: list[str], after: bool) -> Iterator[Placed]:
        for row in self.page(number) if self._pages else []:
            place = rules.order(row.path)
            if place > key or (place == key and not after):
                yield row

    def rows(self) -> Iterator[Placed]:
        yield from self._rows


def open_manifest(store: ObjectStore, project: str, digest: str) -> Manifest:
    """The manifest of the version with that digest. Raises MissingObjectError, InvalidError for a damaged one."""
    key = layout.root_key(project, digest)
    try:
        root = json.loads(store.get_bytes(key))
        if "files" in root and isinstance(root["files"], list):
            found: Manifest = _Former(store, project, digest, root)
            right = _former_digest(root["files"]) == digest and not any(rules.path_fault(r.path) for r in found.rows())
        else:
            found = Manifest(store, project, root)
            right = root["format"] == FORMAT and found.digest == digest
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidError(f"The manifest {key} is damaged ({error}).") from error
    if not right:
        raise InvalidError(f"The manifest {key} is not what its name says.")
    return found


def _former_digest(files: Iterable[dict[str, Any]]) -> str:
    rows = sorted([f["path"], f["bytes"], f["sha256"]] for f in files)
    return hashlib.sha256(json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


class Writer:
    """Writes a manifest's rows into a file as they are told, and then tells its root."""

    def __init__(self, out: BinaryIO) -> None:
        """out: an empty file; flushed by `root`."""
        self._out = out
        self._at = 0
        self._page: list[bytes] = []
        self._first = ""
        self._pages: list[list[Any]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._packs: list[list[Any]] = []
        self._digest = hashlib.sha256()
        self.files = self.bytes = 0

    def number(self, kind: str, sha256: str, size: int) -> int:
        """The number that rows name this pack or part by."""
        number = self._numbers.setdefault((kind, sha256), len(self._packs))
        if number == len(self._packs):
            self._packs.append([kind, sha256, size])
        return number

    def add(self, row: rules.Row, number: int | Sequence[int], offset: int | None = None) -> None:
        """A file. number: of its pack, in which it begins at `offset`; or those of its parts."""
        # written out: json.dumps takes longer than all else here
        place = f"[{','.join(map(str, number))}]" if isinstance(number, Sequence) else f"{number},{offset or 0}"
        line = rules.line(*row)
        self._digest.update(line)
        if not self._page:
            self._first = row[0]
        self._page.append(b"%b,%b]" % (line[:-2], place.encode()))
        self.files += 1
        self.bytes += row[1]
        if len(self._page) == rules.PAGE_ROWS:
            self._flush()

    def root(self, created: float) -> dict[str, Any]:
        """The root of all that was added. created: seconds since the epoch."""
        self._flush()
        self._out.flush()
        return {
            "format": FORMAT,
            "digest": self._digest.hexdigest(),
            "files": self.files,
            "bytes": self.bytes,
            "created": created,
            "packs": self._packs,
            "pages": self._pages,
        }

    def _flush(self) -> None:
        if not self._page:
            return
        packed = gzip.compress(b"\n".join(self._page) + b"\n", _LEVEL, mtime=0)
        self._out.write(packed)
        self._pages.append([self._first, len(self._page), self._at, len(packed)])
        self._at += len(packed)
        self._page = []


def put(store: ObjectStore, project: str, root: dict[str, Any], rows: Path) -> None:
    """Stores a manifest, its root last. rows: the file that a `Writer` wrote."""
    store.put_file(layout.rows_key(project, root["digest"]), rows)
    text = json.dumps(root, separators=(",", ":"), ensure_ascii=False)
    store.put_bytes(layout.root_key(project, root["digest"]), text.encode())
