"""Which regular expressions are run over logs: those that no line makes slow.

Python's `re` tries alternatives one after another, and an expression such as `(a+)+b` takes for ever on a line that
hardly fits. So an expression is read before it is used: what it may cost is estimated from its parts, lines are looked
at up to the length that this allows, and what would be slow even on short lines is refused.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

from headway.errors import UsageError

if sys.version_info >= (3, 11):
    from re import _constants as _words
    from re import _parser as _reader
else:
    import sre_constants as _words
    import sre_parse as _reader

#: steps that one line may cost
STEPS = 100_000_000
#: a line is looked at up to here at most, and an expression that does not allow this many is refused
LONGEST, SHORTEST = 16_384, 200
#: a repeat of up to so many is counted as that many; of more, as the length of the line
_FEW = 32
_REPEATS = (_words.MAX_REPEAT, _words.MIN_REPEAT)


@dataclass(frozen=True)
class Expression:
    pattern: re.Pattern[str]
    #: characters of a line that are looked at
    reach: int

    def found(self, text: str) -> bool:
        return self.pattern.search(text, 0, self.reach) is not None


def bounded(text: str, where: str) -> Expression:
    """`text` as an expression with a bounded cost. Raises UsageError naming `where`."""
    try:
        pattern = re.compile(text)
        parsed = _reader.parse(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"{where}: {text!r} is no regular expression: {error}.", "Correct it, or look for plain text."
        ) from None
    try:
        loops, factor = _cost(parsed)
    except _SlowError as why:
        raise UsageError(
            f"{where}: {text!r} may take very long: it has {why}.", "Write it without, or look for plain text."
        ) from None
    # the search begins anew at each character, and each loop may stop at each
    reach = int((STEPS / max(1, factor)) ** (1 / (loops + 1)))
    if reach < SHORTEST:
        raise UsageError(
            f"{where}: {text!r} may take very long: it has too many repeats.",
            "Use fewer of `*`, `+`, `?` and `|`, or look for plain text.",
        )
    return Expression(pattern, min(reach, LONGEST))


class _SlowError(Exception):
    pass


def _cost(parsed: Any) -> tuple[int, float]:
    """How many loops over the line an expression has one within or after another, and by what else they multiply."""
    loops, factor = 0, 1.0
    for word, value in parsed:
        more, times = _part(word, value)
        loops, factor = loops + more, factor * times
    return loops, factor


def _part(word: Any, value: Any) -> tuple[int, float]:
    if word in _REPEATS:
        least, most, inner = value
        if _cost(inner) != (0, 1.0):
            raise _SlowError("a repeat or a choice inside a repeat")
        if least == most and most <= _FEW:
            return 0, 1.0
        return (0, float(most - least + 1)) if most <= _FEW else (1, 1.0)
    if word is _words.BRANCH:
        costs = [_cost(branch) for branch in value[1]]
        return max(loops for loops, _ in costs), sum(factor for _, factor in costs)
    if word is _words.SUBPATTERN:
        return _cost(value[3])
    if word in (_words.ASSERT, _words.ASSERT_NOT):
        return _cost(value[1])
    if word in (_words.GROUPREF, _words.GROUPREF_EXISTS):
        raise _SlowError("a reference to a group")
    if word in (_words.LITERAL, _words.NOT_LITERAL, _words.ANY, _words.IN, _words.AT):
        return 0, 1.0
    raise _SlowError(f"{str(word).lower()}, which is not allowed here")
