"""One process: fits a small network, saves after each epoch, goes on where it was."""

from __future__ import annotations

import argparse

import torch
from torch import nn

import headway


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    options = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(256, 16, device=device)
    y = x.sum(dim=1, keepdim=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)

    start = 0
    if found := headway.resume():
        state = torch.load(found, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"]
    for epoch in range(start + 1, options.epochs + 1):
        for rows, wanted in zip(x.split(32), y.split(32), strict=True):
            loss = nn.functional.mse_loss(model(rows), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}/{options.epochs} loss={loss.item():.4f}", flush=True)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        headway.save_checkpoint(state, f"epoch-{epoch}.pt", epoch=epoch, metrics={"loss": loss.item()})
        if headway.should_stop():
            return


if __name__ == "__main__":
    main()
