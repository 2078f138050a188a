"""Logs and files of datasets to keep: fetched with the session's token, which the browser does not have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from urllib.parse import quote

import httpx
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from headway.client.aio import AsyncClient
from headway.errors import HeadwayError

#: what of the address is passed on
_KNOWN = ("kind", "grep", "rank")


async def log(api_url: str, token: str | None, run: int, asked: Mapping[str, str]) -> Response:
    """A run's log, or the lines of it that are asked for, as text; to the sign-in when nobody is signed in."""
    if token is None:
        return RedirectResponse("/login?error=expired", status_code=303, headers={"Cache-Control": "no-store"})
    client = AsyncClient(api_url, token)
    query = {"kind": "run", **{k: v for k, v in asked.items() if k in _KNOWN}}
    pieces = client.download(run, **query)
    try:
        # what is wrong is told with a status, before the file begins
        first = await anext(pieces, b"")
    except HeadwayError as error:
        await client.aclose()
        return PlainTextResponse(str(error), status_code=error.status, headers={"Cache-Control": "no-store"})
    kind = query["kind"] if query["kind"] in ("run", "diag") else "run"
    headers = {"Content-Disposition": f'attachment; filename="run-{run}.{kind}.log"', "Cache-Control": "no-store"}
    return StreamingResponse(_all(client, first, pieces), media_type="text/plain; charset=utf-8", headers=headers)


async def _all(client: AsyncClient, first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        await client.aclose()


async def dataset_file(client: AsyncClient, name: str, version: int, path: str) -> Response:
    """A file of a dataset, to be kept; closes the client."""
    stack = AsyncExitStack()
    stack.push_async_callback(client.aclose)
    try:
        found = await stack.enter_async_context(client.dataset_file(name, version, path))
    except HeadwayError as error:
        await stack.aclose()
        return PlainTextResponse(str(error), status_code=error.status, headers={"Cache-Control": "no-store"})
    saved = quote(path.rsplit("/", 1)[-1], safe="")
    headers = {
        # it may be a page with a script in it, which must not run as ours
        "Content-Disposition": f"attachment; filename*=UTF-8''{saved}",
        "Content-Security-Policy": "sandbox",
        "Cache-Control": "no-store",
    }
    if "content-length" in found.headers:
        headers["Content-Length"] = found.headers["content-length"]
    return StreamingResponse(_opened(stack, found), media_type="application/octet-stream", headers=headers)


async def _opened(stack: AsyncExitStack, found: httpx.Response) -> AsyncIterator[bytes]:
    async with stack:
        async for piece in found.aiter_raw():
            yield piece
