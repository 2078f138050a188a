from __future__ import annotations

import base64
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image

from headway.rules.flow import parse, parse_cases


@pytest.fixture
def evaluate(example: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DATA_PATH", str(data))
    return importlib.import_module("evaluate")


@pytest.fixture
def cases(example: Path) -> dict[str, dict[str, Any]]:
    raw = yaml.safe_load((example / "cases.yaml").read_text())
    return {case["id"]: case for case in parse_cases(raw, "cases.yaml")}


@pytest.fixture
def worker(evaluate: Any, trained: tuple[Path, str]) -> Any:
    worker = evaluate.Digits()
    worker.load(str(trained[0] / "epoch-04.pt"))
    return worker


def test_the_flow_is_valid_and_has_425_cells(example: Path, cases: dict[str, Any]) -> None:
    flow = parse(yaml.safe_load((example / "flow.yaml").read_text()), "flow.yaml")
    assert flow.stages == ["dataset", "train", "evaluate", "model", "endpoint"]
    assert flow.train and flow.train.parameters["epochs"] * len(cases) == 425
    assert flow.model and flow.model.case in cases


def test_every_case_gives_a_score_and_a_sheet(worker: Any, cases: dict[str, Any], tmp_path: Path) -> None:
    totals = {}
    for name, case in cases.items():
        out = tmp_path / name
        out.mkdir()
        worker.run(case, str(out))
        score = json.loads((out / "score.json").read_text())
        assert score["accuracy"] == score["correct"] / score["total"]
        totals[name] = score["total"]
        with Image.open(out / "mistakes.png") as image:
            image.load()
        assert sorted(p.name for p in out.iterdir()) == ["mistakes.png", "score.json"]
    assert totals["clean"] == 360
    assert sum(totals[f"digit-{digit}"] for digit in range(10)) == 360


def test_corruptions_change_the_pictures_and_are_the_same_each_time(
    evaluate: Any, worker: Any, cases: dict[str, Any]
) -> None:
    for name, corruption in evaluate.CORRUPTIONS.items():
        parameters = {k: v for k, v in cases[name]["parameters"].items() if k not in ("corruption", "seed")}
        once, twice = (corruption(worker.images, torch.Generator().manual_seed(5), **parameters) for _ in range(2))
        assert once.shape == worker.images.shape
        assert torch.equal(once, twice), name
        assert not torch.equal(once, worker.images), name


def test_nothing_wrong_is_a_valid_sheet(evaluate: Any, worker: Any, tmp_path: Path) -> None:
    evaluate.contact_sheet(worker.images, worker.labels, worker.labels).save(tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as image:
        image.load()
        assert image.getextrema()[1] > 200


def test_a_parameter_that_nothing_reads_is_an_error(worker: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="digt"):
        worker.run({"id": "typo", "parameters": {"digt": 3}}, str(tmp_path))


@pytest.mark.parametrize("as_folder", [False, True])
def test_the_predictor_reads_a_picture(example: Path, data: Path, trained: tuple[Path, str], as_folder: bool) -> None:
    predictor = importlib.import_module("predictor").Digits()
    checkpoint = trained[0] / "epoch-04.pt"
    predictor.load(str(trained[0] if as_folder else checkpoint))
    image = next((data / "test" / "0").iterdir())
    answer = predictor.predict(predictor.preprocess({"image": base64.b64encode(image.read_bytes()).decode()}))
    assert set(answer) == {"digit", "scores"}
    assert answer["digit"] == max(range(10), key=answer["scores"].__getitem__)
    assert sum(answer["scores"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("inputs", [{}, {"image": "not base64!"}, {"image": base64.b64encode(b"text").decode()}])
def test_what_is_no_picture_is_the_callers_fault(example: Path, inputs: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError, OSError)):
        importlib.import_module("predictor").Digits().preprocess(inputs)
