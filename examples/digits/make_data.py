"""Writes the 1,797 handwritten digits that scikit-learn ships as PNG files: DIR/{train,val,test}/{0..9}/NNNN.png.

The same seed gives the same bytes. DIR appears whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

#: shares of train and val; test gets the rest
SHARES = {"train": 0.7, "val": 0.1}
SPLITS = ("train", "val", "test")
TOTAL = 1797


def split_of(labels: list[int], seed: int) -> list[str]:
    """The split of each image: every digit is shared out in the same proportions."""
    import numpy as np

    rng = np.random.default_rng(seed)
    splits = [""] * len(labels)
    for digit in range(10):
        members = rng.permutation([i for i, label in enumerate(labels) if label == digit])
        first = round(len(members) * SHARES["train"])
        second = first + round(len(members) * SHARES["val"])
        for place, index in enumerate(members):
            splits[index] = "train" if place < first else "val" if place < second else "test"
    return splits


def write(folder: Path, seed: int) -> None:
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    labels = [int(label) for label in digits.target]
    # the source counts 0..16
    grey = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    for split in SPLITS:
        for digit in range(10):
            (folder / split / str(digit)).mkdir(parents=True)
    for index, (image, label, split) in enumerate(zip(grey, labels, split_of(labels, seed), strict=True)):
        Image.fromarray(image).save(folder / split / str(label) / f"{index:04d}.png")


def count(folder: Path) -> dict[str, int]:
    return {split: sum(1 for _ in (folder / split).glob("[0-9]/*.png")) for split in SPLITS}


def sweep(target: Path) -> None:
    """Removes what calls that were killed have left; one that is at work now is seconds old."""
    for left in target.parent.glob(f".{target.name}-*"):
        if time.time() - left.stat().st_mtime > 600:
            shutil.rmtree(left, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0, help="decides which image is in which split (default 0)")
    arguments = parser.parse_args()
    target: Path = arguments.folder.absolute()
    if target.exists():
        if sum(count(target).values()) != TOTAL:
            print(f"{target} exists and is not what this script makes; move it away.", file=sys.stderr)
            return 1
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            write(unfinished, arguments.seed)
            unfinished.chmod(0o755)
            try:
                os.rename(unfinished, target)
            except OSError:
                # somebody else was faster: as good, if it is the same
                if sum(count(target).values()) != TOTAL:
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{target}: " + ", ".join(f"{n} {split}" for split, n in count(target).items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
