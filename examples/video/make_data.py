"""Writes the clips that the model learns from: python make_data.py data

The 1,797 handwritten digits that scikit-learn ships, each set in motion: train.npz holds 1,200 clips of 16 frames of
32 x 32 pixels, and judge.npz a small classifier of the true digits, which scores what the model draws. Some pairs of a
digit and a motion are never shown to the model; the cases ask for them all the same.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import clips

CLIPS = 1200
FILES = ("judge.npz", "train.npz")


def shown(digit: int, motion: int) -> bool:
    """Whether the model sees this pair in training: two of three."""
    return (digit + motion) % 3 != 0


def glyphs() -> tuple[np.ndarray, np.ndarray]:
    """All digits, (n, DIGIT, DIGIT) in 0..1, and which they are."""
    found = load_digits()
    large = [
        np.asarray(Image.fromarray(image.astype(np.float32) / 16).resize((clips.DIGIT,) * 2, Image.Resampling.BICUBIC))
        for image in found.images
    ]
    return np.clip(np.stack(large), 0, 1), found.target


def training_clips(images: np.ndarray, digits: np.ndarray, random: np.random.Generator) -> dict[str, np.ndarray]:
    motions = list(clips.MOTIONS)
    made, which, how = [], [], []
    for index in random.permutation(len(images)):
        motion = int(random.integers(len(motions)))
        if not shown(int(digits[index]), motion):
            continue
        jitter = random.uniform(-1, 1, 2).astype(np.float32)
        made.append(clips.moved(images[index], clips.track(motions[motion]) + jitter))
        which.append(digits[index])
        how.append(motion)
    grey = np.rint(np.stack(made[:CLIPS]) * 255).astype(np.uint8)
    return {"clips": grey, "digits": np.array(which[:CLIPS]), "motions": np.array(how[:CLIPS])}


def judge(images: np.ndarray, digits: np.ndarray) -> dict[str, np.ndarray]:
    """Weights (DIGIT * DIGIT, 10) and bias of a classifier of digits whose ink is in the middle."""
    middle = np.zeros((1, 2), dtype=np.float32)
    flat = []
    for image in images:
        off = clips.centres(clips.moved(image, middle))
        frame = clips.moved(image, middle - np.nan_to_num(off))[0]
        edge = (clips.SIDE - clips.DIGIT) // 2
        flat.append(frame[edge:-edge, edge:-edge].ravel())
    fitted = LogisticRegression(C=0.3, max_iter=300).fit(np.stack(flat), digits)
    return {"weights": fitted.coef_.T.astype(np.float32), "bias": fitted.intercept_.astype(np.float32)}


def write(folder: Path, seed: int) -> None:
    images, digits = glyphs()
    np.savez_compressed(folder / "train.npz", **training_clips(images, digits, np.random.default_rng(seed)))
    np.savez_compressed(folder / "judge.npz", **judge(images, digits))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0, help="decides which digit moves how (default 0)")
    arguments = parser.parse_args()
    target: Path = arguments.folder.absolute()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            write(unfinished, arguments.seed)
            unfinished.chmod(0o755)
            os.rename(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    if sorted(path.name for path in target.iterdir()) != sorted(FILES):
        print(f"{target} exists and is not what this script makes; move it away.", file=sys.stderr)
        return 1
    print(f"{target}: {CLIPS} clips and a judge")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
