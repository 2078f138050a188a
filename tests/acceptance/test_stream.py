"""`headway.data` in real jobs: two ranks of two workers each, killed in mid-epoch; out of a folder and an S3 store."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client import Client
from headway.testing.s3servers import S3Server, rclone

from .conftest import Server, start, stop

__all__ = ["rclone"]

#: divided by ranks and workers it leaves a rest
FILES = 91
SCRIPT = """
import hashlib, os, signal
from pathlib import Path
import torch
import torch.distributed as dist
import headway

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert world == 2
loader = headway.data("set", shuffle=True, seed=7, window=16).loader(batch_size=4, num_workers=2)
seen, resume = [], os.environ.get("RESUME_FROM")
if resume:
    mine = torch.load(resume, weights_only=True)[rank]
    loader.load_state_dict(mine["data"])
    seen = mine["seen"]
    print("goes on after", len(seen), flush=True)
batches = iter(loader)
for step in range(1000):
    batch = next(batches, None)
    seen += [f"{s.path} {hashlib.sha256(s.data).hexdigest()}" for s in batch or ()]
    all_ranks = [None] * world
    state = {"data": loader.state_dict(), "seen": seen, "done": batch is None}
    dist.all_gather_object(all_ranks, state)
    if rank == 0:
        target = Path(os.environ["CHECKPOINT_PATH"]) / f"step-{len(seen):03d}.pt"
        torch.save(all_ranks, target.with_suffix(".part"))
        target.with_suffix(".part").rename(target)
    dist.barrier()
    if all(s["done"] for s in all_ranks):
        break
    if not resume and step == 4 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
for line in seen:
    print("seen", line, flush=True)
print("next epoch", loader.data.epoch, flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def streaming(home: Path) -> Iterator[Server]:
    running = start(home)
    yield running
    stop(running)


def use_bucket(running: Server, project: str, server: S3Server, secret: Path) -> None:
    """The project's data lies in the server from now on."""
    secret.write_text(json.dumps({"access_key_id": server.key_id, "secret_access_key": server.secret}))
    words = ["--endpoint", server.endpoint, "--region", server.region, "--secret", str(secret)]
    for command in (
        ["connection", "add", "bucket", *words],
        ["use", server.url, "--connection", "bucket"],
    ):
        done = running.cli("--project", project, "storage", *command)
        assert done.returncode == 0, done.stderr


def push_in_three(client: Client, folder: Path) -> list[str]:
    """A version whose contents are in three packs; what the script says of each file."""
    bytes_of, said = random.Random(1).randbytes, []
    for number in range(FILES):
        path, content = f"{number % 3}/{number:03}.bin", bytes_of(1000 + number)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        said.append(f"{path} {hashlib.sha256(content).hexdigest()}")
        if number in (29, 59, FILES - 1):
            client.datasets.push("set", folder)
    return sorted(said)


def submit(server: Server, code: Path, project: str, mode: str) -> int:
    words = ["--spec", "small", "--processes", "2", "--data", f"set@3:{mode}", "--json"]
    words += ["--code", str(code), "--checkpoint", "step-*.pt"]
    done = server.cli("--project", project, "job", "submit", *words, "--", "python", "train.py")
    assert done.returncode == 0, done.stderr
    number: int = json.loads(done.stdout)["id"]
    return number


def seen(client: Client, run: int) -> tuple[list[list[str]], int]:
    """What each rank printed of files, in order, and how many of a rank were seen before it was killed."""
    ended = client.runs.wait(run, timeout=180)
    said = "\n".join(line.text for line in client.runs.logs(run, kind="diag").lines)
    assert ended.state == "succeeded", f"{ended.reason}\n{said}"
    assert [a.cause for a in client.runs.attempts(run)] == ["killed", "done"]
    lines = client.runs.logs(run, limit=5000).lines
    resumed = {int(x.text.split()[-1]) for x in lines if x.text.startswith("goes on after")}
    assert 0 < min(resumed) < FILES // 2
    assert [x.text for x in lines if x.text.startswith("next epoch")] == ["next epoch 1"] * 2
    files = [(x.rank, x.text.removeprefix("seen ")) for x in lines if x.text.startswith("seen ")]
    return [[text for rank, text in files if rank == wanted] for wanted in (0, 1)], min(resumed)


def test_each_file_once_in_every_mode_and_store(streaming: Server, rclone: S3Server, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text(SCRIPT)
    with streaming.client() as admin:
        admin.projects.create("bucket")
    use_bucket(streaming, "bucket", rclone, tmp_path / "secret.json")
    clients = {name: streaming.client(project=name) for name in ("default", "bucket")}
    files = {name: push_in_three(client, tmp_path / name) for name, client in clients.items()}
    cases = [("default", "stream"), ("bucket", "stream"), ("bucket", "cache")]
    runs = [(submit(streaming, tmp_path / "code", *case), case[0]) for case in cases]
    found = [seen(clients[project], run) for run, project in runs]
    for (ranks, _), (_, project) in zip(found, runs, strict=True):
        assert sorted(ranks[0] + ranks[1]) == files[project]
        assert abs(len(ranks[0]) - len(ranks[1])) <= 1
        assert ranks[0] != sorted(ranks[0])
    # one order, wherever the files come from, up to where the first of them was killed
    common = min(resumed for _, resumed in found)
    first, second, third = ([rank[:common] for rank in ranks] for ranks, _ in found)
    assert first == second == third
    for client in clients.values():
        client.close()
