"""A flow.yaml on the user's disk: read it, check what it names, say what it would do. No server is needed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from headway.client import casefiles, preflight
from headway.client.casefiles import load_yaml
from headway.errors import FailedError, UsageError
from headway.rules import flow as rules
from headway.rules.nearest import unknown
from headway.rules.units import render_duration


def load(file: Path) -> rules.Flow:
    """The flow in `file`. Raises UsageError: one sentence with file and key path."""
    return rules.parse(load_yaml(file), file.name)


def check(flow: rules.Flow, file: Path) -> list[dict[str, Any]]:
    """That what the flow names is there, and its evaluation is right in all that can be told before it is asked for.

    Returns the cases of its evaluation (none without one).

    Raises UsageError: one sentence with file and key path.
    """
    folder = file.absolute().parent
    if flow.dataset and not (folder / flow.dataset.path).is_dir() and not flow.dataset.prepare:
        raise UsageError(
            f"{file.name}: dataset.path {flow.dataset.path!r} is no folder in {folder}.",
            "Make it, or say with dataset.prepare how it is made.",
            code="missing_file",
        )
    entries = flow.evaluate.entries if flow.evaluate else {}
    named = {f"{file.name}: evaluate.{key}": entry for key, entry in entries.items()}
    if flow.model:
        named[f"{file.name}: model.predictor"] = flow.model.predictor
    preflight.check_entries(folder, named)
    if flow.evaluate is None:
        return []
    cases = flow.evaluate.cases
    found = casefiles.read(folder / cases, cases) if isinstance(cases, str) else cases
    preflight.check_request(flow.evaluate.fields, found, f"{file.name}: evaluate")
    decides = flow.model.case if flow.model and flow.model.checkpoint == "best" else None
    ids = [c["id"] for c in found]
    if decides and decides not in ids:
        raise unknown("case", decides, ids, f"{file.name}: model.case")
    return found


def plan(file: Path) -> list[dict[str, str]]:
    """What `headway run` would do: [{"stage", "does"}]. Raises UsageError."""
    flow = load(file)
    cases = check(flow, file)
    found = []
    if flow.dataset:
        there = (file.parent / flow.dataset.path).is_dir()
        does = f"push {flow.dataset.path} as {flow.dataset.name}"
        found.append({"stage": "dataset", "does": does if there else f"run `{flow.dataset.prepare}`, then {does}"})
    if flow.train:
        limit = f", at most {render_duration(flow.train.max_duration)}" if flow.train.max_duration else ""
        words = shlex.join(rules.fill(flow.train.command, flow.train.parameters))
        ranks = "1 process" if flow.train.processes == 1 else f"{flow.train.processes} processes"
        least, most = flow.train.more.get("least", {}).get("nodes"), flow.train.more.get("nodes", 1)
        many = f" on each of {f'{least}..{most}' if least else most} nodes" if most > 1 else ""
        does = f"`{words}` as {ranks}{many} on {flow.train.spec}{limit}"
        found.append({"stage": "train", "does": does})
    if flow.evaluate:
        asked = flow.evaluate.fields
        least, most, repeats = asked.get("least_workers", 1), asked.get("workers", 1), asked.get("repeats", 1)
        places = f"{f'{least}..{most}' if least < most and 'least_workers' in asked else most} x {flow.evaluate.spec}"
        often = f" x {repeats}" if repeats > 1 else ""
        best = f"of the best {asked['best']} checkpoints by {asked['by']}" if "best" in asked else "checkpoint"
        does = f"{len(cases)} cases{often} x each {best} with {flow.evaluate.what} on {places}"
        found.append({"stage": "evaluate", "does": does})
    if flow.model:
        by = f" by {flow.model.case}" if flow.model.checkpoint == "best" else ""
        found.append({"stage": "model", "does": f"register {flow.model.checkpoint}{by} as {flow.model.name}"})
    if flow.endpoint and flow.model:
        does = f"serve {flow.model.name} with {flow.endpoint.replicas} x {flow.endpoint.spec}"
        found.append({"stage": "endpoint", "does": does})
    return found


def prepare(command: str, folder: Path) -> None:
    """Runs `command` in `folder` with this interpreter's programs first. Raises UsageError or FailedError."""
    words = shlex.split(command)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    program = shutil.which(words[0], path=path)
    if program is None:
        raise UsageError(f"dataset.prepare: there is no program {words[0]!r}.", "Correct it, or install the program.")
    done = subprocess.run(
        [program, *words[1:]], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise FailedError(
            f"`{command}` ended with {done.returncode}: {said[-1] if said else 'it printed nothing'}",
            f"Run it by hand in {folder}.",
        )
