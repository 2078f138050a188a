"""The names that other platforms put into a training process's environment, for scripts written for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What the variables are made of. Paths are absolute."""

    job: str
    #: dataset name -> folder
    inputs: dict[str, str]
    output: str
    checkpoints: str
    code: str
    parameters: dict[str, Any] = field(default_factory=dict)
    #: addresses of the nodes, first one first
    nodes: tuple[str, ...] = ("127.0.0.1",)
    node: int = 0
    processes: int = 1
    accelerators: int = 0
    arguments: tuple[str, ...] = ()


def variables(platform: str | None, facts: Facts) -> dict[str, str]:
    """Variables of `platform` (pai, modelarts, sagemaker; None: none). Raises ValueError for another."""
    if platform is None:
        return {}
    raise ValueError(f"unknown platform {platform!r}")
