"""Which bytes of a file a Range header asks for (RFC 9110, section 14), for every route that answers with a file.

A header that is malformed, or of another unit than bytes, is as if it were not there; one that asks for nothing that
there is gets 416 with the file's size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from headway.api.problems import answer
from headway.errors import UsageError

#: more than so many are answered with the whole file: they cost more than it does
MOST = 16
_UNIT = re.compile(r"bytes=", re.IGNORECASE)
_ONE = re.compile(r"([0-9]*)-([0-9]*)")


def wanted(header: str, size: int) -> list[tuple[int, int]] | None:
    """(first, last) byte of each range that can be had of `size` bytes, in the order asked for.

    None: the header says nothing, and the whole is answered; empty: nothing of it can be had.
    """
    unit = _UNIT.match(header)
    if unit is None:
        return None
    # empty elements of a list are nothing
    specs = [spec for part in header[unit.end() :].split(",") if (spec := part.strip(" \t"))]
    found = []
    for spec in specs:
        parts = _ONE.fullmatch(spec)
        if parts is None or spec == "-":
            return None
        first, last = (_position(text) for text in parts.groups())
        if first is None:
            # the last so many bytes, or all that there are; no range can name those of an empty file
            if last and not size:
                return None
            first, last = max(0, size - (last or 0)), size - 1
        elif last is not None and last < first:
            return None
        if first < size:
            found.append((first, size - 1 if last is None else min(last, size - 1)))
    if not specs or len(specs) > MOST:
        return None
    return found


def _position(digits: str) -> int | None:
    """As a number; no file reaches 10**20, and Python takes none of thousands of digits."""
    return int(digits.lstrip("0")[:21] or "0") if digits else None


def _refused(header: str, size: int) -> Response:
    refused = answer(
        UsageError(
            f"Range: {header[:80]!r} lies beyond the file's {size} bytes.",
            "Ask for bytes that there are, or leave the header out.", code="range",
        ),
        416,
    )  # fmt: skip
    refused.headers["content-range"] = f"bytes */{size}"
    return refused


def ranged(header: str | None, size: int, read: Callable[[int, int], Iterator[bytes]]) -> Response:
    """An answer of `size` bytes that are no file, or the one range of them that is asked for; of several, the whole.

    read: (first, count) -> these bytes in blocks.
    """
    found = wanted(header, size) if header else None
    if header and found == []:
        return _refused(header, size)
    first, last = found[0] if found and len(found) == 1 else (0, size - 1)
    headers = {"accept-ranges": "bytes", "content-length": str(last + 1 - first)}
    whole = not found or len(found) > 1
    if not whole:
        headers["content-range"] = f"bytes {first}-{last}/{size}"
    return StreamingResponse(
        read(first, last + 1 - first),
        status_code=200 if whole else 206,
        headers=headers,
        media_type="application/octet-stream",
    )


class RangedFile(FileResponse):
    """A file, or the ranges of it that are asked for."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.stat_result is None:
            self.stat_result = await run_in_threadpool(os.stat, self.path)
            self.set_stat_headers(self.stat_result)
        asked = Headers(scope=scope)
        size = int(self.headers["content-length"])
        found = wanted(asked["range"], size) if "range" in asked and self._is_same(asked.get("if-range")) else None
        if found == []:
            await _refused(asked["range"], size)(scope, receive, send)
            return
        # what is passed on is known to be understood
        headers = [(name, value) for name, value in scope["headers"] if name not in (b"range", b"if-range")]
        if found:
            headers.append((b"range", "bytes={}".format(",".join(f"{a}-{b}" for a, b in found)).encode()))
        await super().__call__({**scope, "headers": headers}, receive, send)

    def _is_same(self, known: str | None) -> bool:
        """Whether the file is the one that If-Range has parts of; a weak tag is of none."""
        return known is None or known in (self.headers["etag"], self.headers["last-modified"])
