"""An evaluation as people write it, in a flow, a file or flags: durations, ranges, commands as one text. Pure.

`fields` makes of it the fields of an evaluation request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from headway.errors import UsageError
from headway.rules.commands import split
from headway.rules.jobform import (
    _SPOT,
    Where,
    _choice,
    _duration,
    _flag,
    _integer,
    _jobs,
    _listed,
    _mapping,
    _parts,
    _plain,
    _text,
    _texts,
    _words,
    _wrong,
)
from headway.rules.nearest import unknown
from headway.rules.outputkinds import OUTPUT_KINDS
from headway.rules.units import parse_duration, parse_range

POLICIES = ("side_by_side", "spare", "after_training")
#: other words for a key: those of the API, and those that people try
ALIASES = {"datasets": "data", "dataset": "data", "job": "jobs", "timeout": "cell_timeout", "env": "environment"}

_ENTRY = re.compile(r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$")
_NAME = re.compile(r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")
_RULE = (
    *("kind", "count", "min_bytes", "width", "height", "frames", "seconds", "tolerance", "rate", "channels", "rows"),
    *("columns", "schema", "shape"),
)


def fields(raw: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The fields of an evaluation request that `raw` names; `cases` stays as it is: a file's name, or a list.

    where: how an error names a key, such as "flow.yaml: evaluate.workers" or "--workers". A key without a value counts
    as not there, but for `score`, which says that there is none. Raises UsageError; an unknown key's names the nearest.
    """
    found: dict[str, Any] = {}
    for key, value in raw.items():
        name = ALIASES.get(key, key)
        if name not in _READERS:
            raise unknown("key", str(key), KEYS, where("").rstrip(": "))
        if value is not None or name == "score":
            found.update(_READERS[name](value, where(key)))
    return found


def check(found: Mapping[str, Any], where: Where) -> None:
    """That the fields fit together, as far as they tell by themselves. Raises UsageError."""
    if ("worker" in found) == ("command" in found):
        more = "both a worker and a command" if "worker" in found else "neither a worker nor a command"
        raise UsageError(f"{where('').rstrip(': .')} has {more}.", "Give one of the two.", code="missing_key")
    if ("best" in found) != ("by" in found):
        raise UsageError(
            f"{where('best')} and {where('by')} go together.", "Say how many, and by which metric of the checkpoints."
        )


def default_name(found: Mapping[str, Any]) -> str:
    """The name of an evaluation that says none: of what runs a cell, and of its cases unless they are called that.

    found: as of `fields`. `evaluate.py:MovingDigits` on `prompts.yaml` is "moving-digits-prompts".
    """
    if "worker" in found:
        what = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", str(found["worker"]).partition(":")[2])
    else:
        words = [str(word) for word in found.get("command") or ["evaluation"]]
        scripts = [word for word in words if word.endswith((".py", ".sh"))]
        modules = [module for flag, module in pairwise(words) if flag == "-m"]
        what = PurePosixPath((scripts or modules or words)[0]).stem
    cases = found.get("cases")
    of = PurePosixPath(cases).stem if isinstance(cases, str) else ""
    text = re.sub(r"[^a-z0-9._-]+", "-", "-".join([what, *([of] if of not in ("", "cases") else [])]).lower())
    return text.lstrip("._-")[:63].rstrip("._-") or "evaluation"


def _entry(kind: str) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if not isinstance(value, str) or not _ENTRY.match(value):
            raise _wrong(where, value, f"FILE.py:{kind}")
        return value

    return read


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise _wrong(where, value, "a name of small letters, digits, '.', '_' and '-'")
    return value


def _command(value: Any, where: str) -> list[str]:
    words = split(value, where) if isinstance(value, str) else [str(word) for word in _listed(value, where)]
    if not words:
        raise _wrong(where, value, "a program and its arguments")
    return words


