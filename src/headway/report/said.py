"""What the record says of an evaluation in the reader's language, with sizes as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headway.report.words import TEXTS
from headway.rules.units import render_size

#: how the server's sentences look, and the text that says the same; groups whose name ends in `bytes` are sizes
_KNOWN = [
    (re.compile(r"(?P<path>.+) has (?P<free_bytes>\d+) bytes free; (?P<needed_bytes>\d+) are needed\."), "said_bytes"),
    (re.compile(r"(?P<path>.+) has (?P<free>\d+) inodes free; (?P<needed>\d+) are needed\."), "said_inodes"),
    (re.compile(r"(?P<n>\d+) of (?P<all>\d+) cells are not valid; see their reasons\."), "said_invalid"),
    (re.compile(r"Mend the cause, then `(?P<command>[^`]+)`; when it is in the code, evaluate anew\."), "said_mend"),
    (re.compile(r"(?P<n>.+) published outputs? (?:was|were) found damaged; see the cells\."), "said_damaged"),
    (re.compile(r"(?P<name>.+) stopped it\."), "said_stopped"),
    (re.compile(r"It is held until it is retried\."), "said_held"),
    (re.compile(r"Its jobs have ended and made no checkpoint that it is of\."), "said_no_rows"),
    (re.compile(r"(?P<n>\d+) cells are left after (?P<rounds>\d+) rounds of workers\."), "said_rounds"),
    (
        re.compile(
            r"Worker run (?P<run>\d+) failed: (?P<n>\d+) cells in a row failed alike: (?P<why>.+); "
            r"(?P<left>\d+) were not tried\.",
            re.DOTALL,
        ),
        "said_alike",
    ),
    (re.compile(r"Worker run (?P<run>\d+) failed: (?P<why>.+)", re.DOTALL), "said_worker"),
    (re.compile(r"`(?P<command>[^`]+)` makes them again\."), "said_again"),
]
_COMMAND = re.compile(r"`[^`]+`")


def sentence(text: str, language: str) -> str:
    """The same in "en" or "zh"; as it is where it is none of the known ones."""
    for pattern, key in _KNOWN:
        if found := pattern.fullmatch(text):
            groups = {name: _size(name, value) for name, value in found.groupdict().items()}
            return TEXTS[key][language == "zh"].format(**groups)
    return text


def remedy(text: str, cause: str | None, language: str) -> str:
    """What to do: in Chinese that of the cause, with the commands that the server names."""
    known = TEXTS.get(f"remedy_{cause}", ("", ""))[1]
    if language != "zh" or not known:
        return sentence(text, language)
    more = [command for command in _COMMAND.findall(text) if command[1:-1] not in known]
    return f"{known}（{'，'.join(more)}）" if more else known


def forecast(found: Mapping[str, Any], language: str) -> str:
    """Why what is still to come will not fit; empty when it does."""
    if found.get("fits") is not False:
        return ""
    if language != "zh":
        return str(found.get("sentence") or "")
    size, files = render_size(int(found.get("needed_bytes") or 0)), int(found.get("needed_files") or 0)
    return TEXTS["said_forecast"][1].format(size=size, files=files)


def of(evaluation: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """`{"en" and "zh": {"reason", "remedy", "forecast"}}` of an EvaluationView as JSON."""
    reason, todo, cause = (str(evaluation.get(key) or "") for key in ("reason", "remedy", "cause"))
    return {
        language: {
            "reason": sentence(reason, language),
            "remedy": remedy(todo, cause, language),
            "forecast": forecast(evaluation.get("forecast") or {}, language),
        }
        for language in ("en", "zh")
    }


def _size(name: str, value: str) -> str:
    return render_size(int(value)) if name.endswith("bytes") else value
