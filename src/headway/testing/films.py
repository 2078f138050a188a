"""Short films, as a generative model would make them. Stands alone: a worker's code may have a copy of it."""

from __future__ import annotations

import io


def film(row: int, column: int, frames: int = 12, side: int = 64) -> bytes:
    """A square that moves, as H.264 in MP4, which browsers play; each place makes another one. Needs PyAV."""
    import av
    import numpy as np

    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width = stream.height = side
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "28", "preset": "ultrafast"}
        for number in range(frames):
            picture = np.full((side, side, 3), (16, 24 + 6 * row, 40), np.uint8)
            x, y = (5 * number + 9 * column) % (side - 16), (4 * number + 7 * row) % (side - 16)
            picture[y : y + 16, x : x + 16] = (250, 60 + 30 * column % 190, 90)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return out.getvalue()
