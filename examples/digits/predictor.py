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

    @torch.no_grad()
    def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """{"image": a picture (PNG, JPEG, ...) in base64} -> {"digit": 7, "scores": [ten probabilities]}."""
        image = torch.from_numpy(net.pixels(base64.b64decode(inputs["image"], validate=True)))
        scores = self.net(image[None, None]).softmax(1)[0]
        return {"digit": int(scores.argmax()), "scores": [round(score, 6) for score in scores.tolist()]}
