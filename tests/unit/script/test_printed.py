from __future__ import annotations

import os
from typing import Any

import pytest

from headway.script.printed import Printed, last_line, last_object


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('x\n{"a": 1}\n{"a": 2}\nbye\n', {"a": 2}),
        ('{\n  "a": {\n    "b": 1\n  }\n}\n', {"a": {"b": 1}}),
        ('{"a": {"b": 1}}\n{broken\n', {"a": {"b": 1}}),
        ('progress {"a": 1}\n', None),
        ('{"a": 1} and more\n', None),
        ("[1, 2]\n", None),
        ("", None),
        ("{" * 5000, None),
    ],
)
def test_the_last_object_on_lines_of_its_own(text: str, found: dict[str, Any] | None) -> None:
    assert last_object(text) == found


def test_the_last_line_that_says_something() -> None:
    assert last_line("a\n b \n\n") == "b" and last_line("\n") == ""


def test_what_is_printed_goes_on_and_its_end_is_kept() -> None:
    there, write = os.pipe()
    out, to = os.pipe()
    printed = Printed(there, to)
    os.write(write, b"one\n")
    printed.take()
    assert os.read(out, 100) == b"one\n" and printed.text == "one\n"
    printed.clear()
    os.write(write, "zwei ü\n".encode())
    os.close(write)
    printed.take()
    assert printed.text == "zwei ü\n" and not printed.open
    os.close(out)
    os.close(to)
