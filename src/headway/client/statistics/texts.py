"""Lengths of text files."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from typing import Any

from headway.client.statistics.inventory import File
from headway.client.statistics.source import Source
from headway.errors import HeadwayError

#: files and bytes that are read at most, spread evenly; of one file no more than this
SAMPLE, SAMPLE_BYTES, FILE_BYTES = 5000, 64_000_000, 4_000_000
_MOST = 20
#: bytes of UTF-8 a token, as a rule of thumb that fits English and Chinese alike
_TOKEN = 4


class Lengths:
    """Least, mean and most of numbers that are told one by one."""

    def __init__(self) -> None:
        self.count = self.total = self.most = 0
        self.least: int | None = None

    def add(self, number: int) -> None:
        self.count += 1
        self.total += number
        self.most = max(self.most, number)
        self.least = number if self.least is None else min(self.least, number)

    def view(self) -> dict[str, float]:
        return {
            "min": self.least or 0,
            "mean": round(self.total / self.count, 1) if self.count else 0,
            "max": self.most,
        }


def of(
    source: Source, files: Iterable[File], count: int, chosen: int, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Of the `chosen` texts among `count`.

    {"count", "read", "sampled": bool, "characters": {"min", "mean", "max"}, "words": {...}, "tokens": of those read,
    roughly, "unreadable": n, "unreadable_paths": [...]}. Lengths of a file that is read in part are scaled up.
    """
    characters, words = Lengths(), Lengths()
    unreadable: list[str] = []
    faults = read = tokens = 0
    cut = False
    for file in files:
        read += 1
        progress(read, chosen)
        text = _text(source, file)
        if text is None:
            faults += 1
            unreadable += [file.path] if faults <= _MOST else []
            continue
        share = 1.0
        if file.bytes > FILE_BYTES:
            cut, share = True, file.bytes / FILE_BYTES
        characters.add(round(len(text) * share))
        words.add(round(len(text.split()) * share))
        tokens += -(-file.bytes // _TOKEN)
    return {
        "count": count,
        "read": read,
        "sampled": cut or read < count,
        "characters": characters.view(),
        "words": words.view(),
        "tokens": tokens,
        "unreadable": faults,
        "unreadable_paths": unreadable,
    }


def _text(source: Source, file: File) -> str | None:
    """None: it is no UTF-8, or cannot be read."""
    try:
        with source.open(file.path, file.bytes) as opened:
            content = opened.read(FILE_BYTES)
        # the part of a long file may end within a character
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=file.bytes <= FILE_BYTES)
    except (OSError, HeadwayError, UnicodeDecodeError):
        return None
