"""What a user's script may import: `headway.log`, `save_checkpoint`, `resume`, `should_stop`.

Standard library only. Outside headway each does what makes sense alone, so that the script runs anywhere.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from headway.protocol import names

__all__ = ["log", "resume", "save_checkpoint", "should_stop"]


def _tell(word: dict[str, Any]) -> bool:
    """Sends one datagram to the runner; False outside headway."""
    address = os.environ.get(names.CHANNEL)
    if not address:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(5.0)
            channel.sendto(json.dumps(word).encode(), address)
    except OSError:
        return False
    return True


def log(step: int | None = None, **metrics: float) -> None:
    """Reports metric values at `step` (None: 0). Outside headway: prints them."""
    rank = int(os.environ.get(names.RANK, "0"))
    for name, value in metrics.items():
        word = {"metric": {"step": step or 0, "name": name, "value": float(value), "rank": rank}}
        if not _tell(word):
            print(f"step={step or 0} {name}={value}", flush=True)


def save_checkpoint(
    state: Any, name: str, *, step: int | None = None, epoch: int | None = None, metrics: dict[str, float] | None = None
) -> Path:
    """Saves `state` (bytes as they are, else with `torch.save`) as `name` under CHECKPOINT_PATH, whole or not at all.

    CHECKPOINT_PATH is `checkpoints` in the working folder where headway did not set it. Returns the path. Raises
    OSError.
    """
    folder = Path(os.environ.get(names.CHECKPOINT_PATH, "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    path, temporary = folder / name, folder / f".{name}.unfinished"
    sidecar = {"step": step, "epoch": epoch, "metrics": metrics or {}}
    (folder / f"{name}.json").write_text(json.dumps(sidecar), encoding="utf-8")
    with open(temporary, "wb") as file:
        if isinstance(state, (bytes, bytearray, memoryview)):
            file.write(state)
        else:
            import torch

            torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    return path


def resume() -> Path | None:
    """The checkpoint to go on from; None when there is none."""
    found = os.environ.get(names.RESUME_FROM)
    return Path(found) if found else None


def should_stop() -> bool:
    """Whether the run was asked to end: save, and return. Always False outside headway."""
    flag = os.environ.get(names.STOP_FILE)
    return flag is not None and os.path.exists(flag)
