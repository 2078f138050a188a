"""Fully sharded data parallel: parameters, gradients and optimiser state are split over the ranks.

Checkpoints are folders of torch.distributed.checkpoint, one file a rank, and can be read by another number of ranks.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import headway


def save(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Under a hidden name first: a folder that appears is whole."""
    folder = Path(os.environ.get("CHECKPOINT_PATH", "checkpoints"))
    hidden, target = folder / f".epoch-{epoch}", folder / f"epoch-{epoch}"
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state, "epoch": epoch}, checkpoint_id=hidden)
    if dist.get_rank() == 0:
        if target.exists():
            shutil.rmtree(target)
        hidden.rename(target)
    dist.barrier()


def load(found: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    weights, state = get_state_dict(model, optimizer)
    whole = {"model": weights, "optimizer": state, "epoch": 0}
    dcp.load(whole, checkpoint_id=found)
    set_state_dict(model, optimizer, model_state_dict=whole["model"], optim_state_dict=whole["optimizer"])
    return whole["epoch"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    options = parser.parse_args()

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    device = "cuda" if cuda else "cpu"
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    rank, world = dist.get_rank(), dist.get_world_size()
    x = torch.randn(256, 16)[rank::world].to(device)
    y = x.sum(dim=1, keepdim=True)

    start = load(found, model, optimizer) if (found := headway.resume()) else 0
    for epoch in range(start + 1, options.epochs + 1):
        for rows, wanted in zip(x.split(32), y.split(32), strict=True):
            loss = nn.functional.mse_loss(model(rows), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}/{options.epochs} loss={loss.item():.4f}", flush=True)
        save(model, optimizer, epoch)
        stop = torch.tensor(int(headway.should_stop()), device=device)
        dist.all_reduce(stop, dist.ReduceOp.MAX)
        if stop.item():
            break
    # not before the others have had their answers
    dist.barrier()
    headway.leave()


if __name__ == "__main__":
    main()
