"""Failures that are alike: what tells two of them apart (an id, a path, a number, a time) is none of their cause."""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUOTES = r"\s'\"`<>()\[\]{},;"
#: in this order: what holds digits or slashes is taken out before them
_OUT = (
    # 2026-12-02T09:00:01.5Z, 09:00:01
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "#"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b"), "#"),
    # addresses of the network; /data/x.bin, ~/x, ./x; a/b/c.pt
    (re.compile(rf"\b[a-z][a-z0-9+.-]*://[^{_QUOTES}]+", re.IGNORECASE), "/"),
    (re.compile(rf"(?<![^{_QUOTES}=:])(?:~|\.{{1,2}})?/[^{_QUOTES}:]+"), "/"),
    (re.compile(rf"(?<![^{_QUOTES}=:])(?=[^{_QUOTES}:]*[\d.])[\w.@+-]+(?:/[\w.@+-]+)+"), "/"),
    # 9b2f0c1e-..., 0x7f3a, 4f1c09ab
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "#"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "#"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b", re.IGNORECASE), "#"),
    # 1.5e-3, 12,000, 3.2 GiB
    (re.compile(r"(?:(?<![\w.])[-+])?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?(?:\s?[KMGTP]?i?B\b)?", re.IGNORECASE), "#"),
    (re.compile(r"#(?:\s*[,x×]\s*#)+"), "#"),
    (re.compile(r"\s+"), " "),
)  # fmt: skip


def alike(sentence: str, names: Sequence[str] = ()) -> str:
    """The sentence without what differs among failures of one cause: equal for those that are alike.

    names: of the cell's checkpoint and case, which are taken out too. One that is a plain word stays: it may be a word
    of the sentence.
    """
    for name in sorted(names, key=len, reverse=True):
        if name and not name.isalpha():
            sentence = _without(sentence, name)
    for pattern, sign in _OUT:
        sentence = pattern.sub(sign, sentence)
    return sentence.strip().rstrip(".")


def _without(sentence: str, name: str) -> str:
    """# for the name where it stands by itself. By hand: a pattern for each of very many names takes seconds."""
    first, *rest = sentence.split(name)
    for part in rest:
        inside = first[-1:].isalnum() or part[:1].isalnum()
        first += (name if inside else "#") + part
    return first
