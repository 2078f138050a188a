"""Archives as sources: a plain tar is read where it is, others are unpacked into one temporary file first."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from headway.client.convert.webdataset import DamagedError, StrictHeader
from headway.client.pushing.catalog import Catalog
from headway.client.pushing.entries import (
    Choice,
    Entry,
    Faults,
    Scan,
    Skipped,
    empty,
    ignore,
    notes_on_case,
    notes_on_hidden,
)
from headway.errors import UsageError
from headway.rules.datasets import path_fault

TARS = (".tar",)
ZIPS = (".zip",)
PACKED: dict[str, Callable[..., Any]] = {
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.xz": lzma.open,
    ".txz": lzma.open,
}
PACKED |= {".tar.bz2": bz2.open, ".tbz2": bz2.open, ".tbz": bz2.open}
#: what is no archive to us though it is one
FOREIGN = (".tar.zst", ".tzst", ".7z", ".rar", ".tar.lz4")

_BLOCK = 1 << 20
#: an archive that unpacks to more than so many times its size, and to more than this, is taken for a bomb
_RATIO, _HARMLESS = 200, 1 << 30
#: bytes of the temporary disk that are left free
_SPARE = 256 << 20

_FAULTS = (tarfile.TarError, DamagedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError)
_OUTSIDE = "lead out of it"
_LINKS = "are links that lead out of it, to a folder or nowhere"
_SPECIAL = "are devices or pipes"
_SPARSE = "are sparse"
_BOTH = "are in a folder that is a file as well"
_ENCRYPTED = "are encrypted"
_MAKE_ANEW = "Unpack it yourself, look at it, and push the folder."
_REMEDIES = {
    _OUTSIDE: "Make the archive from inside the folder, with relative names.",
    _LINKS: "Replace them by files, or give --skip-links to leave them out.",
    **dict.fromkeys((_SPECIAL, _SPARSE, _BOTH, _ENCRYPTED), _MAKE_ANEW),
}


def is_archive(name: str) -> bool:
    return name.lower().endswith((*TARS, *ZIPS, *PACKED))


class Archive:
    """The files in a tar (also .gz, .xz, .bz2) or zip."""

    def __init__(self, path: Path, label: str, choice: Choice, scratch: Path) -> None:
        """scratch: a folder for temporary files, of whoever gives it."""
        self.label = label
        self._path = path
        self._choice = choice
        self._scratch = scratch
        self._catalog = Catalog(scratch / "catalog.sqlite")
        self._faults, self._remedies, self._hidden = Faults(), dict(_REMEDIES), Skipped()
        self._data = path
        self._stamp: tuple[int, int, int] | None = None

    def close(self) -> None:
        self._catalog.close()

    def scan(self, each: Callable[[Entry], None] = ignore) -> Scan:
        try:
            self._stamp = _stamp(self._path)
            self._read()
        except OSError as error:
            raise UsageError(f"{self._path} cannot be read: {error.strerror or error}.", "Check the file.") from None
        except _FAULTS as error:
            raise UsageError(
                f"{self._path} is damaged: {error}.", "Get the file again, or make it anew.", code="bad_source"
            ) from None
        notes = notes_on_hidden(self._hidden) + self._resolve()
        self._faults.refuse(str(self._path), self._remedies)
        files, size = self._catalog.totals()
        if not files:
            raise empty(str(self._path), self._hidden)
        return Scan(files, size, notes + notes_on_case(self._catalog.clashes()))

    def entries(self) -> Iterator[Entry]:
        yield from self._catalog.entries()
        if _stamp(self._path) != self._stamp:
            raise UsageError(f"{self._path} changed while it was pushed.", "Push again once it is still.")

    def open(self, entry: Entry) -> int:
        return os.open(self._data, os.O_RDONLY | os.O_CLOEXEC)

    # -- inside

    def _read(self) -> None:
        name = self._path.name.lower()
        if name.endswith(ZIPS):
            self._data = self._scratch / "unpacked"
            self._read_zip()
            return
        for ending, opened in PACKED.items():
            if name.endswith(ending):
                self._data = self._scratch / "unpacked.tar"
                with cast(IO[bytes], opened(self._path, "rb")) as packed, open(self._data, "wb") as out:
                    _Unpacking(self._path, self._scratch).copy(packed, out)
        self._read_tar()

    def _read_tar(self) -> None:
        with tarfile.open(self._data, "r:", tarinfo=StrictHeader, encoding="utf-8", errors="surrogateescape") as tar:
            while (member := tar.next()) is not None:
                # tarfile keeps every header that it has read
                tar.members = []  # type: ignore[attr-defined]
                path = self._path_of(member.name)
                if path is None or member.isdir():
                    continue
                if member.issym() or member.islnk():
                    aim = member.linkname
                    self._catalog.add_link(path, os.path.normpath(aim) if member.islnk() else aim, hard=member.islnk())
                elif member.issparse():
                    self._faults.add(_SPARSE, path)
                elif not member.isreg():
                    self._faults.add(_SPECIAL, path)
                else:
                    self._catalog.add(path, member.offset_data, member.size)
        size = self._data.stat().st_size
        cut = [e.path for e in self._catalog.entries() if e.offset + e.bytes > size]
        if cut:
            raise DamagedError(f"it is cut off in the middle of {cut[0]!r}")

    def _read_zip(self) -> None:
        unpacking = _Unpacking(self._path, self._scratch)
        with zipfile.ZipFile(self._path) as archive, open(self._data, "wb") as out:
            for member in archive.infolist():
                path = self._path_of(member.filename)
                kind = member.external_attr >> 16
                if path is None or member.is_dir():
                    continue
                if member.flag_bits & 1:
                    self._faults.add(_ENCRYPTED, path)
                elif stat.S_ISLNK(kind):
                    with archive.open(member) as content:
                        self._catalog.add_link(path, os.fsdecode(content.read(4096)), hard=False)
                else:
                    at = out.tell()
                    with archive.open(member) as content:
                        unpacking.copy(content, out)
                    self._catalog.add(path, at, out.tell() - at)

    def _path_of(self, name: str) -> str | None:
        """The path that a member has in the version; None for what is left out or refused."""
        parts = [p for p in name.split("/") if p not in ("", ".")]
        path = "/".join(parts)
        if name.startswith("/") or ".." in parts:
            self._faults.add(_OUTSIDE, name)
            return None
        if not parts:
            return None
        if not self._choice.hidden and any(p.startswith(".") for p in parts):
            self._hidden.add(path)
            return None
        fault = path_fault(path)
        if fault:
            reason = f"have a name that {fault}"
            self._remedies[reason] = _MAKE_ANEW
            self._faults.add(reason, path.encode("utf-8", "backslashreplace").decode())
            return None
        return path

    def _resolve(self) -> list[str]:
        left = Skipped()
        for path in self._catalog.resolve():
            left.add(path)
            if not self._choice.skip_links:
                self._faults.add(_LINKS, path)
        for path in self._catalog.inside_files().first:
            self._faults.add(_BOTH, path)
        return [f"left out: {left.count} {_LINKS} ({left})."] if left.count else []


class _Unpacking:
    """Copies what is unpacked, as long as it is no bomb and the disk has room."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self._path, self._scratch = path, scratch
        self._packed = path.stat().st_size
        self._bytes = 0

    def copy(self, source: IO[bytes], out: IO[bytes]) -> None:
        while block := source.read(_BLOCK):
            self._bytes += len(block)
            if self._bytes > _HARMLESS and self._bytes > _RATIO * self._packed:
                raise UsageError(
                    f"{self._path} unpacks to more than {_RATIO} times its size; it may be a bomb.",
                    _MAKE_ANEW,
                    code="bad_source",
                )
            if shutil.disk_usage(self._scratch).free < _SPARE:
                raise UsageError(
                    f"{self._path} does not fit unpacked on the disk of {self._scratch.parent}.",
                    "Set TMPDIR to a folder with more space, or push it unpacked or as a plain tar.",
                    code="no_space",
                )
            out.write(block)


def _stamp(path: Path) -> tuple[int, int, int]:
    facts = os.stat(path)
    return facts.st_size, facts.st_mtime_ns, facts.st_ino
