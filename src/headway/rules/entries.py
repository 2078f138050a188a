"""Entries into the user's code: `file.py:Name`, the file below the code's folder."""

from __future__ import annotations


def is_entry(text: str) -> bool:
    """Whether `text` is of that shape; whether there is such a file is not asked."""
    file, colon, name = text.partition(":")
    inside = not file.startswith("/") and ".." not in file.split("/")
    return bool(colon) and file.endswith(".py") and name.isidentifier() and inside
