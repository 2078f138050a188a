"""The network: what training, evaluation and serving share."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn


class Net(nn.Module):
    """A small convolutional network: (n, 1, 8, 8) grey pixels in 0..1 -> (n, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def load(checkpoint: str | Path) -> Net:
    """The network with the weights of a checkpoint, ready to predict. Runs no code from the file."""
    net = Net()
    net.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True)["model"])
    return net.eval()


def pixels(file: Path | bytes) -> np.ndarray:
    """An image file (path or content) as (8, 8) float32 in 0..1."""
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
        grey = image.convert("L")
        if grey.size != (8, 8):
            grey = grey.resize((8, 8), Image.Resampling.BOX)
        return np.asarray(grey, dtype=np.float32) / 255


def read_split(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """All images under `folder/{0..9}/*.png` in order of name, as (n, 1, 8, 8), and their digits as (n,)."""
    files = sorted(folder.glob("[0-9]/*.png"))
    if not files:
        raise SystemExit(f"{folder} holds no images; run: python make_data.py {folder.parent}")
    images = torch.from_numpy(np.stack([pixels(file) for file in files])).unsqueeze(1)
    return images, torch.tensor([int(file.parent.name) for file in files])
