"""Trains the model: one checkpoint an epoch. An ordinary PyTorch script, which runs alone and on headway.

Environment: DATA_PATH (default data), CHECKPOINT_PATH (default checkpoints), RESUME_FROM (a checkpoint to go on from).
Resumed from a whole epoch, it does to the bit what an unbroken run does.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

from clips import FRAMES
from net import Video, prompts

BATCH = 40
#: moments of each clip that a step looks at
MOMENTS = 4


def save(path: Path, state: dict) -> None:
    """Whole or not at all: under another name first, then renamed."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with open(unfinished, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def loss_of(
    model: Video, clips: torch.Tensor, prompt: torch.Tensor, random: torch.Generator, weight: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is learned from, and the reconstruction's part of it (both a pixel). weight: of the numbers' cost."""
    mean, log_variance = model.encode(clips, prompt)
    latent = mean + (log_variance / 2).exp() * torch.randn(mean.shape, generator=random)
    chosen = torch.randint(0, FRAMES, (len(clips), MOMENTS), generator=random)
    drawn = model.decode(latent, prompt, chosen / (FRAMES - 1))
    wanted = clips[torch.arange(len(clips))[:, None], chosen]
    pixels = nn.functional.binary_cross_entropy(drawn, wanted)
    cost = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
    return pixels + weight * cost, pixels


def train_epoch(
    model: Video, optimizer: torch.optim.Optimizer, data: dict[str, torch.Tensor], seed: int, weight: float
) -> float:
    """One pass in an order that `seed` decides; the mean loss of the pixels."""
    random = torch.Generator().manual_seed(seed)
    losses = []
    for batch in torch.randperm(len(data["clips"]), generator=random).split(BATCH):
        optimizer.zero_grad()
        loss, pixels = loss_of(model, data["clips"][batch], data["prompts"][batch], random, weight)
        loss.backward()
        optimizer.step()
        losses.append(pixels.item())
    return sum(losses) / len(losses)


def read(folder: Path) -> dict[str, torch.Tensor]:
    with np.load(folder / "train.npz") as found:
        clips = torch.from_numpy(found["clips"]).float() / 255
        prompt = prompts(torch.from_numpy(found["digits"]), torch.from_numpy(found["motions"]))
    return {"clips": clips, "prompts": prompt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--weight", type=float, default=2e-4, help="of the cost of what the prompt does not say")
    arguments = parser.parse_args()

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    torch.manual_seed(arguments.seed)
    data = read(Path(os.environ.get("DATA_PATH", "data")))
    folder = Path(os.environ.get("CHECKPOINT_PATH", "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    model = Video()
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr)
    done = 0
    if resume := os.environ.get("RESUME_FROM"):
        state = torch.load(resume, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
        print(f"resumed after epoch {done}", flush=True)
    for epoch in range(done + 1, arguments.epochs + 1):
        loss = train_epoch(model, optimizer, data, arguments.seed * 1000 + epoch, arguments.weight)
        print(f"epoch {epoch}/{arguments.epochs} loss={loss:.5f}", flush=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        save(folder / f"epoch-{epoch:02d}.pt", state)


if __name__ == "__main__":
    main()
