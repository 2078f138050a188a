"""Data that is read where it lies: the folder a version was pushed from, once it is what it was."""

from __future__ import annotations

import random
from pathlib import Path

from headway.errors import FailedError
from headway.storage.manifests import Manifest, Placed
from headway.storage.publish import file_digest

#: contents that are read and compared
SAMPLE = 64
#: differences that are named
NAMED = 3


def check_in_place(source: str, manifest: Manifest, name: str) -> Path:
    """The folder, when every file of the manifest is there with its size and a sample has the same contents.

    source: "host:/folder", or of an older push "/folder". Raises FailedError that names what differs.
    """
    folder = Path(source if source.startswith("/") else source.partition(":")[2])
    if not folder.is_absolute() or str(folder).startswith("//"):
        raise _refused(name, f"it was pushed from {source or 'nowhere that is known'}, which is no folder.")
    if not folder.is_dir():
        raise _refused(name, f"it was pushed from {source}, and there is no such folder on this machine.")
    different = 0
    named: list[str] = []
    sample: list[Placed] = []
    for number, row in enumerate(manifest.rows()):
        if why := _differs(folder / row.path, row.bytes):
            different += 1
            named += [f"{row.path} {why}"] if len(named) < NAMED else []
        elif len(sample) < SAMPLE:
            sample.append(row)
        elif (place := random.randrange(number + 1)) < SAMPLE:
            sample[place] = row
    if not different:
        changed = [row.path for row in sample if file_digest(folder / row.path) != row.sha256]
        different, named = len(changed), [f"{path} has another content" for path in changed[:NAMED]]
    if different:
        more = f" and {different - len(named):,} more" if different > len(named) else ""
        raise _refused(name, f"{folder} is not what was pushed: {', '.join(named)}{more}.")
    return folder


def _differs(path: Path, size: int) -> str:
    try:
        found = path.stat().st_size
    except OSError:
        return "is not there"
    return "" if found == size else f"has {found:,} bytes, not {size:,}"


def _refused(name: str, why: str) -> FailedError:
    return FailedError(f"Dataset {name} cannot be linked: {why}", f"Push it again, or ask for {name} without `:link`.")
