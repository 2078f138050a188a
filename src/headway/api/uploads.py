"""Bodies that are streams: taken in whole before anything looks at them."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from headway.errors import UsageError

#: bytes that stay in memory; more go to a file without a name, so that a killed api leaves none
_SPOOL = 4 << 20
#: bytes that are written at once
_BLOCK = 1 << 20


@asynccontextmanager
async def received(request: Request, folder: Path, limit: int) -> AsyncIterator[BinaryIO]:
    """The whole body as a file at its beginning; gone after the block.

    folder: where it is kept when it is large. limit: bytes. Raises UsageError for a longer body (too_large) or one
    that ended too early (cut_off), OSError.
    """
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL, dir=str(folder)) as file:
        kept = cast(BinaryIO, file)
        async for block in _blocks(request, limit):
            await run_in_threadpool(kept.write, block)
        kept.seek(0)
        yield kept


@asynccontextmanager
async def received_file(request: Request, folder: Path, limit: int) -> AsyncIterator[tuple[Path, str]]:
    """The whole body as a file of its own in `folder`, with its SHA-256; gone after the block. Raises as `received`."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".body-", buffering=0) as file:
        digest = hashlib.sha256()

        def take(block: bytes) -> None:
            digest.update(block)
            _write(file, block)

        async for block in _blocks(request, limit):
            await run_in_threadpool(take, block)
        yield Path(file.name), digest.hexdigest()


def _write(file: IO[bytes], block: bytes) -> None:
    """All of it: a disk that is almost full takes a part first, and only then says that it is full."""
    left = memoryview(block)
    while left:
        left = left[file.write(left) :]


async def _blocks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body in large blocks."""
    size, block = 0, bytearray()
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise UsageError(f"The body is longer than {limit >> 20} MiB.", "Send less.", code="too_large")
            block += chunk
            if len(block) >= _BLOCK:
                yield bytes(block)
                block.clear()
    except ClientDisconnect:
        raise UsageError("The body ended too early.", "Send it again.", code="cut_off") from None
    yield bytes(block)
