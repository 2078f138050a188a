"""Logs as files: fetched with the session's token, which the browser does not have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

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
