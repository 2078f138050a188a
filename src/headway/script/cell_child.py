"""The process that holds the user's class: loads checkpoints, runs cells, checks and scores them, one at a time.

The worker forks it and talks to it over a socket, JSON lines. From it, first `{"ready": true}` or `{"fatal":
sentence}`; to it `{"load": path | null, "run": bool, "case", "out"}`; from it `{"loaded": true}` after a load, and then
`{"ok": true, "scores"}` or `{"failed": {"cause", "reason", "errno", "path"}}`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import socket
import sys
import traceback
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FatalError(Exception):
    """No cell can be run at all. Its text is one sentence."""


def serve(end: socket.socket, worker: str | None, check: str | None, scorer: str | None) -> None:
    """Answers until the other end is closed."""
    stream = end.makefile("rwb")

    def tell(**word: Any) -> None:
        sys.stdout.flush()
        stream.write(json.dumps(word, ensure_ascii=True, default=float).encode() + b"\n")
        stream.flush()

    try:
        user = _User(worker, check, scorer)
    except FatalError as error:
        tell(fatal=str(error))
        return
    tell(ready=True)
    for line in stream:
        asked = json.loads(line)
        try:
            if asked.get("load") is not None:
                user.load(asked["load"])
                tell(loaded=True)
            tell(ok=True, scores=user.cell(asked["case"], asked["out"], asked["run"]))
        except _FailedError as failed:
            tell(failed=failed.word)


class _FailedError(Exception):
    def __init__(self, cause: str, reason: str, error: BaseException | None = None) -> None:
        super().__init__(reason)
        found = _oserror(error)
        path = found.filename if found is not None and isinstance(found.filename, str) else None
        number = found.errno if found is not None else None
        self.word = {"cause": cause, "reason": reason, "errno": number, "path": path and os.path.abspath(path)}


class _User:
    def __init__(self, worker: str | None, check: str | None, scorer: str | None) -> None:
        """Raises FatalError."""
        sys.path.insert(0, str(Path.cwd()))
        self._worker = self._make(worker) if worker else None
        self._check: Callable[..., Any] | None = find(check) if check else None
        self._scorer: Callable[..., Any] | None = find(scorer) if scorer else None

    def _make(self, entry: str) -> Any:
        made = find(entry)
        try:
            return made()
        except Exception as error:
            traceback.print_exc()
            raise FatalError(f"{entry!r} could not be made: {_said(error)}") from None

    def load(self, checkpoint: str) -> None:
        try:
            self._worker.load(checkpoint)  # type: ignore[union-attr]
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            name = os.path.basename(checkpoint)
            raise _FailedError("load", f"Checkpoint {name} could not be loaded: {_said(error)}", error) from None

    def cell(self, case: dict[str, Any], out: str, run: bool) -> Any:
        """Its scores; None when no scorer tells them."""
        if run:
            self._call("exception", "", self._worker.run, case, out)  # type: ignore[union-attr]
        if self._check is not None:
            wrong = self._call("check", "Its check failed: ", self._check, case, out)
            if wrong not in (None, True, ""):
                raise _FailedError("check", str(wrong) if wrong is not False else "Its check says no.")
        if self._scorer is None:
            return None
        scores = self._call("scorer", "Its scorer failed: ", self._scorer, case, out)
        try:
            return _plain(scores)
        except RecursionError as error:
            raise _FailedError("scorer", "What its scorer returned is nested too deep.", error) from None

    def _call(self, cause: str, begin: str, function: Callable[..., Any], case: dict[str, Any], out: str) -> Any:
        try:
            return function(case, out)
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            raise _FailedError(cause, begin + _said(error), error) from None


def find(entry: str) -> Any:
    """What `FILE.py:NAME` or `module:NAME` names. Raises FatalError with one sentence when there is none."""
    where, _, name = entry.partition(":")
    try:
        found: Any = _module(entry, where)
    except FatalError:
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise FatalError(f"{entry!r} could not be imported: {_said(error)}") from None
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise FatalError(f"{entry!r}: {where!r} has no {name!r}.") from None
    return found


def _module(entry: str, where: str) -> Any:
    if not where.endswith(".py"):
        return importlib.import_module(where)
    name = Path(where).stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == os.path.abspath(where):
        return known
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(where))
    if spec is None or spec.loader is None or not Path(where).exists():
        raise FatalError(f"{entry!r}: there is no file {where!r} in the code.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _oserror(error: BaseException | None) -> OSError | None:
    """The OSError that it is, or comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _plain(scores: Any) -> Any:
    """As JSON can hold it: numbers of other libraries become floats."""
    if isinstance(scores, dict):
        return {str(name): _plain(value) for name, value in scores.items()}
    if isinstance(scores, (int, float, str)) or scores is None:
        return scores
    try:
        return float(scores)
    except (TypeError, ValueError):
        return str(scores)
