"""What an attempt's processes use: CPU, memory, disk, network, and the accelerators that it owns (by NVML)."""

from __future__ import annotations

import ctypes
import os
import time

from headway.runner import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: processes that a sample lists one by one: the ranks, and the largest of the others
MOST = 32
#: (age of the run, seconds between two samples): what a long run writes grows ever more slowly
_INTERVALS = ((3600.0, 5.0), (12 * 3600.0, 15.0), (7 * 86400.0, 60.0), (float("inf"), 300.0))


def interval(age: float) -> float:
    """Seconds to the next sample of a run that is `age` seconds old."""
    return next(seconds for until, seconds in _INTERVALS if age < until)


def sample(
    pids: Mapping[int, int | None], before: float, folder: str, devices: Iterable[Accelerator]
) -> dict[str, Any]:
    """One line of usage.jsonl.

    pids: processes to add up, each with its rank where that is known. before: CPU seconds of those that ended.
    folder: whose disk is looked at. Gives `t`; `processes`, `cpu_seconds` (since the start), `rss_bytes`, `read_bytes`
    and `write_bytes` (disk) over all; `each` [{`pid`, `rank`, `cpu_seconds`, `rss_bytes`}]; `disk_free_bytes`;
    `received_bytes` and `sent_bytes` of the machine's network; for each accelerator `index`, `busy_percent`,
    `memory_bytes`.
    """
    each: list[dict[str, Any]] = []
    cpu, rss, read, written = before, 0, 0, 0
    for pid, rank in pids.items():
        if fields := processes.stat(pid):
            mine = _cpu(fields)
            resident = int(fields[21]) * _PAGE
            cpu, rss = cpu + mine, rss + resident
            each.append({"pid": pid, "rank": rank, "cpu_seconds": round(mine, 2), "rss_bytes": resident})
            moved = _moved(pid)
            read, written = read + moved[0], written + moved[1]
    line: dict[str, Any] = {
        "t": time.time(),
        "processes": len(each),
        "cpu_seconds": round(cpu, 3),
        "rss_bytes": rss,
        "read_bytes": read,
        "write_bytes": written,
    }
    try:
        disk = os.statvfs(folder)
        line["disk_free_bytes"] = disk.f_bavail * disk.f_frsize
    except OSError:
        pass
    line["received_bytes"], line["sent_bytes"] = _network()
    if found := [device.sample() for device in devices]:
        line["accelerators"] = found
    if len(each) > MOST:
        each.sort(key=lambda one: one["rss_bytes"], reverse=True)
    line["each"] = each[:MOST]
    return line


def _cpu(fields: list[bytes]) -> float:
    return sum(map(int, fields[11:15])) / _TICKS  # its own and its ended children's, user and system


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its ended children; 0 when it is gone."""
    fields = processes.stat(pid)
    return _cpu(fields) if fields else 0.0


def _moved(pid: int) -> tuple[int, int]:
    """Bytes that it, and its ended children, read from disks and wrote to them."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            found = dict(line.split(b": ") for line in file.read().splitlines())
        return int(found[b"read_bytes"]), int(found[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        return 0, 0


def _network() -> tuple[int, int]:
    """Bytes that this machine (this network namespace) received and sent since its start, without the loopback."""
    received = sent = 0
    try:
        with open("/proc/net/dev", "rb") as file:
            for line in file.read().splitlines()[2:]:
                name, _, rest = line.partition(b":")
                if name.strip() != b"lo":
                    fields = rest.split()
                    received, sent = received + int(fields[0]), sent + int(fields[8])
    except (OSError, ValueError, IndexError):
        pass
    return received, sent


class Accelerator:
    """One device through NVML's C library, without a package."""

    def __init__(self, library: ctypes.CDLL, index: int) -> None:
        self._library, self._index = library, index
        self._handle = ctypes.c_void_p()
        library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(self._handle))

    def sample(self) -> dict[str, Any]:
        busy, memory = (ctypes.c_uint * 2)(), (ctypes.c_ulonglong * 3)()  # (gpu, memory), (total, free, used)
        line: dict[str, Any] = {"index": self._index}
        if self._library.nvmlDeviceGetUtilizationRates(self._handle, busy) == 0:
            line["busy_percent"] = int(busy[0])
        if self._library.nvmlDeviceGetMemoryInfo(self._handle, memory) == 0:
            line["memory_bytes"] = int(memory[2])
        return line


def _nvml() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def accelerators(indices: list[int]) -> list[Accelerator]:
    """Those of this node; none where there is no NVML (a node file may have declared them)."""
    library = _nvml() if indices else None
    return [Accelerator(library, index) for index in indices] if library is not None else []


def seen() -> int | None:
    """How many accelerators the driver shows; None where there is no NVML."""
    library, count = _nvml(), ctypes.c_uint()
    if library is None or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    return int(count.value)
