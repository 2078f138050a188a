"""Scripts written for other platforms run unchanged with `compat`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Server

SCRIPTS = Path(__file__).parent / "elsewhere"
COMMANDS = {
    "pai": ["python", "pai.py", "$PAI_USER_ARGS"],
    "modelarts": ["python", "modelarts.py"],
    "sagemaker": ["python", "sagemaker.py"],
}


@pytest.mark.parametrize("platform", COMMANDS)
def test_a_script_from_elsewhere(server: Server, tmp_path: Path, platform: str) -> None:
    (tmp_path / "rows.txt").write_text("1 2 3 4 5")
    with server.client() as client:
        client.datasets.push("train", tmp_path)
        job = client.jobs.submit(
            COMMANDS[platform],
            snapshot=client.snapshots.push(SCRIPTS).digest,
            datasets=["train"],
            parameters={"lr": 0.1, "epochs": 3},
            processes=2 if platform == "pai" else 1,
            compat=platform,
            # these platforms' own form
            metric_patterns=[{"Name": "error", "Regex": r"train-error: ([0-9.]+)"}],
        )
        ended = client.runs.wait(job.id, timeout=120)
        assert ended.state == "succeeded", ended.reason
        model = list(Path(ended.output_path).rglob("model.txt"))
        assert [p.read_text() for p in model] == ["5 rows"]
        (error,) = [s for s in client.runs.metrics(job.id) if s.name == "error"]
        assert [round(p.value, 4) for p in error.points][-1] == 0.0667
