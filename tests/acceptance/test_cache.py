"""Data in runs, from the outside: one cache, too small for all, warmed, looked at, and never spoilt by a script."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client

from .conftest import Server, eventually, start, stop

SIZE, FILES = 20_000, 12
#: prints one digest over all that is below DATA_PATH, then waits for a file
READ = """
import hashlib, os, pathlib, sys, time
root = pathlib.Path(os.environ["DATA_PATH"])
found = hashlib.sha256()
for path in sorted(p for p in root.rglob("*") if p.is_file()):
    found.update(str(path.relative_to(root)).encode() + path.read_bytes())
print("digest", found.hexdigest(), flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A platform of two nodes whose cache holds one of the sets below, and not two."""
    home = tmp_path_factory.mktemp("home")
    (home / "nodes.yaml").write_text("- {name: a, cpus: 4, memory: 8GiB}\n- {name: b, cpus: 4, memory: 8GiB}\n")
    (home / "config.yaml").write_text(f"cache_bytes: {FILES * 20_480}\n")
    running = start(home)
    yield running
    stop(running)


def push(client: Client, folder: Path, name: str, seed: int) -> str:
    """A dataset of `FILES` files that no other test has; the digest that `READ` prints of it."""
    found = hashlib.sha256()
    (folder / "sub").mkdir(parents=True)
    for number in range(FILES):
        path = f"sub/{number:02}.bin" if number % 2 else f"{number:02}.bin"
        (folder / path).write_bytes(bytes([seed, number]) * (SIZE // 2))
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        found.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    client.datasets.push(name, folder)
    return found.hexdigest()


def submit(client: Client, dataset: str, *words: str, code: str = READ, **fields: Any) -> int:
    command = ["python", "-c", code, *words]
    return client.jobs.submit(command, spec="small", datasets=[dataset], **fields).id


def said(client: Client, run: int) -> list[str]:
    """The digests that the run's processes have printed."""
    return [
        line.text.removeprefix("digest ") for line in client.runs.logs(run).lines if line.text.startswith("digest ")
    ]


def ended(client: Client, run: int) -> None:
    view = client.runs.wait(run, timeout=60)
    assert view.state == "succeeded", [view.reason, *(line.text for line in client.runs.logs(run, kind="diag").lines)]


def test_two_projects_share_a_cache_of_half_the_size_they_need(small: Server, tmp_path: Path) -> None:
    admin = small.client()
    admin.projects.create("other")
    clients = [admin, small.client(project="other")]
    digests = [push(client, tmp_path / client.project, "set", n) for n, client in enumerate(clients)]
    release = tmp_path / "release"
    runs = [submit(client, "set", str(release)) for client in clients]
    # both have their data while both live
    for client, run, digest in zip(clients, runs, digests, strict=True):
        eventually(lambda c=client, r=run: said(c, r), what="the run's line")
        assert said(client, run) == [digest]
    release.touch()
    for client, run in zip(clients, runs, strict=True):
        ended(client, run)
    held = {c.node: c for c in admin.caches.ls()}
    assert held and all(c.bytes <= c.high_bytes for c in held.values())
    assert max(c.refused for c in held.values()) == FILES
    # the next one finds room: what no live run uses goes
    again = submit(clients[1], "set")
    ended(clients[1], again)
    assert said(clients[1], again) == [digests[1]]


def test_a_script_that_writes_into_its_data_spoils_nobody_elses(small: Server, tmp_path: Path) -> None:
    with small.client() as client:
        digest = push(client, tmp_path / "set", "spoilt", 7)
        spoil = """
import os, pathlib
for path in pathlib.Path(os.environ["DATA_PATH"]).rglob("*.bin"):
    path.chmod(0o644)
    path.write_bytes(b"spoilt")
"""
        ended(client, submit(client, "spoilt", code=spoil))
        run = submit(client, "spoilt")
        ended(client, run)
        assert said(client, run) == [digest]


def test_a_cache_is_warmed_looked_at_and_cleared(small: Server, tmp_path: Path) -> None:
    with small.client() as client:
        digest = push(client, tmp_path / "set", "warmed", 3)
        warmed = json.loads(small.cli("dataset", "warm", "warmed", "--node", "b", "--json").stdout)
        assert [r["state"] for r in warmed] == ["succeeded"]
        assert client.runs.attempts(warmed[0]["id"])[0].nodes == ["b"]
        run = submit(client, "warmed")
        ended(client, run)
        assert said(client, run) == [digest]
        log = "\n".join(line.text for line in client.runs.logs(run, kind="diag").lines)
        assert f"{FILES} files" in log and "0 (0 B) were fetched" in log
        found = json.loads(small.cli("cache", "ls", "--json").stdout)
        assert {"a", "b"} >= {c["node"] for c in found} and max(c["hit_rate"] for c in found) > 0
        assert "EVICTED" in small.cli("cache", "ls").stdout
        assert small.cli("cache", "verify").returncode == 0
        assert json.loads(small.cli("cache", "clear", "--json").stdout)["bytes"] == FILES * 20_480
        assert os.listdir(small.home / "cache/units") == []
        assert {c.bytes for c in client.caches.ls()} == {0}
        unknown = small.cli("dataset", "warm", "warmed", "--node", "c")
        assert unknown.returncode == 4 and "'c'" in unknown.stderr


def test_each_node_of_a_gang_has_the_data(small: Server, tmp_path: Path) -> None:
    with small.client() as client:
        digest = push(client, tmp_path / "set", "gang", 5)
        run = submit(client, "train=gang", nodes=2)
        ended(client, run)
        assert said(client, run) == [digest, digest]


def test_the_other_modes_put_no_file_into_the_cache(small: Server, tmp_path: Path) -> None:
    with small.client() as client:
        digest = push(client, tmp_path / "set", "other", 9)
        before = {c.node: c.misses for c in client.caches.ls()}
        runs = {mode: submit(client, f"other:{mode}") for mode in ("stream", "link")}
        for run in runs.values():
            ended(client, run)
        assert said(client, runs["link"]) == [digest]
        assert said(client, runs["stream"]) == [hashlib.sha256().hexdigest()]
        assert max(c.misses for c in client.caches.ls()) == max(before.values(), default=0)
        (tmp_path / "set/00.bin").write_bytes(b"another")
        view = client.runs.wait(submit(client, "other:link"), timeout=60)
        assert view.state == "failed" and "00.bin has 7 bytes" in view.reason
