"""What a checkpoint costs training: ours, torch.save, torch.distributed.checkpoint, and a memory copy as the limit.

blocked        training stands still for so long while 1 GB is saved in the background, s; limit: a memory copy of it
blocked_first  the same for a process's first one, whose copy goes into fresh memory, s; limit: a copy into fresh memory
save           saving 1 GB while training waits: whole, synced and renamed, s; limit: writing and syncing the bytes
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _rig import PYTHON, Row, arguments, folder, in_turn, report, say

SIZE, QUICK_SIZE = 1 << 30, 32 << 20
State = dict[str, Any]


def state_of(size: int) -> State:
    """Tensors of 8 MiB that make up `size` bytes, and 500 small ones, as a model and its optimiser have them."""
    import torch

    large = {f"layers.{n}.weight": torch.full((2 << 20,), float(n)) for n in range(size >> 23)}
    return large | {f"layers.{n}.bias": torch.full((256,), float(n)) for n in range(500)}


def seconds(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


class Measures:
    """Each leaves nothing to be written to the disk, so that none pays for the one before."""

    def __init__(self, place: Path, size: int) -> None:
        self.place = place
        self.state = state_of(size)
        os.environ["CHECKPOINT_PATH"] = str(place)
        self._memory: State | None = None
        self._number = 0

    def copy(self) -> float:
        """The limit: into memory that was used before."""
        import torch

        if self._memory is None:
            self._memory = {name: torch.empty_like(tensor).copy_(tensor) for name, tensor in self.state.items()}
        memory = self._memory

        def run() -> None:
            for name, tensor in self.state.items():
                memory[name].copy_(tensor)

        return seconds(run)

    def fresh_copy(self) -> float:
        return seconds(lambda: {name: tensor.clone() for name, tensor in self.state.items()})

    def ours(self) -> float:
        import headway

        headway.flush_checkpoints()
        blocked = seconds(lambda: headway.save_checkpoint(self.state, "ours.pt", step=1, wait=False))
        headway.flush_checkpoints()
        return blocked

    def ours_waiting(self) -> float:
        import headway

        return seconds(lambda: headway.save_checkpoint(self.state, "ours.pt", step=1))

    def torch_save(self) -> float:
        import torch

        def run() -> None:
            with open(self.place / "torch.tmp", "wb") as file:
                torch.save(self.state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.place / "torch.tmp", self.place / "torch.pt")

        return seconds(run)

    def dcp_async(self) -> float:
        """torch.distributed.checkpoint's async_save: until it gives training back."""
        import torch.distributed.checkpoint as dcp

        self._number += 1
        start = time.perf_counter()
        saving: Any = dcp.async_save(self.state, checkpoint_id=str(self.place / f"dcp-{self._number % 2}"))
        blocked = time.perf_counter() - start
        saving.result()
        os.sync()
        return blocked

    def write(self) -> float:
        """The limit of a save: the same bytes as one file."""
        block = memoryview(bytes(8 << 20))
        count = sum(t.nbytes for t in self.state.values()) // len(block)

        def run() -> None:
            with open(self.place / "plain", "wb", buffering=0) as file:
                for _ in range(count):
                    file.write(block)
                os.fsync(file.fileno())

        return seconds(run)


def first(size: int, place: Path) -> tuple[float, float]:
    """(ours, a copy) in two new processes."""
    found = []
    for which in ("ours", "fresh_copy"):
        command = [PYTHON, __file__, "--first", which, str(size), str(place)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(float(json.loads(done.stdout.splitlines()[-1])))
    return found[0], found[1]


def start_gloo(missing: dict[str, str]) -> bool:
    import torch.distributed as dist

    try:
        dist.init_process_group("cpu:gloo", rank=0, world_size=1, store=dist.HashStore())
    except Exception as error:
        missing["dcp_async"] = str(error)
        return False
    return True


def main() -> None:
    if sys.argv[1:2] == ["--first"]:
        measures = Measures(Path(sys.argv[4]), int(sys.argv[3]))
        print(json.dumps(getattr(measures, sys.argv[2])()))
        return
    warnings.simplefilter("ignore")
    options = arguments(__doc__ or "")
    size, rounds = (QUICK_SIZE, 2) if options.quick else (SIZE, 5)
    rows = {
        "blocked": Row("blocked", "s", "lower", target="<= 1.3 x limit"),
        "blocked_first": Row("blocked_first", "s", "lower"),
        "save": Row("save", "s", "lower"),
    }
    wanted = [r for r in rows if not options.only or r in options.only]
    missing: dict[str, str] = {}
    with folder() as place:
        if "blocked_first" in wanted:
            say("blocked_first")
            pairs = [first(size, place) for _ in range(2)]
            rows["blocked_first"].ours = statistics.median(p[0] for p in pairs)
            rows["blocked_first"].limit = statistics.median(p[1] for p in pairs)
        measures = Measures(place, size)
        if "blocked" in wanted:
            blocked(measures, rows["blocked"], rounds, missing, peers=not options.no_peers)
        if "save" in wanted:
            say("save")
            row = rows["save"]
            turn = [measures.ours_waiting, measures.write, *([] if options.no_peers else [measures.torch_save])]
            row.ours, row.limit, *others = in_turn(2, *turn)
            row.peers = dict(zip(["torch_save"], others, strict=False))
    report("checkpoint", [rows[r] for r in wanted], missing)


def blocked(measures: Measures, row: Row, rounds: int, missing: dict[str, str], *, peers: bool) -> None:
    say("blocked")
    turn: dict[str, Callable[[], float]] = {}
    if peers:
        turn["torch_save"] = measures.torch_save
        if start_gloo(missing):
            turn["dcp_async"] = measures.dcp_async
    measures.copy()
    measures.ours()
    row.ours, row.limit, *others = in_turn(rounds, measures.ours, measures.copy, *turn.values())
    row.peers = dict(zip(turn, others, strict=True))


if __name__ == "__main__":
    main()
