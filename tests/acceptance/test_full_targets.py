"""The headline case: 425 videos onto a disk of 40 MB whose space, inodes and quota run out, one after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
import yaml

from headway.client import Client
from headway.wire.evaluations import EvaluationView

from .conftest import Server, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "video"
CELLS = 25 * 17
#: seconds within which work goes on by itself
SOON = 15.0


@pytest.fixture
def disk(fresh: Server, tmp_path: Path) -> Iterator[Path]:
    """The project's evaluations, on an ext4 of their own: 40 MB, 2,400 inodes."""
    image, place = tmp_path / "disk.img", fresh.home / "root/projects/default/evaluations"
    place.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(40 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "2400", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def job(fresh: Server, tmp_path: Path) -> Iterator[tuple[Client, int, str]]:
    """25 checkpoints of the example's own training, and its code."""
    data, code = tmp_path / "data", tmp_path / "code"
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", data], check=True, timeout=300)
    shutil.copytree(EXAMPLE, code, ignore=shutil.ignore_patterns("data", "__pycache__"))
    with fresh.client() as client:
        client.datasets.push("moving-digits", data)
        snapshot = client.snapshots.push(code).digest
        run = client.jobs.submit(
            ["python", "train.py", "--epochs", "25", "--seed", "0"],
            snapshot=snapshot,
            datasets=["moving-digits"],
            checkpoints=["*.pt"],
        )
        ended = client.runs.wait(run.id, timeout=600)
        assert ended.state == "succeeded", ended.reason
        yield client, run.id, snapshot


def leave(folder: Path, *, free: int) -> Path:
    """A file that leaves so many bytes free."""
    ballast = folder / "ballast"
    room = shutil.disk_usage(folder).free
    with ballast.open("wb") as file:
        file.write(b"\0" * max(0, room - free))
    return ballast


class Crowd:
    """A folder of empty files. It has its room from the start, so that it fills up on a disk that is full, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "crowd"
        self.folder.mkdir()
        self.leave(free=100)
        self.clear()

    def leave(self, *, free: int) -> None:
        """Files until so many inodes are free."""
        for number in range(os.statvfs(self.folder).f_ffree - free):
            (self.folder / str(number)).touch()

    def clear(self) -> None:
        for file in self.folder.iterdir():
            file.unlink()


@pytest.mark.timeout(1500)
def test_three_causes_are_named_and_425_of_425_are_made_once(
    fresh: Server, disk: Path, job: tuple[Client, int, str]
) -> None:
    client, run, snapshot = job
    crowd = Crowd(disk)
    ballast = leave(disk, free=3 << 20)
    flow = yaml.safe_load((EXAMPLE / "flow.yaml").read_text())["evaluate"]
    made = client.evaluations.create(
        name="prompts",
        jobs=[run],
        cases=yaml.safe_load((EXAMPLE / "cases.yaml").read_text()),
        parameters=flow["parameters"],
        worker=flow["worker"],
        outputs=[{"name": name, **rule} for name, rule in flow["outputs"].items()],
        snapshot=snapshot,
        datasets=["moving-digits"],
        workers=2,
    )

    def paused(cause: str) -> EvaluationView:
        def look() -> EvaluationView | None:
            view = client.evaluations.get(made.id)
            assert view.state in ("running", "paused"), view.reason
            return view if view.state == "paused" and view.cause == cause else None

        view = eventually(look, seconds=400, what=f"a pause for {cause}")
        assert view is not None and view.remedy and view.valid < CELLS
        return view

    def goes_on() -> None:
        eventually(lambda: client.evaluations.get(made.id).state == "running", seconds=SOON, what="the rest")

    full = paused("no_space")
    assert str(disk) in full.reason and "bytes" in full.reason
    crowd.leave(free=120)
    ballast.unlink()
    goes_on()
    crowded = paused("no_inodes")
    assert str(disk) in crowded.reason and full.valid < crowded.valid
    used = client.projects.get("default")
    client.projects.set_quota("default", quota_bytes=used.used.bytes + used.data.bytes + 400_000)
    crowd.clear()
    goes_on()
    over = paused("over_quota")
    assert "default" in over.reason and crowded.valid < over.valid
    client.projects.set_quota("default", quota_bytes=None)
    goes_on()

    ended = client.evaluations.wait(made.id, timeout=600)
    assert (ended.state, ended.valid, ended.ran, ended.pauses) == ("succeeded", CELLS, CELLS, 3)
    assert client.evaluations.verify(made.id).faults == []
    clips = sorted(Path(ended.path).rglob("clip.mp4"))
    assert len(clips) == CELLS
    for clip in clips:
        with av.open(str(clip)) as video:
            assert sum(1 for _ in video.decode(video=0)) in (12, 24, 48)
