"""WebDataset: plain tar files whose members are the files; those of one sample stand together."""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from headway.client.convert.member import Member
from headway.errors import UsageError

ending = ".tar"
largest: int | None = None
_BLOCK = 1 << 20
#: bytes of a header that says a long name; a longer one would be read into memory whole
_HEADER = 1 << 20
_SAYING = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_FAULTS = (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


class _Pieces(io.RawIOBase):
    """What `tarfile` reads a member from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


class WebDatasetWriter:
    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, member: Member) -> None:
        entry = tarfile.TarInfo(member.path)
        entry.size, entry.mode = member.size, 0o644
        self._tar.addfile(entry, io.BufferedReader(_Pieces(member.pieces), _BLOCK))
        for _ in member.pieces:  # what they are checked against comes after the last one
            pass

    def close(self) -> None:
        self._tar.close()


write = WebDatasetWriter


class DamagedError(Exception):
    pass


class StrictHeader(tarfile.TarInfo):
    """A header that is damaged is an error: `tarfile` takes it for the end of the archive unless it is the first."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> StrictHeader:
        if not buf:
            raise DamagedError("it ends without its end mark, so it is cut off")
        try:
            found = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise DamagedError(f"a header is damaged ({error})") from None
            raise  # a block of zeros is the end
        if found.type in _SAYING and found.size > _HEADER:
            raise DamagedError(f"a name in it takes {found.size} bytes")
        return found


def read(path: Path) -> Iterator[Member]:
    """Compressed ones (gz, bz2, xz) too. Folders are passed over."""
    try:
        with tarfile.open(path, "r|*", tarinfo=StrictHeader, encoding="utf-8", errors="surrogateescape") as tar:
            while (entry := tar.next()) is not None:
                # tarfile keeps every header that it has read
                tar.members = []  # type: ignore[attr-defined]
                if entry.isdir():
                    continue
                content = tar.extractfile(entry) if entry.isreg() else None
                if content is None:
                    raise UsageError(
                        f"{path}: {entry.name!r} is {_what(entry)}, and a dataset holds files alone.",
                        "Leave it out of the archive.",
                    )
                # as `tar c .` names them
                name = entry.name.removeprefix("./")
                yield Member(name, entry.size, None, _blocks(path, content))
    except (*_FAULTS, DamagedError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> UsageError:
    return UsageError(f"{path} cannot be read: {error}.", "Get the file again, or make it anew.")


def _what(entry: tarfile.TarInfo) -> str:
    if entry.issym() or entry.islnk():
        return f"a link to {entry.linkname!r}"
    return "a device" if entry.isdev() else "no plain file"


def _blocks(path: Path, content: IO[bytes]) -> Iterator[bytes]:
    while True:
        try:
            block = content.read(_BLOCK)
        except _FAULTS as error:
            raise _unreadable(path, error) from None
        if not block:
            return
        yield block
