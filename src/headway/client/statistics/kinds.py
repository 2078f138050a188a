"""What kind of file a name says it is."""

from __future__ import annotations

_ENDINGS = {
    "image": "png jpg jpeg webp bmp gif tif tiff ppm pgm",
    "video": "mp4 mkv webm mov avi",
    "audio": "wav flac mp3 ogg m4a",
    "array": "npy npz pt pth safetensors",
    "csv": "csv tsv",
    "jsonl": "jsonl ndjson",
    "parquet": "parquet pq",
    "text": "txt text md",
}
_KINDS = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings.split()}
#: kinds of which a file is one sample, the likelier one first
SAMPLES = ("image", "video", "audio", "array", "text")
TABLES = ("csv", "jsonl", "parquet")
#: tables that may be compressed
_PACKED = ("csv", "jsonl")


def kind(name: str) -> str:
    """One of `SAMPLES`, of `TABLES`, or "other"."""
    stem, _, ending = name.casefold().rpartition(".")
    found = _KINDS.get(ending, "other") if stem else "other"
    if ending == "gz":
        inner = _KINDS.get(stem.rpartition(".")[2], "other")
        found = inner if inner in _PACKED else "other"
    return found
