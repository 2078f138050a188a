"""An evaluation's command template: its words, filled in for one cell.

`{checkpoint}` is the checkpoint's path and `{checkpoint.name}` its name; `{case.id}` the case's id, `{case.NAME}` one
of its parameters or, where there is none of that name, of its inputs; `{case}` a JSON file that holds the whole case;
`{seed}`, `{repeat}` and `{out}` what they say. `{{word}}` stands for `{word}` itself.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_WORD = re.compile(r"\{\{[A-Za-z_][A-Za-z0-9_.-]*\}\}|\{([A-Za-z_][A-Za-z0-9_.-]*)\}")


def fill(words: Sequence[str], checkpoint: str, name: str, case: Mapping[str, Any], out: str) -> list[str]:
    """The command of one cell. checkpoint, name: path and name. Raises KeyError that names the unknown word."""
    plain = {
        "checkpoint": checkpoint,
        "checkpoint.name": name,
        "case": case_file(out),
        "case.id": str(case["id"]),
        "seed": str(case.get("seed", 0)),
        "repeat": str(case.get("repeat", 0)),
        "out": out,
    }
    values = {**(case.get("inputs") or {}), **(case.get("parameters") or {})}

    def one(found: re.Match[str]) -> str:
        word = found[1]
        if word is None:
            return found[0][1:-1]
        if word in plain:
            return plain[word]
        own = word.removeprefix("case.")
        if own == word or own not in values:
            raise KeyError(word)
        value = values[own]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return [_WORD.sub(one, text) for text in words]


def names_case(words: Sequence[str]) -> bool:
    """Whether the command wants the case as a file."""
    return any(found[1] == "case" for text in words for found in _WORD.finditer(text))


def case_file(out: str) -> str:
    """Where the file with the case of the cell whose folder is `out` lies: beside it."""
    return f"{out.rstrip('/')}.case.json"
