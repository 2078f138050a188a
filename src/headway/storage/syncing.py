"""Many fsyncs at the price of a few: handed to the kernel together, so that it commits what it can at once.

Linux takes them by its asynchronous I/O (io_submit with IOCB_CMD_FSYNC, see io_submit(2) and linux/aio_abi.h): two
calls for all, where threads cost a switch each. Where that cannot be had, they are done one after the other. What is
told as synced has been through the same `fsync` of its file system either way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import threading
from collections.abc import Sequence
from pathlib import Path

#: numbers of io_setup, io_submit and io_getevents
_CALLS = {"x86_64": (206, 209, 208), "aarch64": (0, 2, 4), "riscv64": (0, 2, 4)}
_FSYNC = 2
#: fsyncs that are under way at once, and files that are open for it
_MOST = 64
#: what says that the kernel, or what it is asked through, does not do this
_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EINVAL, errno.EAGAIN, errno.ENOMEM})


class _Asked(ctypes.Structure):
    """struct iocb, little-endian."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("flags", ctypes.c_int32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64 * 2),
    ]


class _Done(ctypes.Structure):
    """struct io_event."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("asked", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    ]


class _Kernel:
    """One context of asynchronous I/O: this process's, and not its children's."""

    def __init__(self) -> None:
        """Raises OSError where there is none to be had."""
        self.pid = os.getpid()
        numbers = _CALLS.get(platform.machine())
        if numbers is None or ctypes.sizeof(ctypes.c_void_p) != 8:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._setup, self._submit, self._events = (ctypes.c_long(number) for number in numbers)
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._do(self._setup, ctypes.c_long(_MOST), ctypes.byref(self._context))

    def _do(self, *words: object) -> int:
        while True:
            if (found := self._call(*words)) >= 0:
                return int(found)
            if (number := ctypes.get_errno()) != errno.EINTR:
                raise OSError(number, os.strerror(number))

    def sync(self, fds: Sequence[int]) -> list[int]:
        """The errno of each, 0: synced. Raises OSError when none was begun; waits for whatever was."""
        count = len(fds)
        asked = (_Asked * count)()
        places = (ctypes.c_void_p * count)()
        size, start = ctypes.sizeof(_Asked), ctypes.addressof(asked)
        for index, fd in enumerate(fds):
            one = asked[index]
            one.data, one.operation, one.fd = index, _FSYNC, fd
            places[index] = start + index * size
        begun = self._do(self._submit, self._context, ctypes.c_long(count), places)
        done = (_Done * begun)()
        seen = 0
        while seen < begun:
            rest = ctypes.byref(done, seen * ctypes.sizeof(_Done))
            seen += self._do(
                self._events, self._context, ctypes.c_long(begun - seen), ctypes.c_long(begun - seen), rest, None
            )
        found = [0] * begun
        for event in done:
            found[event.data] = -event.result
        return found


_lock = threading.Lock()
_kernel: _Kernel | None = None
_cannot = False


def sync_all(fds: Sequence[int]) -> list[OSError | None]:
    """Syncs open files and folders, and tells of each what hindered it; None: it is on the disk."""
    found: list[OSError | None] = []
    while len(found) < len(fds):
        part = fds[len(found) : len(found) + _MOST]
        found += _together(part) or [_alone(part[0])]
    return found


def sync_paths(paths: Sequence[Path]) -> list[OSError | None]:
    """The same for files and folders that are opened for it; no link is followed."""
    found: list[OSError | None] = []
    while len(found) < len(paths):
        found += _opened_and_synced(paths[len(found) : len(found) + _MOST])
    return found


def _opened_and_synced(paths: Sequence[Path]) -> list[OSError | None]:
    found: list[OSError | None] = [None] * len(paths)
    opened: dict[int, int] = {}
    try:
        for index, path in enumerate(paths):
            try:
                opened[index] = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                found[index] = error
        for index, failure in zip(opened, sync_all(list(opened.values())), strict=True):
            found[index] = failure
    finally:
        for fd in opened.values():
            os.close(fd)
    return found


def _together(fds: Sequence[int]) -> list[OSError | None]:
    """What became of the first of them, as many as the kernel took; none where it takes none."""
    global _kernel, _cannot
    if _cannot or len(fds) < 2:
        return []
    with _lock:
        try:
            if _kernel is None or _kernel.pid != os.getpid():
                _kernel = _Kernel()
            results = _kernel.sync(fds)
        except OSError as error:
            # a descriptor of no use to it is no reason to go without it; the fsync alone says what is wrong there
            _cannot = _kernel is None and error.errno in _CANNOT
            return []
    return [OSError(number, os.strerror(number)) if number else None for number in results]


def _alone(fd: int) -> OSError | None:
    try:
        os.fsync(fd)
        return None
    except OSError as error:
        return error
