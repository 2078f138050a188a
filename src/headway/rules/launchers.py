"""Which commands are launchers: they start the ranks of a node themselves and want to know nodes, not ranks."""

from __future__ import annotations

from collections.abc import Sequence


def view_of(command: Sequence[str]) -> str:
    """ "node" for a launcher (torchrun, accelerate, deepspeed), else "process"; see `protocol.launch.Launch.view`."""
    return "node" if command and command[0].rpartition("/")[2] in ("torchrun", "accelerate", "deepspeed") else "process"
