"""An evaluation worker's cells: dealt in order, published once each, held back while the target is full.

The worker asks over a Unix socket, JSON lines, request and answer in turn: `next`, `publish`, `failed`.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.helper.waiting import Patience
from headway.protocol import events
from headway.storage.full import TargetFullError
from headway.storage.probe import probe
from headway.storage.publish import Publication, publish_folder, verify_folder
from headway.storage.quota import ProjectQuota
from headway.storage.verify import InvalidError

if TYPE_CHECKING:
    from headway.helper.__main__ import Voice

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


class Cells:
    def __init__(self, plan: dict[str, Any], voice: Voice) -> None:
        self._rule = plan["cells"]
        self._target = Path(self._rule["target"])
        self._work = Path(self._rule["work"])
        self._root = Path(plan["root"])
        self._quota = ProjectQuota(Path(plan["project_folder"]))
        self._voice = voice
        self._patience = Patience(voice, self._rule.get("resume_seconds", 1.0))
        self._waiting: list[dict[str, Any]] = list(self._rule["deal"])
        self._by_id = {cell["cell"]: cell for cell in self._waiting}
        self._tries: dict[int, int] = {}
        self._probed = False
        #: worker connections are served one after another: a worker that was restarted takes the place of the old one
        self._turn = threading.Lock()

    # -- the socket

    def listen(self, address: str) -> None:
        Path(address).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(address)
        self._socket.listen(4)
        threading.Thread(target=self._accept, name="cells", daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with self._turn, connection, connection.makefile("rwb") as stream:
                for line in stream:
                    answer = self._answer(json.loads(line))
                    stream.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
                    stream.flush()
        except (OSError, ValueError):
            return  # the worker is gone; what it had not published is done again
        except Exception as error:
            # a fault of ours: die loudly, the runner starts us again and says so
            self._voice.log(f"the helper failed: {type(error).__name__}: {error}")
            os._exit(3)

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["op"] == "next":
            return self._next()
        cell = self._by_id[asked["cell"]]
        if asked["op"] == "publish":
            return self._publish(cell, asked.get("seconds"))
        return self._failed(cell, str(asked.get("reason", "")), asked.get("errno"))

    # -- dealing

    def _next(self) -> dict[str, Any]:
        while self._waiting:
            cell = self._waiting[0]
            if (found := self._published(cell)) is not None:
                self._tell(cell, found, None)
                self._waiting.pop(0)
                continue
            self._patience.until_done(self._probe)
            out = self._work / f"cell-{cell['cell']}"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            self._voice.event(events.CELL_STARTED, cell=cell["cell"])
            return {"cell": {**cell, "out": str(out)}}
        return {"done": True}

    def _probe(self) -> None:
        """Before the first cell with a real write; before each later one by figures alone."""
        files = len(self._rule["outputs"]) + 1
        probe(self._target, quota=self._quota, files=files, write=not self._probed)
        self._probed = True

    def _published(self, cell: dict[str, Any]) -> Publication | None:
        target = self._target / cell["path"]
        if not target.exists():
            return None
        try:
            found = verify_folder(target)
        except InvalidError:
            return None
        return found if found.manifest.get("key") == cell["key"] else None

    # -- results

    def _publish(self, cell: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        out = self._work / f"cell-{cell['cell']}"
        try:
            score, scores = self._scores(out)
            manifest = {
                "key": cell["key"],
                "cell": cell["cell"],
                "checkpoint": cell["checkpoint"]["name"],
                "case": cell["case"]["id"],
                "score": score,
                "scores": scores,
                "seconds": seconds,
            }
            published = self._patience.until_done(
                lambda: publish_folder(
                    out,
                    self._target / cell["path"],
                    outputs=self._rule["outputs"],
                    manifest=manifest,
                    quota=self._quota,
                )
            )
        except InvalidError as error:
            return self._failed(cell, str(error), None)
        self._tell(cell, published, seconds)
        self._leave(cell)
        shutil.rmtree(out, ignore_errors=True)
        return {"ok": True}

    def _scores(self, out: Path) -> tuple[float | None, dict[str, Any]]:
        name, key = self._rule["score_file"], self._rule["score"]
        try:
            scores = json.loads((out / name).read_bytes())
        except FileNotFoundError:
            raise InvalidError(f"{name} is missing") from None
        except ValueError as error:
            raise InvalidError(f"{name} is not JSON: {error}") from None
        score = scores.get(key) if isinstance(scores, dict) else None
        if isinstance(score, bool) or not isinstance(score, (int, float)):
            raise InvalidError(f"{name} holds no number under {key!r}")
        return float(score), scores

    def _failed(self, cell: dict[str, Any], reason: str, number: int | None) -> dict[str, Any]:
        if number in _FULL:
            # the worker's own write was refused: not its fault, and not a try
            self._probed = False
            self._patience.until_done(lambda: self._refused(number, reason))
            return {"ok": False, "reason": reason}
        tries = self._tries[cell["cell"]] = self._tries.get(cell["cell"], 0) + 1
        if tries >= self._rule.get("tries", 2):
            self._voice.event(events.CELL_INVALID, cell=cell["cell"], reason=reason)
            self._leave(cell)
        self._voice.log(f"cell {cell['path']}: {reason}")
        return {"ok": False, "reason": reason}

    def _refused(self, number: int | None, reason: str) -> None:
        try:
            self._probe()
            probe(self._work, bytes=1 << 20, files=8)
        except TargetFullError:
            self._probed = False
            raise

    def _leave(self, cell: dict[str, Any]) -> None:
        self._waiting = [c for c in self._waiting if c["cell"] != cell["cell"]]

    def _tell(self, cell: dict[str, Any], published: Publication, seconds: float | None) -> None:
        manifest = published.manifest
        self._voice.event(
            events.CELL,
            cell=cell["cell"],
            publication=published.id,
            score=manifest.get("score"),
            scores=manifest.get("scores") or {},
            outputs=published.files,
            path=str((self._target / cell["path"]).relative_to(self._root)),
            seconds=seconds if seconds is not None else manifest.get("seconds"),
            found=published.found,
        )
