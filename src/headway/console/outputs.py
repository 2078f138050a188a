"""What an evaluation's page asks for beside itself: the drawing, output files, small pictures of them.

All are fetched with the session's token, which the browser does not have; the api says who may see them.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from headway.client.aio import AsyncClient
from headway.errors import HeadwayError
from headway.report import media, view
from headway.report.studio import Studio

#: of a file's answer, what is passed on
_PASSED = ("content-type", "content-length", "content-range", "accept-ranges", "last-modified")
#: kinds that a browser shows by itself; anything else is a file to keep
_SHOWN = ("image/", "video/", "audio/", "text/plain", "text/csv", "application/json")
#: an address names the content's digest, and whoever may see it has a session
_KEPT = "private, max-age=3600"
#: bytes of small pictures that are kept
_MOST_KEPT = 32 * 1024 * 1024
_MOST_NAMES = 20_000
_MOST_CLIENTS = 64
#: seconds
_CLOSED_AFTER = 600.0


class Clients:
    """One client for each token and project, the newest used: to make one takes longer than to answer."""

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url
        self._kept: OrderedDict[tuple[str, str], AsyncClient] = OrderedDict()

    def get(self, token: str, project: str) -> AsyncClient:
        """Not to be closed by the caller."""
        client = self._kept.pop((token, project), None) or AsyncClient(self._api_url, token, project=project)
        self._kept[token, project] = client
        if len(self._kept) > _MOST_CLIENTS:
            _, gone = self._kept.popitem(last=False)
            # what it is still asked for comes to its end
            loop = asyncio.get_running_loop()
            loop.call_later(_CLOSED_AFTER, lambda: loop.create_task(gone.aclose()))
        return client

    async def close(self) -> None:
        for client in self._kept.values():
            await client.aclose()


async def drawing(client: AsyncClient, request: Request, evaluation: int) -> Response:
    """The drawing of `headway.report.view`, made in a process of its own: very many cells take seconds."""
    try:
        report = await client.evaluation_report(evaluation)
    except HeadwayError as error:
        return _refused(error)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    asked = await asyncio.to_thread(lambda: json.dumps(report).encode())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", view.__name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        made, _ = await process.communicate(asked)
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        return PlainTextResponse("The drawing could not be made.", status_code=500)
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if packed:
        made = await asyncio.to_thread(gzip.compress, made, 3)
        headers["Content-Encoding"] = "gzip"
    return Response(made, media_type="application/json", headers=headers)


async def file(client: AsyncClient, request: Request, evaluation: int, cell: int, name: str) -> Response:
    """An output, or the range of it that is asked for."""
    async with AsyncExitStack() as stack:
        asked = client.cell_file(evaluation, cell, name, range=request.headers.get("range"))
        try:
            found = await stack.enter_async_context(asked)
        except HeadwayError as error:
            return await _beyond(client, evaluation, cell, name) if error.code == "range" else _refused(error)
        headers = {key: found.headers[key] for key in _PASSED if key in found.headers}
        # an output may be a page with a script in it: it must not run as ours
        headers |= {"Cache-Control": _KEPT, "Content-Security-Policy": "sandbox"}
        if not found.headers.get("content-type", "").startswith(_SHOWN):
            headers["Content-Disposition"] = "attachment"
        return StreamingResponse(_all(stack.pop_all(), found.aiter_raw()), found.status_code, headers)
    raise AssertionError


async def _beyond(client: AsyncClient, evaluation: int, cell: int, name: str) -> Response:
    """A range of nothing that there is: how much there is."""
    try:
        async with client.cell_file(evaluation, cell, name) as found:
            headers = {"Content-Range": f"bytes */{found.headers['content-length']}", "Cache-Control": "no-store"}
            return Response(status_code=416, headers=headers)
    except HeadwayError as error:
        return _refused(error)


async def _all(stack: AsyncExitStack, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with stack:
        async for piece in pieces:
            yield piece


class Pictures:
    """Small pictures of outputs, made once; the newest used are kept."""

    def __init__(self) -> None:
        self._studio = Studio()
        self._kept: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._size = 0
        #: one at a time: a decoder takes all of a core
        self._turn = asyncio.Semaphore(1)

    async def picture(self, client: AsyncClient, request: Request, evaluation: int, cell: int, name: str) -> Response:
        """A JPEG; 404 where none can be made. Whether the caller may see it is asked of the api each time."""
        asked = request.query_params
        kind = "video" if asked.get("as") == "video" else "image"
        key = (client.project, str(evaluation), str(cell), name, asked.get("sha", ""))
        known = self._kept.get(key)
        try:
            async with client.cell_file(evaluation, cell, name, range=None if known is None else "bytes=0-0") as found:
                made = await self._made(found, kind) if known is None else known
        except HeadwayError as error:
            return _refused(error)
        self._keep(key, made)
        headers = {"Cache-Control": _KEPT}
        return Response(made, 200 if made else 404, headers, "image/jpeg")

    async def _made(self, found: httpx.Response, kind: str) -> bytes:
        """Empty where there is none."""
        content = bytearray()
        async with self._turn:
            async for piece in found.aiter_bytes():
                content += piece
                if len(content) > media.LARGEST:
                    return b""
            return await asyncio.to_thread(self._studio.make, bytes(content), kind) or b""

    def _keep(self, key: tuple[str, ...], made: bytes) -> None:
        self._size += len(made) - len(self._kept.pop(key, b""))
        self._kept[key] = made
        while self._size > _MOST_KEPT or len(self._kept) > _MOST_NAMES:
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone)

    def close(self) -> None:
        self._studio.close()


def _refused(error: HeadwayError) -> Response:
    return PlainTextResponse(str(error), status_code=error.status, headers={"Cache-Control": "no-store"})
