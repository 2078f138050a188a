"""What a run's user processes find in their environment, as far as servers set it: for launches and for dry runs. Pure.

The runner adds what differs between processes: ranks, rendezvous, sockets.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.protocol import names
from headway.rules import compat, launchers
from headway.rules.records import Run

#: taken over from the controller's own environment; nothing else of it reaches a run
INHERITED = ("HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Folders:
    """Where an attempt finds things. Absolute paths."""

    code: str
    #: parent of one folder a dataset
    data: str
    output: str
    #: what `headway.data` needs; "" where nothing is told of it
    index: str = ""
    #: "" where checkpoints are not looked for
    checkpoints: str = ""
    #: the newest valid checkpoint; "" where there is none
    resume_from: str = ""


def inherited(environ: Mapping[str, str], executable: str) -> dict[str, str]:
    """What a run has of a controller's environment. executable: its interpreter, whose folder comes first in PATH."""
    path = [os.path.dirname(executable), environ.get("PATH", os.path.defpath)]
    return {**{name: environ[name] for name in INHERITED if name in environ}, "PATH": os.pathsep.join(path)}


def channel(use: Mapping[str, Any]) -> str:
    """Name of the folder of one of `Run.datasets`."""
    return str(use.get("channel") or use["dataset"])


def inputs(run: Run, folders: Folders) -> dict[str, str]:
    """Channel -> folder."""
    return {channel(use): f"{folders.data}/{channel(use)}" for use in run.datasets}


def view(run: Run) -> str:
    """As `Launch.view`: what the job says, else its platform's way, else what its command is."""
    platform = run.work.get("compat")
    return str(run.work.get("view") or compat.VIEWS.get(platform or "") or launchers.view_of(run.command))


def facts(run: Run, folders: Folders, *, nodes: Sequence[str], node: int = 0, accelerators: int = 0) -> compat.Facts:
    """nodes: names or addresses; accelerators: of one node."""
    return compat.Facts(
        job=run.name or f"job-{run.id}",
        inputs=inputs(run, folders),
        output=folders.output,
        checkpoints=folders.checkpoints,
        code=folders.code,
        parameters=run.parameters,
        nodes=tuple(nodes) or ("127.0.0.1",),
        node=node,
        processes=run.processes,
        accelerators=accelerators,
        cpus=run.cpus,
    )


def environment(
    run: Run,
    project: str,
    folders: Folders,
    *,
    base: Mapping[str, str],
    accelerators: Sequence[int] = (),
) -> dict[str, str]:
    """Without another platform's names, which `compat.variables` adds. base: see `inherited`."""
    found = {
        **{names.parameter_variable(k): text(v) for k, v in run.parameters.items()},
        # a parameter called path or home hides nothing that programs need
        **base,
        **run.environment,
        names.OUTPUT_PATH: folders.output,
        names.CUDA_VISIBLE_DEVICES: ",".join(map(str, accelerators)),
        "HEADWAY_PROJECT": project,
        "OMP_NUM_THREADS": run.environment.get("OMP_NUM_THREADS", str(max(1, int(run.cpus // run.processes)))),
    }
    found |= data_variables(run, folders)
    if folders.checkpoints:
        found[names.CHECKPOINT_PATH] = folders.checkpoints
        if folders.resume_from:
            found[names.RESUME_FROM] = folders.resume_from
    return found


def data_variables(run: Run, folders: Folders) -> dict[str, str]:
    """Where the run's data is; nothing for one without."""
    into = list(inputs(run, folders).values())
    if not into:
        return {}
    found = {names.DATA_PATH: into[0] if len(into) == 1 else folders.data}
    return {**found, names.DATA_INDEX: folders.index} if folders.index else found


def text(value: Any) -> str:
    """A parameter's value as a variable has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
