"""Which known word was meant by an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

from headway.errors import UsageError


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, letter case aside; None when none is alike.

    Slips of the finger (a letter too many, missing, wrong, or two exchanged) come first. Of words like `train.comand`,
    where all known ones begin with the same `train.`, only the ends are compared.
    """
    known = list(known)
    prefix = word.rpartition(".")[0] + "."
    if len(prefix) > 1 and all(k.startswith(prefix) for k in known):
        end = nearest(word[len(prefix) :], [k[len(prefix) :] for k in known])
        return None if end is None else prefix + end
    by_lower = {k.lower(): k for k in known}
    lower = word.lower()
    slips = {k: _slips(lower, k) for k in by_lower}
    best = min(slips, key=lambda k: slips[k], default=None)
    if best is not None and slips[best] <= max(1, len(lower) // 3):
        return by_lower[best]
    import difflib  # used only where something is wrong already

    found = difflib.get_close_matches(lower, by_lower, n=1, cutoff=0.55)
    return by_lower[found[0]] if found else None


def _slips(one: str, other: str) -> int:
    """Smallest number of slips that make `other` of `one` (optimal string alignment distance)."""
    before, last = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


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
