"""The folder that something is converted into: empty before, whole after, and marked as unfinished meanwhile."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.errors import FailedError, RefusedError, UsageError

#: there while the folder is not whole, and says of what it is the beginning
MARK = ".headway-unfinished.json"


def begin(folder: Path, what: dict[str, Any]) -> bool:
    """Makes the folder, or takes one that is empty. Whether it is an unfinished one of the same `what`.

    Raises RefusedError for a folder with anything else in it, UsageError for what is no folder or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = os.listdir(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be used: {error.strerror}.", "Name a folder that can be made.") from None
    if there:
        if _marked(folder) == what:
            return True
        kind = "an unfinished conversion of something else" if MARK in there else "not empty"
        raise RefusedError(f"{folder} is {kind}.", "Name an empty folder, or one that is not there.", code="not_empty")
    publish(folder / MARK, lambda path: path.write_text(json.dumps(what)))
    return False


def _marked(folder: Path) -> Any:
    try:
        return json.loads((folder / MARK).read_text())
    except (OSError, ValueError):
        return None


def finish(folder: Path) -> None:
    """The mark goes. What is in the folder is on the disk already."""
    (folder / MARK).unlink()
    _sync(folder)


def publish(path: Path, write: Any) -> None:
    """Has `write(temporary path)` make a file; it gets its name when it is whole and on the disk.

    Raises FailedError when the disk does not take it. What is left of one that was cut off has a hidden name, and the
    next one replaces it.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def not_written(path: Path, error: OSError) -> FailedError:
    # what other libraries raise says more than the reason
    reason = os.strerror(error.errno) if error.errno else str(error)
    return FailedError(f"{path} cannot be written: {reason}.", "Make room there, or name another folder.")


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def forgotten_if_bare(folder: Path) -> Iterator[None]:
    """When what fills a folder fails before anything is in it, it is free for something else."""
    try:
        yield
    except BaseException:
        if os.listdir(folder) == [MARK]:
            (folder / MARK).unlink()
        raise


@contextmanager
def emptied_on_error(folder: Path) -> Iterator[None]:
    """A folder that was empty is empty again when what fills it fails."""
    try:
        yield
    except BaseException:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        raise
