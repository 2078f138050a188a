"""A body from outside on its way in: spooled to a file, its SHA-256 compared, before anything looks inside."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headway.errors import UsageError

_BLOCK = 1 << 20


@contextlib.contextmanager
def spooled(body: BinaryIO, sha256: str, what: str, limit: int) -> Iterator[Path]:
    """`body` as a temporary file with that SHA-256. Raises UsageError for other content or more than `limit` bytes."""
    digest, size = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(prefix="headway-intake-") as out:
        while block := body.read(_BLOCK):
            size += len(block)
            if size > limit:
                raise UsageError(f"The {what} is larger than {limit} bytes.", "Send less.", code="too_large")
            digest.update(block)
            out.write(block)
        out.flush()
        if digest.hexdigest() != sha256:
            raise UsageError(
                f"The {what} has SHA-256 {digest.hexdigest()[:12]}, not {sha256[:12]}: it did not arrive whole.",
                "Send it again.",
                code="checksum",
            )
        yield Path(out.name)
