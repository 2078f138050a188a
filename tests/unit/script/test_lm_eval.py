"""Results of lm-evaluation-harness, in the forms that its versions write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headway.script import lm_eval


def write(folder: Path, name: str, value: Any, at: int = 0) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    os.utime(path, (at, at))


def test_one_task_has_its_measures_as_names(tmp_path: Path) -> None:
    task = {"alias": "hellaswag", "acc,none": 0.25, "acc_stderr,none": 0.01, "acc_norm,none": 0.5, "sample_len": 10}
    write(tmp_path, "model__x/results_2026-01-01T00-00-00.json", {"results": {"hellaswag": task}, "n-shot": {}})
    assert lm_eval.read(tmp_path) == {
        "score": 0.5, "acc": 0.25, "acc_stderr": 0.01, "acc_norm": 0.5, "sample_len": 10,
    }  # fmt: skip


def test_filters_are_kept_apart(tmp_path: Path) -> None:
    task = {
        "exact_match,strict-match": 0.25,
        "exact_match_stderr,strict-match": 0.02,
        "exact_match,flexible-extract": 0.5,
        "exact_match_stderr,flexible-extract": "N/A",
    }
    write(tmp_path, "results.json", {"results": {"gsm8k": task}})
    assert lm_eval.read(tmp_path) == {
        "score": 0.25,
        "exact_match/strict-match": 0.25,
        "exact_match/strict-match_stderr": 0.02,
        "exact_match/flexible-extract": 0.5,
    }


def test_a_group_comes_before_its_tasks(tmp_path: Path) -> None:
    results = {"mmlu_law": {"acc,none": 0.75}, "mmlu": {"acc,none": 0.5}}
    write(tmp_path, "results.json", {"results": results, "groups": {"mmlu": {"acc,none": 0.5, "alias": "mmlu"}}})
    assert lm_eval.read(tmp_path) == {"score": 0.5, "mmlu/acc": 0.5, "mmlu_law/acc": 0.75}


def test_the_newest_counts(tmp_path: Path) -> None:
    write(tmp_path, "a/results_1.json", {"results": {"t": {"acc": 1.0}}}, at=2000)
    write(tmp_path, "b/results_2.json", {"results": {"t": {"acc": 0.5}}}, at=1000)
    assert lm_eval.read(tmp_path)["acc"] == 1.0


def test_a_task_without_a_known_measure_has_its_first(tmp_path: Path) -> None:
    write(tmp_path, "results.json", {"results": {"empty": {"alias": "x"}, "own": {"wer,none": 0.125}}})
    assert lm_eval.read(tmp_path) == {"score": 0.125, "own/wer": 0.125}


def test_what_is_no_result_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wrote no results\*\.json"):
        lm_eval.read(tmp_path)
    write(tmp_path, "results.json", {"results": {}})
    with pytest.raises(ValueError, match=r"results\.json has no results"):
        lm_eval.read(tmp_path)
