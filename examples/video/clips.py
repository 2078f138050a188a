"""What the model is shown and what is asked of it: digits that move, and prompts that say which and how."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

#: side of a frame, of the digit in it, and frames of a clip that is learned from
SIDE, DIGIT, FRAMES = 32, 12, 16

#: how far from the middle of the frame a digit goes, in pixels
REACH = 9.0

#: word of a prompt -> place (right, down) in -1..1 at time t in 0..1
MOTIONS: dict[str, Callable[[float], tuple[float, float]]] = {
    "rises": lambda t: (0.0, 1 - 2 * t),
    "falls": lambda t: (0.0, 2 * t - 1),
    "leaves": lambda t: (2 * t - 1, 0.0),
    "returns": lambda t: (1 - 2 * t, 0.0),
    "bounces": lambda t: (2 * t - 1, 1 - 2 * abs(math.sin(2 * math.pi * t))),
    "circles": lambda t: (math.cos(2 * math.pi * t), math.sin(2 * math.pi * t)),
    "swings": lambda t: (math.sin(4 * math.pi * t), 0.5 * abs(math.sin(4 * math.pi * t))),
}


def read_prompt(prompt: str) -> tuple[int, str]:
    """The digit and the motion of a prompt like "a 3 that bounces". Raises ValueError for anything else."""
    words = prompt.split()
    digits = [int(word) for word in words if word.isdigit() and len(word) == 1]
    motions = [word for word in words if word in MOTIONS]
    if len(digits) != 1 or len(motions) != 1:
        raise ValueError(f"{prompt!r} is not like 'a 3 that bounces'; motions: {', '.join(MOTIONS)}")
    return digits[0], motions[0]


def track(motion: str, frames: int = FRAMES) -> np.ndarray:
    """Where the digit's middle is in each frame, (frames, 2) pixels to the right and down of the frame's middle."""
    times = np.arange(frames) / max(1, frames - 1)
    return REACH * np.array([MOTIONS[motion](float(t)) for t in times], dtype=np.float32)


def moved(glyph: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A clip (frames, SIDE, SIDE) of a digit (DIGIT, DIGIT) whose middle goes through `places`, between pixels too."""
    clip = np.zeros((len(places), SIDE + 2, SIDE + 2), dtype=np.float32)
    for frame, (right, down) in zip(clip, places + (SIDE - DIGIT) / 2 + 1, strict=True):
        x, y = int(right), int(down)
        fx, fy = right - x, down - y
        for dx, across in ((0, 1 - fx), (1, fx)):
            for dy, along in ((0, 1 - fy), (1, fy)):
                frame[y + dy : y + dy + DIGIT, x + dx : x + dx + DIGIT] += across * along * glyph
    return clip[:, 1:-1, 1:-1]


def centres(clip: np.ndarray) -> np.ndarray:
    """Middle of the ink in each frame, as `track` counts it; NaN where a frame is as good as empty."""
    ink = np.clip(clip - 0.15, 0, None)
    total = ink.sum((1, 2))
    span = np.arange(clip.shape[-1]) - (clip.shape[-1] - 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.stack([(ink.sum(1) * span).sum(1), (ink.sum(2) * span).sum(1)], 1) / total[:, None]
    found[total < 4] = np.nan
    return found
