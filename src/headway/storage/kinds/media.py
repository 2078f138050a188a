"""Videos and audio, decoded to their end by PyAV. Runs in the decoder's process alone (see `isolated`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import av
import av.logging

from headway.storage.kinds.base import Facts, InvalidError

#: containers that FFmpeg may take a file for: none that leads to other files or to the network
_CONTAINERS = (
    *(
        "mov",
        "mp4",
        "m4a",
        "3gp",
        "matroska",
        "webm",
        "avi",
        "mpegts",
        "mpeg",
        "mpegvideo",
        "flv",
        "ogg",
        "gif",
        "apng",
    ),
    *(
        "wav",
        "w64",
        "aiff",
        "flac",
        "mp3",
        "aac",
        "ac3",
        "caf",
        "au",
        "ivf",
        "h264",
        "hevc",
        "m4v",
        "obu",
        "asf",
        "nut",
    ),
    *("mxf", "webp_anim", "yuv4mpegpipe"),
)
#: containers whose header tells the duration itself, not as an estimate from bytes and bit rate
_EXACT = {"mov", "mp4", "matroska", "webm", "avi", "wav", "w64", "aiff", "flac", "caf"}
_OPTIONS = {"format_whitelist": ",".join(_CONTAINERS), "protocol_whitelist": "file"}

Progress = Callable[[], None]

av.logging.set_level(av.logging.PANIC)


class _Source:
    """The file's bytes for FFmpeg; an error of the device is kept, as FFmpeg has the same numbers for its own."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.fault: OSError | None = None

    def read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            self.fault = error
            raise

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def video(path: Path, progress: Progress) -> Facts:
    """Its first video stream, to the last frame. Raises InvalidError or OSError."""
    return _with(path, "video", progress)


def audio(path: Path, progress: Progress) -> Facts:
    """Its first audio stream, to the last sample. Raises InvalidError or OSError."""
    return _with(path, "audio", progress)


def _with(path: Path, kind: str, progress: Progress) -> Facts:
    with open(path, "rb") as file:
        source = _Source(file)
        try:
            with av.open(source, mode="r", container_options=dict(_OPTIONS)) as container:
                return (_video if kind == "video" else _audio)(container, progress)
        except InvalidError:
            if source.fault is not None:
                raise source.fault from None
            raise
        except (av.error.FFmpegError, ValueError, IndexError, EOFError) as error:
            if source.fault is not None:
                raise source.fault from None
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidError(f"It cannot be decoded as {kind} ({reason}).", unfinished=True) from error


def _stream(container: Any, kind: str) -> Any:
    streams = getattr(container.streams, kind)
    if not streams:
        raise InvalidError(f"It has no {kind} stream.")
    stream = streams[0]
    stream.codec_context.options = {"err_detect": "explode"}
    stream.thread_type = "NONE"
    return stream


def _video(container: Any, progress: Progress) -> Facts:
    stream = _stream(container, "video")
    frames, width, height = 0, 0, 0
    end: float = 0.0
    first: float | None = None
    per_frame = float(1 / stream.average_rate) if stream.average_rate else 0.0
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise InvalidError(f"Frame {frames + 1} is damaged.", unfinished=True)
        if frames and (frame.width, frame.height) != (width, height):
            raise InvalidError(f"Frame {frames + 1} has another size than the first.")
        width, height = frame.width, frame.height
        frames += 1
        if frame.time is not None:
            first = frame.time if first is None else first
            end = max(end, frame.time + (float(frame.duration * frame.time_base) if frame.duration else per_frame))
        progress()
    if not frames:
        raise InvalidError("It has no frame.", unfinished=True)
    seconds = end - (first or 0.0) if end else frames * per_frame
    told = _told_seconds(container, stream)
    lacks = told is not None and told - end > max(per_frame, 0.02) / 2
    if stream.frames and frames < stream.frames and (lacks or told is None):
        raise InvalidError(f"It ends after {frames} of {stream.frames} frames.", unfinished=True)
    if told is not None and told - end > max(1.5 * per_frame, 0.1, told * 0.01):
        raise InvalidError(f"It ends after {end:.2f} of {told:.2f} seconds.", unfinished=True)
    return {
        "format": _format(container),
        "codec": _codec(stream),
        "width": width,
        "height": height,
        "frames": frames,
        "seconds": round(seconds, 3),
        "rate": round(float(stream.average_rate), 3) if stream.average_rate else None,
    }


def _audio(container: Any, progress: Progress) -> Facts:
    stream = _stream(container, "audio")
    samples, rate, channels = 0, 0, 0
    for frame in container.decode(stream):
        samples += frame.samples
        rate, channels = frame.sample_rate, len(frame.layout.channels)
        progress()
    if not samples:
        raise InvalidError("It has no sample.", unfinished=True)
    seconds, told = samples / rate, _told_seconds(container, stream)
    # coders begin and end with a block of silence that the header may count or not
    if told is not None and told - seconds > max(0.1, 4096 / rate):
        raise InvalidError(f"It ends after {seconds:.2f} of {told:.2f} seconds.", unfinished=True)
    return {
        "format": _format(container),
        "codec": _codec(stream),
        "rate": rate,
        "channels": channels,
        "samples": samples,
        "seconds": round(seconds, 3),
    }


def _codec(stream: Any) -> str:
    codec = stream.codec_context.codec
    # the decoder's own name may be another: libdav1d for av1
    return str(getattr(codec, "canonical_name", codec.name))


def _format(container: Any) -> str:
    return str(container.format.name).split(",")[0]


def _told_seconds(container: Any, stream: Any) -> float | None:
    """The end of the stream as the container's header tells it; None where it only guesses."""
    if not _EXACT.intersection(container.format.name.split(",")):
        return None
    if stream.duration is not None:
        return float((stream.duration + (stream.start_time or 0)) * stream.time_base)
    if container.duration is not None and len(container.streams) == 1:
        return float(container.duration / av.time_base)
    return None
