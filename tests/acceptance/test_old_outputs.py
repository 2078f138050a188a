"""What an earlier loop left is adopted as far as it is valid; what somebody damages later is found and run again."""

from __future__ import annotations

import io
import os
import random
import shutil
import sys
from pathlib import Path

import av
import pytest

from headway.client import Client
from headway.testing import films
from headway.testing.films import film
from headway.wire.evaluations import EvaluationView

from .conftest import Server

CHECKPOINTS, CASES = 25, 17
TOTAL = CHECKPOINTS * CASES
TRAIN = """
import os, struct
from pathlib import Path
head = b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
for epoch in range(1, 26):
    part = Path(os.environ["CHECKPOINT_PATH"], f"epoch-{epoch:02}.part")
    part.write_bytes(struct.pack("<Q", len(head)) + head + struct.pack("<I", epoch))
    part.rename(part.with_suffix(".safetensors"))
"""
WORKER = """
from pathlib import Path
from films import film

class Films:
    def load(self, checkpoint):
        self.row = Path(checkpoint).read_bytes()[-4]

    def run(self, case, out):
        Path(out, "out.mp4").write_bytes(film(self.row, int(case["id"][5:])))
"""


@pytest.fixture
def held(fresh: Server, tmp_path: Path) -> EvaluationView:
    """An evaluation of 25 x 17 videos that nothing runs of yet."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "worker.py").write_text(WORKER)
    shutil.copy(films.__file__, code / "films.py")
    with fresh.client() as client:
        job = client.jobs.submit([sys.executable, "-c", TRAIN], checkpoints=["*.safetensors"], spec="small")
        assert client.runs.wait(job.id, timeout=120).state == "succeeded"
        return client.evaluations.create(
            name="films", jobs=[job.id], cases=[{"id": f"case-{n}"} for n in range(CASES)], worker="worker.py:Films",
            outputs=[{"name": "out.mp4", "kind": "video", "frames": 12, "width": 64, "height": 64}],
            score=None, score_file=None, snapshot=client.snapshots.push(code).digest, workers=2, held=True,
        )  # fmt: skip


def write(path: Path, content: bytes, *, head_first: bool) -> None:
    """head_first: with what a player needs before the frames; cut off, it opens and its last frames are not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not head_first:
        path.write_bytes(content)
        return
    # the muxer reads its own output again, so that this is a real file
    options = {"movflags": "faststart"}
    with av.open(io.BytesIO(content)) as source, av.open(str(path), "w", "mp4", options=options) as copy:
        stream = copy.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                copy.mux(packet)


def earlier(folder: Path, client: Client, evaluation: int) -> tuple[set[int], set[int]]:
    """96 whole videos and 20 that were cut off, where a loop without headway would have put them: their cells."""
    cells = sorted(client.evaluations.cells(evaluation), key=lambda cell: cell.id)[: 96 + 20]
    chance = random.Random(0)
    cut = {cell.id for cell in chance.sample(cells, 20)}
    for number, cell in enumerate(cells):
        path = folder / cell.checkpoint / f"{cell.case}.mp4"
        row = int(cell.checkpoint.split("-")[1].split(".")[0])
        write(path, film(row, int(cell.case[5:])), head_first=bool(number % 2))
        if cell.id in cut:
            size = path.stat().st_size
            os.truncate(path, chance.choice([0, 1, 100, size // 2, size * 9 // 10, size - 1]))
    return {cell.id for cell in cells} - cut, cut


@pytest.mark.timeout(600)
def test_96_of_116_are_adopted_and_damage_is_run_again(fresh: Server, held: EvaluationView, tmp_path: Path) -> None:
    old = tmp_path / "old"
    with fresh.client() as client:
        whole, cut = earlier(old, client, held.id)
        adopted = client.evaluations.adopt(held.id, str(old), {"out.mp4": "{checkpoint}/{case}.mp4"})
        assert (adopted.found, adopted.adopted, adopted.missing) == (116, 96, TOTAL - 116)
        assert {fault.cell for fault in adopted.faults} == cut and all(fault.reason for fault in adopted.faults)
        valid = client.evaluations.cells(held.id, states=["valid"])
        assert {cell.id for cell in valid} == whole and all(cell.ran == 0 for cell in valid)

        client.evaluations.retry(held.id)
        ended = client.evaluations.wait(held.id, timeout=300)
        assert (ended.state, ended.valid, ended.ran) == ("succeeded", TOTAL, TOTAL - 96), ended.reason
        assert client.evaluations.verify(held.id).faults == []

        damaged = damage(client, held.id)
        proof = client.evaluations.verify(held.id, again=True)
        assert {fault.cell for fault in proof.faults} == damaged
        mended = client.evaluations.wait(held.id, timeout=300)
        assert (mended.state, mended.valid) == ("succeeded", TOTAL), mended.reason
        again = {cell.id: cell.ran for cell in client.evaluations.cells(held.id)}
        assert {number for number, ran in again.items() if ran == 1 + (number not in whole)} == damaged
        assert client.evaluations.verify(held.id).faults == []


def damage(client: Client, evaluation: int) -> set[int]:
    """A file cut off, one with a flipped bit, one deleted, and a row's whole folder; the cells that they are of."""
    cells = sorted(client.evaluations.cells(evaluation), key=lambda cell: cell.id)
    short, flipped, gone = (Path(cells[n].path, "out.mp4") for n in (2, 200, 300))
    os.truncate(short, short.stat().st_size - 1)
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    gone.unlink()
    row = cells[-1].row
    shutil.rmtree(Path(cells[-1].path).parent)
    return {cells[n].id for n in (2, 200, 300)} | {cell.id for cell in cells if cell.row == row}
