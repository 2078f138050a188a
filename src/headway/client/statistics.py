"""Label and pixel statistics of a dataset folder, for people to look at before they train on it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
#: images that are decoded at most, spread evenly
SAMPLE = 5000


def of(folder: Path, paths: list[str]) -> dict[str, Any]:
    """Statistics of `paths` (below `folder`).

    {"splits": {split: {label: count}}, "images": {"count", "read", "sizes": {"8x8": n}, "modes": {"L": n},
    "mean": [per channel, 0..255], "std": [...]}, "warnings": [sentences]}. Labels are the names of class folders:
    `<split>/<label>/<file>` or `<label>/<file>` (split "all"). `images` only where there are any and Pillow is
    installed.
    """
    images = [p for p in paths if p.lower().endswith(IMAGES)]
    splits: dict[str, Counter[str]] = {}
    for path in images:
        parts = path.split("/")
        if len(parts) >= 2:
            split = parts[-3] if len(parts) >= 3 else "all"
            splits.setdefault(split, Counter())[parts[-2]] += 1
    found: dict[str, Any] = {"splits": {s: dict(sorted(c.items())) for s, c in sorted(splits.items())}}
    pixels = _pixels(folder, images)
    if pixels:
        found["images"] = pixels
    found["warnings"] = _warnings(splits, pixels)
    return found


def _pixels(folder: Path, images: list[str]) -> dict[str, Any] | None:
    if not images:
        return None
    try:
        from PIL import Image, ImageStat
    except ImportError:
        return None
    step = max(1, math.ceil(len(images) / SAMPLE))
    chosen = images[::step]
    sizes: Counter[str] = Counter()
    modes: Counter[str] = Counter()
    sums: dict[int, list[float]] = {}
    unreadable = []
    for path in chosen:
        try:
            with Image.open(folder / path) as image:
                sizes[f"{image.width}x{image.height}"] += 1
                modes[image.mode] += 1
                statistics = ImageStat.Stat(image if image.mode in ("L", "RGB") else image.convert("RGB"))
        except (OSError, ValueError):
            unreadable.append(path)
            continue
        for channel, (count, total, squares) in enumerate(
            zip(statistics.count, statistics.sum, statistics.sum2, strict=True)
        ):
            into = sums.setdefault(channel, [0.0, 0.0, 0.0])
            for index, value in enumerate((count, total, squares)):
                into[index] += value
    mean = [total / count for count, total, _ in sums.values()]
    std = [math.sqrt(max(0.0, squares / n - (total / n) ** 2)) for n, total, squares in sums.values()]
    return {
        "count": len(images),
        "read": len(chosen),
        "sizes": dict(sizes.most_common(10)),
        "modes": dict(modes),
        "mean": [round(m, 3) for m in mean],
        "std": [round(s, 3) for s in std],
        "unreadable": unreadable[:20],
    }


def _warnings(splits: dict[str, Counter[str]], pixels: dict[str, Any] | None) -> list[str]:
    """What a person should hear about before training."""
    said = []
    labels = {label for counts in splits.values() for label in counts}
    for split, counts in sorted(splits.items()):
        missing = sorted(labels - set(counts))
        if missing:
            said.append(f"{split} has no images of {', '.join(missing)}.")
        if counts and max(counts.values()) > 10 * min(counts.values()):
            least = min(counts, key=lambda label: counts[label])
            said.append(f"{split} is uneven: {counts[least]} of {least}, up to {max(counts.values())} of others.")
    if pixels and pixels["unreadable"]:
        said.append(f"{len(pixels['unreadable'])} images cannot be read, the first is {pixels['unreadable'][0]}.")
    if pixels and len(pixels["sizes"]) > 1:
        said.append(f"Images have {len(pixels['sizes'])} different sizes.")
    return said
