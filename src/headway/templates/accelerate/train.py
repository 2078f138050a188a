"""Hugging Face Accelerate: the same script on one process, on many, mixed precision or not."""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import headway


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    options = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    torch.manual_seed(0)
    x = torch.randn(256, 16)
    loader = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=32, shuffle=True)
    model: nn.Module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    start = 0
    if found := headway.resume():
        state = torch.load(found, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"]
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    for epoch in range(start + 1, options.epochs + 1):
        for rows, wanted in loader:
            loss = nn.functional.mse_loss(model(rows), wanted)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        if accelerator.is_main_process:
            print(f"epoch {epoch}/{options.epochs} loss={loss.item():.4f}", flush=True)
            weights = accelerator.unwrap_model(model).state_dict()
            state = {"model": weights, "optimizer": optimizer.state_dict(), "epoch": epoch}
            headway.save_checkpoint(state, f"epoch-{epoch}.pt", epoch=epoch, metrics={"loss": loss.item()})
        stop = torch.tensor(int(headway.should_stop()), device=accelerator.device)
        if accelerator.reduce(stop, "sum").item():
            break
    # not before the others have had their answers
    accelerator.wait_for_everyone()
    accelerator.end_training()
    headway.leave()


if __name__ == "__main__":
    main()
