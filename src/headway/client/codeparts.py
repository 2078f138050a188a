"""Which files of a folder are code, and which of those an outcome depends on."""

from __future__ import annotations

import os
from pathlib import Path

from headway.client import snapshot
from headway.rules.flow import Flow


def no_code(file: Path, flow: Flow) -> tuple[str, ...]:
    """Of the flow's folder the flow itself, and its dataset, which runs find in DATA_PATH."""
    data = os.path.normpath(flow.dataset.path) if flow.dataset else "."
    return (file.name,) if data == "." else (file.name, data)


def depends_on(folder: Path, leave_out: tuple[str, ...], command: str, *later: str | None) -> str:
    """Digest of the code that an outcome depends on: all but `leave_out`, and but the files that only `later` names.

    Mending the predictor must not mean another training. A file that the command names, or that other code imports,
    counts all the same.
    """
    files = tuple(os.path.normpath(name.partition(":")[0]) for name in later if name)
    unused = snapshot.imported_by_none(folder, tuple(f for f in files if f not in command))
    return snapshot.take(folder, leave_out=(*leave_out, *unused)).digest
