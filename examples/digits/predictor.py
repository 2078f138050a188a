"""Answers requests with a trained network: what a replica of the endpoint `digits` loads."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import torch

import net


class Digits:
    def load(self, path: str) -> None:
        """path: a checkpoint, or the folder of a model version that holds one."""
        torch.set_num_threads(1)
        place = Path(path)
        self.net = net.load(next(iter(sorted(place.glob("*.pt")))) if place.is_dir() else place)

    def preprocess(self, inputs: dict[str, Any]) -> torch.Tensor:
        """{"image": a picture (PNG, JPEG, ...) in base64}; what is raised here is the caller's fault."""
        picture = base64.b64decode(inputs["image"], validate=True)
        return torch.from_numpy(net.pixels(picture))[None, None]

    @torch.no_grad()
    def predict(self, images: torch.Tensor) -> dict[str, Any]:
        """{"digit": 7, "scores": [ten probabilities]}"""
        scores = self.net(images).softmax(1)[0]
        return {"digit": int(scores.argmax()), "scores": [round(score, 6) for score in scores.tolist()]}
