"""Looks at the folders that evaluations write to. A folder that hangs holds up nobody but who asked for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

from headway.rules import cells as cell_rules
from headway.rules.forecast import Room
from headway.rules.records import Evaluation
from headway.services import quota
from headway.services.context import Services
from headway.storage import diskquota
from headway.storage.claims import claim
from headway.storage.full import free, full_of
from headway.storage.mounts import Mounted, remember
from headway.storage.probe import probe

#: seconds that a look is waited for; then its answer is for the next time
PATIENCE = 1.0


class Looks:
    """One look at each thing at a time, in a thread of its own. Asked by one thread."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._under_way: dict[Hashable, tuple[threading.Thread, list[Any]]] = {}

    def at(self, thing: Hashable, look: Callable[[], Any]) -> Any:
        """What `look` returns, or the error that it raised; None while it is not known."""
        if thing not in self._under_way:
            answer: list[Any] = []
            thread = threading.Thread(target=_into, args=(look, answer), name=f"look at {thing}", daemon=True)
            self._under_way[thing] = thread, answer
            thread.start()
        thread, answer = self._under_way[thing]
        thread.join(self._patience)
        if thread.is_alive():
            return None
        del self._under_way[thing]
        return answer[0]


def _into(look: Callable[[], Any], answer: list[Any]) -> None:
    try:
        answer.append(look())
    except Exception as error:
        answer.append(error)


def outputs(services: Services, evaluation: Evaluation) -> Path:
    return services.root / cell_rules.outputs_folder(evaluation)


def index_folder(services: Services, evaluation: Evaluation) -> Path:
    """Where the evaluation's index lies: beside its rows, or beside the folder of these."""
    return services.root / evaluation.path if evaluation.target is None else outputs(services, evaluation)


def writable(services: Services, evaluation: Evaluation, project: str, lacks: tuple[str | None, int, int]) -> bool:
    """True when what could not be written can be by now. lacks: (folder, bytes, files). Raises TargetFullError.

    Where it was a worker's own folder that was full, what holds all of these is looked at.
    """
    folder, size, files = lacks
    target = outputs(services, evaluation)
    require_own(services, evaluation)
    with full_of(target, whatever=True):
        probe(target, quota=quota.of(services, project), bytes=size, files=files)
        work = services.root / "attempts"
        if folder is not None and Path(folder).is_relative_to(work):
            probe(work, bytes=size, files=files)
    return True


def mount(services: Services, evaluation: Evaluation) -> dict[str, Any]:
    """What the evaluation's outputs are on, as its plan keeps it from the first deal on.

    Raises TargetFullError (their folder is another installation's) or OSError.
    """
    require_own(services, evaluation)
    return remember(outputs(services, evaluation)).to_json()


def require_mounted(services: Services, evaluation: Evaluation) -> None:
    """Raises TargetFullError while what the outputs are on is away."""
    if known := evaluation.plan.get(cell_rules.MOUNT):
        Mounted(outputs(services, evaluation), known).check()


def require_own(services: Services, evaluation: Evaluation) -> None:
    """Raises TargetFullError while what the outputs are on is away, or their folder is another installation's."""
    require_mounted(services, evaluation)
    if evaluation.target is not None:
        claim(outputs(services, evaluation), services.root, fresh=_fresh(evaluation))


def _fresh(evaluation: Evaluation) -> bool:
    """Whether nothing has been sent to its folder yet."""
    plan = evaluation.plan
    left = plan.get("left_folders", [])
    known = plan.get(cell_rules.MOUNT) or cell_rules.outputs_folder(evaluation) in left
    return not known and (bool(left) or evaluation.rounds == 0)


def rooms(services: Services, evaluation: Evaluation, project: str) -> list[Room]:
    """What still fits where the evaluation's outputs go, limit by limit. Raises TargetFullError or OSError."""
    target = outputs(services, evaluation)
    require_mounted(services, evaluation)
    space, inodes = free(target)
    block = _block(target)
    found = [Room(str(target), space, inodes, block)]
    for limit in diskquota.left(target):
        found.append(Room(f"{limit.name} at {target}", limit.free_bytes, limit.free_files, block))
    own = quota.of(services, project)
    if target.is_relative_to(own.folder):
        taken = zip(own.limits(), own.usage(), own.data(), strict=True)
        left = [None if most is None else most - outputs - data for most, outputs, data in taken]
        found.append(Room(f"the quota of project {project}", left[0], left[1]))
    return found


def _block(path: Path) -> int:
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.statvfs(path).f_bsize