def _cases(value: Any, where: str) -> str | list[Any]:
    if not isinstance(value, str | list):
        raise _wrong(where, value, "a file or folder, or a list of cases")
    return value


def _outputs(value: Any, where: str) -> list[dict[str, Any]]:
    """`{name: kind}`, `{name: {kind, ...}}`, or a list of `{name, kind, ...}`."""
    items = list(_mapping(value, where).items()) if not isinstance(value, list) else []
    for item in value if isinstance(value, list) else ():
        rule = _mapping(item, where)
        items.append((str(rule.pop("name", "")), rule))
    return [{"name": name, **_rule(rule, f"{where}.{name}")} for name, rule in items]


def _rule(value: Any, where: str) -> dict[str, Any]:
    rule: dict[str, Any] = (
        {"kind": value} if isinstance(value, str) else _mapping({} if value is None else value, where)
    )
    for key in rule:
        if key not in _RULE:
            raise unknown("key", key, _RULE, where)
    kind = rule.setdefault("kind", "file")
    if kind not in OUTPUT_KINDS:
        raise unknown("kind", str(kind), OUTPUT_KINDS, where)
    if isinstance(rule.get("seconds"), str):
        rule["seconds"] = parse_duration(rule["seconds"], f"{where}.seconds")
    return rule


def _checkpoints(value: Any, where: str) -> str | list[str]:
    return "all" if value in ("all", ["all"]) else _words(value, where)


def _score(value: Any, where: str) -> str | None:
    """A key, or none."""
    return None if value is None or value == "none" else _text(value, where)


def _workers(value: Any, where: str) -> dict[str, int]:
    low, high = parse_range(value, where)
    if isinstance(value, bool) or not 1 <= low <= high <= 256:
        raise _wrong(where, value, "a whole number from 1 to 256, or a range such as 1..4")
    return {"workers": high, **({"least_workers": low} if ".." in str(value) else {})}


def _spot(value: Any, where: str) -> dict[str, Any]:
    """`true`, `false`, or how to bid."""
    if isinstance(value, bool):
        return {"spot": {}} if value else {}
    return {"spot": _parts(_SPOT)(value, where)}


def _target(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise _wrong(where, value, "an absolute folder of the server")
    return value


_READERS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "name": _plain("name", _name),
    "worker": _plain("worker", _entry("CLASS")),
    "command": _plain("command", _command),
    "cases": _plain("cases", _cases),
    "outputs": _plain("outputs", _outputs),
    "check": _plain("check", _entry("FUNCTION")),
    "scorer": _plain("scorer", _entry("FUNCTION")),
    "scores": _plain("scores", _choice(("file", "stdout", "lm_eval"))),
    "score_file": _plain("score_file", _text),
    "score": _plain("score", _score),
    "better": _plain("better", _choice(("higher", "lower"))),
    "jobs": _plain("jobs", _jobs),
    "checkpoints": _plain("checkpoints", _checkpoints),
    "every": _plain("every", _integer(1, 10_000)),
    "best": _plain("best", _integer(1, 10_000)),
    "by": _plain("by", _text),
    "mode": _plain("mode", _choice(("min", "max"))),
    "follow": _plain("follow", _flag),
    "repeats": _plain("repeats", _integer(1, 10_000)),
    "seed": _plain("seed", _integer(-(2**53), 2**53)),
    "parameters": _plain("parameters", _mapping),
    "data": _plain("datasets", _words),
    "environment": _plain("environment", _texts),
    "spec": _plain("spec", _name),
    "workers": _workers,
    "policy": _plain("policy", _choice(POLICIES)),
    "spot": _spot,
    "cell_timeout": _plain("cell_timeout", _duration),
    "tries": _plain("tries", _integer(1, 100)),
    "target": _plain("target", _target),
    "max_duration": _plain("max_duration", _duration),
    "retries": _plain("retries", _integer(0, 100)),
}
KEYS = tuple(_READERS)
