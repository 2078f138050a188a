"""Values of the record, made without one."""

from __future__ import annotations

from typing import Any

from headway.rules.records import Attempt, Cell, Node, Run
from headway.rules.states import AttemptState, CellState, RunState


def run(id: int = 1, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "project_id": 1, "owner": "job", "owner_id": None, "name": "", "state": RunState.QUEUED, "reason": "",
        "command": ["true"], "environment": {}, "parameters": {}, "spec": "small", "cpus": 1.0,
        "memory_bytes": 1 << 30, "accelerators": 0, "accelerator_kind": None, "processes": 1, "priority": 5,
        "max_duration": None, "grace": 30.0, "retries": 3, "attempts": 0, "losses": 0, "snapshot_id": None,
        "datasets": [], "work": {}, "key": None, "submitted_by": 1, "created_at": 100.0, "started_at": None,
        "ended_at": None, "exit_code": None, "cause": None, "stop_at": None, "stop_reason": "",
    }  # fmt: skip
    return Run(id=id, **{**values, **changes})


def attempt(of: Run, number: int = 1, **changes: Any) -> Attempt:
    values: dict[str, Any] = {
        "id": f"{of.id}-{number}", "run_id": of.id, "number": number, "state": AttemptState.RUNNING, "engine": "local",
        "placement": [{"node": "n", "address": "127.0.0.1", "accelerators": []}], "cursors": [0], "address": None,
        "ready": False, "secret": None, "created_at": 100.0, "started_at": None, "launched_at": None, "ended_at": None,
        "stopping_at": None, "exit_code": None, "signal": None, "cause": None, "message": "",
    }  # fmt: skip
    return Attempt(**{**values, **changes})


def node(name: str = "n", cpus: float = 4.0, memory: int = 16 << 30, kinds: tuple[str, ...] = ()) -> Node:
    devices = [{"index": i, "kind": kind, "memory_bytes": 1, "uuid": f"{name}-{i}"} for i, kind in enumerate(kinds)]
    return Node(
        name=name, engine="local", address="127.0.0.1", cpus=cpus, memory_bytes=memory, accelerators=devices,
        declared=True, seen_at=1.0,
    )  # fmt: skip


def cell(id: int, checkpoint: int = 1, state: CellState = CellState.WAITING, run_id: int | None = None) -> Cell:
    return Cell(
        id=id, evaluation_id=1, checkpoint_id=checkpoint, case_id=f"case-{id}", key=f"key-{id}", state=state,
        run_id=run_id, score=None, scores={}, outputs=[], path="", publication=None, ran=0, tries=0, reason="",
        seconds=None, ended_at=None,
    )  # fmt: skip
