"""Real videos and sounds, made by FFmpeg through PyAV."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np


def video(
    path: Path,
    *,
    frames: int = 16,
    width: int = 64,
    height: int = 48,
    rate: int = 8,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
) -> Path:
    noise = np.random.default_rng(0)
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height = width, height
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        for _ in range(frames):
            picture = noise.integers(0, 255, (height, width, 3), dtype=np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def sound(path: Path, *, seconds: float = 2.0, rate: int = 16000, channels: int = 1, codec: str = "pcm_s16le") -> Path:
    layout = {1: "mono", 2: "stereo"}[channels]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        wave = np.sin(np.arange(round(seconds * rate)) * (440 * 2 * np.pi / rate))
        samples = (wave * 20000).astype(np.int16).repeat(channels)[None, :]
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout=layout)
        frame.sample_rate = rate
        for packet in stream.encode(frame):
            container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path
