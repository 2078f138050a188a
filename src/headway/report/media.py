"""What of the outputs goes into the report's file: still pictures of all, then whole files, the small ones first."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: bytes of all that is embedded, as it stands in the file
LIMIT = 40 * 1024 * 1024
#: a larger file is neither embedded nor fetched for its picture
LARGEST = 64 * 1024 * 1024
#: files looked at; of the rest the report says that they are not in it
MOST_FILES = 5000
#: characters of a text
_TEXT = 4000
_ORDER = ("video", "image", "audio", "text")

#: (cell's id, output's name) -> its content; None where it cannot be had
Fetch = Callable[[int, str], bytes | None]
#: (content, "image" or "video") -> a small JPEG; None where there is none
Make = Callable[[bytes, str], bytes | None]


@dataclass(frozen=True)
class _Wanted:
    sha: str
    cell: int
    name: str
    kind: str
    size: int


def gather(
    drawing: Mapping[str, Any],
    fetch: Fetch,
    make: Make,
    *,
    limit: int = LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """`{"limit": n, "files": {sha256: {"thumb", "file", "type", "text", "missing"}}}` of a drawing's valid outputs.

    drawing: of `view.build`. make: `studio.Studio.make`. limit: bytes that all of it may take. Equal contents are held
    once.
    """
    files: dict[str, dict[str, str]] = {}
    room = limit
    wanted = sorted(_wanted(drawing), key=lambda w: (_ORDER.index(w.kind), w.size))
    shown = wanted[:MOST_FILES]
    held: list[tuple[_Wanted, str]] = []
    # what is fetched is kept until the pictures, which come first, are in; no more of it than could go in
    waiting = limit
    for done, want in enumerate(shown, 1):
        files[want.sha] = {"missing": "limit"}
        content = fetch(want.cell, want.name) if want.size <= LARGEST else b""
        if progress:
            progress(done, len(shown))
        if content is None:
            files[want.sha] = {"missing": "error"}
        elif content and want.kind == "text":
            text = content[: 4 * _TEXT].decode("utf-8", "replace")[: _TEXT + 1]
            room = _put(files[want.sha], "text", text, room)
        elif content:
            if want.kind != "audio" and (thumb := make(content, want.kind)) is not None:
                room = _put(files[want.sha], "thumb", f"data:image/jpeg;base64,{_encoded(thumb)}", room)
            if (whole := -(-len(content) // 3) * 4) <= waiting:
                waiting -= whole
                held.append((want, _encoded(content)))
    for want, encoded in sorted(held, key=lambda item: len(item[1])):
        before = room
        room = _put(files[want.sha], "file", encoded, room)
        if room != before:
            files[want.sha]["type"] = mimetypes.guess_type(want.name)[0] or "application/octet-stream"
    return {"limit": limit, "files": files}


def _put(entry: dict[str, str], key: str, value: str, room: int) -> int:
    """Adds a value if it has room; returns the room that is left."""
    if len(value) > room:
        return room
    entry[key] = value
    if key != "thumb":
        entry.pop("missing", None)
    return room - len(value)


def _wanted(drawing: Mapping[str, Any]) -> Iterable[_Wanted]:
    seen = set()
    for cell in drawing["cells"]:
        for output in cell[8] if cell[3] == "valid" else ():
            if output["as"] in _ORDER and output["sha"] and output["sha"] not in seen:
                seen.add(output["sha"])
                yield _Wanted(output["sha"], cell[2], output["name"], output["as"], output["bytes"])


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
