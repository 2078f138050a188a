"""Which known word was meant by an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

from headway.errors import UsageError


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word` (letter case aside); None when none is alike."""
    import difflib  # used only where something is wrong already

    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def advice(word: str, known: Iterable[str]) -> str:
    """One sentence of what to do about an unknown word: the nearest known one, or all of them."""
    known = sorted(known)
    found = nearest(word, known)
    if found:
        return f"Did you mean {found}?"
    return f"Known: {', '.join(known)}." if known else "There are none yet."


def unknown(what: str, word: str, known: Iterable[str], where: str = "") -> UsageError:
    """The error for an unknown word. what: "key", "spec", ...; where: file and key path, if any."""
    prefix = f"{where}: " if where else ""
    return UsageError(f"{prefix}unknown {what} {word!r}.", advice(word, known), code=f"unknown_{what}")
