"""Decoders in processes of their own: what crashes or hangs there is a broken file here, and nothing else.

A decoder is kept for the next file, as it takes longer to start than to decode a short clip.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headway.storage.kinds.base import Facts, InvalidError, Rule
from headway.storage.kinds.containers import whole

#: a decoder that has told no progress for so long hangs
SILENCE_SECONDS = 60.0
#: whatever it tells, no file takes longer
LONGEST_SECONDS = 3600.0
#: decoders that are kept while nothing is asked
_MOST_IDLE = 4
_COMMAND = [sys.executable, "-I", "-m", "headway.storage.kinds.decoder"]


def video(path: Path, rule: Rule) -> Facts:
    return decode(path, "video")


def audio(path: Path, rule: Rule) -> Facts:
    return decode(path, "audio")


def decode(path: Path, kind: str) -> Facts:
    """What the decoder tells of the file. Raises InvalidError, also when it crashes or hangs, and OSError."""
    whole(path)
    for again in (True, True, False):
        decoder = _take()
        try:
            word = decoder.ask({"path": os.path.abspath(path), "kind": kind, "silence": SILENCE_SECONDS})
        except _EndedError as ended:
            # one that had been idle for too long; and whoever sends SIGKILL (as for memory) may mean another
            if again and ended.code in (0, -signal.SIGKILL):
                continue
            raise InvalidError(_why(ended.code)) from None
        except BaseException:
            decoder.end()
            raise
        _give_back(decoder)
        return _facts(word)
    raise AssertionError


def _facts(word: dict[str, Any]) -> Facts:
    if "errno" in word:
        raise OSError(word["errno"], word["text"])
    if "invalid" in word:
        raise InvalidError(word["invalid"], unfinished=word["unfinished"])
    facts: Facts = word["facts"]
    return facts


def _why(code: int) -> str:
    if code >= 0:
        return f"Its decoder ended with code {code}."
    try:
        return f"Its decoder died of {signal.Signals(-code).name}."
    except ValueError:
        return f"Its decoder died of signal {-code}."


class _EndedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Decoder:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self.pid = self._process.pid

    def ask(self, word: dict[str, Any]) -> dict[str, Any]:
        """Its answer. Raises InvalidError when it hangs (it is then ended), _EndedError when it is gone."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(word).encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None
        last = time.monotonic() + LONGEST_SECONDS
        pending = b""
        while True:
            until = min(last, time.monotonic() + SILENCE_SECONDS)
            pending += self._read(until)
            *lines, pending = pending.split(b"\n")
            for line in lines:
                said: dict[str, Any] = json.loads(line)
                if "progress" not in said:
                    return said

    def _read(self, until: float) -> bytes:
        assert self._process.stdout
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            self.end()
            raise InvalidError("Its decoder did not come to an end and was ended.")
        block = os.read(self._process.stdout.fileno(), 1 << 16)
        if not block:
            raise self._gone()
        return block

    def _gone(self) -> _EndedError:
        # it has closed its end; it may still be on its way out
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        self.end()
        return _EndedError(code)

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        # one that hangs in a dead mount is left to it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)


_lock = threading.Lock()
_idle: list[_Decoder] = []


def _take() -> _Decoder:
    while True:
        with _lock:
            decoder = _idle.pop() if _idle else None
        if decoder is None:
            if importlib.util.find_spec("av") is None:
                raise RuntimeError("Videos and audio need PyAV to be checked (pip install 'headway[server]').")
            return _Decoder()
        if decoder.alive():
            return decoder
        decoder.end()


def _give_back(decoder: _Decoder) -> None:
    with _lock:
        if len(_idle) < _MOST_IDLE:
            _idle.append(decoder)
            return
    decoder.end()
