from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.helper.checkpoints import position
from headway.storage.publish import file_digest
from headway.storage.quota import ProjectQuota

from .conftest import Helper, Home

Start = Callable[..., tuple[Helper, str]]


def save(folder: Path, name: str, value: float = 1.0) -> Path:
    torch.save({"w": torch.full((300,), value)}, folder / f".{name}")
    os.replace(folder / f".{name}", folder / name)
    return folder / name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("epoch-07.pt", (None, 7)),
        ("step_1000.pt", (1000, None)),
        ("checkpoint-500.safetensors", (500, None)),
        ("resnet50-epoch-3.pt", (None, 3)),
        ("epoch=2-step=40.ckpt", (40, 2)),
        ("model-12.pt", (12, None)),
        ("last.pt", (None, None)),
    ],
)
def test_positions(name: str, found: tuple[Any, Any]) -> None:
    assert position(name, {}) == found
    assert position(name, {"step": 4, "epoch": None}) == (4, None)


def test_a_checkpoint_is_published_and_told_while_the_job_runs(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    helper, _ = helpers(folder)
    helper.prepared()
    watch = folder / "checkpoints"
    (watch / "epoch-07.pt.json").write_text(json.dumps({"step": 70, "epoch": 7, "metrics": {"loss": 0.5}}))
    saved = save(watch, "epoch-07.pt")
    told = helper.event("checkpoint")
    assert told["path"] == "projects/p/jobs/1/checkpoints/epoch-07.pt" and told["valid"] is True
    assert (told["step"], told["epoch"], told["metrics"], told["format"]) == (70, 7, {"loss": 0.5}, "torch")
    assert told["sha256"] == file_digest(saved) == file_digest(home.root / told["path"])
    assert told["bytes"] == saved.stat().st_size
    save(watch, "epoch-08.pt")
    assert helper.end() == 0
    assert [e["name"] for e in helper.events("checkpoint")] == ["epoch-07.pt", "epoch-08.pt"]
    assert ProjectQuota(home.project).usage()[1] == 2
    # the next attempt tells them again, with what the sidecar said
    again, _ = helpers(home.checkpoints("1-2"))
    again.prepared()
    assert again.end() == 0
    first, second = again.events("checkpoint")
    assert first["sha256"] == told["sha256"] and first["metrics"] == {"loss": 0.5}
    assert second["epoch"] == 8


def test_an_unfinished_file_is_not_taken(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    watch = folder / "checkpoints"
    whole = save(watch, "whole.bin").read_bytes()
    helper, _ = helpers(folder)
    helper.prepared()
    (watch / "epoch-1.pt").write_bytes(whole[: len(whole) // 2])
    (watch / "cut-2.pt").write_bytes(whole[:-1])
    save(watch, "epoch-3.pt")
    assert helper.event("checkpoint")["name"] == "epoch-3.pt"
    (watch / "epoch-1.pt").write_bytes(whole)
    assert helper.event("checkpoint")["name"] == "epoch-1.pt"
    helper.end()
    last = helper.events("checkpoint")[-1]
    assert last["name"] == "cut-2.pt" and last["valid"] is False and "not a whole zip" in last["reason"]
    assert sorted(p.name for p in (home.project / "jobs/1/checkpoints").glob("[!.]*")) == ["epoch-1.pt", "epoch-3.pt"]


def test_the_same_name_again(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    helper, _ = helpers(folder)
    helper.prepared()
    save(folder / "checkpoints", "last.pt", 1.0)
    first = helper.event("checkpoint")
    second_file = save(folder / "checkpoints", "last.pt", 2.0)
    second = helper.event("checkpoint")
    assert first["sha256"] != second["sha256"] == file_digest(second_file)
    helper.end()
    assert ProjectQuota(home.project).usage()[1] == 1


KILL_BEFORE_EVENT = """
import os, signal
from headway.helper import checkpoints
checkpoints.Checkpoints._tell = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_between_rename_and_event(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    save(folder / "checkpoints", "epoch-1.pt")
    first, _ = helpers(folder, KILL_BEFORE_EVENT)
    first.process.wait(20)
    assert (home.project / "jobs/1/checkpoints/epoch-1.pt").exists()
    again, _ = helpers(folder)
    assert again.prepared().event("checkpoint")["valid"] is True
    again.end()
    assert ProjectQuota(home.project).usage()[1] == 1


def test_a_damaged_published_checkpoint_is_told(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    helper, _ = helpers(folder)
    save(folder / "checkpoints", "epoch-1.pt")
    helper.prepared().event("checkpoint")
    helper.end()
    target = home.project / "jobs/1/checkpoints/epoch-1.pt"
    content = bytearray(target.read_bytes())
    content[len(content) // 2] ^= 1
    target.write_bytes(content)
    again, _ = helpers(home.checkpoints("1-2"))
    assert again.prepared().event("checkpoint")["valid"] is False


def test_a_full_quota_holds_the_checkpoint_back_until_there_is_room(home: Home, helpers: Start) -> None:
    quota = ProjectQuota(home.project)
    quota.set_limits(10, None)
    folder = home.checkpoints("1-1")
    helper, _ = helpers(folder)
    helper.prepared()
    save(folder / "checkpoints", "epoch-1.pt")
    assert helper.event("paused")["cause"] == "over_quota"
    quota.set_limits(None, None)
    assert helper.event("checkpoint")["valid"] is True
    helper.end()
    assert [w["event"]["event"] for w in helper.said if "event" in w] == ["paused", "resumed", "checkpoint"]
