"""The SDK: `Client` over HTTP, one module a word, answers as wire models; `aio` for the console.

`flow`, `push` and `snapshot` are what the CLI's larger commands do on the user's side."""

from __future__ import annotations

from headway.client.main import Client

__all__ = ["Client"]
