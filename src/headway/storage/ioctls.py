"""What Linux tells of a file or folder beside stat: its flags, its project, its subvolume. No answer is no error."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator

#: FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, BTRFS_IOC_INO_LOOKUP, BTRFS_IOC_FS_INFO
_GETFLAGS, _GETXATTR, _INO_LOOKUP, _FS_INFO = 0x80086601, 0x801C581F, 0xD0009412, 0x8400941F
_IMMUTABLE, _APPEND = 0x10, 0x20
#: objectid of a subvolume's own folder
_FIRST_FREE = 256


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of the folder `path`, or of a regular file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def frozen(path: str | os.PathLike[str]) -> str | None:
    """ "i" or "a" when chattr has made it immutable or only to be appended to."""
    raw = _asked(path, _GETFLAGS, bytes(8))
    flags = struct.unpack("=I", raw[:4])[0] if raw else 0
    return "i" if flags & _IMMUTABLE else "a" if flags & _APPEND else None


def project(fd: int) -> int:
    """The project whose quota counts there; 0: none."""
    try:
        return int(struct.unpack("=5I8x", fcntl.ioctl(fd, _GETXATTR, bytes(28)))[3])
    except OSError:
        return 0


def subvolume(fd: int) -> tuple[str, int] | None:
    """(UUID of the btrfs, its subvolume); None on other file systems."""
    try:
        # longer ones than 1024 bytes are filled in place
        found = bytearray(struct.pack("=QQ", 0, _FIRST_FREE).ljust(4096, b"\0"))
        fcntl.ioctl(fd, _INO_LOOKUP, found)
        told = fcntl.ioctl(fd, _FS_INFO, bytes(1024))
    except OSError:
        return None
    raw = told[16:32].hex()
    parts = (raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:])
    return "-".join(parts), int(struct.unpack("=Q", found[:8])[0])


def _asked(path: str | os.PathLike[str], request: int, argument: bytes) -> bytes:
    try:
        with opened(path) as fd:
            return fcntl.ioctl(fd, request, argument)
    except OSError:
        return b""
