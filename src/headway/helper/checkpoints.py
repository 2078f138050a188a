"""What appears in CHECKPOINT_PATH: seen when whole, checked, published under its name, told.

A file that `headway.save_checkpoint` wrote is never written to again, so that its publication shares it by a hard link
(its note says which file it is). Anything else is copied, by reference where the file system can: a script may write
to the very same file once more, and what was published must not change with it.

Of several nodes only the first one's helper does this; CHECKPOINT_PATH is the same folder on all of them.
"""

from __future__ import annotations

import fnmatch
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

from headway.helper.gate import ClosedError, Gate
from headway.helper.prepare import reason
from headway.helper.voice import Voice
from headway.protocol import events
from headway.protocol.files import read_json
from headway.storage.folders import check_folder, files_of, folder_kind
from headway.storage.publish import (
    Signature,
    file_digest,
    publish_bytes,
    publish_file,
    publish_tree,
    signature,
    sweep_temporaries,
    verify_folder,
)
from headway.storage.quota import ProjectQuota, measure
from headway.storage.verify import InvalidError, check, kind_of

WATCH_SECONDS = 0.2
#: a folder is looked at so often, and is whole at the earliest when nothing in it has changed for so long: some write
#: their marker before their last file
FOLDER_SECONDS, SETTLE_SECONDS = 1.0, 2.0
_WORDED = re.compile(r"(epoch|ep|step|iter|iteration|checkpoint|ckpt)s?[-_=]?(\d+)", re.IGNORECASE)
#: what a step may be: whole numbers up to here are the same in JSON, Python and a record
_LARGEST = 2**53
#: bytes of a sidecar
_LONGEST = 1 << 20
_LAST = re.compile(r"(\d+)(?!.*\d)")

#: of a file; of a folder the hash of all that is in it
State = Signature | int


def position(name: str, sidecar: dict[str, Any]) -> tuple[int | None, int | None]:
    """(step, epoch) of a checkpoint: what its sidecar says, else the numbers in its name.

    epoch-07.pt is epoch 7; step_1000.pt, checkpoint-1000 and model-1000.pt are step 1000.
    """
    step, epoch = _whole(sidecar.get("step")), _whole(sidecar.get("epoch"))
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
    return _whole(step), _whole(epoch)


