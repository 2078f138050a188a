"""Runs one cell: in a child with the user's class, or as a command; with a time limit, and whatever becomes of it."""

from __future__ import annotations

import errno
import json
import os
import time

from headway.protocol import cellwords
from headway.script import cell_process
from headway.script.printed import Printed, last_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: what is told of a cell: {"done": {...}} or {"failed": {...}}
    Word = dict[str, dict[str, Any]]

#: errnos whose words in an error's text tell that nothing could be written
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class ClassRuns:
    """With the user's class."""

    def __init__(self, hello: dict[str, Any]) -> None:
        """Raises SystemExit with one sentence when there is no such class."""
        self._hello = hello
        self._timeout: float | None = hello.get("timeout")
        self._child = cell_process.start(hello)
        self._loaded: int | None = None

    def one(self, cell: dict[str, Any]) -> Word:
        began = time.monotonic()
        if not self._child.alive:
            self._child, self._loaded = cell_process.start(self._hello), None
        load = self._loaded != cell["checkpoint"]
        path = self._hello["checkpoints"][cell["checkpoint"]]["path"]
        ask = {"load": path if load else None, "run": True, "case": cell["case"], "out": cell["out"]}
        # the time limit is the cell's: loading does not count
        answer = self._child.ask(ask, None if load else self._timeout)
        if load:
            self._loaded = cell["checkpoint"] if answer.get("loaded") else None
            if answer.get("loaded"):
                began = time.monotonic()
                answer = self._child.more(self._timeout)
        return _word(self._hello, cell, answer, time.monotonic() - began, self._child.printed)

    def close(self) -> None:
        self._child.end()


class CommandRuns:
    """With a command for each cell; a child only where there is a check or a scorer."""

    def __init__(self, hello: dict[str, Any]) -> None:
        """Raises SystemExit with one sentence when there is no such check or scorer."""
        self._hello = hello
        self._timeout: float | None = hello.get("timeout")
        self._judge = cell_process.start(hello) if hello.get("check") or hello.get("scorer") else None

    def one(self, cell: dict[str, Any]) -> Word:
        from headway.script.command import run_command

        began = time.monotonic()
        checkpoint = self._hello["checkpoints"][cell["checkpoint"]]
        try:
            words = cellwords.fill(
                self._hello["command"], checkpoint["path"], checkpoint["name"], cell["case"], cell["out"]
            )
        except KeyError as error:
            return _failed(
                cell, "exception", f"The command asks for {{{error.args[0]}}}, which the case does not have."
            )
        case_file = cellwords.case_file(cell["out"]) if cellwords.names_case(self._hello["command"]) else None
        try:
            if case_file is not None:
                with open(case_file, "w", encoding="utf-8") as file:
                    json.dump(cell["case"], file, ensure_ascii=False)
            answer, printed = run_command(words, self._timeout, began)
            if answer.get("ok") and self._judge is not None:
                answer = self._judged(cell, began)
        except OSError as error:
            failed = _failed(cell, "exit", f"{words[0]!r} could not be started: {error.strerror}.")
            if error.filename == case_file:
                failed["failed"] |= {"errno": error.errno, "path": case_file, "reason": f"OSError: {error}"}
            return failed
        finally:
            if case_file is not None and os.path.exists(case_file):
                os.unlink(case_file)
        return _word(self._hello, cell, answer, time.monotonic() - began, printed)

    def _judged(self, cell: dict[str, Any], began: float) -> dict[str, Any]:
        assert self._judge is not None
        if not self._judge.alive:
            self._judge = cell_process.start(self._hello)
        left = None if self._timeout is None else max(0.1, self._timeout - (time.monotonic() - began))
        return self._judge.ask({"load": None, "run": False, "case": cell["case"], "out": cell["out"]}, left)

    def close(self) -> None:
        if self._judge is not None:
            self._judge.end()


def _word(
    hello: dict[str, Any], cell: dict[str, Any], answer: dict[str, Any], seconds: float, printed: Printed | None
) -> Word:
    if "failed" in answer:
        failed = answer["failed"]
        if failed.get("errno") is None:
            failed["errno"] = _full_words(str(failed.get("reason")) + (failed.pop("tail", None) or ""))
        return {"failed": {**failed, "cell": cell["id"]}}
    scores = answer.get("scores")
    if scores is None and not hello.get("scorer"):
        try:
            scores = _scores(str(hello.get("scores") or "file"), cell["out"], printed)
        except Exception as error:  # what somebody else wrote may be wrong in any way
            return _failed(cell, "no_score", f"Its results cannot be read: {type(error).__name__}: {error}")
    return {"done": {"cell": cell["id"], "seconds": round(seconds, 4), "scores": scores}}


def _scores(kind: str, out: str, printed: Printed | None) -> Any:
    """None: the helper reads them from the score file."""
    if kind == "stdout":
        return (last_object(printed.text) if printed is not None else None) or {}
    if kind == "lm_eval":
        from headway.script import lm_eval

        return lm_eval.read(out)
    return None


def _failed(cell: dict[str, Any], cause: str, reason: str) -> Word:
    return {"failed": {"cell": cell["id"], "cause": cause, "reason": reason}}


def _full_words(text: str) -> int | None:
    return next((number for number in _FULL if os.strerror(number) in text), None)
