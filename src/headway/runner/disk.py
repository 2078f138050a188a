"""How much a run has under its own folders, counted by a thread of low priority: a slow mount never stalls the loop."""

from __future__ import annotations

import os
import time

#: shortest time between two counts, and how many times as long as a count took
REST_SECONDS, REST_TIMES = 10.0, 100.0


class Disk:
    """`tick` starts a count when one is due; `bytes` is what the last one found."""

    def __init__(self, folders: list[str]) -> None:
        """folders: those in others of them, and those that do not exist, are counted once or not at all."""
        self._folders = folders
        self._busy = False
        self._at = 0.0
        self.bytes = 0

    def tick(self, now: float) -> None:
        if not self._busy and now >= self._at:
            import _thread

            self._busy = True
            _thread.start_new_thread(self._count, ())

    def _count(self) -> None:
        start = time.monotonic()
        try:
            import _thread

            os.setpriority(os.PRIO_PROCESS, _thread.get_native_id(), 19)
            self.bytes = occupied(self._folders)
        except OSError:
            pass
        finally:
            now = time.monotonic()
            self._at = now + max(REST_SECONDS, REST_TIMES * (now - start))
            self._busy = False


def occupied(folders: list[str]) -> int:
    """Bytes on the disk under `folders`: what files take, holes left out, a file with several names once."""
    real = sorted({os.path.realpath(folder) for folder in folders})
    left = [f for n, f in enumerate(real) if not any(f.startswith(f"{above.rstrip('/')}/") for above in real[:n])]
    total, linked = 0, set()
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            left.append(entry.path)
                    except OSError:
                        continue
                    if found.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if (found.st_dev, found.st_ino) in linked:
                            continue
                        linked.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * 512
        except OSError:
            continue
    return total
