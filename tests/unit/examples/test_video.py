"""The video example as its users have it: data, a training that resumes to the bit, videos that decode, fair scores."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from headway.client import flowfile
from headway.storage.verify import InvalidError, check

FOLDER = Path(__file__).parents[3] / "examples" / "video"
MODULES = ("clips", "infer", "make_data", "net", "train")

Script = Callable[..., str]


@pytest.fixture(scope="module")
def script() -> Script:
    """Runs `python NAME ARGUMENTS` in the example's folder with only the variables given; returns what it printed."""

    def run(*words: str, **variables: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=FOLDER,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, script: Script) -> Path:
    folder = tmp_path_factory.mktemp("video") / "data"
    script("make_data.py", str(folder))
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, script: Script, data: Path) -> Path:
    """Four epochs."""
    folder = tmp_path_factory.mktemp("trained")
    script("train.py", "--epochs", "4", DATA_PATH=str(data), CHECKPOINT_PATH=str(folder))
    return folder


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, data: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Imports modules of the example for the length of a test."""
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("DATA_PATH", str(data))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def cases() -> list[dict[str, Any]]:
    flow = flowfile.load(FOLDER / "flow.yaml")
    return [{**case, "repeat": 0, "seed": 0} for case in flowfile.check(flow, FOLDER / "flow.yaml")]


def test_the_flow_is_valid_and_has_425_cells(cases: list[dict[str, Any]]) -> None:
    flow = flowfile.load(FOLDER / "flow.yaml")
    assert flow.train is not None and flow.train.parameters["epochs"] * len(cases) == 425


def test_the_same_seed_makes_the_same_data(data: Path, script: Script, tmp_path: Path) -> None:
    script("make_data.py", str(tmp_path / "again"))
    for name in ("train.npz", "judge.npz"):
        with np.load(data / name) as one, np.load(tmp_path / "again" / name) as other:
            assert sorted(one) == sorted(other)
            assert all(np.array_equal(one[key], other[key]) for key in one)


def test_the_tags_say_what_the_model_has_seen(
    example: Callable[[str], ModuleType], cases: list[dict[str, Any]], data: Path
) -> None:
    clips = example("clips")
    motions = list(clips.MOTIONS)
    with np.load(data / "train.npz") as found:
        seen = set(zip(found["digits"].tolist(), found["motions"].tolist(), strict=True))
    for case in cases:
        digit, motion = clips.read_prompt(case["inputs"]["prompt"])
        assert ("shown" in case["tags"], "unseen" in case["tags"]) == (
            (digit, motions.index(motion)) in seen,
            (digit, motions.index(motion)) not in seen,
        ), case["id"]


def test_a_prompt_that_is_none_is_one_sentence(example: Callable[[str], ModuleType]) -> None:
    for wrong in ("a cat that bounces", "a 3", "a 12 that falls", "a 3 or a 4 that falls"):
        with pytest.raises(ValueError, match="is not like 'a 3 that bounces'"):
            example("clips").read_prompt(wrong)


def test_the_judge_knows_true_clips_from_others(example: Callable[[str], ModuleType], data: Path) -> None:
    infer, clips = example("infer"), example("clips")
    judge = infer.Judge(data / "judge.npz")
    motions = list(clips.MOTIONS)
    with np.load(data / "train.npz") as found:
        drawn, digits, how = found["clips"][:12] / np.float32(255), found["digits"][:12], found["motions"][:12]
    right = [judge.looks(d[None], digit) for d, digit in zip(drawn, digits, strict=True)]
    wrong = [judge.looks(d[None], (digit + 1) % 10) for d, digit in zip(drawn, digits, strict=True)]
    assert np.mean(right) > 0.75 and np.mean(wrong) < 0.1
    went = [judge.moves(d[None], motions[m]) for d, m in zip(drawn, how, strict=True)]
    other = [judge.moves(d[None], motions[(m + 1) % len(motions)]) for d, m in zip(drawn, how, strict=True)]
    assert min(went) > 0.75 and np.mean(other) < 0.6
    assert judge.moves(np.zeros((1, 16, 32, 32), np.float32), "rises") == 0


def test_training_goes_on_to_the_bit(trained: Path, script: Script, data: Path, tmp_path: Path) -> None:
    words = script(
        "train.py",
        *("--epochs", "4"),
        DATA_PATH=str(data),
        CHECKPOINT_PATH=str(tmp_path),
        RESUME_FROM=str(trained / "epoch-02.pt"),
    )
    assert "resumed after epoch 2" in words
    assert sorted(p.name for p in tmp_path.iterdir()) == ["epoch-03.pt", "epoch-04.pt"]
    import torch

    one, other = (torch.load(f / "epoch-04.pt", weights_only=True)["model"] for f in (trained, tmp_path))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert check(trained / "epoch-04.pt", "torch")


def test_every_prompt_gives_a_video_that_decodes_and_scores(
    example: Callable[[str], ModuleType], trained: Path, cases: list[dict[str, Any]], tmp_path: Path
) -> None:
    flow = flowfile.load(FOLDER / "flow.yaml")
    assert flow.evaluate is not None
    rules = {rule["name"]: rule for rule in flow.evaluate.outputs}
    worker = example("infer").Video()
    worker.load(str(trained / "epoch-04.pt"))
    for case in cases:
        out = tmp_path / case["id"]
        out.mkdir()
        worker.run({**case, "parameters": {**flow.evaluate.fields["parameters"], **case["parameters"]}}, str(out))
        assert sorted(p.name for p in out.iterdir()) == ["clip.mp4", "score.json"]
        seconds = case["parameters"].get("seconds", 2)
        facts = check(out / "clip.mp4", "video", {**rules["clip.mp4"], "seconds": seconds, "frames": 12 * seconds})
        assert facts["codec"] == "vp9"
        check(out / "score.json", "json", rules["score.json"])
        score = json.loads((out / "score.json").read_text())
        assert score["score"] == pytest.approx(score["looks"] * score["moves"], abs=1e-5)


def test_the_same_cell_gives_the_same_bytes_and_another_seed_others(
    example: Callable[[str], ModuleType], trained: Path, cases: list[dict[str, Any]], tmp_path: Path
) -> None:
    worker = example("infer").Video()
    worker.load(str(trained / "epoch-04.pt"))
    made = []
    for seed in (0, 0, 1):
        worker.run({**cases[0], "seed": seed}, str(tmp_path))
        made.append((tmp_path / "clip.mp4").read_bytes())
    assert made[0] == made[1] != made[2]
    (tmp_path / "clip.mp4").write_bytes(made[0][: len(made[0]) // 2])
    with pytest.raises(InvalidError):
        check(tmp_path / "clip.mp4", "video")
    with pytest.raises(ValueError, match="unknown parameters sides"):
        worker.run({**cases[0], "parameters": {"sides": 3}}, str(tmp_path))


def test_by_hand(trained: Path, script: Script, data: Path, tmp_path: Path) -> None:
    checkpoint = str(trained / "epoch-04.pt")
    printed = script("infer.py", checkpoint, "a 3 that bounces", str(tmp_path / "out"), DATA_PATH=str(data))
    assert set(json.loads(printed)) == {"score", "looks", "moves"}
    assert (tmp_path / "out" / "clip.mp4").stat().st_size > 1000
