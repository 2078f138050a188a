"""Folders as checkpoints: what kind one is, and whether it is whole. Nothing in it is ever unpickled.

kind               whole when
safetensors_index  every shard that an index names is there, whole, with the tensors that the index says
distributed        `.metadata` of torch.distributed.checkpoint is there, and all that it says is in the .distcp files
deepspeed          every rank's model and optimiser states are there; a `latest` names a folder that is there
folder             anything else with weights in it, such as Transformers' checkpoint-1000 or Accelerate's state

and in each, every other file is whole by its own kind. A folder that may still be written to raises InvalidError with
`unfinished`; whether it still is only time can tell.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from headway.storage.quota import MANIFEST
from headway.storage.verify import LONGEST_HEADER, InvalidError, archive, check, inside, plain_values

T = TypeVar("T")

_METADATA = ".metadata"
_DISTCP = re.compile(r"__\d+_\d+\.distcp")
_MODEL_STATES = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")
_OPTIM_STATES = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_INDEX = re.compile(r".+\.(?:safetensors|bin)\.index\.json")
_SHARD = re.compile(r".+-\d+-of-\d+\.(?:safetensors|bin)")
_WEIGHTS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True)
class Folder:
    """A whole folder: its kind, and its files as `storage.publish` takes them."""

    kind: str
    #: [{"name": path below the folder, "kind": one of verify.KINDS}]
    outputs: list[dict[str, str]]


def files_of(folder: Path) -> list[str]:
    """Regular files below `folder` by their relative paths, sorted; hidden ones but `.metadata` and links are none."""
    found = []
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in files:
            path = Path(at, name)
            if (name == _METADATA or not name.startswith(".")) and path.is_file() and not path.is_symlink():
                found.append(str(path.relative_to(folder)))
    return sorted(name for name in found if name != MANIFEST)


def folder_kind(names: list[str]) -> str | None:
    """What a folder with these files is, or was going to be; None: no checkpoint."""
    last = [name.rpartition("/")[2] for name in names]
    if any(_MODEL_STATES.fullmatch(n) or _OPTIM_STATES.fullmatch(n) for n in last) or "latest" in names:
        return "deepspeed"
    if any(n == _METADATA or _DISTCP.fullmatch(n) for n in last):
        return "distributed"
    if any(_INDEX.fullmatch(n) or _SHARD.fullmatch(n) for n in last):
        return "safetensors_index"
    return "folder" if any(n.endswith(_WEIGHTS) for n in last) else None


def check_folder(folder: Path) -> Folder:
    """Raises InvalidError when it is not whole, and OSError."""
    names = files_of(folder)
    kind = folder_kind(names)
    if kind is None:
        raise InvalidError("It is a folder without any weights that headway knows.", unfinished=True)
    _CHECKS[kind](folder, names)
    outputs = [{"name": name, "kind": _member_kind(folder, name)} for name in names]
    for output in outputs:
        _in(output["name"], check, folder / output["name"], output["kind"])
    return Folder(kind, outputs)


def _member_kind(folder: Path, name: str) -> str:
    suffix = os.path.splitext(name)[1]
    if suffix == ".safetensors":
        return "safetensors"
    if suffix in (".pt", ".pth", ".bin", ".ckpt"):
        # an older format of torch.save, or anything else, cannot be checked further than its size
        return "torch_archive" if _begins(folder / name, b"PK") else "file"
    return "json" if suffix == ".json" else "any"


def _begins(path: Path, word: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(word)) == word


def _in(name: str, checking: Callable[..., T], *arguments: Any) -> T:
    """What `checking` returns; what it finds wrong is said of `name`."""
    try:
        return checking(*arguments)
    except InvalidError as error:
        raise InvalidError(f"{name}: {error.reason}", unfinished=error.unfinished) from error


def _missing(name: str, why: str) -> InvalidError:
    return InvalidError(f"{name} is missing: {why}", unfinished=True)


# -- safetensors (or torch files) with an index


def _check_index(folder: Path, names: list[str]) -> None:
    indexes = [n for n in names if _INDEX.fullmatch(n.rpartition("/")[2])]
    if not indexes:
        raise _missing("model.safetensors.index.json", "there are only shards, which it has to name.")
    for index in indexes:
        base = index.rpartition("/")[0]
        tensors: dict[str, set[str]] = defaultdict(set)
        for tensor, shard in _in(index, _weight_map, folder / index).items():
            tensors[os.path.join(base, shard)].add(tensor)
        for shard, wanted in sorted(tensors.items()):
            if not inside(shard) or shard not in names:
                raise _missing(shard, f"{index} names it.")
            if shard.endswith(".safetensors"):
                _in(shard, check, folder / shard, "safetensors")
                if absent := sorted(wanted - _tensors(folder / shard)):
                    raise InvalidError(f"{shard} lacks {absent[0]}, which {index} says is in it.", unfinished=True)


def _weight_map(index: Path) -> dict[str, str]:
    try:
        found = json.loads(index.read_bytes())["weight_map"]
        if not all(isinstance(k, str) and isinstance(v, str) for k, v in found.items()):
            raise TypeError("weight_map")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidError("It is no index of shards: it has no weight_map.", unfinished=True) from error
    return dict(found)


def _tensors(path: Path) -> set[str]:
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return set(json.loads(file.read(length)))


# -- torch.distributed.checkpoint


def _check_distributed(folder: Path, names: list[str]) -> None:
    found = [n for n in names if n.rpartition("/")[2] == _METADATA]
    bases = {n.rpartition("/")[0] for n in names if _DISTCP.fullmatch(n.rpartition("/")[2])}
    for base in sorted(bases | {n.rpartition("/")[0] for n in found}):
        metadata = os.path.join(base, _METADATA)
        if metadata not in found:
            raise _missing(metadata, "it is written last, so saving did not come to its end.")
        for name, spans in _in(metadata, _spans, folder / metadata).items():
            part = os.path.join(base, name)
            if part not in names:
                raise _missing(part, f"{metadata} names it.")
            _in(part, _check_part, folder / part, spans)


def _spans(metadata: Path) -> dict[str, list[tuple[int, int]]]:
    """File -> (offset, length) of what the metadata says is in it."""
    if metadata.stat().st_size > LONGEST_HEADER:
        raise InvalidError("It is larger than any checkpoint's.")
    values = list(plain_values(metadata.read_bytes()))
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, value in enumerate(values[:-5]):
        if value != "relative_path":
            continue
        name, offset_word, offset, length_word, length = values[at + 1 : at + 6]
        if (offset_word, length_word) != ("offset", "length") or not (
            isinstance(name, str) and isinstance(offset, int) and isinstance(length, int) and inside(name)
        ):
            raise InvalidError("It does not say what is where in the way that torch.distributed.checkpoint does.")
        found[name].append((offset, length))
    if not found and "storage_data" not in values:
        raise InvalidError("It is not the metadata of torch.distributed.checkpoint.", unfinished=True)
    return found


def _check_part(path: Path, spans: list[tuple[int, int]]) -> None:
    size, needed = path.stat().st_size, max(offset + length for offset, length in spans)
    if size < needed:
        raise InvalidError(f"It has {size} bytes; .metadata tells of {needed}.", unfinished=True)
    with open(path, "rb") as file:
        for offset, length in spans:
            file.seek(offset)
            if file.read(4) == b"PK\x03\x04":
                archive(cast("IO[bytes]", _Span(file, offset, length)))


class _Span:
    """A part of a file as a file of its own, as far as zipfile looks."""

    def __init__(self, file: IO[bytes], offset: int, length: int) -> None:
        self._file, self._offset, self._length, self._at = file, offset, length, 0

    def seekable(self) -> bool:
        return True

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = at if whence == 0 else self._at + at if whence == 1 else self._length + at
        if self._at < 0:
            raise OSError(22, "seek before the beginning")
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._length - self._at)
        self._file.seek(self._offset + self._at)
        block = self._file.read(left if size < 0 else min(size, left))
        self._at += len(block)
        return block


# -- DeepSpeed


def _check_deepspeed(folder: Path, names: list[str]) -> None:
    if "latest" in names:
        tag = (folder / "latest").read_text(errors="replace").strip()
        if not inside(tag) or not any(n.startswith(f"{tag}/") for n in names):
            raise _missing(tag or "the folder", "`latest` names it.")
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        base, _, last = name.rpartition("/")
        if _MODEL_STATES.fullmatch(last) or _OPTIM_STATES.fullmatch(last):
            groups[base].append(last)
    if not groups:
        raise _missing("mp_rank_00_model_states.pt", "no rank has saved its states.")
    for base, members in groups.items():
        _check_ranks(folder, base, members)


def _check_ranks(folder: Path, base: str, members: list[str]) -> None:
    """Every model-parallel rank has its model states, and every data-parallel one its part of the optimiser's."""
    models = [m.groups() for n in members if (m := _MODEL_STATES.fullmatch(n))]
    optims = [m.groups() for n in members if (m := _OPTIM_STATES.fullmatch(n))]
    if not models:
        raise _missing(os.path.join(base, "mp_rank_00_model_states.pt"), "there are only the optimiser's states.")
    first = min(n for n in members if _MODEL_STATES.fullmatch(n))
    facts = _in(os.path.join(base, first), _worlds, folder / base / first)
    ranks = {int(m) for _, m in [*models, *optims]}
    for rank in range(max(facts.get("mp_world_size", 1), max(ranks) + 1)):
        if rank not in {int(m) for _, m in models}:
            raise _missing(os.path.join(base, f"mp_rank_{rank:02d}_model_states.pt"), f"rank {rank} did not save.")
        for parts, what in ((models, "model"), (optims, "optim")):
            have = {int(d) for d, m in parts if d is not None and int(m) == rank}
            if not have and not any(d is not None for d, _ in parts):
                continue  # this kind of state is not spread over the data-parallel ranks
            for part in range(max(facts.get("dp_world_size", 1), max(have, default=0) + 1)):
                if part not in have:
                    name = f"zero_pp_rank_{part}_mp_rank_{rank:02d}_{what}_states.pt"
                    raise _missing(os.path.join(base, name), f"rank {part} did not save.")


def _worlds(path: Path) -> dict[str, int]:
    """How many ranks the states say there were, as far as they say it."""
    values = list(plain_values(archive(path)[1]))
    return {
        str(name): count
        for name, count in itertools.pairwise(values)
        if name in ("dp_world_size", "mp_world_size") and isinstance(count, int) and 0 < count < 1 << 20
    }


def _check_nothing(folder: Path, names: list[str]) -> None:
    """Each file is checked by itself."""


_CHECKS = {
    "safetensors_index": _check_index,
    "distributed": _check_distributed,
    "deepspeed": _check_deepspeed,
    "folder": _check_nothing,
}
