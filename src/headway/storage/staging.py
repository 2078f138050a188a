"""Where outputs lie before they are published: on their target's file system, in a folder for each cell of an attempt,
`<target>/.staging-<installation>-<attempt>/<cell>/`.

A worker writes into such a folder, and publishing moves it. What is finished and could not be published yet has a note
beside it (`<cell>.done.json`), by which a later attempt takes it over; all else that an attempt leaves is swept. What
another installation of headway stages in the same folder is none of ours: its attempts may be called like ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from headway.protocol.files import AttemptFolder, read_json, write_whole
from headway.storage import installation
from headway.storage.full import TargetFullError, full_of

_NOTE = ".done.json"


def folder(target: Path, root: Path, attempt: str) -> Path:
    """Where the attempt stages what is to stand in `target`. root: where attempts lie."""
    return target / f"{_prefix(root)}{attempt}"


def sweep(target: Path, root: Path) -> int:
    """Removes what ended attempts left in `target` and nobody can use; how many of them had.

    What was finished and not published stays, for a later attempt to take over.
    """
    return sum(_remove(place, finished_too=False) for place, attempt in _left(target, root) if ended(root, attempt))


def clear(target: Path, root: Path, attempts: Collection[str], *, finished_too: bool) -> int:
    """The same for these attempts, which have ended as is known. finished_too: no later attempt comes either."""
    return sum(_remove(place, finished_too) for place, attempt in _left(target, root) if attempt in attempts)


def _left(target: Path, root: Path) -> list[tuple[Path, str]]:
    """What cannot be looked at now is swept another time."""
    try:
        return _places(target, root)
    except TargetFullError:
        return []


def _remove(place: Path, finished_too: bool) -> bool:
    try:
        if not finished_too and any(noted(place)):
            return False
    except TargetFullError:
        return False
    shutil.rmtree(place, ignore_errors=True)
    return not place.exists()


def ended(root: Path, attempt: str) -> bool:
    """Whether nothing of the attempt writes any more: all its nodes have told their end, or its folder is gone."""
    own = AttemptFolder.of(root, attempt)
    if not own.path.is_dir():
        return True
    launch = read_json(own.launch) if own.launch.exists() else None
    nodes = len((launch or {}).get("nodes") or [0])
    return all(own.node(index).exit.exists() for index in range(nodes))


def note(place: Path, content: dict[str, Any]) -> None:
    """Notes that the outputs in `place` are finished. A target that takes no writes goes without."""
    with contextlib.suppress(OSError):
        write_whole(place.with_name(place.name + _NOTE), json.dumps(content, ensure_ascii=False).encode())


def forget(place: Path) -> None:
    """Removes such a note, if there is one."""
    with contextlib.suppress(OSError):
        place.with_name(place.name + _NOTE).unlink(missing_ok=True)


def finished(target: Path, root: Path, attempt: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Finished outputs that ended attempts, or this one's earlier helper, left, with their notes.

    Raises TargetFullError where they cannot be looked at: what is finished would be made once more.
    """
    for place, other in _places(target, root):
        if other != attempt and not ended(root, other):
            continue
        for outputs in sorted(noted(place)):
            found = _read(outputs.with_name(outputs.name + _NOTE), target)
            if isinstance(found, dict):
                yield outputs, found


def noted(place: Path) -> Iterator[Path]:
    """The finished outputs in an attempt's folder. Raises TargetFullError where it cannot be looked at."""
    for name in _names(place):
        if name.endswith(_NOTE) and (outputs := place / name.removesuffix(_NOTE)).is_dir():
            yield outputs


def take_over(outputs: Path, place: Path) -> bool:
    """Moves finished outputs to `place`; False when somebody else was quicker. Raises TargetFullError or OSError."""
    if outputs != place:
        try:
            with full_of(place.parent):
                shutil.rmtree(place, ignore_errors=True)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.rename(outputs, place)
        except FileNotFoundError:
            return False
    forget(outputs)
    return True


def _prefix(root: Path) -> str:
    return f".staging-{installation.name_of(root)}-"


def _places(target: Path, root: Path) -> list[tuple[Path, str]]:
    prefix = _prefix(root)
    names = [name for name in _names(target) if name.startswith(prefix)]
    return [(target / name, name.removeprefix(prefix)) for name in sorted(names)]


def _names(folder: Path) -> list[str]:
    try:
        with full_of(folder):
            return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(path: Path, target: Path) -> Any:
    try:
        with full_of(target):
            return read_json(path)
    except ValueError:
        return None
