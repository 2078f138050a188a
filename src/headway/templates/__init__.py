"""The job templates that headway ships: a folder each, with `template.yaml` and the script that it starts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from headway.rules.templates import Body, parse

_FOLDER = Path(__file__).parent
#: in the order of a listing
NAMES = ("command", "single", "ddp", "fsdp", "zero", "megatron", "accelerate")


@cache
def shipped(name: str) -> Body | None:
    """The template of that name; None when none is shipped."""
    if name not in NAMES:
        return None
    file = _FOLDER / name / "template.yaml"
    return parse(yaml.safe_load(file.read_text(encoding="utf-8")), f"{name}/template.yaml")


def script(name: str) -> Path | None:
    """The script of a shipped template; None for one that has none."""
    file = _FOLDER / name / "train.py"
    return file if file.is_file() else None
