"""Job templates: saved, versioned, filled in; every shipped one trains on this machine's CPUs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from headway import templates

from .conftest import Server

NEEDS = {"zero": "deepspeed", "accelerate": "accelerate"}
#: (template, its parameters, ranks that train)
USES = [
    ("single", {}, 1),
    ("ddp", {}, 2),
    ("fsdp", {}, 2),
    ("zero", {"stage": 1}, 2),
    ("zero", {"stage": 2}, 2),
    ("zero", {"stage": 3}, 2),
    ("megatron", {"tensor": 1, "pipeline": 2}, 2),
    ("megatron", {"tensor": 2, "pipeline": 1}, 2),
    ("accelerate", {}, 2),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "parameters", "ranks"), USES, ids=lambda v: str(v).replace(" ", ""))
def test_a_shipped_template_trains(server: Server, name: str, parameters: dict[str, int], ranks: int) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    with server.client() as client:
        # DeepSpeed compiles a part of itself the first time
        job = client.templates.submit(name, {"epochs": 2, **parameters}, max_duration=500)
        ended = client.runs.wait(job.id, timeout=550)
        said = "\n".join(line.text for line in client.runs.logs(job.id, tail=200).lines)
        assert ended.state == "succeeded", f"{ended.reason}\n{said}"
        found = client.runs.checkpoints(job.id)
        assert [(c.epoch, c.valid) for c in found] == [(1, True), (2, True)], [c.reason for c in found]
        assert any(s.name == "loss" for s in client.runs.metrics(job.id))
        assert client.runs.get(job.id).template == f"{name}@0"


def test_the_command_template(server: Server) -> None:
    with server.client() as client:
        job = client.templates.submit("command", {"command": "echo one; echo two"})
        assert client.runs.wait(job.id, timeout=60).state == "succeeded"
        assert [line.text for line in client.runs.logs(job.id).lines] == ["one", "two"]


def test_a_template_of_ones_own(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "description: Counts\nparameters:\n  upto: {help: how far, least: 1}\n"
        "job:\n  command: [python, -c, 'print(*range({upto}))']\n  tags: {kind: count}\n"
    )
    assert server.cli("template", "save", "count", str(file)).returncode == 0
    assert "version 1" in server.cli("template", "save", "count", str(file)).stdout
    file.write_text(file.read_text().replace("Counts", "Counts from 0"))
    assert "version 2" in server.cli("template", "save", "count", str(file)).stdout
    rows = json.loads(server.cli("template", "versions", "count", "--json").stdout)
    assert [r["version"] for r in rows] == [2, 1]
    listed = server.cli("template", "ls").stdout
    assert "upto*" in listed and all(name in listed for name in templates.NAMES)
    done = server.cli("job", "submit", "--template", "count@1", "--param", "upto=3", "-f")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0 1 2"
    refused = server.cli("job", "submit", "--template", "count")
    assert (refused.returncode, "needs upto" in refused.stderr) == (2, True)
    assert server.cli("template", "rm", "count").returncode == 0
    assert server.cli("template", "show", "count").returncode == 4
    assert "ships" in server.cli("template", "rm", "ddp").stderr


def test_a_shipped_template_is_a_start_for_ones_own(server: Server, tmp_path: Path) -> None:
    done = server.cli("template", "init", "ddp", str(tmp_path / "start"))
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "start").iterdir()) == ["template.yaml", "train.py"]
    again = server.cli("template", "init", "ddp", str(tmp_path / "start"))
    assert (again.returncode, "there already" in again.stderr) == (3, True)
