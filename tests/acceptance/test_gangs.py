"""A gang of two nodes with two processes each trains; killing a node has it go on from its checkpoint."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client import Client
from headway.protocol import identity
from headway.protocol.files import AttemptFolder, log_lines, read_json

from .conftest import Server, eventually, start, stop

STEPS = 30
NODES = "- {name: a, cpus: 4, memory: 8GiB}\n- {name: b, cpus: 4, memory: 8GiB}\n"
SCRIPT = f"""
import os, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert (rank, world) == (int(os.environ["RANK"]), 4)
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
first = 1
if resume := os.environ.get("RESUME_FROM"):
    state = torch.load(resume, weights_only=True)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    first = state["step"] + 1
print(f"rank {{rank}} of {{world}} begins with step {{first}}", flush=True)
model = DistributedDataParallel(model)
for step in range(first, {STEPS} + 1):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(16, 8, generator=generator)
    loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if rank == 0:
        target = Path(os.environ["CHECKPOINT_PATH"]) / f"step-{{step:03d}}.pt"
        state = {{"model": model.module.state_dict(), "optimiser": optimiser.state_dict(), "step": step}}
        torch.save(state, target.with_suffix(".part"))
        target.with_suffix(".part").rename(target)
    dist.barrier()
    print(f"rank {{rank}} did step {{step}} loss={{loss.item():.6f}}", flush=True)
    time.sleep(0.1)
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
print(f"rank {{rank}} ends with {{weights.double().sum().item():.9f}}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Server]:
    """A platform of two declared nodes."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "nodes.yaml").write_text(NODES)
    running = start(home)
    yield running
    stop(running)


class House:
    def __init__(self, server: Server, client: Client, code: str) -> None:
        self.server, self.client, self.code = server, client, code

    def folder(self, attempt: str) -> AttemptFolder:
        return AttemptFolder.of(self.server.home / "root", attempt)

    def lines(self, attempt: str, node: int) -> list[str]:
        return [line.text for line, _ in log_lines(self.folder(attempt).node(node).run_log)]

    def steps(self, attempt: str, node: int) -> list[int]:
        return [int(m[1]) for text in self.lines(attempt, node) if (m := re.search(r"did step (\d+)", text))]

    def kill_node(self, attempt: str, node: int) -> list[int]:
        """What a machine does that loses power: all of the attempt there is gone, its runner and its keeper first."""
        killed = self.processes(attempt, node)
        claim = read_json(self.folder(attempt).node(node).runner)
        for one in (claim.get("keeper"), claim):
            if one is not None:
                identity.send_signal(identity.Identity.from_json(one), signal.SIGKILL)
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return killed

    def processes(self, attempt: str, node: int) -> list[int]:
        path = os.path.realpath(self.folder(attempt).path)
        wanted = {f"HEADWAY_ATTEMPT_PATH={path}".encode(), f"NODE_RANK={node}".encode()}
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if wanted <= set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")) and identity.of(int(pid)):
                    found.append(int(pid))
        return found


@pytest.fixture
def house(two: Server, tmp_path: Path) -> Iterator[House]:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)
    with two.client() as client:
        yield House(two, client, client.snapshots.push(code).digest)


@pytest.mark.parametrize("node", [0, 1])
def test_a_killed_node_resumes_the_gang(house: House, node: int) -> None:
    run = house.client.jobs.submit(
        ["python", "train.py"], snapshot=house.code, nodes=2, processes=2, cpus=3, memory_bytes=4 << 30,
        checkpoints=["step-*.pt"], grace=5,
    )  # fmt: skip
    first = f"{run.id}-1"
    eventually(lambda: len(house.client.runs.checkpoints(run.id)) >= 3, what="three checkpoints", seconds=120)
    assert house.kill_node(first, node)
    ended = house.client.runs.wait(run.id, timeout=180)
    assert ended.state == "succeeded", ended.reason
    attempts = house.client.runs.attempts(run.id)
    assert [a.cause for a in attempts] == ["runner_lost", "done"]
    assert f"On {'ab'[node]}: its runner is gone without a word." in attempts[0].message
    second = f"{run.id}-2"

    # it went on from a checkpoint, on every rank from the same one, and lost no more than the steps since that
    begun = {
        int(m[1]) for n in (0, 1) for t in house.lines(second, n) if (m := re.search(r"begins with step (\d+)", t))
    }
    assert len(begun) == 1
    (step,) = begun
    before = max(house.steps(first, 0) + house.steps(first, 1))
    assert 3 < step <= before + 2
    done = house.steps(second, 0)
    assert sorted(set(done)) == list(range(step, STEPS + 1))

    # all ranks hold the same weights, and those that undisturbed training gives
    ends = {m[1] for n in (0, 1) for t in house.lines(second, n) if (m := re.search(r"ends with (\S+)", t))}
    assert len(ends) == 1
    names = {c.name for c in house.client.runs.checkpoints(run.id) if c.valid}
    assert {f"step-{n:03d}.pt" for n in range(1, STEPS + 1)} <= names
    # nothing is left of the first attempt, on neither node
    assert house.processes(first, 0) == house.processes(first, 1) == []
