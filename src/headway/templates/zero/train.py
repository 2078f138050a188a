"""DeepSpeed ZeRO: stage 1 splits the optimiser state over the ranks, 2 the gradients too, 3 the parameters too."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

import headway


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--stage", type=int, choices=(1, 2, 3), default=2)
    options = parser.parse_args()

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    if not cuda:
        # gloo does without the operator that DeepSpeed would compile for CPUs, for a minute
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("nccl" if cuda else "gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    settings = {
        "train_micro_batch_size_per_gpu": 32,
        "zero_optimization": {"stage": options.stage},
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": cuda},
    }
    # torch's own optimiser: DeepSpeed's fused ones are compiled at the start, which needs a CUDA toolkit
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    rank, world = dist.get_rank(), dist.get_world_size()
    x = torch.randn(256, 16)[rank::world].to(engine.device)
    y = x.sum(dim=1, keepdim=True)
    kind = next(engine.parameters()).dtype

    folder = Path(os.environ.get("CHECKPOINT_PATH", "checkpoints"))
    start = 0
    if found := headway.resume():
        _, client = engine.load_checkpoint(str(found.parent), tag=found.name)
        start = client["epoch"]
    for epoch in range(start + 1, options.epochs + 1):
        for rows, wanted in zip(x.split(32), y.split(32), strict=True):
            loss = nn.functional.mse_loss(engine(rows.to(kind)).float(), wanted)
            engine.backward(loss)
            engine.step()
        if rank == 0:
            print(f"epoch {epoch}/{options.epochs} loss={loss.item():.4f}", flush=True)
        # under a hidden name first: a folder that appears is whole
        engine.save_checkpoint(str(folder), tag=f".epoch-{epoch}", client_state={"epoch": epoch}, save_latest=False)
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder / f"epoch-{epoch}", ignore_errors=True)
            (folder / f".epoch-{epoch}").rename(folder / f"epoch-{epoch}")
        stop = torch.tensor(int(headway.should_stop()), device=engine.device)
        dist.all_reduce(stop, dist.ReduceOp.MAX)
        if stop.item():
            break
    # not before the others have had their answers
    dist.barrier()
    headway.leave()


if __name__ == "__main__":
    main()
