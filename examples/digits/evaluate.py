"""Evaluates a checkpoint on one case: the clean test images, one digit, or one way in which pictures go bad.

`Digits` is what headway's evaluation worker uses: `load` once for each checkpoint, `run` once for each case.
By hand: python evaluate.py checkpoints/epoch-25.pt clean out
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch.nn import functional

import net

#: what the contact sheet shows at most
SHOWN = 60
COLUMNS = 10
#: one picture on the sheet, and the line of text under it
SIDE, LINE = 40, 12


def noise(images: torch.Tensor, random: torch.Generator, *, sigma: float) -> torch.Tensor:
    return images + sigma * torch.randn(images.shape, generator=random)


def blur(images: torch.Tensor, random: torch.Generator, *, sigma: float) -> torch.Tensor:
    line = torch.exp(-(torch.arange(-2.0, 3.0) ** 2) / (2 * sigma**2))
    kernel = torch.outer(line, line) / line.sum() ** 2
    return functional.conv2d(images, kernel[None, None], padding=2)


def rotation(images: torch.Tensor, random: torch.Generator, *, degrees: float) -> torch.Tensor:
    """Each by an angle of its own, between -degrees and degrees."""
    angles = torch.deg2rad((2 * torch.rand(len(images), generator=random) - 1) * degrees)
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros(len(images))
    grid = functional.affine_grid(
        torch.stack([torch.stack([cos, -sin, zero], 1), torch.stack([sin, cos, zero], 1)], 1),
        list(images.shape),
        align_corners=False,
    )
    return functional.grid_sample(images, grid, align_corners=False)


def shift(images: torch.Tensor, random: torch.Generator, *, pixels: int) -> torch.Tensor:
    """Each in a direction of its own, by `pixels` or nothing on each axis."""
    steps = torch.randint(-1, 2, (len(images), 2), generator=random) * pixels
    padded = functional.pad(images, (pixels,) * 4)
    span = torch.arange(images.shape[-1]) + pixels
    rows, columns = (steps[:, i, None] + span for i in (0, 1))
    return padded[torch.arange(len(images))[:, None, None], 0, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


def occlusion(images: torch.Tensor, random: torch.Generator, *, size: int) -> torch.Tensor:
    """A black square of `size` pixels somewhere on each."""
    n, side = len(images), images.shape[-1]
    corner = torch.randint(0, side - size + 1, (n, 2), generator=random)
    span = torch.arange(side)
    hidden = [(span >= corner[:, i, None]) & (span < corner[:, i, None] + size) for i in (0, 1)]
    return images.masked_fill((hidden[0][:, :, None] & hidden[1][:, None, :]).unsqueeze(1), 0.0)


def low_contrast(images: torch.Tensor, random: torch.Generator, *, factor: float) -> torch.Tensor:
    """Every pixel moved towards the mean of its image."""
    mean = images.mean((1, 2, 3), keepdim=True)
    return mean + factor * (images - mean)


CORRUPTIONS = {f.__name__: f for f in (noise, blur, rotation, shift, occlusion, low_contrast)}


def contact_sheet(images: torch.Tensor, labels: torch.Tensor, predicted: torch.Tensor) -> Image.Image:
    """The pictures that were taken for another digit, each with `truth>guess` under it."""
    wrong = (labels != predicted).nonzero().flatten().tolist()
    shown = wrong[:SHOWN]
    rows = max(1, -(-len(shown) // COLUMNS))
    sheet = Image.new("L", (COLUMNS * SIDE, LINE + rows * (SIDE + LINE)), 40)
    draw = ImageDraw.Draw(sheet)
    draw.text((2, 0), f"{len(wrong)} of {len(labels)} wrong" if wrong else f"all {len(labels)} right", fill=255)
    grey = (images.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    for place, index in enumerate(shown):
        x, y = place % COLUMNS * SIDE, LINE + place // COLUMNS * (SIDE + LINE)
        picture = Image.fromarray(grey[index, 0]).resize((SIDE - 4, SIDE - 4), Image.Resampling.NEAREST)
        sheet.paste(picture, (x + 2, y))
        draw.text((x + 2, y + SIDE - 4), f"{labels[index]}>{predicted[index]}", fill=255)
    return sheet


class Digits:
    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.images, self.labels = net.read_split(Path(os.environ.get("DATA_PATH", "data")) / "test")

    def load(self, checkpoint: str) -> None:
        self.net = net.load(checkpoint)

    @torch.no_grad()
    def run(self, case: dict, out: str) -> None:
        """Writes score.json and mistakes.png into `out`.

        Parameters of a case: `digit` takes only the images of that digit; `corruption` names a function above, `seed`
        fixes its chance (default 0), and what is left goes to it as it is.
        """
        parameters = dict(case.get("parameters") or {})
        digit = parameters.pop("digit", None)
        seed = parameters.pop("seed", 0)
        corruption = parameters.pop("corruption", None)
        images, labels = self.images, self.labels
        if digit is not None:
            images, labels = images[labels == digit], labels[labels == digit]
        if corruption is not None:
            random = torch.Generator().manual_seed(seed)
            images = CORRUPTIONS[corruption](images, random, **parameters).clamp(0, 1)
        elif parameters:
            raise ValueError(f"case {case['id']}: unknown parameters {sorted(parameters)}")
        predicted = self.net(images).argmax(1)
        correct, total = int((predicted == labels).sum()), len(labels)
        score = {"accuracy": correct / total, "correct": correct, "total": total}
        folder = Path(out)
        (folder / "score.json").write_text(json.dumps(score) + "\n")
        contact_sheet(images, labels, predicted).save(folder / "mistakes.png")


def main() -> None:
    import argparse

    import yaml

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("case")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    cases = {case["id"]: case for case in yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())}
    arguments.out.mkdir(parents=True, exist_ok=True)
    worker = Digits()
    worker.load(arguments.checkpoint)
    worker.run(cases[arguments.case], str(arguments.out))
    print((arguments.out / "score.json").read_text(), end="")


if __name__ == "__main__":
    main()
