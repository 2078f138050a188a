"""flow.yaml: what is accepted, and one sentence for everything else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.client import flowfile
from headway.client.transport import build
from headway.errors import UsageError
from headway.rules import evalform, flow
from headway.wire.evaluations import EvaluationRequest

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits" / "flow.yaml"

WHOLE: dict[str, Any] = {
    "dataset": {"name": "digits", "path": "data", "prepare": "python make_data.py data"},
    "train": {
        "command": "python train.py --epochs {epochs}",
        "parameters": {"epochs": 25, "seed": 0},
        "processes": 2,
        "spec": "medium",
        "data": "digits",
        "checkpoints": "*.pt",
        "max_duration": "30m",
    },
    "evaluate": {
        "name": "digits",
        "worker": "evaluate.py:Digits",
        "cases": "cases.yaml",
        "outputs": {"score.json": "json", "mistakes.png": "image"},
        "score": "accuracy",
        "workers": 2,
    },
    "model": {"name": "digits", "checkpoint": "best", "case": "clean", "predictor": "predictor.py:Digits"},
    "endpoint": {"name": "digits", "replicas": 1, "spec": "small", "max_duration": "2h"},
}


def changed(path: str, value: object) -> dict[str, Any]:
    raw = copy.deepcopy(WHOLE)
    *folders, last = path.split(".")
    place = raw
    for key in folders:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return raw


def test_the_whole() -> None:
    found = flow.parse(WHOLE)
    assert found.stages == ["dataset", "train", "evaluate", "model", "endpoint"]
    assert found.train is not None and found.train.max_duration == 1800
    assert found.train.checkpoints == ("*.pt",)
    assert found.train.data == ("digits",)
    assert found.evaluate is not None and found.evaluate.outputs[1] == {"name": "mistakes.png", "kind": "image"}
    assert found.endpoint is not None and found.endpoint.max_duration == 7200


def test_a_training_stage_takes_what_a_job_takes() -> None:
    more = {
        "nodes": "1..4", "accelerators": "1..2", "billing": "spot", "spot": {"max_price": 2, "protection": "30m"},
        "max_wait": "1d", "limits": {"idle_output": "10m", "disk": "2GiB"}, "keep": {"keep_best": "3:accuracy"},
        "after": 12, "tags": {"team": "vision"}, "compat": "pai", "retry_rules": {"node_lost": "elsewhere:5"},
    }  # fmt: skip
    found = flow.parse({**WHOLE, "train": {**WHOLE["train"], **more}}).train
    assert found is not None
    assert found.more == {
        "nodes": 4, "accelerators": 2, "least": {"nodes": 1, "accelerators": 1}, "billing": "spot",
        "spot": {"max_price": 2.0, "protection": 1800}, "max_wait": 86400,
        "limits": {"idle_output": 600, "disk_bytes": 2 << 30},
        "retention": {"keep_best": {"n": 3, "metric": "accuracy", "mode": "max"}},
        "after": [12], "tags": {"team": "vision"}, "compat": "pai",
        "retry_rules": {"node_lost": {"action": "elsewhere", "times": 5}},
    }  # fmt: skip
    # what names none of it asks for what it always did, so that its key stays
    plain = flow.parse(WHOLE).train
    assert plain is not None and plain.more == {}


def test_an_evaluation_takes_all_that_its_request_has() -> None:
    raw = {
        "name": "clips", "command": "python infer.py --case {case.id} --out '{out}'", "cases": ["a"],
        "outputs": {"clip.mp4": {"kind": "video", "frames": 24, "seconds": "2s"}, "notes.txt": None},
        "check": "checks.py:whole", "scorer": "score.py:score", "scores": "stdout", "score": None, "better": "lower",
        "jobs": 7, "checkpoints": "epoch-*", "every": 2, "best": 3, "by": "loss", "mode": "min", "follow": True,
        "repeats": 4, "seed": 9, "parameters": {"side": 64}, "data": "digits", "environment": {"A": 1},
        "workers": "2..4", "spec": "medium", "policy": "spare", "cell_timeout": "2m", "tries": 3,
        "target": "/mnt/out", "max_duration": "1h", "retries": 5,
    }  # fmt: skip
    found = flow.parse({**WHOLE, "evaluate": raw, "model": None, "endpoint": None}).evaluate
    assert found is not None and found.cases == [{"id": "a", "inputs": {}, "parameters": {}, "tags": []}]
    assert found.follow and found.what == "python infer.py --case '{case.id}' --out '{out}'"
    assert found.fields == {
        "name": "clips", "command": ["python", "infer.py", "--case", "{case.id}", "--out", "{out}"],
        "outputs": [
            {"name": "clip.mp4", "kind": "video", "frames": 24, "seconds": 2.0}, {"name": "notes.txt", "kind": "file"}
        ],
        "check": "checks.py:whole", "scorer": "score.py:score", "scores": "stdout", "score": None, "better": "lower",
        "jobs": [7], "checkpoints": ["epoch-*"], "every": 2, "best": 3, "by": "loss", "mode": "min", "follow": True,
        "repeats": 4, "seed": 9, "parameters": {"side": 64}, "datasets": ["digits"], "environment": {"A": "1"},
        "workers": 4, "least_workers": 2, "spec": "medium", "policy": "spare", "cell_timeout": 120, "tries": 3,
        "target": "/mnt/out", "max_duration": 3600, "retries": 5,
    }  # fmt: skip
    # the server knows every one of these fields
    build(EvaluationRequest, {**found.fields, "cases": found.cases, "snapshot": "0" * 64})


def test_every_field_of_the_request_can_be_said() -> None:
    said = {field for reader in evalform._READERS.items() for field in _fields_of(*reader)}
    apart = {"snapshot", "code", "held", "key"}  # the client's own, and a flag of `headway eval run`
    assert said | apart == set(EvaluationRequest.model_fields)


def _fields_of(key: str, reader: Any) -> list[str]:
    examples = {
        "worker": "a.py:A", "check": "a.py:a", "scorer": "a.py:a", "outputs": {}, "parameters": {}, "environment": {},
        "scores": "file", "better": "lower", "mode": "min", "follow": True, "policy": "spare", "target": "/a",
        "spot": True, "cell_timeout": "1s", "max_duration": "1s", "workers": "1..2", "name": "a", "spec": "a",
    }  # fmt: skip
    value = examples.get(key, 1 if key in ("jobs", "every", "best", "repeats", "seed", "tries", "retries") else "a")
    return list(reader(value, key))


def test_the_example_is_read_and_plans_425_cells() -> None:
    found = flowfile.load(EXAMPLE)
    assert found.stages == list(flow.STAGES)
    assert len(flowfile.check(found, EXAMPLE)) == 17
    assert [s["stage"] for s in flowfile.plan(EXAMPLE)] == list(flow.STAGES)


@pytest.mark.parametrize(
    ("path", "value", "message", "remedy"),
    [
        ("train.comand", "x", "flow.yaml: unknown key 'train.comand'.", "Did you mean train.command?"),
        ("tran", {}, "flow.yaml: unknown key 'tran'.", "Did you mean train?"),
        ("train.max_duration", "30", "flow.yaml: train.max_duration: '30' is not a duration.", "90m"),
        ("train.max_duration", 1800, "flow.yaml: train.max_duration: 1800 is not a duration.", "90m"),
        ("train.memory", "4 lots", "flow.yaml: train.memory: '4 lots' is not a size.", "24GiB"),
        ("train.nodes", "4..1", "flow.yaml: train.nodes: '4..1' is not a range.", "1..4"),
        ("train.limits", {"idle": "3m"}, "flow.yaml: train.limits: unknown key 'idle'.", "idle_output"),
        ("train.max_wait", "10m", "max_wait is 10m, less than max_duration (30m)", "waiting and running"),
        ("train.processes", 0, "flow.yaml: train.processes is 0.", "from 1 to 1024"),
        ("train.processes", "two", "flow.yaml: train.processes is 'two'.", "whole number"),
        ("train.command", None, "flow.yaml: train has no command.", "train.command"),
        ("train.command", "python 'x", "train.command", "quotes"),
        ("train.parameters", {"epoch": 3}, "flow.yaml: train.command: unknown parameter 'epochs'.", "epoch?"),
        ("train.spec", "Not A Name", "flow.yaml: train.spec is 'Not A Name'.", "name"),
        ("train", "python train.py", "flow.yaml: train is a str, not keys with values.", "train: {"),
        ("evaluate.outputs", {"score.json": "jsn"}, "flow.yaml: evaluate.outputs.score.json: unknown kind", "json"),
        ("evaluate.outputs", {"a.mp4": {"kind": "video", "frame": 3}}, "evaluate.outputs.a.mp4: unknown key", "frames"),
        ("evaluate.outputs", {"a.png": 3}, "flow.yaml: evaluate.outputs.a.png is 3.", "keys with values"),
        ("evaluate.command", "python infer.py", "flow.yaml: evaluate has both a worker and a command.", "one of the"),
        ("evaluate.worker", None, "flow.yaml: evaluate has neither a worker nor a command.", "one of the two"),
        ("evaluate.best", 3, "flow.yaml: evaluate.best and flow.yaml: evaluate.by go together.", "metric"),
        ("evaluate.workers", "4..1", "flow.yaml: evaluate.workers: '4..1' is not a range.", "1..4"),
        ("evaluate.workers", 0, "flow.yaml: evaluate.workers is 0.", "from 1 to 256"),
        ("evaluate.policy", "sometimes", "flow.yaml: evaluate.policy: unknown value 'sometimes'.", "spare"),
        ("evaluate.target", "out", "flow.yaml: evaluate.target is 'out'.", "absolute folder"),
        ("evaluate.cell_timeout", "30", "flow.yaml: evaluate.cell_timeout: '30' is not a duration.", "90m"),
        ("evaluate.scores", "csv", "flow.yaml: evaluate.scores: unknown value 'csv'.", "lm_eval"),
        ("evaluate.worke", "x", "flow.yaml: unknown key 'evaluate.worke'.", "evaluate.worker?"),
        ("evaluate.cases", None, "flow.yaml: evaluate has no cases.", "evaluate.cases"),
        ("evaluate.worker", "evaluate.Digits", "flow.yaml: evaluate.worker is 'evaluate.Digits'.", "FILE.py:CLASS"),
        ("model.case", None, "flow.yaml: model has no case.", "model.case"),
        ("model", None, "flow.yaml has endpoint but no model", "Add model."),
        ("endpoint.replicas", 65, "flow.yaml: endpoint.replicas is 65.", "from 1 to 64"),
    ],
)
def test_bad_input_is_one_sentence(path: str, value: object, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        flow.parse(changed(path, value))
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", [None, [], "text", {}])
def test_a_file_that_is_no_flow(raw: object) -> None:
    with pytest.raises(UsageError, match=r"^flow\.yaml|the file"):
        flow.parse(raw)


def test_cases() -> None:
    assert flow.parse_cases(["clean", {"id": 7, "parameters": {"digit": 7}, "tags": "digit"}], "cases.yaml") == [
        {"id": "clean", "inputs": {}, "parameters": {}, "tags": []},
        {"id": "7", "inputs": {}, "parameters": {"digit": 7}, "tags": ["digit"]},
    ]
    with pytest.raises(UsageError, match=r"cases\.yaml\[1\]: id 'a' is taken, by cases\.yaml\[0\]"):
        flow.parse_cases({"cases": ["a", "a"]}, "cases.yaml")
    with pytest.raises(UsageError, match=r"cases\.yaml\[0\]: unknown key 'tag'\. Did you mean tags\?"):
        flow.parse_cases([{"id": "a", "tag": "x"}], "cases.yaml")


def test_fill_keeps_words_whole() -> None:
    words = flow.fill("python 'my train.py' --name {name} '{name}-x'", {"name": "a b"})
    assert words == ["python", "my train.py", "--name", "a b", "a b-x"]


def test_key_depends_on_every_input_and_not_on_order() -> None:
    assert flow.key("train", {"a": 1, "b": [2]}) == flow.key("train", {"b": [2], "a": 1})
    assert flow.key("train", {"a": 1}) != flow.key("train", {"a": 2})
    assert flow.key("train", {"a": 1}) != flow.key("model", {"a": 1})
    assert len(flow.key("evaluate", {})) <= 128


def written(folder: Path, raw: dict[str, Any], *names: str) -> Path:
    for name in names:
        (folder / name).write_text("- clean\n" if name == "cases.yaml" else "class Digits: ...\n")
    file = folder / "flow.yaml"
    file.write_text(yaml.safe_dump(raw))
    return file


def test_check_names_files_that_are_missing(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE, "predictor.py", "cases.yaml")
    with pytest.raises(UsageError, match=r"evaluate\.worker 'evaluate\.py:Digits' names no file"):
        flowfile.check(flowfile.load(file), file)
    (tmp_path / "evaluate.py").write_text("class Digit:\n    pass\n")
    with pytest.raises(UsageError, match=r"evaluate\.py has no Digits\. Did you mean Digit\?"):
        flowfile.check(flowfile.load(file), file)
    (tmp_path / "evaluate.py").write_text("try:\n    from fast import Digits\nexcept ImportError:\n    pass\n")
    assert [c["id"] for c in flowfile.check(flowfile.load(file), file)] == ["clean"]
    file = written(tmp_path, changed("dataset.prepare", None))
    with pytest.raises(UsageError, match=r"dataset\.path 'data' is no folder"):
        flowfile.check(flowfile.load(file), file)
    file = written(tmp_path, changed("model.case", "claen"))
    with pytest.raises(UsageError, match="Did you mean clean"):
        flowfile.check(flowfile.load(file), file)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("evaluate.outputs", {"a.csv": {"kind": "csv", "frames": 2}}, "evaluate: outputs.a.csv: frames says nothing"),
        ("evaluate.outputs", {"../a": "file"}, "evaluate: outputs.0.name: String should match"),
        ("evaluate.outputs", {"a.mp4": {"kind": "video", "frames": "x"}}, "evaluate: outputs.0.frames: Input should"),
        ("evaluate.outputs", {"output.json": "json"}, "evaluate: outputs: output.json is headway's own."),
        ("evaluate.outputs", {"a.png": {"kind": "image", "count": 2}}, "evaluate: outputs.a.png: count is of a name"),
        ("evaluate.outputs", {"a.json": {"kind": "json", "schema": {"type": "x"}}}, "evaluate: outputs.a.json: schema"),
        ("evaluate.outputs", {"a.json": {"kind": "jsn"}}, "evaluate.outputs.a.json: unknown kind 'jsn'."),
        ("evaluate.check", "../checks.py:f", "evaluate.check '../checks.py:f' names no file"),
        ("evaluate.scorer", "evaluate.py:judge", "evaluate.scorer 'evaluate.py:judge': evaluate.py has no judge."),
        ("evaluate.best", 3, "evaluate.best and flow.yaml: evaluate.by go together."),
        ("evaluate.workers", "4..2", "evaluate.workers"),
        ("evaluate.score_file", "", "evaluate: score_file: no file holds the score."),
        ("evaluate.parameters", {"a": float("nan")}, "evaluate: parameters.a is nan."),
        ("evaluate.cases", "nix.yaml", "nix.yaml does not exist."),
        ("evaluate.cases", "broken.jsonl", "broken.jsonl, line 2 is not JSON"),
        ("evaluate.cases", ["a", "a"], "evaluate.cases[1]: id 'a' is taken, by flow.yaml: evaluate.cases[0]."),
    ],
)
def test_all_of_an_evaluation_is_looked_at_before_anything_runs(
    tmp_path: Path, path: str, value: Any, message: str
) -> None:
    (tmp_path / "broken.jsonl").write_text('{"id": "clean"}\n{\n')
    file = written(tmp_path, changed(path, value), "predictor.py", "evaluate.py", "cases.yaml")
    with pytest.raises(UsageError) as caught:
        flowfile.plan(file)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"follow": True, "best": 2, "by": "loss"}, "flow.yaml: evaluate: follow and best do not go together."),
        ({"follow": True, "checkpoints": "last.pt"}, "flow.yaml: evaluate: follow: no new checkpoint"),
        ({"worker": None, "command": "infer {case.promt}"}, "flow.yaml: evaluate: command, for case clean: unknown"),
        ({"score": None, "outputs": {}}, "flow.yaml: evaluate: Nothing makes a cell valid."),
    ],
)
def test_what_does_not_fit_together_is_said_too(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    raw = {**WHOLE, "evaluate": {**WHOLE["evaluate"], **changes}}
    file = written(tmp_path, raw, "predictor.py", "evaluate.py", "cases.yaml")
    with pytest.raises(UsageError) as caught:
        flowfile.plan(file)
    assert message in str(caught.value)


def test_a_missing_or_broken_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        flowfile.load(tmp_path / "flow.yaml")
    (tmp_path / "flow.yaml").write_text("train: [")
    with pytest.raises(UsageError, match="is not YAML"):
        flowfile.load(tmp_path / "flow.yaml")