def _whole(value: Any) -> int | None:
    """A number as a record holds it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None
    return int(value)


def cleaned(sidecar: dict[str, Any]) -> dict[str, Any]:
    """A sidecar with nothing in it that no record could hold: whatever a script wrote, its checkpoint counts."""
    metrics = sidecar.get("metrics")
    numbers = metrics.items() if isinstance(metrics, dict) else ()
    return {
        **({"written": list(written)} if (written := _written(sidecar)) is not None else {}),
        **{k: n for k in ("step", "epoch") if (n := _whole(sidecar.get(k))) is not None},
        **{k: sidecar[k] for k in ("save_seconds", "blocked_seconds") if _is_number(sidecar.get(k))},
        "metrics": {str(k): v for k, v in numbers if _is_number(v)},
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308


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
        self._settle_seconds = float(rule.get("settle_seconds", SETTLE_SECONDS))
        #: name -> state of the file and its sidecar that was told, or is no whole checkpoint yet
        self._told: dict[str, tuple[State, State | None]] = {}
        self._unfinished: dict[str, State] = {}
        #: folder -> its state, and the monotonic time since when it has it
        self._settling: dict[str, tuple[State, float]] = {}
        self._folders_at = 0.0
        self._refused: set[str] = set()
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
            if not self._matches(path):
                continue
            kind = kind_of(path)
            try:
                if path.is_dir():
                    digest = str(verify_folder(path).manifest.get("key"))
                    kind = check_folder(path).kind
                else:
                    kind = str(check(path, kind)["format"])
                    digest = file_digest(path)
                notes = self._notes(path.name)
                if notes and digest not in notes:
                    raise InvalidError("It has other bytes than when it was published.")
                self._tell(path, digest, kind, notes.get(digest, {}))
            except InvalidError as error:
                self._tell(path, "", kind, {}, fault=error.reason)
            except Exception as error:
                self._voice.log(f"checkpoint {path.name!a} cannot be read: {error!r}")

    # -- looking

    def scan(self, *, last: bool = False) -> None:
        """Publishes what is new and whole. last: what is not whole is told as invalid."""
        try:
            found = sorted(p for p in self._watch.iterdir() if self._matches(p))
        except OSError:
            return
        now = time.monotonic()
        folders = last or now >= self._folders_at
        if folders:
            self._folders_at = now + min(FOLDER_SECONDS, self._settle_seconds)
        for path in found:
            try:
                if path.is_dir() and not (folders and self._settled(path, now, last)):
                    continue
                state, beside = _state(path), _state(self._watch / f"{path.name}.json")
                if state is None or self._told.get(path.name) == (state, beside):
                    continue
                if not last and self._unfinished.get(path.name) == state:
                    continue
                self._take(path, state, beside, last)
            except ClosedError:
                return
            except OSError as error:
                self._voice.log(f"checkpoint {path.name!a} cannot be read: {error}")
            except Exception as error:
                # one that we do not understand must not end the watch over all that follow
                if path.name not in self._refused:
                    self._refused.add(path.name)
                    self._voice.log(f"checkpoint {path.name!a} cannot be taken: {error!r}")

    def _matches(self, path: Path) -> bool:
        """A pattern that ends in a slash is for folders alone. Links are followed nowhere, and pipes are no files."""
        if path.name.startswith(".") or path.is_symlink() or not (path.is_file() or path.is_dir()):
            return False
        return any(
            fnmatch.fnmatchcase(path.name, p.rstrip("/")) and (path.is_dir() or not p.endswith("/"))
            for p in self._patterns
        )

    def _settled(self, path: Path, now: float, last: bool) -> bool:
        """Whether nothing in the folder has changed for a while. A folder that is no checkpoint never is."""
        state = _state(path)
        if state is None or folder_kind(files_of(path)) is None:
            return False
        before, since = self._settling.get(path.name, (None, now))
        if state != before:
            self._settling[path.name] = state, now
            since = now
        return last or now - since >= self._settle_seconds

    def _take(self, path: Path, state: State, beside: State | None, last: bool) -> None:
        target = self._target / path.name
        sidecar = self._sidecar(path.name)
        try:
            digest, kind = self._gate.through(lambda: self._publish(path, target, sidecar))
        except InvalidError as error:
            if error.unfinished and not last:
                self._unfinished[path.name] = state
                return
            self._told[path.name] = state, beside
            # what is in the way of reading it has nothing to do with what was published under this name before
            kind = (folder_kind(files_of(path)) or "") if path.is_dir() else kind_of(path)
            digest = "" if path.is_dir() else file_digest(path)
            self._tell(path, digest, kind, sidecar, fault=reason(error))
            return
        self._told[path.name] = state, beside
        self._tell(target, digest, kind, sidecar)

    def _publish(self, path: Path, target: Path, sidecar: dict[str, Any]) -> tuple[str, str]:
        """(digest, kind) of what stands at `target` then."""

        def announce(digest: str) -> None:
            # before the file, so that a file that is there has its note; the one that it replaces keeps its own
            notes = {k: v for k, v in list(self._notes(path.name).items())[-1:] if k != digest} | {digest: sidecar}
            publish_bytes(json.dumps(notes).encode(), target.with_name(f".{path.name}.json"), kind="json")

        if path.is_dir():
            found = check_folder(path)
            made = publish_tree(path, target, outputs=found.outputs, quota=self._quota, announce=announce)
            return str(made.manifest["key"]), found.kind
        made = publish_file(
            path, target, kind=kind_of(path), quota=self._quota, settled=_written(sidecar), announce=announce
        )
        return made.files[0].sha256, str(made.facts["format"])

    # -- telling

    def _sidecar(self, name: str) -> dict[str, Any]:
        return cleaned(_object(self._watch / f"{name}.json"))

    def _notes(self, name: str) -> dict[str, Any]:
        """SHA-256 -> sidecar of what was published under `name` lately."""
        return _object(self._target / f".{name}.json")

    def _tell(self, path: Path, digest: str, kind: str, sidecar: dict[str, Any], *, fault: str = "") -> None:
        step, epoch = position(path.name, sidecar)
        size, files = measure(path)
        times = {
            k: float(v) for k in ("save_seconds", "blocked_seconds") if isinstance(v := sidecar.get(k), (int, float))
        }
        self._voice.event(
            events.CHECKPOINT,
            name=path.name,
            path=_below(path, self._root),
            step=step,
            epoch=epoch,
            metrics=sidecar.get("metrics") or {},
            bytes=size,
            files=files,
            sha256=digest,
            format=kind,
            valid=not fault,
            reason=fault,
            **times,
        )
        self._voice.log(f"checkpoint {path.name}: {f'not valid: {fault}' if fault else 'valid'}")


def _state(path: Path) -> State | None:
    """None: it is gone."""
    try:
        if path.is_dir():
            return hash(tuple((name, signature(path / name)) for name in files_of(path)))
        return signature(path)
    except (FileNotFoundError, InvalidError):
        return None


def _written(sidecar: dict[str, Any]) -> Signature | None:
    """The file that `save_checkpoint` says it wrote."""
    match sidecar.get("written"):
        case [int(inode), int(size), int(mtime)]:
            return inode, size, mtime
    return None


def _object(path: Path) -> dict[str, Any]:
    try:
        # a pipe would be waited for
        if not path.is_file() or path.stat().st_size > _LONGEST:
            return {}
        raw = read_json(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return raw if isinstance(raw, dict) else {}


def _below(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
