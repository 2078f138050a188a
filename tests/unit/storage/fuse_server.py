"""A file system that answers with the error asked for: `python fuse_server.py BACKING MOUNT CONTROL`.

CONTROL is a JSON file, {"write": 5, ...}: operation -> errno, read anew at each operation; otherwise all is passed on
to BACKING.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import mfusepy


class Faulty(mfusepy.Operations):  # type: ignore[misc]
    use_ns = True

    def __init__(self, backing: str, control: str) -> None:
        self._backing, self._control = backing, control
        self._written: set[int] = set()

    def _at(self, operation: str, path: str) -> str:
        with open(self._control) as file:
            number = json.load(file).get(operation)
        if number:
            raise mfusepy.FuseOSError(number)
        return self._backing + path

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._at("getattr", path))
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
        times = {f"st_{n}": getattr(found, f"st_{n}_ns") for n in ("atime", "mtime", "ctime")}
        return {name: getattr(found, name) for name in names} | times

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at("statfs", path))
        names = (
            "f_bsize",
            "f_frsize",
            "f_blocks",
            "f_bfree",
            "f_bavail",
            "f_files",
            "f_ffree",
            "f_favail",
            "f_namemax",
        )
        return {name: getattr(found, name) for name in names}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._at("readdir", path))]

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._at("mkdir", path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._at("rmdir", path))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at("unlink", path))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._at("rename", old), self._backing + new)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._at("chmod", path), mode)
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self._at("create", path), os.O_RDWR | os.O_CREAT, mode)

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at("open", path), flags & ~(os.O_CREAT | os.O_EXCL | os.O_APPEND))

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._at("truncate", path), length)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self._at("read", path)
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._at("write", path)
        self._written.add(fh)
        return os.pwrite(fh, data, offset)

    def flush(self, path: str, fh: int) -> int:
        # nothing is left to be written of what was only read
        if fh in self._written:
            self._at("flush", path)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._at("fsync", path)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        self._at("fsyncdir", path)
        return 0

    def release(self, path: str, fh: int) -> int:
        self._written.discard(fh)
        os.close(fh)
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(Faulty(sys.argv[1], sys.argv[3]), sys.argv[2], foreground=True, nothreads=True)
