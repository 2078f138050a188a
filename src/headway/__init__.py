"""headway: a self-hosted AI platform. What is importable here is the public surface; it loads on first use."""

from __future__ import annotations

# as type checkers understand it: `typing` itself costs a runner 4 ms of its start
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any

    from headway.client import Client
    from headway.client.estimator import Estimator
    from headway.script import flush_checkpoints, leave, log, resume, save_checkpoint, should_stop
    from headway.script.data import data

#: public name -> module that holds it; loaded on first use so that `import headway` costs nothing in a script.
_WHERE = {
    "Client": "headway.client",
    "Estimator": "headway.client.estimator",
    "data": "headway.script.data",
    "flush_checkpoints": "headway.script",
    "leave": "headway.script",
    "log": "headway.script",
    "resume": "headway.script",
    "save_checkpoint": "headway.script",
    "should_stop": "headway.script",
}

__all__ = [
    "Client",
    "Estimator",
    "__version__",
    "data",
    "flush_checkpoints",
    "leave",
    "log",
    "resume",
    "save_checkpoint",
    "should_stop",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)
