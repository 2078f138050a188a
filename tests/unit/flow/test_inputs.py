"""What a stage's key depends on: mending what only a later stage uses must not train again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.client.flow import FlowRunner
from headway.client.transport import build
from headway.rules import evalform
from headway.wire.evaluations import EvaluationRequest

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "digits", ignore=shutil.ignore_patterns("data", "__pycache__")))


def keys(folder: Path) -> tuple[str, str]:
    """Of training and evaluation, as requests would have them; nothing is asked of a server."""
    nobody: Any = None
    runner = FlowRunner(nobody, folder / "flow.yaml", nobody)
    runner._references = lambda names: list(names)  # type: ignore[method-assign]
    runner.job = nobody = type("Job", (), {"id": 1})()
    return runner.train_request()["key"], runner.evaluate_request()["key"]


@pytest.mark.parametrize(
    ("name", "trains", "evaluates"),
    [
        ("train.py", True, True),
        ("net.py", True, True),  # imported by the training
        ("evaluate.py", False, True),
        ("cases.yaml", False, False),  # a comment, which no case has
        ("predictor.py", False, False),
        ("flow.yaml", False, False),
        ("data/train/0/0001.png", False, False),  # the dataset's own, known by its version
    ],
)
def test_an_edit_repeats_what_depends_on_it(folder: Path, name: str, trains: bool, evaluates: bool) -> None:
    before = keys(folder)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n# mended\n")
    after = keys(folder)
    assert (before[0] != after[0], before[1] != after[1]) == (trains, evaluates)


def test_a_changed_case_is_another_evaluation_of_cells_with_the_same_code(folder: Path) -> None:
    def request() -> dict[str, Any]:
        nobody: Any = None
        runner = FlowRunner(nobody, folder / "flow.yaml", nobody)
        runner._references = lambda names: list(names)  # type: ignore[method-assign]
        runner.job = type("Job", (), {"id": 1})()  # type: ignore[assignment]
        return runner.evaluate_request()

    before = request()
    cases = folder / "cases.yaml"
    cases.write_text(cases.read_text().replace("sigma: 0.25", "sigma: 0.5"))
    after = request()
    assert after["key"] != before["key"] and after["snapshot"] != before["snapshot"]
    assert after["code"] == before["code"]
    assert [a["id"] for a, b in zip(after["cases"], before["cases"], strict=True) if a != b] == ["noise"]
    (folder / "evaluate.py").write_text((folder / "evaluate.py").read_text() + "# mended\n")
    assert request()["code"] != before["code"]


ALL_KEYS: dict[str, Any] = {
    "name": "clips", "worker": "evaluate.py:Digits", "outputs": {"a.mp4": {"kind": "video", "frames": 24}},
    "check": "evaluate.py:whole", "scorer": "evaluate.py:score", "scores": "stdout", "score_file": "s.json",
    "score": None, "better": "lower", "jobs": [7, 1], "checkpoints": ["a*", "b.pt"], "every": 2, "best": 3,
    "by": "loss", "mode": "max", "follow": False, "repeats": 4, "seed": 9, "parameters": {"side": 64}, "data": "digits",
    "environment": {"A": 1}, "workers": "1..4", "spec": "medium", "policy": "after_training", "cell_timeout": "2m",
    "tries": 3, "target": "/mnt/out", "max_duration": "1h", "retries": 5,
    "spot": {"max_price": 2},
}  # fmt: skip


@pytest.mark.parametrize("cases", ["all.yaml", "all.csv", "all.jsonl", "all", [{"id": "x", "inputs": {"n": 1}}]])
def test_every_key_of_a_flow_reaches_the_request_and_cases_come_from_anywhere(folder: Path, cases: Any) -> None:
    with (folder / "evaluate.py").open("a") as code:
        code.write("\ndef whole(case, out): ...\n\ndef score(case, out): ...\n")
    (folder / "all.yaml").write_text("- {id: x, inputs: {n: 1}}\n")
    (folder / "all.csv").write_text("id,n\nx,1\n")
    (folder / "all.jsonl").write_text('{"id": "x", "inputs": {"n": 1}}\n')
    (folder / "all").mkdir()
    (folder / "all" / "x.json").write_text('{"inputs": {"n": 1}}')
    # all that can be said is said here
    assert {*ALL_KEYS, "cases", "command"} == set(evalform.KEYS)
    stage = {**ALL_KEYS, "cases": cases}
    (folder / "flow.yaml").write_text(yaml.safe_dump({"train": {"command": "python train.py"}, "evaluate": stage}))
    nobody: Any = None
    runner = FlowRunner(nobody, folder / "flow.yaml", nobody)
    runner._references = lambda names: [f"{name}@3" for name in names]  # type: ignore[method-assign]
    runner.job = type("Job", (), {"id": 1})()  # type: ignore[assignment]
    asked = build(EvaluationRequest, runner.evaluate_request()).model_dump(by_alias=True)
    as_it_is = ["name", "worker", "check", "scorer", "scores", "score_file", "score", "better", "checkpoints", "every"]
    as_it_is += ["best", "by", "mode", "follow", "repeats", "seed", "parameters", "spec", "policy", "tries", "target"]
    assert {key: asked[key] for key in as_it_is} == {key: ALL_KEYS[key] for key in as_it_is}
    assert (asked["jobs"], asked["datasets"], asked["environment"]) == ([1, 7], ["digits@3"], {"A": "1"})
    assert (asked["spot"]["max_price"], asked["spot"]["protection"]) == (2, 3600)
    assert (asked["least_workers"], asked["workers"], asked["retries"]) == (1, 4, 5)
    assert (asked["cell_timeout"], asked["max_duration"], asked["held"]) == (120, 3600, False)
    assert [{k: v for k, v in o.items() if v is not None} for o in asked["outputs"]] == [
        {"name": "a.mp4", "kind": "video", "frames": 24}
    ]
    assert [(case["id"], case["inputs"]) for case in asked["cases"]] == [("x", {"n": 1})]
    assert asked["code"] and asked["snapshot"] and asked["key"].startswith("evaluate-")
