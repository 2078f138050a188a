"""Trains the network on the digits. An ordinary PyTorch script: it runs alone, under torchrun, and on headway.

Environment: DATA_PATH (default data), CHECKPOINT_PATH (default checkpoints), RESUME_FROM (a checkpoint to go on from),
and torch's own RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT for several processes.

Asked to end (SIGTERM, or a file at HEADWAY_STOP_FILE), it saves what it has of the epoch after the present step and
leaves. Resumed from there, or from the last whole epoch, it does to the bit what an unbroken run does.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from net import Net, read_split

BATCH = 32


def shifted(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Every image moved by up to one pixel and with a little noise, so that the network does not learn by heart."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    rows, columns = torch.randint(0, 3, (2, len(images)), generator=random)
    span = torch.arange(8)
    moved = padded[
        torch.arange(len(images))[:, None, None],
        0,
        (rows[:, None] + span)[:, :, None],
        (columns[:, None] + span)[:, None, :],
    ].unsqueeze(1)
    return (moved + 0.05 * torch.randn(images.shape, generator=random)).clamp(0, 1)


def save(path: Path, state: dict) -> None:
    """Whole or not at all: under another name first, then renamed."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with open(unfinished, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


class Stop:
    """Whether this run was asked to end. Any rank's answer is every rank's: they must all leave after the same step."""

    def __init__(self) -> None:
        self._signalled = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: object) -> None:
        self._signalled = True

    def asked(self) -> bool:
        file = os.environ.get("HEADWAY_STOP_FILE")
        mine = self._signalled or (file is not None and os.path.exists(file))
        if dist.is_initialized():
            answer = torch.tensor(float(mine))
            dist.all_reduce(answer, dist.ReduceOp.MAX)
            return bool(answer)
        return mine


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
    seed: int,
    rank: int,
    stop: Stop,
    begun: dict | None,
) -> tuple[float, dict | None]:
    """One pass over this rank's share of the data, in an order that `seed` decides.

    begun: where a pass that was stopped goes on. Returns the mean loss of all ranks, and None; or, once asked to end,
    what `begun` needs to be.
    """
    world = dist.get_world_size() if dist.is_initialized() else 1
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    # the same number of images on every rank, or the ranks would wait for each other for ever
    order = order[: len(order) // world * world]
    random = torch.Generator().manual_seed(seed * 1009 + rank)
    total, position = torch.zeros(2), 0
    if begun:
        position = begun["position"]
        # with another number of ranks the rest of the epoch is shared out anew, and its chance is another
        if len(begun["random"]) == world:
            random.set_state(begun["random"][rank])
            total += begun["totals"][rank]
    model.train()
    for batch in order[position:][rank::world].split(BATCH):
        if stop.asked():
            states, totals = everyone(random.get_state()), everyone(total)
            return 0.0, {"position": position, "random": states, "totals": totals}
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(shifted(images[batch], random)), labels[batch])
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item() * len(batch), len(batch)])
        position += BATCH * world
    if dist.is_initialized():
        dist.all_reduce(total)
    return (total[0] / total[1]).item(), None


def everyone(mine: torch.Tensor) -> list[torch.Tensor]:
    """This tensor of each rank, in the order of ranks."""
    if not dist.is_initialized():
        return [mine]
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    return found


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate at the start (default 0.002)")
    arguments = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    if world > 1:
        if os.environ.get("MASTER_ADDR") in ("127.0.0.1", "localhost") and os.path.exists("/sys/class/net/lo"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo")

    data = Path(os.environ.get("DATA_PATH", "data"))
    images, labels = read_split(data / "train")
    val_images, val_labels = read_split(data / "val")

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=arguments.lr)
    done, begun = 0, None
    if resume := os.environ.get("RESUME_FROM"):
        state = torch.load(resume, map_location="cpu", weights_only=True)
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done, begun = state["epoch"], state.get("begun")
        if rank == 0:
            print(f"goes on from {resume}, epoch {done}", flush=True)
    model = DistributedDataParallel(net) if world > 1 else net

    checkpoints = Path(os.environ.get("CHECKPOINT_PATH", "checkpoints"))
    checkpoints.mkdir(parents=True, exist_ok=True)
    stop = Stop()
    for epoch in range(done + 1, arguments.epochs + 1):
        # everything that varies follows from the epoch, so that a resumed run does the same as an unbroken one
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / arguments.epochs))
        loss, rest = train_epoch(model, optimizer, images, labels, arguments.seed * 100_003 + epoch, rank, stop, begun)
        begun = None
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        if rest is not None:
            if rank == 0:
                # further than the checkpoint of the epoch before, whose number it has
                save(checkpoints / f"stopped-epoch-{epoch - 1:02d}.pt", {**state, "epoch": epoch - 1, "begun": rest})
                print(f"asked to end in epoch {epoch} after {rest['position']} images", flush=True)
            break
        if rank == 0:
            save(checkpoints / f"epoch-{epoch:02d}.pt", state)
            score = accuracy(net, val_images, val_labels)
            print(f"epoch {epoch}/{arguments.epochs} loss={loss:.4f} val_accuracy={score:.4f}", flush=True)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()
        # without Python's own end, in which gloo's threads can abort a rank that is done: as `headway.leave()` does
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
