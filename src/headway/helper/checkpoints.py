"""What appears in CHECKPOINT_PATH: seen when whole, checked, published under its name, told."""

from __future__ import annotations

import fnmatch
import json
import re
import threading
from pathlib import Path
from typing import Any

from headway.helper.gate import ClosedError, Gate
from headway.helper.prepare import reason
from headway.helper.voice import Voice
from headway.protocol import events
from headway.protocol.files import read_json
from headway.storage.publish import file_digest, publish_bytes, publish_file, sweep_temporaries
from headway.storage.quota import ProjectQuota
from headway.storage.verify import InvalidError, check, kind_of

WATCH_SECONDS = 0.2
_WORDED = re.compile(r"(epoch|ep|step|iter|iteration|checkpoint|ckpt)s?[-_=]?(\d+)", re.IGNORECASE)
_LAST = re.compile(r"(\d+)(?!.*\d)")

State = tuple[int, int, int]


def position(name: str, sidecar: dict[str, Any]) -> tuple[int | None, int | None]:
    """(step, epoch) of a checkpoint: what its sidecar says, else the numbers in its name.

    epoch-07.pt is epoch 7; step_1000.pt, checkpoint-1000 and model-1000.pt are step 1000.
    """
    step, epoch = sidecar.get("step"), sidecar.get("epoch")
    if step is not None or epoch is not None:
        return step, epoch
    stem = name.rpartition(".")[0] or name
    for word, number in _WORDED.findall(stem):
        if word.lower() in ("epoch", "ep"):
            epoch = int(number)
        else:
            step = int(number)
    if step is None and epoch is None and (last := _LAST.search(stem)):
        step = int(last.group(1))
    return step, epoch


class Checkpoints:
    """A thread of its own: a pause here holds nothing else up."""

    def __init__(self, plan: dict[str, Any], voice: Voice) -> None:
        rule = plan["checkpoints"]
        self._watch, self._target = Path(rule["watch"]), Path(rule["target"])
        self._root = Path(plan["root"])
        self._patterns: list[str] = rule["patterns"]
        self._quota = ProjectQuota(Path(plan["project_folder"]))
        self._voice = voice
        self._gate = Gate(voice, float(rule.get("resume_seconds", 1.0)))
        #: name -> state of the file and its sidecar that was told, or is no whole checkpoint yet
        self._told: dict[str, tuple[State, State | None]] = {}
        self._unfinished: dict[str, State] = {}
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def start(self) -> None:
        """Raises OSError when CHECKPOINT_PATH cannot be made."""
        self._watch.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def finish(self) -> None:
        """The last look: what is not whole now never will be. Waits while the target is full."""
        self._finish.set()
        self._thread.join()

    def _run(self) -> None:
        sweep_temporaries(self._target)
        self._report_published()
        while not self._finish.wait(WATCH_SECONDS):
            self.scan()
        self.scan(last=True)

    def _report_published(self) -> None:
        """Tells what was published before: its event may have been lost with its helper."""
        for path in sorted(self._target.glob("*")):
            if not self._matches(path.name) or not path.is_file():
                continue
            try:
                facts = check(path, kind_of(path))
                digest = file_digest(path)
                notes = self._notes(path.name)
                if notes and digest not in notes:
                    raise InvalidError("It has other bytes than when it was published.")
                self._tell(path, digest, facts["format"], notes.get(digest, {}))
            except InvalidError as error:
                self._tell(path, "", kind_of(path), {}, fault=error.reason)
            except OSError as error:
                self._voice.log(f"checkpoint {path.name} cannot be read: {error}")

    # -- looking

    def scan(self, *, last: bool = False) -> None:
        """Publishes what is new and whole. last: what is not whole is told as invalid."""
        try:
            found = sorted(p for p in self._watch.iterdir() if self._matches(p.name))
        except OSError:
            return
        for path in found:
            try:
                state, beside = _state(path), _state(self._watch / f"{path.name}.json")
                if state is None or self._told.get(path.name) == (state, beside):
                    continue
                if not last and self._unfinished.get(path.name) == state:
                    continue
                self._take(path, state, beside, last)
            except ClosedError:
                return
            except OSError as error:
                self._voice.log(f"checkpoint {path.name} cannot be read: {error}")

    def _matches(self, name: str) -> bool:
        return not name.startswith(".") and any(fnmatch.fnmatchcase(name, p) for p in self._patterns)

    def _take(self, path: Path, state: State, beside: State | None, last: bool) -> None:
        target = self._target / path.name
        try:
            sidecar = self._sidecar(path.name)
            published = self._gate.through(lambda: self._publish(path, target, sidecar))
        except InvalidError as error:
            if error.unfinished and not last:
                self._unfinished[path.name] = state
                return
            self._told[path.name] = state, beside
            # what is in the way of reading it has nothing to do with what was published under this name before
            self._tell(path, file_digest(path), kind_of(path), sidecar, fault=reason(error))
            return
        self._told[path.name] = state, beside
        self._tell(target, published.files[0].sha256, published.facts["format"], sidecar)

    def _publish(self, path: Path, target: Path, sidecar: dict[str, Any]) -> Any:
        digest = file_digest(path)
        # before the file, so that a file that is there has its note; the one that it replaces keeps its own
        notes = {k: v for k, v in list(self._notes(path.name).items())[-1:] if k != digest} | {digest: sidecar}
        note = target.with_name(f".{path.name}.json")
        check(path, kind_of(path))
        publish_bytes(json.dumps(notes).encode(), note, kind="json")
        return publish_file(path, target, kind=kind_of(path), quota=self._quota, sha256=None)

    # -- telling

    def _sidecar(self, name: str) -> dict[str, Any]:
        return _object(self._watch / f"{name}.json")

    def _notes(self, name: str) -> dict[str, Any]:
        """SHA-256 -> sidecar of what was published under `name` lately."""
        return _object(self._target / f".{name}.json")

    def _tell(self, path: Path, digest: str, kind: str, sidecar: dict[str, Any], *, fault: str = "") -> None:
        step, epoch = position(path.name, sidecar)
        self._voice.event(
            events.CHECKPOINT,
            name=path.name,
            path=_below(path, self._root),
            step=step,
            epoch=epoch,
            metrics=sidecar.get("metrics") or {},
            bytes=path.stat().st_size,
            sha256=digest,
            format=kind,
            valid=not fault,
            reason=fault,
        )
        self._voice.log(f"checkpoint {path.name}: {f'not valid: {fault}' if fault else 'valid'}")


def _state(path: Path) -> State | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _object(path: Path) -> dict[str, Any]:
    try:
        raw = read_json(path)
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}


def _below(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
