"""Small still pictures of images and videos; made where Pillow and PyAV are installed (headway's server extra)."""

from __future__ import annotations

import io
from typing import Any

#: pixels of the longer side
SIDE = 200
_QUALITY = 72
#: pixels of the largest picture that is made smaller
_LARGEST = 100_000_000


def make(content: bytes, kind: str) -> bytes | None:
    """A JPEG of an "image", or of the middle of a "video"; None where it cannot be made.

    What the content is was checked before it got here, but a decoder may still die of it: a server calls this in a
    process of its own.
    """
    try:
        picture = _still(content) if kind == "video" else _opened(content)
        return None if picture is None else _small(picture)
    # decoders raise whatever they like, and a picture that is missing is no fault of the page
    except Exception:
        return None


def _opened(content: bytes) -> Any:
    from PIL import Image

    picture = Image.open(io.BytesIO(content))
    return None if picture.width * picture.height > _LARGEST else picture


def _still(content: bytes) -> Any:
    """The frame in the middle: many videos begin with black."""
    import av

    with av.open(io.BytesIO(content)) as container:
        stream = container.streams.video[0]
        half = (container.duration or 0) // 2
        if container.duration and container.duration > 4_000_000:
            container.seek(half)
        picture: Any = None
        for frame in container.decode(stream):
            picture = frame
            if frame.time is None or frame.time * 1_000_000 >= half:
                break
        return None if picture is None else picture.to_image()


def _small(picture: Any) -> bytes:
    from PIL import Image

    picture.thumbnail((SIDE, SIDE))
    if picture.mode in ("RGBA", "LA", "P"):
        picture = picture.convert("RGBA")
        ground = Image.new("RGB", picture.size, (13, 16, 15))
        ground.paste(picture, mask=picture.getchannel("A"))
        picture = ground
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=_QUALITY, optimize=True)
    return out.getvalue()
