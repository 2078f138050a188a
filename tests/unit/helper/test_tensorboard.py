"""Event files of the real SummaryWriter, whole, torn and broken; each point told once."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from headway.engines.local import LocalEngine
from headway.helper.tensorboard import CorruptError, checksum, marks, points, prefix
from headway.protocol.files import read_records
from headway.protocol.summaries import Finder
from headway.testing.engines import Attempt, python

from .conftest import Helper, Home

Start = Callable[..., tuple[Helper, str]]


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("events.out.tfevents.*")
    return path


def read(path: Path, offset: int = 0) -> list[tuple[int, str, float]]:
    return [(s, tag, v) for found, _ in points(str(path), offset) for s, tag, v, _ in found]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        for step in range(3):
            writer.add_scalar("loss/train", 1 / (step + 1), step, walltime=1000.5 + step)
        writer.add_histogram("weights", torch.randn(100), 3)
        writer.add_text("words", "loss=1", 3)
        writer.add_scalar("new style", 0.1, 3, new_style=True)
        writer.add_scalar("double", 0.1, 4, new_style=True, double_precision=True)
        writer.add_scalar("bad", float("nan"), 5)
        writer.add_scalar("neg", -2, -1)
    return the_file(tmp_path / "tb")


def test_the_scalars_of_a_real_writer(written: Path) -> None:
    found = read(written)
    assert found[:3] == [(0, "loss/train", 1.0), (1, "loss/train", 0.5), (2, "loss/train", pytest.approx(1 / 3))]
    assert found[3:5] == [(3, "new style", 0.1), (4, "double", 0.1)]
    assert found[5][:2] == (5, "bad") and math.isnan(found[5][2])
    assert found[6:] == [(-1, "neg", -2.0)]
    times = [t for some, _ in points(str(written), 0) for *_, t in some]
    assert times[:3] == [1000.5, 1001.5, 1002.5]


def test_a_torn_end_is_waited_for(written: Path, tmp_path: Path) -> None:
    whole, want = written.read_bytes(), read(written)
    torn = tmp_path / "torn"
    got: list[tuple[int, str, float]] = []
    offset = 0
    for size in range(0, len(whole) + 1, 7):
        torn.write_bytes(whole[:size])
        for found, end in points(str(torn), offset):
            got += [(s, tag, v) for s, tag, v, _ in found]
            offset = end
    torn.write_bytes(whole + bytes(4096))  # room that the system gave ahead of the bytes
    got += read(torn, offset)
    assert str(got) == str(want)


def test_what_was_not_written_so_is_refused(written: Path, tmp_path: Path) -> None:
    whole = bytearray(written.read_bytes())
    whole[whole.index(b"loss/train") + 1] ^= 1
    (tmp_path / "bad").write_bytes(whole)
    with pytest.raises(CorruptError, match="not what was written"):
        read(tmp_path / "bad")
    (tmp_path / "bad").write_bytes(b"no such file at all")
    with pytest.raises(CorruptError, match="no record begins at byte 0"):
        read(tmp_path / "bad")


def test_the_checksum_is_that_of_the_format() -> None:
    # CRC-32C of "123456789" is 0xE3069283
    assert checksum(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("events", ""),
        ("runs/Dec02_08-13-37_box/events", ""),
        ("runs/Dec02_08-13-37_box/loss_train/events", "loss_train/"),
        ("lightning_logs/version_0/events", ""),
        ("logs/train/events", "train/"),
        ("logs/fold 1/validation/events", "fold 1/validation/"),
    ],
)
def test_folders_name_the_metrics(path: str, name: str) -> None:
    assert prefix("/out", f"/out/{path}") == name


def test_files_are_found_as_they_appear(tmp_path: Path) -> None:
    finder = Finder([str(tmp_path), str(tmp_path / "runs"), str(tmp_path / "none")])
    assert finder.look() == []
    for folder in ("runs/a", "node_modules/x", ".hidden", "runs/a/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "events.out.tfevents.1.box").touch()
    assert [path for _, path in finder.look()] == [
        f"{tmp_path}/runs/a/events.out.tfevents.1.box",
        f"{tmp_path}/runs/a/b/events.out.tfevents.1.box",
    ]


def told(helper: Helper) -> list[tuple[int, str, float]]:
    return [(p["step"], p["name"], p["value"]) for word in helper.said for p in word.get("points", ())]


def commit(folder: Path, helper: Helper) -> None:
    """What a runner appends."""
    metrics = folder / "node-0" / "metrics.jsonl"
    metrics.parent.mkdir(exist_ok=True)
    with metrics.open("a") as file:
        for word in helper.said:
            for point in word.get("points", ()):
                file.write(json.dumps(point) + "\n")
            if "mark" in word:
                file.write(json.dumps({"mark": word["mark"]}) + "\n")


def watched(home: Home, attempt: str, output: Path) -> Path:
    folder = home.checkpoints(attempt)
    launch: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    launch |= {"environment": {"OUTPUT_PATH": str(output)}, "cwd": str(folder / "code")}
    (folder / "launch.json").write_text(json.dumps(launch))
    return folder


def test_a_helper_tells_each_point_once_over_restarts_and_attempts(home: Home, helpers: Start, tmp_path: Path) -> None:
    output = tmp_path / "output"
    folder = watched(home, "7-1", output)
    with SummaryWriter(str(output / "runs" / "Dec02_08-13-37_box"), flush_secs=1) as writer:
        helper, _ = helpers(folder)
        for step in range(10):
            writer.add_scalar("loss", step, step)
        writer.add_scalars("acc", {"train": 1, "val": 2}, 9)
        writer.flush()
        helper.until(lambda word: any(p["name"] == "acc_val/acc" for p in word.get("points", ())))
        helper.kill()
        commit(folder, helper)
        want = [(n, "loss", float(n)) for n in range(10)] + [(9, "acc_train/acc", 1.0), (9, "acc_val/acc", 2.0)]
        assert sorted(told(helper)) == sorted(want)
        writer.add_scalar("loss", 10, 10)
    again, _ = helpers(folder)
    again.prepared()
    assert again.end() == 0
    commit(folder, again)
    assert told(again) == [(10, "loss", 10.0)]
    with SummaryWriter(str(output / "runs" / "Dec02_09-00-00_box")) as writer:
        writer.add_scalar("loss", 11, 11)
    later, _ = helpers(watched(home, "7-2", output))
    later.prepared()
    assert later.end() == 0
    assert told(later) == [(11, "loss", 11.0)]
    assert len(marks(folder)) == 3


def test_a_plain_run_has_them_through_its_runner(home: Home, written: Path) -> None:
    made = Attempt(
        LocalEngine(home.root),
        home.root,
        python(f"import os, shutil; os.mkdir('runs'); shutil.copy({str(written)!r}, 'runs')"),
        helper=[sys.executable, "-I", "-m", "headway.helper"],
    )
    plan = json.loads((home.checkpoints(made.id) / "launch.json").read_text())["plan"]
    attempt = Attempt(
        made.engine,
        home.root,
        made.launch.command,
        attempt=made.id,
        cwd=made.launch.cwd,
        helper=made.launch.helper,
        plan={**plan, "wait_for": str(made.folder.checkpoints)},
    )
    (made.folder.path / "launch.json").unlink()
    try:
        assert attempt.start().exit().code == 0
    finally:
        attempt.clean()
    records = read_records(attempt.node.metrics)[0]
    found = [(p["step"], p["name"], p["value"]) for p in records if "name" in p]
    assert str(found) == str(read(written))
    assert records[-1]["mark"]["offset"] == written.stat().st_size
