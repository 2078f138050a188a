"""The model: a conditional variational autoencoder of short clips, about 200,000 numbers.

Training shows it clips; the encoder says in a few numbers what the prompt does not (the handwriting, where exactly the
digit goes). From those and the prompt one part of the decoder draws a digit, and another says for each moment how
likely it is at which place; a frame is the digit, painted at every place as strongly as that. Generating, the numbers
come from chance.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

from clips import DIGIT, FRAMES, MOTIONS, SIDE

#: numbers that say what the prompt does not: of the handwriting, of the way
HAND, WAY = 10, 2
LATENT = HAND + WAY
#: frames of a clip that the encoder looks at
SEEN = 4
#: waves in which a moment is told
WAVES = 6
#: places on each axis
PLACES = SIDE - DIGIT + 1
#: of what is painted, so that no pixel is ever impossible
FAINT = 1e-3


def layers(*widths: int) -> nn.Sequential:
    found: list[nn.Module] = []
    for before, after in pairwise(widths):
        found += [nn.Linear(before, after), nn.SiLU()]
    return nn.Sequential(*found[:-1])


class Video(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(SEEN * SIDE * SIDE // 4, 96), nn.SiLU())
        self.posterior = layers(96 + 10 + len(MOTIONS), 96, 2 * LATENT)
        self.what = layers(HAND + 10, 128, 128, DIGIT * DIGIT)
        self.where = layers(WAY + len(MOTIONS) + 1 + 2 * WAVES, 128, 128, 2 * PLACES)

    def encode(self, clips: torch.Tensor, prompt: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """clips (n, FRAMES, SIDE, SIDE) -> mean and log variance of their numbers, (n, LATENT) each."""
        seen = clips[:, torch.linspace(0, FRAMES - 1, SEEN).round().long()]
        mean, log_variance = self.posterior(torch.cat([self.encoder(seen), prompt], 1)).chunk(2, 1)
        return mean, log_variance.clamp(-8, 4)

    def decode(self, latent: torch.Tensor, prompt: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """latent (n, LATENT), prompt (n, ...), times (n, k) in 0..1 -> frames (n, k, SIDE, SIDE) in 0..1."""
        n, k = times.shape
        angles = times[..., None] * torch.pi * torch.arange(1, WAVES + 1)
        said = torch.cat([latent[:, HAND:], prompt[:, 10:]], 1)[:, None].expand(n, k, -1)
        moment = torch.cat([said, times[..., None], angles.sin(), angles.cos()], -1)
        right, down = self.where(moment).view(n, k, 2, PLACES).softmax(-1).unbind(2)
        digit = torch.sigmoid(self.what(torch.cat([latent[:, :HAND], prompt[:, :10]], 1))).view(n, 1, DIGIT, DIGIT)
        frames = spread(down) @ digit @ spread(right).transpose(-1, -2)
        return frames * (1 - 2 * FAINT) + FAINT


def spread(chances: torch.Tensor) -> torch.Tensor:
    """Chances of places (..., PLACES) -> (..., SIDE, DIGIT): how much a frame's line has of the digit's."""
    edge = DIGIT - 1
    return nn.functional.pad(chances, (edge, edge)).unfold(-1, DIGIT, 1).flip(-1)


def prompts(digits: torch.Tensor, motions: torch.Tensor) -> torch.Tensor:
    """Digits and numbers of motions, (n,) each, as the network takes them."""
    one_hot = nn.functional.one_hot
    return torch.cat([one_hot(digits, 10), one_hot(motions, len(MOTIONS))], 1).float()


def load(checkpoint: str | Path) -> Video:
    """The model of a checkpoint, ready to generate. Runs no code from the file."""
    model = Video()
    model.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True)["model"])
    return model.eval()


@torch.no_grad()
def generate(model: Video, digit: int, motion: str, samples: int, frames: int, seed: int) -> torch.Tensor:
    """Clips (samples, frames, SIDE, SIDE) in 0..1 of one prompt. The same seed gives the same clips."""
    random = torch.Generator().manual_seed(seed)
    latent = torch.randn(samples, LATENT, generator=random)
    prompt = prompts(torch.tensor([digit]), torch.tensor([list(MOTIONS).index(motion)])).expand(samples, -1)
    times = torch.linspace(0, 1, frames).expand(samples, -1)
    return model.decode(latent, prompt, times)
