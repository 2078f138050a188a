"""Tensor, pipeline and data parallel together, as Megatron lays ranks out, with torch's own parts.

Ranks are laid out data x pipeline x tensor, tensor innermost: those that talk most are neighbours on one node. The
stages of the pipeline are the two halves of the network; inside a stage, a linear layer's columns and the next one's
rows are split over the tensor ranks.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import headway

WIDTH, MICROBATCHES, ROWS = 32, 4, 32


class Block(nn.Module):
    """Two linear layers with a way around them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def stage_of(index: int, stages: int) -> nn.Module:
    """The part of the network that stage `index` of `stages` holds."""
    torch.manual_seed(index)
    first = [nn.Linear(16, WIDTH)] if index == 0 else []
    last = [nn.Linear(WIDTH, 1)] if index == stages - 1 else []
    return nn.Sequential(*first, Block(), *last)


def state_of(module: nn.Module, optimizer: torch.optim.Optimizer, index: int, epoch: int) -> dict[str, Any]:
    """What is saved: each stage under names of its own; of what ranks share, one copy is written."""
    weights, state = get_state_dict(module, optimizer)
    return {f"stage{index}": {"model": weights, "optimizer": state}, "epoch": epoch}


def average(module: nn.Module, mesh: DeviceMesh, data: int) -> None:
    """Each gradient over the ranks that hold the same part of the network."""
    for parameter in module.parameters() if data > 1 else ():
        gradient = parameter.grad
        local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
        dist.all_reduce(local, group=mesh.get_group("data"))
        local /= data


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--tensor", type=int, default=1, help="ranks that share each layer")
    parser.add_argument("--pipeline", type=int, default=2, help="stages, one after another")
    options = parser.parse_args()

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    data = world // (options.tensor * options.pipeline)
    if data * options.tensor * options.pipeline != world:
        raise SystemExit(
            f"{world} ranks cannot be laid out as {options.pipeline} stages x {options.tensor} tensor ranks."
        )
    shape = (data, options.pipeline, options.tensor)
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("data", "pipeline", "tensor"))
    index, last = mesh.get_local_rank("pipeline"), options.pipeline - 1

    module = stage_of(index, options.pipeline).to(device)
    if options.tensor > 1:
        for block in (layer for layer in module if isinstance(layer, Block)):
            parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.AdamW(module.parameters(), lr=options.lr, foreach=False)
    start = 0
    if found := headway.resume():
        state = state_of(module, optimizer, index, 0)
        dcp.load(state, checkpoint_id=found)
        part, start = state[f"stage{index}"], state["epoch"]
        set_state_dict(module, optimizer, model_state_dict=part["model"], optim_state_dict=part["optimizer"])
    stage = PipelineStage(module, index, options.pipeline, device, group=mesh.get_group("pipeline"))
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)

    torch.manual_seed(100 + mesh.get_local_rank("data"))
    x = torch.randn(ROWS, 16, device=device)
    y = x.sum(dim=1, keepdim=True)
    folder = Path(os.environ.get("CHECKPOINT_PATH", "checkpoints"))
    for epoch in range(start + 1, options.epochs + 1):
        losses: list[torch.Tensor] = []
        optimizer.zero_grad()
        if index == 0:
            schedule.step(x, **({"target": y, "losses": losses} if last == 0 else {}))
        elif index == last:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        average(module, mesh, data)
        optimizer.step()
        if losses and mesh.get_local_rank("tensor") == 0 and mesh.get_local_rank("data") == 0:
            print(f"epoch {epoch}/{options.epochs} loss={torch.stack(losses).mean().item():.4f}", flush=True)
        # under a hidden name first: a folder that appears is whole
        hidden = folder / f".epoch-{epoch}"
        dcp.save(state_of(module, optimizer, index, epoch), checkpoint_id=hidden)
        if rank == 0:
            shutil.rmtree(folder / f"epoch-{epoch}", ignore_errors=True)
            hidden.rename(folder / f"epoch-{epoch}")
        stop = torch.tensor(int(headway.should_stop()), device=device)
        dist.all_reduce(stop, dist.ReduceOp.MAX)
        if stop.item():
            break
    # not before the others have had their answers
    dist.barrier()
    headway.leave()


if __name__ == "__main__":
    main()
