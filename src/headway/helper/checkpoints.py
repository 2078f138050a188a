"""What appears in CHECKPOINT_PATH: found when whole, checked, published, told."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.helper.waiting import Patience
from headway.protocol import events
from headway.protocol.files import read_json
from headway.storage.publish import Publication, publish_file
from headway.storage.quota import ProjectQuota
from headway.storage.verify import InvalidError, check, sha256, weights_format

if TYPE_CHECKING:
    from headway.helper.__main__ import Voice

_NUMBER = re.compile(r"(epoch|step|iter|checkpoint|ckpt)?[-_=]?(\d+)", re.IGNORECASE)


def position(name: str, sidecar: dict[str, Any]) -> tuple[int | None, int | None]:
    """(step, epoch) of a checkpoint: what its sidecar says, else the numbers in its name (`epoch-07.pt`)."""
    step, epoch = sidecar.get("step"), sidecar.get("epoch")
    if step is None and epoch is None:
        for word, number in _NUMBER.findall(name):
            if word.lower() == "epoch":
                epoch = int(number)
            else:
                step = int(number)
    return step, epoch


class Checkpoints:
    def __init__(self, plan: dict[str, Any], voice: Voice) -> None:
        rule = plan["checkpoints"]
        self._watch = Path(rule["watch"])
        self._target = Path(rule["target"])
        self._root = Path(plan["root"])
        self._patterns: list[str] = rule["patterns"]
        self._quota = ProjectQuota(Path(plan["project_folder"]))
        self._voice = voice
        self._patience = Patience(voice, rule.get("resume_seconds", 1.0))
        #: name -> (size, mtime) when last looked at, to see that it rests
        self._seen: dict[str, tuple[int, int]] = {}
        #: name -> (size, mtime) of what was told, so that it is not told again
        self._told: dict[str, tuple[int, int]] = {}
        self._watch.mkdir(parents=True, exist_ok=True)

    def report_published(self) -> None:
        """Tells what an earlier attempt or helper has published: its event may have been lost with it."""
        for path in sorted(self._target.glob("*")) if self._target.exists() else ():
            if not path.name.startswith(".") and self._matches(path.name) and path.is_file():
                self._tell_valid(path, sha256(path))

    def scan(self) -> None:
        """Publishes every file that has not changed since the last look and is a whole one."""
        for path, state in self._files():
            if self._told.get(path.name) == state:
                continue
            if self._seen.get(path.name) == state and self._whole(path):
                self._publish(path, state)
            self._seen[path.name] = state

    def finish(self) -> None:
        """The last look: nobody writes any more, so what is not whole now never will be."""
        for path, state in self._files():
            if self._told.get(path.name) != state:
                self._publish(path, state)

    def _files(self) -> list[tuple[Path, tuple[int, int]]]:
        found = []
        for path in sorted(self._watch.iterdir()):
            if path.name.startswith(".") or not self._matches(path.name):
                continue
            try:
                state = path.stat()
            except FileNotFoundError:
                continue
            if path.is_file():
                found.append((path, (state.st_size, state.st_mtime_ns)))
        return found

    def _matches(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in self._patterns)

    @staticmethod
    def _whole(path: Path) -> bool:
        try:
            check(path, weights_format(path))
        except (InvalidError, FileNotFoundError):
            return False
        return True

    def _publish(self, path: Path, state: tuple[int, int]) -> None:
        target = self._target / path.name
        try:
            kind = weights_format(path)
            self._patience.until_done(lambda: self._commit(path, target, kind))
        except FileNotFoundError:
            return  # removed while we looked
        except InvalidError as error:
            self._told[path.name] = state
            self._tell(path.name, target, None, valid=False, reason=str(error))
            return
        self._told[path.name] = state
        self._tell_valid(target, sha256(target))

    def _commit(self, path: Path, target: Path, kind: str) -> Publication:
        # a checkpoint that is saved again under its old name (last.pt) takes the place of the old one
        same = target.exists() and sha256(target) == sha256(path)
        if target.exists() and not same:
            size = target.stat().st_size
            published = publish_file(path, target, kind=kind, quota=self._quota, replace=True)
            self._quota.release(size, 1)
            return published
        return publish_file(path, target, kind=kind, quota=self._quota)

    def _tell_valid(self, target: Path, digest: str) -> None:
        try:
            facts = check(target, weights_format(target))
        except InvalidError as error:
            self._tell(target.name, target, digest, valid=False, reason=str(error))
            return
        foreign = facts.get("foreign_globals") or []
        reason = f"loading it needs {', '.join(foreign)}" if foreign else ""
        self._tell(target.name, target, digest, valid=True, reason=reason)

    def _tell(self, name: str, target: Path, digest: str | None, *, valid: bool, reason: str) -> None:
        sidecar = self._sidecar(name)
        step, epoch = position(name, sidecar)
        self._voice.event(
            events.CHECKPOINT,
            name=name,
            path=str(target.relative_to(self._root)),
            step=step,
            epoch=epoch,
            metrics=sidecar.get("metrics") or {},
            bytes=target.stat().st_size if target.exists() else 0,
            sha256=digest or "",
            format=weights_format(target) if target.exists() else "",
            valid=valid,
            reason=reason,
        )
        self._voice.log(f"checkpoint {name}: {'valid' if valid else 'not valid'}{': ' + reason if reason else ''}")

    def _sidecar(self, name: str) -> dict[str, Any]:
        try:
            raw = read_json(self._watch / f"{name}.json")
        except (OSError, ValueError):
            return {}
        return raw if isinstance(raw, dict) else {}
