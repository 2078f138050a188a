from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .conftest import FOLDER, Script


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_each_epoch_prints_its_metrics_and_leaves_a_checkpoint(trained: tuple[Path, str]) -> None:
    folder, printed = trained
    assert sorted(p.name for p in folder.iterdir()) == [f"epoch-{n:02d}.pt" for n in range(1, 5)]
    lines = re.findall(r"^epoch (\d+)/4 loss=(\d\.\d+) val_accuracy=(\d\.\d+)$", printed, re.MULTILINE)
    assert [int(epoch) for epoch, _, _ in lines] == [1, 2, 3, 4]
    losses = [float(loss) for _, loss, _ in lines]
    assert losses[-1] < losses[0] / 1.5


def test_a_checkpoint_is_a_plain_state(trained: tuple[Path, str]) -> None:
    state = torch.load(trained[0] / "epoch-02.pt", weights_only=True)
    assert set(state) == {"model", "optimizer", "epoch"}
    assert state["epoch"] == 2


def test_a_resumed_run_ends_where_an_unbroken_one_does(
    tmp_path: Path, script: Script, data: Path, trained: tuple[Path, str]
) -> None:
    done = script(
        "train.py",
        "--epochs",
        "4",
        DATA_PATH=str(data),
        CHECKPOINT_PATH=str(tmp_path),
        RESUME_FROM=str(trained[0] / "epoch-02.pt"),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["epoch-03.pt", "epoch-04.pt"]
    ours, theirs = (torch.load(f / "epoch-04.pt", weights_only=True)["model"] for f in (tmp_path, trained[0]))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_two_processes_share_the_data_and_one_of_them_saves(tmp_path: Path, data: Path) -> None:
    variables = {
        **os.environ,
        "DATA_PATH": str(data),
        "CHECKPOINT_PATH": str(tmp_path),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
    }
    variables.pop("RESUME_FROM", None)
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py", "--epochs", "1"],
            cwd=FOLDER,
            env={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=120)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    assert printed[0].startswith("epoch 1/1 loss=")
    assert printed[1] == ""
    assert [p.name for p in tmp_path.iterdir()] == ["epoch-01.pt"]


@pytest.mark.parametrize("world", [1, 2])
def test_stopped_in_the_middle_of_an_epoch_it_goes_on_to_the_bit(tmp_path: Path, data: Path, world: int) -> None:
    def train(folder: str, stop_after: str | None = None, resume: str | None = None) -> list[str]:
        """stop_after: the stop file appears once this was printed."""
        variables = {
            **os.environ,
            "DATA_PATH": str(data),
            "CHECKPOINT_PATH": str(tmp_path / folder),
            "HEADWAY_STOP_FILE": str(tmp_path / f"stop-{folder}"),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(world),
        }
        variables.pop("RESUME_FROM", None)
        if resume:
            variables["RESUME_FROM"] = resume
        ranks = [
            subprocess.Popen(
                [sys.executable, "train.py", "--epochs", "4"],
                cwd=FOLDER,
                env={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        assert ranks[0].stdout is not None
        printed = []
        for line in ranks[0].stdout:
            printed.append(line)
            if stop_after and line.startswith(stop_after):
                (tmp_path / f"stop-{folder}").touch()
        assert [process.wait(120) for process in ranks] == [0] * world
        return printed

    whole = train("whole")
    assert [line.split(" ")[1] for line in whole] == ["1/4", "2/4", "3/4", "4/4"]
    stopped = train("stopped", stop_after="epoch 2/4")
    assert re.match(r"asked to end in epoch 3 after \d+ images", stopped[-1])
    assert sorted(p.name for p in (tmp_path / "stopped").iterdir())[-1] == "stopped-epoch-02.pt"
    resumed = train("resumed", resume=str(tmp_path / "stopped" / "stopped-epoch-02.pt"))
    # losses and scores too, for both halves of the epoch count
    assert resumed[1:] == whole[2:]
    assert (tmp_path / "resumed/epoch-04.pt").read_bytes() == (tmp_path / "whole/epoch-04.pt").read_bytes()
