"""Draws the clip that a prompt asks for, with any checkpoint, and says how well it does what the prompt says.

`Video` is what headway's evaluation worker uses: `load` once for each checkpoint, `run` once for each case.
By hand: python infer.py checkpoints/epoch-25.pt "a 3 that bounces" out
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image

import clips
import net

#: of a case that says nothing else: clips in a square, seconds, frames a second, width and height of the video
USUAL = {"samples": 4, "seconds": 2, "rate": 12, "side": 192}


def sheet(drawn: np.ndarray, side: int) -> list[Image.Image]:
    """Frames (side, side) that show all clips (samples, frames, h, w) in a square; samples is 1, 4, 9, ..."""
    across = round(len(drawn) ** 0.5)
    n, frames, height, width = drawn.shape
    if across**2 != n:
        raise ValueError(f"{n} samples make no square; take 1, 4, 9, ...")
    rows = drawn.reshape(across, across, frames, height, width).transpose(2, 0, 3, 1, 4)
    grey = np.rint(rows.reshape(frames, across * height, across * width) * 255).astype(np.uint8)
    return [Image.fromarray(frame).resize((side, side), Image.Resampling.BICUBIC) for frame in grey]


def write_mp4(path: Path, frames: list[Image.Image], rate: int) -> None:
    """VP9, which every browser plays and no licence forbids."""
    with av.open(str(path), "w", options={"movflags": "faststart"}) as file:
        fast = {"deadline": "realtime", "cpu-used": "8", "crf": "30", "b": "0"}
        stream = file.add_stream("libvpx-vp9", rate=rate, options=fast)
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        for frame in frames:
            file.mux(stream.encode(av.VideoFrame.from_image(frame.convert("RGB"))))
        file.mux(stream.encode(None))


class Judge:
    """Says of clips what a stranger would: which digit it is, and whether it goes where it should."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as found:
            self.weights, self.bias = found["weights"], found["bias"]

    def looks(self, drawn: np.ndarray, digit: int) -> float:
        """Mean probability, over all frames of clips (samples, frames, h, w), of the digit that was asked for."""
        chances = []
        for clip in drawn:
            centres = np.nan_to_num(clips.centres(clip))
            middle = np.stack([shifted(frame, -off) for frame, off in zip(clip, centres, strict=True)])
            edge = (clips.SIDE - clips.DIGIT) // 2
            logits = middle[:, edge:-edge, edge:-edge].reshape(len(clip), -1) @ self.weights + self.bias
            powers = np.exp(logits - logits.max(1, keepdims=True))
            chances.append((powers[:, digit] / powers.sum(1)).mean())
        return float(np.mean(chances))

    @staticmethod
    def moves(drawn: np.ndarray, motion: str) -> float:
        """1 for a digit that is where the prompt says in each frame, 0 for one that is far from there or not at all."""
        wanted = clips.track(motion, drawn.shape[1])
        away = [np.linalg.norm(clips.centres(clip) - wanted, axis=1) for clip in drawn]
        return float(np.mean(np.clip(1 - np.nan_to_num(np.stack(away), nan=99) / clips.REACH, 0, 1)))


def shifted(frame: np.ndarray, off: np.ndarray) -> np.ndarray:
    """The frame moved by `off` (right, down), between pixels too."""
    image = Image.fromarray(frame.astype(np.float32))
    moved = image.transform(
        image.size, Image.Transform.AFFINE, (1, 0, -off[0], 0, 1, -off[1]), Image.Resampling.BILINEAR
    )
    return np.asarray(moved)


class Video:
    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.judge = Judge(Path(os.environ.get("DATA_PATH", "data")) / "judge.npz")

    def load(self, checkpoint: str) -> None:
        self.model = net.load(checkpoint)

    def run(self, case: dict[str, Any], out: str) -> None:
        """Writes clip.mp4 and score.json into `out`. The same case, seed and checkpoint give the same video."""
        unknown = sorted(set(case["parameters"]) - set(USUAL))
        if unknown:
            raise ValueError(f"case {case['id']}: unknown parameters {', '.join(unknown)}")
        say = {**USUAL, **case["parameters"]}
        digit, motion = clips.read_prompt(case["inputs"]["prompt"])
        frames = round(say["seconds"] * say["rate"])
        drawn = net.generate(self.model, digit, motion, say["samples"], frames, case.get("seed", 0)).numpy()
        write_mp4(Path(out) / "clip.mp4", sheet(drawn, say["side"]), say["rate"])
        looks, moves = self.judge.looks(drawn, digit), self.judge.moves(drawn, motion)
        scores = {"score": round(looks * moves, 6), "looks": round(looks, 6), "moves": round(moves, 6)}
        (Path(out) / "score.json").write_text(json.dumps(scores) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("prompt", help="such as 'a 3 that bounces'")
    parser.add_argument("out", type=Path, help="folder for clip.mp4 and score.json")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    worker = Video()
    worker.load(arguments.checkpoint)
    case = {"id": "by-hand", "inputs": {"prompt": arguments.prompt}, "parameters": {}, "seed": arguments.seed}
    worker.run(case, str(arguments.out))
    print((arguments.out / "score.json").read_text(), end="")


if __name__ == "__main__":
    main()
