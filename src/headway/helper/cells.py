"""An evaluation worker's cells: dealt in order, published once each, held back while the target is full.

The worker asks over a Unix stream socket, JSON lines, request and answer in turn:

    {"op": "next"}                                    -> {"cell": the deal's entry and "out": folder} | {"done": true}
    {"op": "publish", "cell": id, "seconds": s}       -> {"ok": true} | {"ok": false, "reason": text}
    {"op": "failed", "cell": id, "reason", "errno"}   -> {"ok": true}

Each answer follows from what is published, not from what was asked before: a worker may ask again, also of a helper
that was started anew.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

from headway.helper.gate import ClosedError, Gate
from headway.helper.voice import Voice
from headway.protocol import events
from headway.storage.full import TargetFullError, is_full
from headway.storage.probe import probe
from headway.storage.publish import Publication, found_folder, publish_folder, sweep_temporaries
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.verify import InvalidError

#: a refusal with one of these may also be the script's own mistake: only the probe tells
_PERMISSION = (errno.EACCES, errno.EPERM)

Cell = dict[str, Any]


class Cells:
    def __init__(self, plan: dict[str, Any], voice: Voice) -> None:
        self._rule = plan["cells"]
        self._target, self._work = Path(self._rule["target"]), Path(self._rule["work"])
        self._root = Path(plan["root"])
        self._outputs: list[dict[str, str]] = self._rule["outputs"]
        self._quota = ProjectQuota(Path(plan["project_folder"]))
        self._voice = voice
        self._gate = Gate(voice, float(self._rule.get("resume_seconds", 1.0)))
        self._lock = threading.Lock()
        self._queue: list[Cell] = list(self._rule["deal"])
        self._by_id: dict[Any, Cell] = {c["cell"]: c for c in self._queue}
        self._tries: dict[Any, int] = {}
        #: bytes of the last publication, output.json and all
        self._last_size = 0
        self._probed = False
        self._talks: set[threading.Thread] = set()

    # -- the socket

    def start(self, address: str) -> None:
        """Binds the socket; a worker that connects waits until what is published already is told. Raises OSError."""
        Path(address).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(address)
        self._socket.listen(64)
        threading.Thread(target=self._serve, name="cells", daemon=True).start()

    def finish(self) -> None:
        """Lets a publication that is under way come to its end; one that waits for room is given up."""
        self._gate.close()
        with self._lock:
            talks = list(self._talks)
        for talk in talks:
            talk.join(timeout=30)

    def _serve(self) -> None:
        try:
            sweep_temporaries(self._target)
            self._find_published()
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
        except Exception as error:
            self._die(error)

    def _converse(self, connection: socket.socket) -> None:
        dealt: dict[Any, Cell] = {}
        try:
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    answer = self._counted(json.loads(line), dealt)
                    stream.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
                    stream.flush()
        except (ClosedError, OSError, ValueError):
            pass
        except Exception as error:
            self._die(error)
        finally:
            with self._lock:
                # its worker may come back and publish them, or begin anew
                self._queue[:0] = [c for c in dealt.values() if c not in self._queue]

    def _counted(self, asked: dict[str, Any], dealt: dict[Any, Cell]) -> dict[str, Any]:
        me = threading.current_thread()
        with self._lock:
            self._talks.add(me)
        try:
            return self._answer(asked, dealt)
        finally:
            with self._lock:
                self._talks.discard(me)

    def _answer(self, asked: dict[str, Any], dealt: dict[Any, Cell]) -> dict[str, Any]:
        if asked.get("op") == "next":
            return self._next(dealt)
        cell = self._by_id.get(asked.get("cell"))
        if cell is None:
            return {"ok": False, "reason": f"cell {asked.get('cell')!r} was not dealt here"}
        if asked.get("op") == "publish":
            answer = self._publish(cell, asked.get("seconds"))
        elif asked.get("op") == "failed":
            answer = self._failed(cell, str(asked.get("reason", "")), asked.get("errno"))
        else:
            return {"ok": False, "reason": f"there is no {asked.get('op')!r}"}
        dealt.pop(cell["cell"], None)
        return answer

    def _die(self, error: Exception) -> None:
        """A fault of ours: the runner starts us again and says so."""
        self._voice.log(f"the helper failed: {type(error).__name__}: {error}")
        os._exit(3)

    # -- dealing

    def _find_published(self) -> None:
        for cell in list(self._queue):
            found = found_folder(self._target / cell["path"], cell["key"])
            if found:
                self._tell(cell, found)
                self._drop(cell)

    def _next(self, dealt: dict[Any, Cell]) -> dict[str, Any]:
        while True:
            with self._lock:
                if not self._queue:
                    return {"done": True}
                cell = self._queue.pop(0)
                # from here on it is this worker's: whatever happens, it is published, failed, or goes back
                dealt[cell["cell"]] = cell
            found = found_folder(self._target / cell["path"], cell["key"])
            if found:
                del dealt[cell["cell"]]
                self._tell(cell, found)
                continue
            out = self._out(cell)
            self._gate.through(lambda out=out: self._make_room(out))  # type: ignore[misc]
            self._voice.event(events.CELL_STARTED, cell=cell["cell"])
            return {"cell": {**cell, "out": str(out)}}

    def _make_room(self, out: Path) -> None:
        """Refuses only when nothing fits, or not as much as the last publication took. Makes the empty folder `out`."""
        files = len(self._outputs) + 1
        # a real write before the first cell and after each refusal; figures alone before each later one
        write, self._probed = not self._probed, False
        probe(self._target, quota=self._quota, bytes=self._last_size, files=files, write=write)
        probe(self._work, write=write)
        shutil.rmtree(out, ignore_errors=True)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError:
            probe(self._work, files=2)
            raise
        self._probed = True

    def _out(self, cell: Cell) -> Path:
        return self._work / f"cell-{cell['cell']}"

    def _drop(self, cell: Cell) -> None:
        with self._lock:
            self._queue[:] = [c for c in self._queue if c["cell"] != cell["cell"]]

    # -- results

    def _publish(self, cell: Cell, seconds: float | None) -> dict[str, Any]:
        out, target = self._out(cell), self._target / cell["path"]
        published = found_folder(target, cell["key"])
        if published is None:
            try:
                scores = self._scores(out)
                manifest = {
                    "key": cell["key"],
                    "cell": cell["cell"],
                    "checkpoint": cell["checkpoint"]["name"],
                    "case": cell["case"]["id"],
                    "score": scores[self._rule["score"]],
                    "scores": scores,
                    "seconds": seconds,
                }
                published = self._gate.through(
                    lambda: publish_folder(out, target, outputs=self._outputs, manifest=manifest, quota=self._quota)
                )
            except InvalidError as error:
                return self._invalid(cell, error.reason)
        self._tell(cell, published)
        self._drop(cell)
        shutil.rmtree(out, ignore_errors=True)
        return {"ok": True}

    def _scores(self, out: Path) -> dict[str, float]:
        """The numbers in the score file. Raises InvalidError when there is none under the score's name."""
        name, key = self._rule["score_file"], self._rule["score"]
        try:
            raw = json.loads((out / name).read_bytes())
        except FileNotFoundError:
            raise InvalidError(f"{name} was not written.") from None
        except (ValueError, RecursionError) as error:
            raise InvalidError(f"{name} is not JSON ({error}).") from None
        numbers = {k: v for k, v in raw.items() if _is_number(v)} if isinstance(raw, dict) else {}
        if key not in numbers:
            raise InvalidError(f"{name} holds no finite number under {key!r}.")
        return numbers

    def _failed(self, cell: Cell, why: str, number: int | None) -> dict[str, Any]:
        # some libraries tell a full disk without its errno; and a script may lack a permission somewhere else
        if (is_full(number) and number not in _PERMISSION) or not self._writable():
            # the refusal is the target's, not the cell's: no try. What it had written, and a little, must fit.
            out = self._out(cell)
            size, files = _content(out)
            shutil.rmtree(out, ignore_errors=True)
            self._voice.log(f"cell {cell['path']}: the worker could not write ({why}); it is dealt again")
            self._gate.through(lambda: self._refused(size + (64 << 10), files + 2))
            with self._lock:
                self._queue[:0] = [c for c in (cell,) if c not in self._queue]
            return {"ok": True}
        self._invalid(cell, why)
        return {"ok": True}

    def _refused(self, size: int, files: int) -> None:
        probe(self._work, bytes=size, files=files)
        probe(self._target, quota=self._quota)

    def _writable(self) -> bool:
        try:
            probe(self._work)
            probe(self._target)
        except TargetFullError:
            return False
        return True

    def _invalid(self, cell: Cell, why: str) -> dict[str, Any]:
        """Dealt once more behind the others of its checkpoint, until its tries are used up; only then it is told."""
        with self._lock:
            tries = self._tries[cell["cell"]] = self._tries.get(cell["cell"], 0) + 1
            again = tries < int(self._rule.get("tries", 2))
            if again and cell not in self._queue:
                same = [i for i, c in enumerate(self._queue) if c["checkpoint"] == cell["checkpoint"]]
                self._queue.insert(same[-1] + 1 if same else 0, cell)
        self._voice.log(f"cell {cell['path']}: {why}{' (tried again)' if again else ''}")
        if not again:
            self._voice.event(events.CELL_INVALID, cell=cell["cell"], reason=why)
        return {"ok": False, "reason": why}

    def _tell(self, cell: Cell, published: Publication) -> None:
        manifest = published.manifest
        target = self._target / cell["path"]
        note = (target / MANIFEST).stat().st_size
        self._last_size = sum(f.bytes for f in published.files) + note
        self._voice.event(
            events.CELL,
            cell=cell["cell"],
            publication=published.id,
            score=manifest.get("score"),
            scores=manifest.get("scores") or {},
            outputs=published.outputs(),
            path=str(target.relative_to(self._root)),
            seconds=manifest.get("seconds"),
            found=published.found,
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _content(folder: Path) -> tuple[int, int]:
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()] if folder.is_dir() else []
    return sum(sizes), len(sizes)
