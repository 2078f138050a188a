"""An evaluation worker's cells: dealt in order, published once each, held back while the target is full.

What a worker asks is in `talking`, who gets which cell in `dealing`, how outputs get to where they stand in
`publishing`. Each answer follows from what is published, not from what was asked before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.helper.dealing import Cell, Deals, Failure
from headway.helper.gate import ClosedError, Gate
from headway.helper.publishing import Publisher
from headway.helper.refusing import Refusals, content
from headway.helper.results import Result
from headway.helper.sources import Sources
from headway.helper.talking import Dealt, Talks
from headway.helper.voice import Voice
from headway.storage import staging
from headway.storage.claims import claim
from headway.storage.mounts import Mounted
from headway.storage.publish import Publication, found_folder, published_key, sweep_temporaries
from headway.storage.quota import ProjectQuota

#: what a worker is told of the plan
_HELLO = ("worker", "command", "check", "scorer", "scores", "score", "score_file", "timeout")
#: of lines that wait for a worker's next question
_MOST_NOTES = 200
_FINISH_SECONDS = 30.0


class Cells:
    def __init__(self, plan: dict[str, Any], voice: Voice, attempt: str) -> None:
        self._rule: dict[str, Any] = plan["cells"]
        self._root, self._target = Path(plan["root"]), Path(self._rule["target"])
        self._attempt, self._voice = attempt, voice
        self._staged = staging.folder(self._target, self._root, attempt)
        quota = ProjectQuota(Path(plan["project_folder"]))
        self._gate = Gate(voice, float(self._rule.get("resume_seconds", 1.0)), self._rule.get("hold_seconds"))
        self._deals = Deals(self._rule, voice)
        self._gate.on_held = self._deals.close
        self._sources = Sources(self._rule["checkpoints"])
        self._mounted = Mounted(self._target, self._rule.get("mount"))
        self._publisher = Publisher(plan, quota, self._mounted, self._gate, self._deals, self._sources, voice)
        self._publisher.say, self._publisher.die = self._say, self._die
        covered = quota if quota.covers(self._target) else None
        files = len(self._rule["outputs"]) + 1
        self._refusals = Refusals(self._target, covered, self._mounted, self._gate, files)
        self._talks = Talks(self._answer, self._leave, self._die)
        self._notes: deque[str] = deque(maxlen=_MOST_NOTES)

    def start(self, address: str) -> None:
        """Binds the socket; a worker that connects waits until what is published already is told. Raises OSError."""
        self._talks.listen(address)
        threading.Thread(target=self._serve, name="cells", daemon=True).start()

    def finish(self) -> None:
        """Publishes what workers handed over; one that waits for room is given up, and its outputs are kept."""
        self._gate.close()
        self._deals.close()
        self._talks.finish(_FINISH_SECONDS)
        self._publisher.finish(_FINISH_SECONDS)
        staging.clear(self._target, self._root, [self._attempt], finished_too=False)

    def _serve(self) -> None:
        try:
            self._publisher.start()
            # closed: nothing is dealt any more, and workers are to hear so
            with contextlib.suppress(ClosedError):
                self._gate.through(self._own)
                self._find_published()
                self._take_over()
            for work in (self._deals.watch, self._sweep):
                threading.Thread(target=work, daemon=True).start()
            self._talks.serve()
        except Exception as error:
            self._die(error)

    def _own(self) -> None:
        """Raises TargetFullError while the target is away, or another installation's."""
        self._mounted.check()
        if self._rule.get("shared"):
            claim(self._target, self._root)

    def _die(self, error: Exception) -> None:
        """A fault of ours: the runner starts us again and says so."""
        self._voice.log(f"the helper failed: {type(error).__name__}: {error}")
        os._exit(3)

    def _say(self, text: str) -> None:
        """A line for the worker's log too."""
        if text:
            self._voice.log(text)
            self._notes.append(text)

    # -- what is there already

    def _find_published(self) -> None:
        for cell in list(self._deals.by_id.values()):
            self._is_published(cell)

    def _is_published(self, cell: Cell) -> bool:
        found = self._gate.through(lambda: _found(self._target / cell.path, cell.key))
        if found is None or not self._deals.accept(cell):
            return False
        self._publisher.tell([(cell, found)])
        return True

    def _take_over(self) -> None:
        """What was finished when the target was full, and whose helper then ended, is published and not run again."""
        left = self._gate.through(lambda: list(staging.finished(self._target, self._root, self._attempt)))
        for outputs, note in left:
            cell = self._deals.by_id.get(note.get("cell", -1))
            if cell is None or cell.key != note.get("key"):
                continue
            out = self._out(cell)
            taken = self._gate.through(lambda outputs=outputs, out=out: staging.take_over(outputs, out))  # type: ignore[misc]
            if taken and self._deals.accept(cell):
                self._publisher.submit(Result(cell, out, note.get("seconds"), note.get("scores"), content(out)[0]))

    def _sweep(self) -> None:
        staging.sweep(self._target, self._root)
        sweep_temporaries(self._target)

    def _out(self, cell: Cell) -> Path:
        return self._staged / str(cell.id)

    # -- answers

    def _answer(self, asked: dict[str, Any], dealt: Dealt) -> dict[str, Any]:
        if asked.get("op") == "hello":
            checkpoints = [{k: c.get(k) for k in ("name", "row", "path")} for c in self._rule["checkpoints"]]
            return {**{name: self._rule.get(name) for name in _HELLO}, "checkpoints": checkpoints}
        if asked.get("op") != "next":
            return {"end": f"The helper does not know {asked.get('op')!r}."}
        near = None
        try:
            for kind, take in (("done", self._done), ("failed", self._failed)):
                told = asked.get(kind)
                cell = self._deals.by_id.get(told.get("cell")) if isinstance(told, dict) else None
                if told is not None and cell is not None:
                    near = cell.checkpoint
                    dealt.pop(cell.id, None)
                    take(cell, told)
            answer = self._next(near, dealt)
        except ClosedError:
            answer = {"done": True}
        if self._notes:
            answer["notes"] = [self._notes.popleft() for _ in range(len(self._notes))]
        return answer

    def _next(self, near: int | None, dealt: Dealt) -> dict[str, Any]:
        while (cell := self._deals.next(near, lambda: not self._gate.shut)) is not None:
            # from here on it is this worker's: whatever happens, it is published, failed, or goes back
            dealt[cell.id] = cell
            if self._is_published(cell):
                del dealt[cell.id]
                continue
            self._sources.start(cell.checkpoint)
            out = self._out(cell)
            self._refusals.make_room(out, self._publisher.last_size)
            case = self._rule["cases"][cell.case]
            whole = {"id": cell.id, "checkpoint": cell.checkpoint, "path": cell.path, "out": str(out), "case": case}
            return {"cell": whole}
        return {"end": self._deals.sentence} if self._deals.sentence else {"done": True}

    @contextlib.contextmanager
    def _accepted(self, cell: Cell) -> Iterator[None]:
        """Whatever goes wrong inside, the cell is not nobody's."""
        try:
            yield
        except BaseException:
            self._deals.give_back(cell)
            raise

    def _done(self, cell: Cell, told: dict[str, Any]) -> None:
        if not self._deals.accept(cell):
            return
        out = self._out(cell)
        with self._accepted(cell):
            result = Result(cell, out, told.get("seconds"), told.get("scores"), content(out)[0])
        self._publisher.submit(result)

    def _failed(self, cell: Cell, told: dict[str, Any]) -> None:
        if not self._deals.accept(cell):
            return
        out, reason = self._out(cell), str(told.get("reason") or "It failed.")
        with self._accepted(cell):
            refused = self._refusals.is_one(cell.id, told, out, self._publisher.last_size)
        if refused:
            self._say(f"{cell.path}: the worker could not write ({reason}); it is dealt again")
            self._deals.give_back(cell)
            return
        shutil.rmtree(out, ignore_errors=True)
        failure = Failure(str(told.get("cause") or "exception"), reason)
        lost = self._deals.load_failed if failure.cause == "load" else self._deals.failed
        self._say(lost(cell, failure))

    def _leave(self, dealt: Dealt) -> None:
        for cell in dealt.values():
            self._deals.leave(cell)


def _found(target: Path, key: str) -> Publication | None:
    """What was published there as this cell. Raises TargetFullError where that cannot be told."""
    return found_folder(target, key) if published_key(target) == key else None
