from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.helper.checkpoints import cleaned, position
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


def shards(folder: Path, *, index: bool = True) -> None:
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({"a": torch.ones(64)}, folder / "model-00001-of-00001.safetensors")
    if index:
        words = json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}})
        (folder / "model.safetensors.index.json").write_text(words)


def test_folders_are_published_once_they_are_whole_and_still(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1", patterns=["*.pt", "*/"], settle_seconds=0.3)
    watch = folder / "checkpoints"
    helper, _ = helpers(folder)
    helper.prepared()
    (watch / "logs").mkdir()
    (watch / "logs" / "events.out").write_text("x")
    shards(watch / "checkpoint-20", index=False)
    shards(watch / "torn-30", index=False)
    shards(watch / "checkpoint-10")
    (watch / "checkpoint-10.json").write_text(json.dumps({"step": 10, "epoch": 1, "metrics": {"loss": 1.0}}))
    told = helper.event("checkpoint")
    assert (told["name"], told["format"], told["step"]) == ("checkpoint-10", "safetensors_index", 10)
    assert told["files"] == 3 and told["metrics"] == {"loss": 1.0} and told["valid"] is True
    shards(watch / "checkpoint-20")
    assert helper.event("checkpoint")["name"] == "checkpoint-20"
    helper.end()
    last = helper.events("checkpoint")[-1]
    assert (last["name"], last["valid"], last["format"]) == ("torn-30", False, "safetensors_index")
    assert "index.json is missing" in last["reason"]
    published = home.project / "jobs/1/checkpoints"
    assert sorted(p.name for p in published.glob("[!.]*")) == ["checkpoint-10", "checkpoint-20"]
    assert ProjectQuota(home.project).usage()[1] == 6
    # the next attempt finds them, tells them with their notes, and sees what was damaged since
    (published / "checkpoint-20" / "model-00001-of-00001.safetensors").write_bytes(b"torn")
    again, _ = helpers(home.checkpoints("1-2", patterns=["*.pt", "*/"]))
    again.prepared()
    again.end()
    first, second = again.events("checkpoint")
    assert (first["sha256"], first["metrics"]) == (told["sha256"], {"loss": 1.0})
    assert (second["name"], second["valid"]) == ("checkpoint-20", False)


def test_a_folder_that_is_written_again_replaces_the_published_one(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1", patterns=["last/"], settle_seconds=0.1)
    watch = folder / "checkpoints"
    helper, _ = helpers(folder)
    helper.prepared()
    shards(watch / "last")
    first = helper.event("checkpoint")
    (watch / "last" / "trainer_state.json").write_text('{"global_step": 5}')
    second = helper.event("checkpoint")
    assert first["sha256"] != second["sha256"] and second["files"] == 4
    helper.end()
    assert ProjectQuota(home.project).usage()[1] == 4
    assert (home.project / "jobs/1/checkpoints/last/trainer_state.json").exists()


def test_only_what_save_checkpoint_wrote_is_shared(home: Home, helpers: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    import headway

    folder = home.checkpoints("1-1")
    watch, published = folder / "checkpoints", home.project / "jobs/1/checkpoints"
    monkeypatch.setenv("CHECKPOINT_PATH", str(watch))
    headway.save_checkpoint({"w": torch.ones(9)}, "epoch-1.pt", epoch=1)
    save(watch, "epoch-2.pt")
    helper, _ = helpers(folder)
    told = helper.prepared().event("checkpoint")
    assert told["save_seconds"] == told["blocked_seconds"] > 0
    helper.event("checkpoint")
    assert (watch / "epoch-1.pt").samefile(published / "epoch-1.pt")
    assert not (watch / "epoch-2.pt").samefile(published / "epoch-2.pt")
    # saved once more under its name: another file, and the published one stays as it was until that is published
    before = (published / "epoch-1.pt").read_bytes()
    headway.save_checkpoint({"w": torch.zeros(9)}, "epoch-1.pt", epoch=1)
    assert helper.event("checkpoint")["sha256"] != told["sha256"]
    assert (published / "epoch-1.pt").read_bytes() != before
    helper.end()
    assert ProjectQuota(home.project).usage()[1] == 2


def test_of_several_nodes_the_first_publishes(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    save(folder / "checkpoints", "epoch-1.pt")
    other, _ = helpers(folder, "import os; os.environ['NODE_RANK'] = '1'")
    other.prepared()
    assert other.end() == 0 and other.events("checkpoint") == []
    first, _ = helpers(folder, "import os; os.environ['NODE_RANK'] = '0'")
    assert first.prepared().event("checkpoint")["valid"] is True
    first.end()


def test_a_sidecar_is_cleaned_of_what_no_record_holds() -> None:
    hostile = {
        "step": 10**30, "epoch": "x", "metrics": {"a": float("nan"), "b": 10**400, "c": 0.5, "d": [1]},
        "save_seconds": "long", "written": [1, {}, 2], "other": "y",
    }  # fmt: skip
    assert cleaned(hostile) == {"metrics": {"c": 0.5}}
    good = {"step": 3, "epoch": 1, "metrics": {"loss": 1}, "save_seconds": 0.5, "written": [1, 2, 3]}
    assert cleaned(good) == good
    assert position("step-99999999999999999999999999.pt", {}) == (None, None)


def test_nothing_that_a_script_leaves_keeps_a_good_checkpoint_from_being_published(home: Home, helpers: Start) -> None:
    folder = home.checkpoints("1-1")
    watch = folder / "checkpoints"
    watch.mkdir(parents=True, exist_ok=True)
    os.mkfifo(watch / "pipe.pt")
    os.mkfifo(watch / "z1.pt.json")
    (watch / "z2.pt.json").write_text("[" * 100_000)
    save(watch, "z0.pt").rename(os.fsdecode(os.fsencode(watch) + b"/a\xff.pt"))
    helper, _ = helpers(folder)
    helper.prepared()
    save(watch, "z1.pt")
    save(watch, "z2.pt")
    assert helper.end() == 0
    told = {e["name"]: e["valid"] for e in helper.events("checkpoint")}
    assert told["z1.pt"] and told["z2.pt"] and "pipe.pt" not in told
