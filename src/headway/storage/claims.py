"""Whose a folder of outputs is, where several installations of headway may be given the same one.

`<target>/evaluation-<id>` is called alike by each of them. The first that comes leaves a mark there, which is never
changed; whoever finds another's mark writes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.storage import installation, writing
from headway.storage.full import REMEDIES, TargetFullError, full_of

#: the cause of the pause
TAKEN = "taken"
#: in the folder: {"installation", "root", "host"}
MARK = ".headway"
#: what a file system says that has no hard links
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(frozen=True)
class Owner:
    """Of which installation a folder is; root and host: where that one was when it came first."""

    installation: str
    root: str
    host: str

    def to_json(self) -> dict[str, str]:
        return {"installation": self.installation, "root": self.root, "host": self.host}


def claim(folder: Path, root: Path, *, fresh: bool = False) -> None:
    """Makes sure that the folder (made when missing) is of the installation with this root, on the disk, too.

    fresh: this installation has never written there: outputs without a mark are then somebody else's. Raises
    TargetFullError: it is another's (`taken`), or nothing can be written there.
    """
    with full_of(root, whatever=True):
        own = Owner(installation.lasting_name_of(root), str(root), socket.gethostname())
    with full_of(folder, whatever=True):
        # before the mark is looked for: who comes at the same time leaves it first
        unmarked = fresh and _outputs(folder)
        found = _owner(folder)
        if found is None and not unmarked:
            _mark(folder, own)
            found = _owner(folder)
    if found is None or found.installation != own.installation:
        raise _taken(folder, found)


def _owner(folder: Path) -> Owner | None:
    """Whose mark is there. One that cannot be made out is nobody's of ours."""
    try:
        content = (folder / MARK).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        told: dict[str, Any] = json.loads(content)
        return Owner(str(told["installation"]), str(told["root"]), str(told["host"]))
    except (ValueError, KeyError, TypeError):
        return Owner("", "", "")


def _outputs(folder: Path) -> bool:
    try:
        return any(not name.startswith(".") for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def _mark(folder: Path, own: Owner) -> None:
    """Leaves the mark, unless there is one by now."""
    content = json.dumps(own.to_json()).encode() + b"\n"
    appeared = writing.made(folder)
    with writing.temporary(folder / MARK) as fresh:
        writing.write(fresh, content, 0o644)
        try:
            # whole or not there; of two that come at once the second finds the first one's
            os.link(fresh, folder / MARK)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with contextlib.suppress(FileExistsError):
                writing.write(folder / MARK, content, 0o644)
    for place in (folder, *appeared):
        writing.sync_folder(place)


def _taken(folder: Path, owner: Owner | None) -> TargetFullError:
    mark, remedy, figures = folder / MARK, REMEDIES[TAKEN], {}
    if owner is None:
        message = f"{folder} holds outputs that this headway did not write; they are not replaced."
        remedy += " Or move what is there away; work goes on by itself then."
    elif not owner.installation:
        message = f"{mark}, which says whose the folder is, cannot be made out."
        remedy += f" Or remove {mark}; work goes on by itself then."
    else:
        figures = {"owner": owner.to_json()}
        message = (
            f"{folder} belongs to another headway (installation {owner.installation}, its state is in {owner.root} on "
            f"{owner.host}); what is there is not replaced."
        )
        remedy += f" If that headway is gone for good, remove {mark}; work goes on by itself then."
    return TargetFullError(TAKEN, folder, message, remedy, figures=figures)
