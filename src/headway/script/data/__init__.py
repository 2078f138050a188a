"""`headway.data`: a run's dataset in a script, out of packs in sequence, or out of a folder. Standard library only.

PyTorch is used where the script's environment has it: what is given is then a dataset that its DataLoader takes.
"""

from __future__ import annotations

from importlib.util import find_spec

from headway.script.data.index import open_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["data"]


def data(
    channel: str | None = None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    window: int = 2048,
    prefix: str = "",
    group: bool = False,
    transform: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    world: int | None = None,
    even: str = "",
    map: bool = False,
    verify: bool | None = None,
    resume: Mapping[str, Any] | None = None,
) -> Any:
    """The run's dataset, whatever its mode; outside a run the files of a folder.

    channel: which of the run's datasets (None: its only one); outside a run a folder (None: DATA_PATH).
    shuffle: packs in another order each epoch, and items drawn among `window` that were read, which are held in memory.
    The order is that of `seed`, epoch and number of ranks.
    prefix: only paths that begin so.
    group: an item is {"__key__", ".jpg": bytes, ...} of the files that share a name up to its first dot, as in
    WebDataset; else it is a `Sample` with `path`, `data` and `label`.
    transform: called with each item.
    rank, world: None: those of the environment. Over all ranks an epoch has each item once.
    even: "pad" repeats items and "drop" leaves some out so that all ranks have equally many.
    map: a dataset by number, for a sampler; ranks and order are the sampler's.
    verify: whether each content's SHA-256 is checked; None: unless that was done when it came to this machine.
    resume: a state that `state_dict()` gave.

    Raises UsageError, NotFoundError when there is no such data, FailedError for an index that is damaged.
    """
    index = open_index(channel, prefix, group)
    made: dict[str, Any] = {"transform": transform, "verify": verify}
    has_torch = find_spec("torch") is not None
    if map:
        if has_torch:
            from headway.script.data.torch_side import TorchMapped as Mapped
        else:
            from headway.script.data.stream import Mapped  # type: ignore[assignment]
        return Mapped(index, **made)
    if has_torch:
        from headway.script.data.torch_side import TorchStream as Stream
    else:
        from headway.script.data.stream import Stream  # type: ignore[assignment]
    stream = Stream(index, shuffle=shuffle, seed=seed, window=window, rank=rank, world=world, even=even, **made)
    if resume is not None:
        stream.load_state_dict(resume)
    return stream
