from __future__ import annotations

import time

import pytest

from headway.errors import UsageError
from headway.rules.expressions import bounded


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        (r"loss=.*nan", "loss=1 or nan", True),
        (r"error|warning", "a warning", True),
        (r"step \d+ .* loss", "step 12 has no loss", True),
        (r"(?i)error", "ERROR", True),
        (r"^\d{4}-\d\d", "2026-01", True),
        (r"(ab)*c$", "ababd", False),
    ],
)
def test_expressions_that_are_used(text: str, line: str, found: bool) -> None:
    assert bounded(text, "grep").found(line) is found


@pytest.mark.parametrize(
    "text",
    [r"(a+)+b", r"(a|a)*b", r"(a?){30}", r"a*a*a*a*b", r".*.*.*x", r"(\w+)\1", "[", "(", "a?" * 40, "(ab|c)" * 40],
)
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="grep"):
        bounded(text, "grep")


@pytest.mark.parametrize("text", [r".*.*x", r"(ab)*c", r"\w*\w*!", "(?=.*a)(?=.*b)x", "a{1,30}b{1,30}c{1,30}"])
def test_no_line_makes_an_expression_slow(text: str) -> None:
    expression = bounded(text, "grep")
    before = time.process_time()
    for part in ("a", "x", " ", "1a", "ab"):
        expression.found(part * 20_000)
    assert time.process_time() - before < 5.0
