"""From a run and its attempt to the launch.json that the runner reads, and to the runner that reads it."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.controller import deals
from headway.controller.loop import Desk
from headway.protocol import names
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, write_whole
from headway.protocol.launch import Launch
from headway.rules import checkpoints, compat, launching
from headway.rules.datasets import Mode
from headway.rules.records import Attempt, Checkpoint, Project, Run
from headway.services import datastores
from headway.storage.full import from_oserror
from headway.storage.publish import file_digest
from headway.store.base import Transaction

#: seconds without a line and without work after which a job hangs, unless its limits say otherwise
HANG_SECONDS = 1800.0
#: seconds that a run has to leave a machine that is taken back, unless its `spot` says otherwise
RECLAIM_GRACE = 120.0
#: what a run that was placed at the last moment of its `max_wait` still gets
MOMENT_SECONDS = 1.0
#: a published file that was written to so long after it appeared is read again before anybody resumes from it
TOUCHED_SECONDS = 2.0
_HELPER = [sys.executable, "-I", "-m", "headway.helper"]
_TRACKING = [sys.executable, "-I", "-m", "headway.helper.tracking"]
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
    try:
        desk.engine.start(launch)
    except (OSError, ValueError) as error:
        if len(launch.nodes) > 1 and passing(error, desk.services.root) is None:
            # some of its runners may be there: the attempt is given up, and they find that they may not go on
            own = AttemptFolder.of(desk.services.root, launch.attempt)
            with contextlib.suppress(OSError):
                write_whole(own.fence, str(launch.number + 1).encode())
        raise


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
        index=str(folder.node().path / "data"),
        output=str(output),
        checkpoints=str(folder.checkpoints) if plan["checkpoints"] else "",
        resume_from=_resume_from(desk, tx, run) if plan["checkpoints"] else "",
    )
    environment = launching.environment(
        run, project.name, folders, base=launching.inherited(os.environ, sys.executable)
    )
    # the runner sets them, for each node its own
    environment.pop(names.CUDA_VISIBLE_DEVICES, None)
    environment["OMP_NUM_THREADS"] = run.environment.get("OMP_NUM_THREADS") or _threads(run, attempt)
    if plan["checkpoints"] and attempt.number == 1 and not (plan["snapshot"] or plan["datasets"] or plan["cells"]):
        plan["wait_for"] = str(folder.checkpoints)
    owned = _owner_environment(desk, tx, run, attempt)
    nodes, command, platform = _nodes(desk, tx, run, attempt, _each(folder, folders, attempt), {**environment, **owned})
    needs_helper = bool(plan["snapshot"] or plan["datasets"] or plan["checkpoints"] or plan["cells"])
    job = run.owner == "job"
    return Launch(
        attempt=attempt.id,
        run=run.id,
        number=attempt.number,
        project=project.name,
        command=command,
        environment={**platform, **environment, **owned},
        cwd=str(folder.code),
        processes=run.processes,
        view=launching.view(run) if job else "process",
        nodes=nodes,
        memory_bytes=_memory(run, attempt),
        stacks=_stacks(),
        tracking=_TRACKING if job else None,
        metric_patterns=run.work.get("metric_patterns") or [],
        helper=_HELPER if needs_helper else None,
        plan=plan,
        hints=str(desk.services.hints) if desk.services.hints else None,
        **bounds(run, attempt),
    )


def bounds(run: Run, attempt: Attempt) -> dict[str, Any]:
    """What ends the attempt, of `Launch`: "max_duration", "grace", "limits"; may change while it runs."""
    left = _wait_left(run, attempt)
    known = [seconds for seconds in (run.max_duration, left) if seconds is not None]
    limits = dict(run.limits)
    if run.owner == "job":
        limits.setdefault("hang", HANG_SECONDS)
    if run.owner == "evaluation":
        # a worker outlives its cells
        limits["oom"] = "process"
    # 0 and nothing alike switch a limit off
    limits = {name: value for name, value in limits.items() if value not in (None, 0, False)}
    return {"max_duration": min(known, default=None), "grace": run.grace, "limits": limits}


def _wait_left(run: Run, attempt: Attempt) -> float | None:
    """Seconds of `max_wait` that were left when the attempt was placed; None without such a limit."""
    if run.max_wait is None:
        return None
    return max(MOMENT_SECONDS, (run.asked_at or run.created_at) + run.max_wait - attempt.created_at)


def waited(run: Run, attempt: Attempt, end: Exit) -> Exit:
    """`end`, said better where it was `max_wait` that ended the attempt, and not `max_duration`."""
    left = _wait_left(run, attempt)
    if end.cause is not Cause.TIME_LIMIT or left is None or left >= (run.max_duration or math.inf):
        return end
    text = f"It has waited and run for longer than its max_wait of {run.max_wait:g} s."
    return replace(end, cause=Cause.WAIT_LIMIT, message=text)


def _each(folder: AttemptFolder, folders: launching.Folders, attempt: Attempt) -> list[launching.Folders]:
    """The folders on each node. Several have each their data: one whose disk is full has it elsewhere."""
    if len(attempt.placement) == 1:
        return [folders]
    nodes = [folder.node(index).path for index in range(len(attempt.placement))]
    return [replace(folders, data=str(node / "files"), index=str(node / "data")) for node in nodes]


def _nodes(
    desk: Desk, tx: Transaction, run: Run, attempt: Attempt, folders: list[launching.Folders], known: dict[str, str]
) -> tuple[list[dict[str, Any]], list[str], dict[str, str]]:
    """The launch's nodes, the command, and another platform's variables; what differs on a node is the node's own."""
    notices = {node.name: node.notice for node in tx.runs.nodes()}
    grace = float(run.spot["grace"]) if run.spot.get("grace") is not None else RECLAIM_GRACE
    platform = run.work.get("compat")
    hosts = [str(place.get("address") or place["node"]) for place in attempt.placement]
    command, variables = run.command, dict[str, str]()
    nodes: list[dict[str, Any]] = []
    for index, place in enumerate(attempt.placement):
        own = list(place.get("accelerators") or [])
        node: dict[str, Any] = {"name": place["node"], "address": place.get("address"), "accelerators": own}
        node |= {"notice": notices.get(place["node"]), "notice_grace": grace}
        if platform is not None:
            facts = launching.facts(run, folders[index], nodes=hosts, node=index, accelerators=len(own))
            words, found = compat.command(platform, run.command, facts), compat.variables(platform, facts)
            if index == 0:
                command, variables = words, found
                for path in compat.folders(platform, facts):
                    Path(path).mkdir(parents=True, exist_ok=True)
            node["environment"] = {k: v for k, v in found.items() if variables.get(k) != v and k not in known}
            node["command"] = words if words != command else None
        if len(folders) > 1:
            node["environment"] = {**(node.get("environment") or {}), **launching.data_variables(run, folders[index])}
        nodes.append(node)
    return nodes, command, variables


