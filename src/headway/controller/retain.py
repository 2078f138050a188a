"""Retention: removes the bytes of the checkpoints that a job's rule does not keep. The rows stay.

Eligible: jobs with a retention rule in `work` that have several usable checkpoints, and others, or another state, than
when they were last looked at.
A checkpoint is first marked, and its bytes go `PAUSE_SECONDS` later, if nobody has come to need it meanwhile: whoever
chose it just before the mark has written so by then. Its path is emptied once the bytes are gone. Removing twice
removes once, so a controller may die anywhere in it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from headway.controller import follow
from headway.controller.loop import Desk, Loop
from headway.protocol import names
from headway.protocol.files import AttemptFolder, read_json
from headway.rules.checkpoints import usable
from headway.rules.records import Checkpoint, Run
from headway.rules.retention import Rule, removable
from headway.rules.states import AttemptState
from headway.services import quota
from headway.storage import publish
from headway.store.base import Transaction

#: between the mark and the removal
PAUSE_SECONDS = 5.0
_REASON = "The job's retention rule does not keep it; its bytes were removed."


class Retain(Loop):
    name = "retain"
    topics = frozenset({"retain"})
    interval = 5.0

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        #: runs that have no rule, and what the others were like when nothing was left to mark
        self._ruleless: set[int] = set()
        self._seen: dict[int, tuple[object, ...]] = {}

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            marks = tx.products.checkpoint_marks()
            runs = tx.runs.many(sorted(set(marks) - self._ruleless))
            removed = tx.products.removed_checkpoints()
        self._ruleless |= {r.id for r in runs if not Rule.of(r.work.get("retention"))}
        now = {r.id: (*marks[r.id], r.state, r.attempts) for r in runs if r.id not in self._ruleless}
        due = [r for r in runs if r.id in now and self._seen.get(r.id) != now[r.id]]
        changed = False
        for run in due:
            with self.desk.isolated(f"retention of job {run.id}"):
                changed |= self._mark(run)
                self._seen[run.id] = now[run.id]
        for checkpoint in removed:
            with self.desk.isolated(f"removal of checkpoint {checkpoint.id}"):
                changed |= self._remove(checkpoint)
        return {"states"} if changed else set()

    def _mark(self, run: Run) -> bool:
        with self.desk.apply() as tx:
            found = tx.products.checkpoints(run.id)
            gone = removable(found, Rule.of(run.work.get("retention")), self._protected(tx, run.id, found))
            for checkpoint in gone:
                tx.products.change_checkpoint(checkpoint, removed_at=self.desk.now(), reason=_REASON)
        return bool(gone)

    def _protected(self, tx: Transaction, run_id: int, found: list[Checkpoint]) -> set[int]:
        """Those evaluated or to be, registered (what is served was), or resumed from by an attempt that lives."""
        kept = tx.evaluations.evaluated_checkpoints(run_id) | tx.products.registered_checkpoints(run_id)
        for number in tx.evaluations.active_ids():
            # those that an evaluation is about to take in
            if (evaluation := tx.evaluations.get(number)) is not None:
                kept |= {c.id for c in follow.wanted(evaluation, run_id, found)}
        for attempt in tx.runs.attempts(run_id):
            if attempt.state is not AttemptState.ENDED:
                resumed = self._resumed(attempt.id)
                # not started yet: which one it resumes from is still to be written down
                kept |= {c.id for c in found if resumed is None or str(self.desk.services.root / c.path) == resumed}
        return kept

    def _resumed(self, attempt: str) -> str | None:
        """The path that the attempt resumes from; empty: none; None: its launch was not written yet."""
        launch = read_json(AttemptFolder.of(self.desk.services.root, attempt).launch)
        return None if launch is None else str(launch["environment"].get(names.RESUME_FROM, ""))

    def _remove(self, checkpoint: Checkpoint) -> bool:
        """Whether something changed."""
        assert checkpoint.removed_at is not None
        if self.desk.now() < checkpoint.removed_at + PAUSE_SECONDS:
            return False
        with self.desk.apply() as tx:
            found = tx.products.checkpoints(checkpoint.run_id)
            if checkpoint.id in self._protected(tx, checkpoint.run_id, found):
                return tx.products.change_checkpoint(checkpoint, removed_at=None, reason="")
            run = tx.runs.get(checkpoint.run_id)
            assert run is not None
            project = tx.people.project_by_id(run.project_id).name
            ended = [a.id for a in tx.runs.attempts(run.id) if a.state is AttemptState.ENDED]
            again = {c.name for c in found if usable(c)}
        target = self.desk.services.root / checkpoint.path
        self.desk.assure()
        gone = publish.remove(
            target,
            quota=quota.of(self.desk.services, project),
            still=lambda: _is_still(target, checkpoint.sha256),
        )
        if gone and checkpoint.name not in again:
            self._forget_sources(checkpoint, ended)
        with self.desk.apply() as tx:
            return tx.products.change_checkpoint(checkpoint, path="")

    def _forget_sources(self, checkpoint: Checkpoint, attempts: list[str]) -> None:
        """What ended attempts saved under this name: nobody looks there any more. A live script's files are its own."""
        for attempt in attempts:
            source = AttemptFolder.of(self.desk.services.root, attempt).checkpoints / checkpoint.name
            with contextlib.suppress(OSError):
                shutil.rmtree(source) if source.is_dir() and not source.is_symlink() else source.unlink()


def _is_still(target: Path, sha256: str) -> bool:
    """Whether the content that was recorded stands there, and not a newer one whose event is still to come."""
    if target.is_dir():
        return bool(publish.published_key(target) == sha256)
    try:
        if list(json.loads(target.with_name(f".{target.name}.json").read_bytes()))[-1] == sha256:
            return True  # the last that its helper was about to publish there
    except (OSError, ValueError, IndexError, TypeError):
        pass
    return publish.file_digest(target) == sha256
