"""What an attempt's processes use: CPU, memory, disk, and the accelerators that it owns (NVML, where there is one)."""

from __future__ import annotations

import ctypes
import os
import time

from headway.runner import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def sample(pids: list[int], before: float, folder: str, accelerators: list[Accelerator]) -> dict[str, Any]:
    """One line of usage.jsonl.

    pids: processes to add up. before: CPU seconds of those that ended. folder: whose disk is looked at.
    Gives `t`, `processes`, `cpu_seconds` (since the start), `rss_bytes`, `disk_free_bytes`, and for each accelerator
    `index`, `busy_percent`, `memory_bytes`.
    """
    cpu, rss, count = before, 0, 0
    for pid in pids:
        if fields := processes.stat(pid):
            count += 1
            cpu += sum(map(int, fields[11:15])) / _TICKS  # its own and its ended children's, user and system
            rss += int(fields[21]) * _PAGE
    line: dict[str, Any] = {"t": time.time(), "processes": count, "cpu_seconds": round(cpu, 3), "rss_bytes": rss}
    try:
        disk = os.statvfs(folder)
        line["disk_free_bytes"] = disk.f_bavail * disk.f_frsize
    except OSError:
        pass
    if accelerators:
        line["accelerators"] = [device.sample() for device in accelerators]
    return line


def resident(pids: list[int]) -> int:
    """Their resident memory together, in bytes. Pages that they share count for each."""
    return sum(int(fields[21]) * _PAGE for pid in pids if (fields := processes.stat(pid)))


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


def accelerators(indices: list[int]) -> list[Accelerator]:
    """Those of this node; none where there is no NVML (a node file may have declared them)."""
    if not indices:
        return []
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0:
            return []
    except OSError:
        return []
    return [Accelerator(library, index) for index in indices]
