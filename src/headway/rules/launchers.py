"""Which commands are launchers: they start the ranks of a node themselves and want to know nodes, not ranks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_PROGRAMS = frozenset({"torchrun", "deepspeed"})
_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


def view_of(command: Sequence[str]) -> str:
    """ "node" for a launcher (torchrun, accelerate launch, deepspeed), else "process"; see `Launch.view`."""
    words = list(command)
    if not words:
        return "process"
    program = words[0].rpartition("/")[2]
    if program in _SHELLS and "-c" in words[1:-1]:
        return _view_of_line(words[words.index("-c") + 1])
    if program in _PROGRAMS or (program == "accelerate" and words[1:2] == ["launch"]):
        return "node"
    return "node" if program.startswith("python") and _module(words[1:]) in _MODULES else "process"


def _view_of_line(line: str) -> str:
    """Of a shell's line: what its last command is."""
    try:
        words = shlex.split(line.replace("\n", " ; ").replace("&&", " ; ").rpartition(";")[2])
    except ValueError:
        return "process"
    while words and (words[0] == "exec" or "=" in words[0]):
        words = words[1:]
    return view_of(words)


def _module(words: Sequence[str]) -> str | None:
    """What `python` runs with -m; None when it runs a file."""
    for position, word in enumerate(words):
        if word == "-m":
            return words[position + 1] if position + 1 < len(words) else None
        if not word.startswith("-"):
            return None
    return None
