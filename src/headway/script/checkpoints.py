"""`save_checkpoint` and `flush_checkpoints`: whole files under CHECKPOINT_PATH, written at once or beside training.

Beside training means: the call copies what is to be saved into host memory of its own, which is kept and used again,
and a thread writes it from there. Training stands still for the copy only.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from pathlib import Path

from headway.protocol import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["flush_checkpoints", "save_checkpoint"]


def save_checkpoint(
    state: Any,
    name: str,
    *,
    step: int | None = None,
    epoch: int | None = None,
    metrics: dict[str, float] | None = None,
    wait: bool = True,
) -> Path:
    """Saves `state` as the file `name` under CHECKPOINT_PATH, whole or not at all. Returns its path.

    `bytes` are written as they are; a dict of tensors under a name that ends in `.safetensors` by safetensors;
    anything else by `torch.save`. CHECKPOINT_PATH is `checkpoints` in the working folder where headway did not set it.

    wait False: returns as soon as `state` is copied and may be changed; a thread writes it, and the interpreter does
    not exit before it has. The next save waits for the one before. Tensors that share memory share it in the file
    too; those of an accelerator are saved as tensors of the CPU.

    Raises OSError or RuntimeError, also for what went wrong in the background since the last call; ValueError when
    `name` is not a plain file name.
    """
    began = time.monotonic()
    if not name or name != os.path.basename(name) or "\0" in name:
        raise ValueError(f"{name!r} is not a plain file name. Save every checkpoint directly under CHECKPOINT_PATH.")
    folder = Path(os.environ.get(names.CHECKPOINT_PATH, "checkpoints"))
    flush_checkpoints()
    folder.mkdir(parents=True, exist_ok=True)
    note: dict[str, Any] = {"step": step, "epoch": epoch, "metrics": dict(metrics or {})}
    if wait:
        _write(state, folder / name, note, began, None)
        return folder / name
    frozen = _freeze(state)
    blocked = time.monotonic() - began
    _background.start(folder / name, lambda: _write(frozen, folder / name, note, began, blocked))
    return folder / name


def flush_checkpoints() -> None:
    """Returns once what is being saved in the background is a whole file. Raises OSError or RuntimeError if it failed.

    Called at the interpreter's exit too, which is then an error (exit code 1) if a checkpoint could not be saved.
    """
    _background.wait()


# -- writing


def _write(state: Any, path: Path, note: dict[str, Any], began: float, blocked: float | None) -> None:
    """blocked: seconds that training stood still; None: for as long as saving takes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with open(temporary, "wb") as file:
            _put(state, file, path.suffix)
            file.flush()
            os.fsync(file.fileno())
        found = os.stat(temporary)
        seconds = time.monotonic() - began
        note["save_seconds"] = round(seconds, 4)
        note["blocked_seconds"] = round(seconds if blocked is None else blocked, 4)
        # the file that this is about, which is never written to again: headway may share it instead of copying it
        note["written"] = [found.st_ino, found.st_size, found.st_mtime_ns]
        # before the checkpoint, so that a checkpoint that is there has its note
        _write_note(path.with_name(f"{path.name}.json"), note)
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _put(state: Any, file: Any, suffix: str) -> None:
    if isinstance(state, (bytes, bytearray, memoryview)):
        file.write(state)
    elif suffix == ".safetensors":
        from safetensors.torch import save

        file.write(save(state))
    else:
        import torch

        torch.save(state, file)


def _write_note(path: Path, note: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        temporary.write_text(json.dumps(note), encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class _Background:
    """At most one save at a time, in a thread that the interpreter waits for at its exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._thread: threading.Thread | None = None
        self._path: Path | None = None
        self._error: BaseException | None = None
        self._owner = os.getpid()

    def start(self, path: Path, write: Callable[[], None]) -> None:
        def run() -> None:
            try:
                write()
            except BaseException as error:
                self._error = error

        self.wait()
        with self._lock:
            self._path, self._owner = path, os.getpid()
            self._thread = threading.Thread(target=run, name="save_checkpoint", daemon=False)
            self._thread.start()

    def wait(self) -> None:
        """Raises what the save raised, once."""
        if self._owner != os.getpid():
            # a fork: the save is the parent's
            self._lock = threading.Lock()
            self._forget()
        with self._lock:
            if self._thread is None:
                return
            self._thread.join()
            path, error = self._path, self._error
            self._forget()
        if isinstance(error, OSError):
            raise OSError(error.errno, f"Checkpoint {path} could not be saved: {error.strerror or error}") from error
        if error is not None:
            raise RuntimeError(f"Checkpoint {path} could not be saved: {error}") from error


_background = _Background()


def _at_exit() -> None:
    try:
        flush_checkpoints()
    except Exception as error:
        print(f"headway: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        # a script that ends well says that its checkpoints are there
        os._exit(1)


# registered on import, hence called after what the script registers
atexit.register(_at_exit)


# -- copying


def _freeze(state: Any) -> Any:
    """A copy of `state` that nobody else changes, its tensors in host memory that was used before where it can be."""
    if isinstance(state, (bytes, bytearray, memoryview)):
        return bytes(state)
    from headway.script.frozen import freeze

    return freeze(state)
