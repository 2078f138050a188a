"""From a run and its attempt to the launch.json that the runner reads, and to the runner that reads it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

from headway.controller.loop import Desk
from headway.protocol import names
from headway.protocol.files import AttemptFolder, write_whole
from headway.protocol.launch import Launch
from headway.rules import checkpoints, launching
from headway.rules.records import Attempt, Project, Run
from headway.rules.states import CellState
from headway.storage.full import from_oserror
from headway.store.base import Transaction

_HELPER = [sys.executable, "-I", "-m", "headway.helper"]
_UNDEALT = (CellState.WAITING, CellState.RUNNING, CellState.INVALID)
#: errnos of a machine that has too much to do, not of a run that cannot be started
_BUSY = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


def start(desk: Desk, launch: Launch) -> None:
    """Starts the attempt's runner, once however often this is called, and shuts out earlier attempts of its run.

    Raises LeaseLostError, and OSError or ValueError when it cannot be started (`passing` tells whether for good).
    """
    if launch.number > 1:
        # a runner of an earlier attempt that is still to come, from a controller that has lost its lead, ends by this
        fence = AttemptFolder.of(desk.services.root, f"{launch.run}-{launch.number - 1}").fence
        if not fence.exists():
            fence.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(fence, str(launch.number).encode())
    desk.assure()
    desk.engine.start(launch)


def passing(error: Exception, root: Path) -> str | None:
    """One sentence why a start failed that is worth trying again by itself; None when it would fail again."""
    if not isinstance(error, OSError):
        return None
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else root
    # a permission that is missing elsewhere (an interpreter that may not be executed) is no full target
    if (full := from_oserror(error, path if path.is_relative_to(root) else root)) is not None and (
        path.is_relative_to(root) or error.errno not in (errno.EACCES, errno.EPERM)
    ):
        # without figures: the sentence is written when it changes, not with each byte that comes or goes
        return f"waits: nothing can be written at {full.path} ({full.cause.replace('_', ' ')}). {full.remedy}"
    return f"waits: {error.strerror or error}" if error.errno in _BUSY else None


def build(desk: Desk, tx: Transaction, run: Run, attempt: Attempt) -> Launch:
    """All that the attempt needs to know, from the record alone: built twice, it is the same."""
    root = desk.services.root
    project = tx.people.project_by_id(run.project_id)
    home = desk.services.project_folder(project.name)
    folder = AttemptFolder.of(root, attempt.id)
    plan = _plan(desk, tx, run, project, home, folder)
    output = home / "jobs" / str(run.id) / "output"
    output.mkdir(parents=True, exist_ok=True)
    folders = launching.Folders(
        code=str(folder.code),
        data=str(folder.data),
        output=str(output),
        checkpoints=str(folder.checkpoints) if plan["checkpoints"] else "",
        resume_from=_resume_from(desk, tx, run) if plan["checkpoints"] else "",
    )
    environment = launching.environment(
        run,
        project.name,
        folders,
        base=launching.inherited(os.environ, sys.executable),
        accelerators=attempt.placement[0].get("accelerators") or [],
    )
    if plan["checkpoints"] and attempt.number == 1 and not (plan["snapshot"] or plan["datasets"] or plan["cells"]):
        plan["wait_for"] = str(folder.checkpoints)
    environment.update(_owner_environment(desk, tx, run, attempt))
    needs_helper = bool(plan["snapshot"] or plan["datasets"] or plan["checkpoints"] or plan["cells"])
    return Launch(
        attempt=attempt.id,
        run=run.id,
        number=attempt.number,
        project=project.name,
        command=run.command,
        environment=environment,
        cwd=str(folder.code),
        processes=run.processes,
        nodes=[
            {"name": p["node"], "address": p.get("address"), "accelerators": p.get("accelerators") or []}
            for p in attempt.placement
        ],
        max_duration=run.max_duration,
        grace=run.grace,
        memory_bytes=run.memory_bytes,
        metric_patterns=run.work.get("metric_patterns") or [],
        helper=_HELPER if needs_helper else None,
        plan=plan,
        hints=str(desk.services.hints) if desk.services.hints else None,
    )


def _resume_from(desk: Desk, tx: Transaction, run: Run) -> str:
    root = desk.services.root
    # one that has lost bytes since it was published is passed over; whoever looks closer marks it
    there = [c for c in tx.products.checkpoints(run.id) if checkpoints.usable(c) and _is_there(root / c.path, c.bytes)]
    newest = checkpoints.newest(there)
    return str(desk.services.root / newest.path) if newest is not None else ""


def _is_there(path: Path, size: int) -> bool:
    found = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in found if file.is_file()) == size


def _plan(desk: Desk, tx: Transaction, run: Run, project: Project, home: Path, folder: AttemptFolder) -> dict[str, Any]:
    snapshot = tx.runs.snapshot_by_id(run.snapshot_id) if run.snapshot_id is not None else None
    datasets = []
    for use in run.datasets:
        version = tx.products.dataset_version_by_id(int(use["version_id"]))
        assert version is not None, f"dataset version {use['version_id']} is referred to and not there"
        datasets.append(
            {
                "name": use["dataset"],
                "version": use["version"],
                "manifest": f"projects/{project.name}/manifests/{version.digest}.json",
                "into": str(folder.data / launching.channel(use)),
            }
        )
    patterns = run.work.get("checkpoints") if run.owner == "job" else None
    return {
        "root": str(desk.services.root),
        "objects": desk.objects_url,
        "project": project.name,
        "project_folder": str(home),
        "cache": str(desk.cache),
        "snapshot": {"key": snapshot.path, "into": str(folder.code)} if snapshot else None,
        "datasets": datasets,
        "checkpoints": {
            "watch": str(folder.checkpoints),
            "patterns": patterns,
            "target": str(home / "jobs" / str(run.id) / "checkpoints"),
        }
        if patterns
        else None,
        "cells": _cells(desk, tx, run, folder) if run.owner == "evaluation" else None,
    }


def _cells(desk: Desk, tx: Transaction, run: Run, folder: AttemptFolder) -> dict[str, Any]:
    assert run.owner_id is not None
    evaluation = tx.evaluations.get(run.owner_id)
    assert evaluation is not None
    root, plan = desk.services.root, evaluation.plan
    target = root / evaluation.path / "outputs"
    cases = {case["id"]: case for case in plan["cases"]}
    found = {c.id: c for c in tx.products.checkpoints(evaluation.job_id)}
    deal = []
    for cell in tx.evaluations.dealt(run.id, _UNDEALT):
        checkpoint = found[cell.checkpoint_id]
        deal.append(
            {
                "cell": cell.id,
                "checkpoint": {"id": checkpoint.id, "name": checkpoint.name, "path": str(root / checkpoint.path)},
                "case": cases[cell.case_id],
                "key": cell.key,
                "path": str((root / cell.path).relative_to(target)),
            }
        )
    return {
        "target": str(target),
        "work": str(folder.work),
        "outputs": plan["outputs"],
        "score_file": plan["score_file"],
        "score": plan["score"],
        "tries": 2,
        "resume_seconds": 1.0,
        "deal": deal,
    }


def _owner_environment(desk: Desk, tx: Transaction, run: Run, attempt: Attempt) -> dict[str, str]:
    if run.owner != "endpoint":
        return {}
    assert run.owner_id is not None
    revision = tx.endpoints.revision(run.owner_id, int(run.work["revision"]))
    assert revision is not None
    version = tx.products.model_version_by_id(revision.model_version_id)
    assert version is not None
    return {
        names.MODEL_PATH: str(desk.services.root / version.path / version.weights),
        "HEADWAY_PREDICTOR": str(version.predictor["entry"]),
        names.REPLICA_SECRET: attempt.secret or "",
    }
