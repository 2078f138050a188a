"""Images, decoded to the last row of their last frame."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from headway.storage.kinds.base import Facts, InvalidError, Rule
from headway.storage.kinds.containers import whole

#: raster formats that Pillow reads by itself; others start programs (EPS) or only wrap what is elsewhere
_FORMATS = (
    *("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000"),
    *("TGA", "ICO", "DDS", "QOI", "PCX", "SGI"),
)


def image(path: Path, rule: Rule) -> Facts:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=_FORMATS) as found:
            frames = _decode(found)
            facts = {"format": found.format, "width": found.width, "height": found.height, "frames": frames}
            whole(path)
            return facts
    except UnidentifiedImageError as error:
        raise InvalidError("It is not an image.") from error
    except (OSError, EOFError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidError(f"The image cannot be decoded to its end ({error}).", unfinished=True) from error


def _decode(found: Any) -> int:
    frames = getattr(found, "n_frames", 1)
    for frame in range(frames):
        if frame:
            found.seek(frame)
        found.load()
    return int(frames)
