"""Kinds of files that an evaluation's outputs may be, and what can be asked of each."""

from __future__ import annotations

#: the file that headway itself writes beside the outputs of a cell
MANIFEST = "output.json"
OUTPUT_KINDS = ("audio", "csv", "file", "image", "json", "safetensors", "tar", "tensors", "torch", "video")
#: kind -> the keys of an output's rule that mean something for it, besides those of every kind
OUTPUT_KEYS: dict[str, frozenset[str]] = {
    "safetensors": frozenset({"shape"}),
    "tensors": frozenset({"shape"}),
    "image": frozenset({"width", "height", "frames"}),
    "video": frozenset({"width", "height", "frames", "seconds", "rate", "tolerance"}),
    "audio": frozenset({"seconds", "rate", "channels", "tolerance"}),
    "json": frozenset({"schema"}),
    "csv": frozenset({"rows", "columns"}),
}
