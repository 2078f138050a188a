"""Scripts from elsewhere: the names and arguments that they were written for."""

from __future__ import annotations

import json

import pytest

from headway.rules import compat, launchers

FACTS = compat.Facts(
    job="7",
    inputs={"train-set": "/root/data/train-set"},
    output="/root/out",
    checkpoints="/root/ckpt",
    code="/root/code",
    parameters={"lr": 0.1, "epochs": 3, "amp": True, "note": "two words"},
    nodes=("10.0.0.1", "10.0.0.2"),
    node=1,
    processes=4,
    accelerators=4,
    cpus=8.5,
)


@pytest.mark.parametrize(
    ("platform", "name", "value"),
    [
        ("pai", "PAI_INPUT_TRAIN_SET", "/root/data/train-set"),
        ("pai", "PAI_OUTPUT_MODEL", "/root/out/model"),
        ("pai", "PAI_OUTPUT_CHECKPOINTS", "/root/ckpt"),
        ("pai", "PAI_OUTPUT_TENSORBOARD", "/root/out/tensorboard"),
        ("pai", "PAI_HPS_LR", "0.1"),
        ("pai", "PAI_USER_ARGS", "--lr 0.1 --epochs 3 --amp true --note 'two words'"),
        ("pai", "NPROC_PER_NODE", "4"),
        ("modelarts", "data_url", "/root/data/train-set"),
        ("modelarts", "train_url", "/root/out"),
        ("modelarts", "MA_JOB_DIR", "/root/code"),
        ("modelarts", "MA_NUM_HOSTS", "2"),
        ("modelarts", "MA_NUM_GPUS", "4"),
        ("modelarts", "VC_TASK_INDEX", "1"),
        ("modelarts", "VC_WORKER_HOSTS", "10.0.0.1,10.0.0.2"),
        ("sagemaker", "SM_CHANNEL_TRAIN_SET", "/root/data/train-set"),
        ("sagemaker", "SM_CHANNEL_TRAINING", "/root/data/train-set"),
        ("sagemaker", "SM_MODEL_DIR", "/root/out/model"),
        ("sagemaker", "SM_HP_EPOCHS", "3"),
        ("sagemaker", "SM_CURRENT_HOST", "algo-2"),
        ("sagemaker", "SM_NUM_CPUS", "8"),
        ("sagemaker", "SM_CHECKPOINT_DIR", "/root/ckpt"),
    ],
)
def test_variables(platform: str, name: str, value: str) -> None:
    assert compat.variables(platform, FACTS)[name] == value


def test_hyperparameters_keep_their_types_where_the_platform_keeps_them() -> None:
    assert json.loads(compat.variables("sagemaker", FACTS)["SM_HPS"]) == FACTS.parameters
    assert json.loads(compat.variables("pai", FACTS)["PAI_HPS"])["epochs"] == "3"


def test_a_command_gets_what_the_platform_adds() -> None:
    script = ["python", "train.py"]
    assert compat.command("sagemaker", script, FACTS) == [
        *script, "--lr", "0.1", "--epochs", "3", "--amp", "true", "--note", "two words"
    ]  # fmt: skip
    assert compat.command("modelarts", [*script, "--lr=0.5"], FACTS) == [
        *script, "--lr=0.5", "--data_url=/root/data/train-set", "--train_url=/root/out", "--epochs=3", "--amp=true",
        "--note=two words",
    ]  # fmt: skip
    assert compat.command("pai", [*script, "$PAI_USER_ARGS", "--out=${PAI_OUTPUT_MODEL}", "$HOME"], FACTS) == [
        *script, "--lr", "0.1", "--epochs", "3", "--amp", "true", "--note", "two words",
        "--out=/root/out/model", "$HOME",
    ]  # fmt: skip
    assert compat.command(None, script, FACTS) == script


def test_a_job_without_data_gives_no_data_url() -> None:
    bare = compat.Facts(job="1", inputs={}, output="/out", checkpoints="", code="/code")
    assert "data_url" not in compat.variables("modelarts", bare)
    assert compat.command("modelarts", ["python", "t.py"], bare) == ["python", "t.py", "--train_url=/out"]


def test_folders_that_a_platform_has_ready() -> None:
    assert compat.folders("sagemaker", FACTS) == ["/root/out/data", "/root/out/model"]
    assert compat.folders("pai", FACTS) == ["/root/out/model", "/root/out/tensorboard"]
    assert compat.folders(None, FACTS) == []


def test_an_unknown_platform() -> None:
    with pytest.raises(ValueError, match="azure"):
        compat.variables("azure", FACTS)


@pytest.mark.parametrize(
    ("command", "view"),
    [
        (["torchrun", "train.py"], "node"),
        (["/opt/venv/bin/accelerate", "launch", "train.py"], "node"),
        (["accelerate", "config"], "process"),
        (["deepspeed", "train.py"], "node"),
        (["python", "-m", "torch.distributed.run", "train.py"], "node"),
        (["python3.11", "-u", "-m", "torch.distributed.launch", "train.py"], "node"),
        (["python", "-m", "accelerate.commands.launch", "train.py"], "node"),
        (["python", "train.py", "-m", "torch.distributed.run"], "process"),
        (["sh", "-c", "exec torchrun train.py"], "node"),
        (["bash", "-c", "echo torchrun"], "process"),
        (["python", "torchrun.py"], "process"),
        ([], "process"),
    ],
)
def test_launchers(command: list[str], view: str) -> None:
    assert launchers.view_of(command) == view
