"""Sizes, channels, mean and standard deviation of images."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from headway.client.statistics.inventory import File
from headway.client.statistics.source import Source

#: images and bytes of their files that are decoded at most, spread evenly
SAMPLE, SAMPLE_BYTES = 5000, 200_000_000
#: pixels of an image that is decoded; a larger one is named instead
PIXELS = 100_000_000
#: bytes of a file that is read
FILE_BYTES = 256_000_000
_THREADS = 4
_MOST = 20
#: modes whose bands are 0 to 255 and mean what they say; others are converted first
_PLAIN = ("L", "RGB")
#: modes that say more than 8 bits a band: their values are in no common unit
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True)
class _Seen:
    """One image. `fault`: why it was not decoded: "unreadable" or "too_large"."""

    path: str
    fault: str | None = None
    size: str = ""
    mode: str = ""
    channels: int = 0
    #: of each band: pixels, sum, sum of squares
    bands: list[tuple[float, float, float]] = field(default_factory=list)


def every(count: int, size: int, most: int, most_bytes: int) -> int:
    """Each how many-th of `count` files with `size` bytes is read, so that at most `most` and `most_bytes` are."""
    share = max(count / most, size / most_bytes, 1.0)
    return math.ceil(share)


def of(
    source: Source, files: Iterable[File], count: int, chosen: int, progress: Callable[[int, int], None]
) -> dict[str, Any] | None:
    """Of the `chosen` images among `count`. None where Pillow is not installed.

    {"count", "read", "sampled": bool, "sizes": {"8x8": n}, "modes": {"L": n}, "channels": {"1": n},
    "mean": [per channel, 0..255], "std": [...], "unreadable": n, "unreadable_paths": [...], "too_large": n,
    "too_large_paths": [...]}. Mean and deviation are of the images with the commonest number of channels.
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    sizes, modes, channels = Counter[str](), Counter[str](), Counter[str]()
    sums: dict[int, list[list[float]]] = {}
    faults: dict[str, list[str]] = {"unreadable": [], "too_large": []}
    counts = Counter[str]()
    read = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        for seen in _each(source, files):
            read += 1
            progress(read, chosen)
            if seen.fault:
                counts[seen.fault] += 1
                faults[seen.fault] += [seen.path] if counts[seen.fault] <= _MOST else []
                continue
            sizes[seen.size] += 1
            modes[seen.mode] += 1
            channels[str(seen.channels)] += 1
            _add(sums, seen)
    return {
        "count": count,
        "read": read,
        "sampled": read < count,
        "sizes": dict(sizes.most_common(10)),
        "all_sizes": len(sizes),
        "modes": dict(modes.most_common(10)),
        "channels": dict(channels.most_common()),
        **_moments(sums),
        **{fault: counts[fault] for fault in faults},
        **{f"{fault}_paths": paths for fault, paths in faults.items()},
    }


def _each(source: Source, files: Iterable[File]) -> Iterator[_Seen]:
    """In order, decoded by a few threads: Pillow lets go of the interpreter while it decodes."""
    waiting = iter(files)
    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(waiting, 64)):
            yield from pool.map(lambda file: _see(source, file), batch)


def _see(source: Source, file: File) -> _Seen:
    from PIL import Image, ImageStat

    if file.bytes > FILE_BYTES:
        return _Seen(file.path, "too_large")
    try:
        with source.open(file.path, file.bytes) as opened, Image.open(opened) as image:
            if image.width * image.height > PIXELS:
                return _Seen(file.path, "too_large")
            size, mode = f"{image.width}x{image.height}", image.mode
            channels = 3 if mode == "P" else len(image.getbands())
            image.load()
            if mode in _DEEP:
                return _Seen(file.path, None, size, mode, channels)
            plain = image if mode in _PLAIN else image.convert("L" if channels == 1 else "RGB")
            found = ImageStat.Stat(plain)
            return _Seen(
                file.path, None, size, mode, channels, list(zip(found.count, found.sum, found.sum2, strict=True))
            )
    except Image.DecompressionBombError:
        return _Seen(file.path, "too_large")
    except Exception:  # decoders raise all kinds of errors on files that are damaged
        return _Seen(file.path, "unreadable")


def _add(sums: dict[int, list[list[float]]], seen: _Seen) -> None:
    if not seen.bands:
        return
    into = sums.setdefault(len(seen.bands), [[0.0, 0.0, 0.0] for _ in seen.bands])
    for total, band in zip(into, seen.bands, strict=True):
        for index, value in enumerate(band):
            total[index] += value


def _moments(sums: dict[int, list[list[float]]]) -> dict[str, list[float]]:
    if not sums:
        return {"mean": [], "std": []}
    bands = max(sums.values(), key=lambda bands: bands[0][0])
    mean = [total / count for count, total, _ in bands]
    std = [math.sqrt(max(0.0, squares / count - (total / count) ** 2)) for count, total, squares in bands]
    return {"mean": [round(m, 3) for m in mean], "std": [round(s, 3) for s in std]}
