"""The same for PyTorch: classes that its DataLoader takes, and a loader whose state counts what the script got."""

from __future__ import annotations

import copy
from functools import partial

import torch.utils.data as torch_data

from headway.errors import UsageError
from headway.script.data.stream import Mapped, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any


class TorchMapped(Mapped, torch_data.Dataset):  # type: ignore[misc]
    """A map-style dataset."""


class TorchStream(Stream, torch_data.IterableDataset):  # type: ignore[misc]
    """An iterable dataset: each worker of a DataLoader yields a share of its own."""

    def _worker(self) -> tuple[int, int]:
        info = torch_data.get_worker_info()
        return (0, 1) if info is None else (info.id, info.num_workers)

    def loader(self, batch_size: int = 1, num_workers: int = 0, **options: Any) -> Loader:
        """A DataLoader whose `state_dict` counts what the script was handed. options: those of `DataLoader`."""
        return Loader(self, batch_size, num_workers, **options)


class Loader:
    """`for batch in loader`: one epoch; the next pass is the next epoch's, after a state was loaded the rest of one."""

    def __init__(self, data: TorchStream, batch_size: int, num_workers: int, **options: Any) -> None:
        """Raises UsageError for drop_last with workers: each would drop a batch; use `even="drop"`."""
        if options.get("persistent_workers"):
            raise UsageError("persistent_workers is not possible: workers of one epoch do not know the next.")
        if options.get("drop_last") and num_workers > 1:
            raise UsageError("drop_last with several workers drops a batch of each.", "Take fewer items by `even`.")
        self.data, self._workers = data, max(1, num_workers)
        self._consumed = [0] * self._workers
        collate = options.pop("collate_fn", None) or partial(_plain, torch_data.default_collate)
        options["collate_fn"] = partial(_told, collate)
        self._make = partial(torch_data.DataLoader, batch_size=batch_size, num_workers=num_workers, **options)

    def set_epoch(self, epoch: int) -> None:
        self.data.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Of what the script was handed, not of what its workers have read ahead."""
        return self.data.state_after(self._consumed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.data.load_state_dict(state)
        self._consumed = [0] * self._workers

    def __iter__(self) -> Iterator[Any]:
        self._consumed = [0] * self._workers
        epoch = self.data.epoch
        # a copy: its own end comes before the script has the last batch
        for worker, count, batch in self._make(copy.copy(self.data)):
            self._consumed[worker] += count
            yield batch
        self.data.start(epoch + 1)
        self._consumed = [0] * self._workers


def _told(collate: Callable[[list[Any]], Any], items: list[Any]) -> tuple[int, int, Any]:
    info = torch_data.get_worker_info()
    return (0 if info is None else info.id), len(items), collate(items)


def _plain(collate: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    """Samples as they are, in a list: a tensor is made of what `transform` returns."""
    from headway.script.data.stream import Sample

    return items if isinstance(items[0], Sample) else collate(items)
