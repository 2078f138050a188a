"""Data parallel: every rank has the whole model and a part of the data."""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import headway


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    options = parser.parse_args()

    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    rank = dist.get_rank()
    torch.manual_seed(0)
    x = torch.randn(256, 16)
    data = TensorDataset(x, x.sum(dim=1, keepdim=True))
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    parallel = DistributedDataParallel(model, device_ids=[device.index] if cuda else None)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=options.lr)

    start = 0
    if found := headway.resume():
        # every rank reads the same file; the world may be another one than before
        state = torch.load(found, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"]
    for epoch in range(start + 1, options.epochs + 1):
        sampler.set_epoch(epoch)
        for rows, wanted in loader:
            loss = nn.functional.mse_loss(parallel(rows.to(device)), wanted.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}/{options.epochs} loss={loss.item():.4f}", flush=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            headway.save_checkpoint(state, f"epoch-{epoch}.pt", epoch=epoch, metrics={"loss": loss.item()})
        # all leave at the same step, or those that stay wait for ever
        stop = torch.tensor(int(headway.should_stop()), device=device)
        dist.all_reduce(stop, dist.ReduceOp.MAX)
        if stop.item():
            break
    # not before the others have had their answers
    dist.barrier()
    headway.leave()


if __name__ == "__main__":
    main()