def _threads(run: Run, attempt: Attempt) -> str:
    """For OpenMP: the CPUs that each process has on the smallest of its places."""
    cpus = min((float(place.get("cpus") or run.cpus) for place in attempt.placement), default=run.cpus)
    return str(max(1, int(cpus // run.processes)))


def _memory(run: Run, attempt: Attempt) -> int:
    """Of the smallest place, where it was asked for as a range."""
    return min((int(place.get("memory_bytes") or run.memory_bytes) for place in attempt.placement), default=0)


def _stacks() -> list[str] | None:
    """The command that prints where a Python process stands, where it is installed beside our interpreter."""
    program = Path(sys.executable).with_name("py-spy")
    return [str(program), "dump", "--pid"] if program.exists() else None


def _resume_from(desk: Desk, tx: Transaction, run: Run) -> str:
    root = desk.services.root
    # one that is not what was published is passed over; whoever looks closer marks it
    found = sorted(filter(checkpoints.usable, tx.products.checkpoints(run.id)), key=checkpoints.order, reverse=True)
    return next((str(root / c.path) for c in found if _is_there(root / c.path, c)), "")


def _is_there(path: Path, known: Checkpoint) -> bool:
    """Whether it is what was published, as far as sizes and times tell; read again only where a time is too late."""
    try:
        if path.is_symlink() or not path.exists():
            return False
        files = [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [path]
        status = [f.lstat() for f in files]
        if sum(s.st_size for s in status) != known.bytes or not all(stat.S_ISREG(s.st_mode) for s in status):
            return False
        touched = any(s.st_mtime > known.created_at + TOUCHED_SECONDS for s in status)
        return not touched or path.is_dir() or file_digest(path) == known.sha256
    except OSError:
        return False


def _plan(desk: Desk, tx: Transaction, run: Run, project: Project, home: Path, folder: AttemptFolder) -> dict[str, Any]:
    snapshot = tx.runs.snapshot_by_id(run.snapshot_id) if run.snapshot_id is not None else None
    patterns = run.work.get("checkpoints") if run.owner == "job" else None
    return {
        "root": str(desk.services.root),
        "objects": desk.objects_url,
        "project": project.name,
        "project_folder": str(home),
        "cache": str(desk.cache),
        "snapshot": {"key": snapshot.path, "into": str(folder.code)} if snapshot else None,
        "cache_limits": desk.cache_limits,
        "datasets": [_use(tx, use, project) for use in run.datasets],
        "stores": [datastores.access(desk.services, tx, project)] if run.datasets else [],
        "secret_key": str(desk.services.secret_key) if desk.services.secret_key else None,
        "checkpoints": {
            "watch": str(folder.checkpoints),
            "patterns": patterns,
            "target": str(home / "jobs" / str(run.id) / "checkpoints"),
        }
        if patterns
        else None,
        "cells": deals.plan(desk, tx, run, folder) if run.owner == "evaluation" else None,
    }


def _use(tx: Transaction, use: dict[str, Any], project: Project) -> dict[str, Any]:
    """What the helper is told of one of `Run.datasets`. store: which of the plan's stores has it."""
    version = tx.products.dataset_version_by_id(int(use["version_id"]))
    assert version is not None, f"dataset version {use['version_id']} is referred to and not there"
    return {
        "name": use["dataset"],
        "version": use["version"],
        "digest": version.digest,
        "project": project.name,
        "mode": use.get("mode") or Mode.CACHE.value,
        "channel": launching.channel(use),
        "source": version.source,
        "store": 0,
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
