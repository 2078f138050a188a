"""A copy of a training state in host memory that is kept and used again. Imports torch."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import torch

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
#: of one storage that are kept; a state of which each copy has other ones must not make them pile up
_MOST_VIEWS = 10_000
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


class _Buffer:
    """Host memory for one storage, and the tensors over it that were asked for: making one costs more than a copy."""

    __slots__ = ("_views", "storage")

    def __init__(self, size: int, pinned: bool, storage: Any = None) -> None:
        if storage is None and pinned:
            storage = torch.empty(size, dtype=torch.uint8, pin_memory=True).untyped_storage()
        self.storage = torch.UntypedStorage(size) if storage is None else storage
        self._views: dict[Any, Any] = {}

    def view(self, dtype: Any, offset: int, size: Any, stride: Any) -> Any:
        key = dtype, offset, size, stride
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            found = self._views[key] = torch.empty(0, dtype=dtype).set_(self.storage, offset, size, stride)
        return found


class _Buffers:
    """Those of the last copy, to be used again: fresh memory costs ten times a copy on its first use."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, bool], list[_Buffer]] = {}
        self._spare: dict[tuple[int, bool], list[_Buffer]] = {}

    def begin(self) -> None:
        """What the last copy took may be taken again; nobody reads it any more."""
        # in the order in which it was taken, so that the same state finds the same memory with the same views
        self._held, self._spare = {}, {key: buffers[::-1] for key, buffers in self._held.items()}

    def end(self) -> None:
        """What was not taken again is given back to the system."""
        self._spare = {}

    def take(self, size: int, pinned: bool) -> _Buffer:
        key = size, pinned
        spare = self._spare.get(key)
        buffer = spare.pop() if spare else _Buffer(size, pinned)
        held = self._held.get(key)
        if held is None:
            self._held[key] = [buffer]
        else:
            held.append(buffer)
        return buffer


_buffers = _Buffers()


def freeze(state: Any) -> Any:
    """A deep copy of `state`; valid until the next call. Tensors become tensors of the CPU, sharing as before."""
    return _Copy().whole(state)


class _Copy:
    def __init__(self) -> None:
        #: id -> copy, as `copy.deepcopy` has it; "torch" holds those of storages
        self._memo: dict[Any, Any] = {"torch": {}}
        self._storages: dict[int, _Buffer] = {}
        #: what is to be copied at the end, in one call: (to, from)
        self._to: list[Any] = []
        self._from: list[Any] = []
        self._cuda = False

    def whole(self, state: Any) -> Any:
        _buffers.begin()
        try:
            with torch.no_grad():
                made = self._any(state)
                if self._cuda:
                    for to, source in zip(self._to, self._from, strict=True):
                        to.copy_(source, non_blocking=True)
                    torch.cuda.synchronize()
                elif self._to:
                    torch._foreach_copy_(self._to, self._from)
            return made
        finally:
            _buffers.end()

    def _any(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        found = self._memo.get(id(value))
        if found is not None:
            return found
        made: Any
        if kind in _TENSORS or isinstance(value, torch.Tensor):
            made = self._tensor(value, kind)
        elif kind is dict or kind is OrderedDict:
            made = self._memo[id(value)] = kind()
            for key, item in value.items():
                made[key] = self._any(item)
            if getattr(value, "__dict__", None):
                # state_dict() keeps the versions of its modules there
                made.__dict__.update(self._any(value.__dict__))
        elif kind is list:
            made = self._memo[id(value)] = []
            made.extend(self._any(item) for item in value)
        elif kind is tuple:
            made = tuple(self._any(item) for item in value)
        else:
            made = copy.deepcopy(value, self._memo)
        self._memo[id(value)] = made
        return made

    def _tensor(self, value: Any, kind: type[Any]) -> Any:
        if not _ordinary(value, kind):
            return copy.deepcopy(value.detach(), self._memo)
        storage = value.untyped_storage()
        shape = value.dtype, value.storage_offset(), value.size(), value.stride()
        buffer = self._storages.get(storage._cdata)
        if buffer is None:
            buffer = self._storage(value, storage, shape)
        made = buffer.view(*shape)
        if kind is torch.nn.Parameter:
            made = torch.nn.Parameter(made, requires_grad=value.requires_grad)
        elif value.requires_grad:
            made = made.detach().requires_grad_()
        if value.__dict__:
            made = made.detach() if kind is torch.Tensor and not value.requires_grad else made
            made.__dict__.update(self._any(value.__dict__))
        return made

    def _storage(self, value: Any, storage: Any, shape: tuple[Any, ...]) -> _Buffer:
        """Host memory for the whole storage, to be filled at the end."""
        cuda = value.is_cuda
        size = storage.nbytes()
        copied = self._memo["torch"].get(storage._cdata)
        if copied is not None and not cuda:
            # deepcopy has met it before, inside something else
            self._storages[storage._cdata] = _Buffer(size, False, copied)
            return self._storages[storage._cdata]
        buffer = self._storages[storage._cdata] = _buffers.take(size, cuda)
        self._cuda |= cuda
        if value.nbytes == size and value.is_contiguous():
            # the tensor is all that there is in it
            self._to.append(buffer.view(*shape))
            self._from.append(value)
        else:
            whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (size,), (1,))
            self._to.append(buffer.view(torch.uint8, 0, (size,), (1,)))
            self._from.append(whole)
        if not cuda:
            # a tensor inside something else, which deepcopy copies, goes on sharing too
            self._memo["torch"][storage._cdata] = buffer.storage
        return buffer


def _ordinary(value: Any, kind: type[Any]) -> bool:
    return (
        kind in _TENSORS
        and value.layout is torch.strided
        and (value.is_cpu or value.is_cuda)
        and not (value.is_quantized or value.is_neg() or value.is_conj())
    )
