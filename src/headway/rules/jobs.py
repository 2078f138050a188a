"""What a job request may say: contradictions found before anything waits for them. Pure.

Each check returns or raises a UsageError or RefusedError of one sentence with the offending value.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headway.errors import RefusedError, UsageError
from headway.protocol.causes import Cause
from headway.rules.nearest import nearest, unknown
from headway.rules.units import render_duration

MICROS = 1_000_000
MOST_TAGS, LONGEST_TAG = 50, 256
#: causes after which nothing can be chosen: the run is over, goes on by itself, or was never placed
_FIXED = (
    *(Cause.DONE, Cause.STOPPED, Cause.PAUSED, Cause.RECLAIMED, Cause.PEER_FAILED),
    *(Cause.WAIT_LIMIT, Cause.DEPENDENCY, Cause.FENCED),
)
RETRIABLE = tuple(sorted(c.value for c in Cause if c not in _FIXED))
#: of a request: values of these are changed key by key, others as a whole
JOINED = ("environment", "parameters", "tags", "least", "limits", "spot", "retention", "retry_rules")
#: names that no checkpoint has: a pattern that fits all of them fits everything
_ANYTHING = ("notes.md", "events.7", "data.csv", "part.tmp")


def check_durations(max_duration: float | None, max_wait: float | None, limits: Mapping[str, Any]) -> None:
    """Maxima that contradict each other: one that can never be reached because another ends the run before."""
    if max_wait is not None and max_duration is not None and max_wait < max_duration:
        raise UsageError(
            f"max_wait is {_say(max_wait)}, less than max_duration ({_say(max_duration)}), which it includes.",
            "Give max_wait the time of waiting and running together.",
            code="contradiction",
        )
    most = min((m for m in (max_duration, max_wait) if m is not None), default=None)
    progress = limits.get("no_progress") or {}
    within = {
        "limits.idle_output": limits.get("idle_output"),
        "limits.hang": limits.get("hang"),
        "limits.no_progress.seconds": progress.get("seconds"),
    }
    for name, seconds in within.items():
        if not seconds:
            continue
        if seconds < 1:
            raise UsageError(f"{name} is {seconds:g} s.", "Give it a second at least.")
        if most is not None and seconds >= most:
            raise UsageError(
                f"{name} is {_say(seconds)}, but the run ends after {_say(most)} anyway.",
                f"Make it shorter, or leave {name} out.",
                code="contradiction",
            )
    named = limits.get("nan")
    if isinstance(named, list) and not all(n.strip() for n in named):
        raise UsageError("limits.nan names a metric without a name.", "Name metrics, or write true for all.")


def _say(seconds: float) -> str:
    return render_duration(seconds)


def spot(billing: str, given: Mapping[str, Any] | None, chosen: Collection[str] = ()) -> dict[str, Any]:
    """`Run.spot` of a request: prices in micros; {} unless it is a spot run.

    chosen: keys that the request named itself; a cap that only shows in its price is a cap all the same.
    """
    if billing != "spot":
        if given is not None:
            raise UsageError(
                f"spot is given, but billing is {billing}.", "Set billing to spot, or leave spot out.",
                code="contradiction",
            )  # fmt: skip
        return {}
    found = dict(given or {})
    prices = [k for k in ("max_price", "max_discount") if found.get(k) is not None]
    bid = found.get("bid", "market")
    if prices and "bid" not in chosen:
        bid = "cap"
    if bid == "cap" and not prices:
        raise UsageError(
            "spot.bid is cap, but there is no cap.", "Give spot.max_price or spot.max_discount, or bid market."
        )
    if bid == "market" and prices:
        raise UsageError(
            f"spot.bid is market, which pays any price, but spot.{prices[0]} is {found[prices[0]]:g}.",
            f"Bid cap, or leave {prices[0]} out.",
            code="contradiction",
        )
    price = found.get("max_price")
    return {
        "bid": bid,
        "max_price": round(price * MICROS) if price is not None else None,
        "max_discount": found.get("max_discount"),
        "protection": found.get("protection", 3600.0),
        "grace": found.get("grace", 120.0),
    }


def least(given: Mapping[str, Any], most: Mapping[str, Any]) -> dict[str, Any]:
    """`Run.least`: the lower ends that are below the upper ones. most: the upper ends by the same names."""
    found = {}
    for name, low in given.items():
        if low is None:
            continue
        if low > most[name]:
            raise UsageError(
                f"least.{name} is {low:g}, more than {name} ({most[name]:g}).", f"Ask for a range such as 1..4 {name}."
            )
        if low < most[name]:
            found[name] = low
    return found


def check_retry_rules(rules: Iterable[str]) -> None:
    """rules: causes that have one."""
    for cause in rules:
        if cause in RETRIABLE:
            continue
        if cause in {c.value for c in _FIXED}:
            raise UsageError(
                f"retry_rules: what follows {cause} is fixed.", f"Rules can be given for {', '.join(RETRIABLE)}."
            )
        raise unknown("cause", cause, RETRIABLE, "retry_rules")


def check_tags(tags: Mapping[str, str]) -> None:
    if len(tags) > MOST_TAGS:
        raise UsageError(f"There are {len(tags)} tags.", f"Give {MOST_TAGS} at most.")
    for key, value in tags.items():
        if not key.strip() or "=" in key or '"' in key:
            raise UsageError(f"tags: {key!r} is no key.", "Give each a key without '=' and '\"'.")
        if len(key) > LONGEST_TAG or len(value) > LONGEST_TAG:
            raise UsageError(f"tags: {key[:40]!r} is too long.", f"{LONGEST_TAG} characters are the most.")


def check_patterns(patterns: Sequence[str], channels: Collection[str]) -> None:
    """Patterns of checkpoints are read under CHECKPOINT_PATH. channels: folders of the job's data."""
    for pattern in patterns:
        where = f"checkpoints: {pattern!r}"
        parts = pattern.rstrip("/").split("/")
        if not pattern.strip("/ "):
            raise UsageError(f"{where} is no pattern.", "Write one such as *.pt.")
        if "DATA_PATH" in pattern or (channels and (parts[0] == "data" or parts[0] in channels)):
            raise UsageError(
                f"{where} would match the dataset.",
                "Write it relative to CHECKPOINT_PATH, such as *.pt; data is no checkpoint.",
                code="pattern_matches_data",
            )
        if pattern.startswith(("/", "~", "$")) or ".." in parts:
            raise UsageError(
                f"{where} leads out of CHECKPOINT_PATH.", "Write it relative to CHECKPOINT_PATH, such as *.pt."
            )
        if not pattern.endswith("/") and all(fnmatch.fnmatchcase(name, pattern) for name in _ANYTHING):
            raise UsageError(
                f"{where} matches everything, also what is no checkpoint.", "Name their kind, such as *.pt or step-*."
            )


# -- the entry


def entry_of(command: Sequence[str]) -> str | None:
    """The script that the command starts, when it is a path relative to the code; None when that cannot be told."""
    for word in command:
        if word in ("-c", "-m"):
            return None  # a program in a word, or a module
        if word.endswith(".py") and not word.startswith("-"):
            plain = not re.search(r"[\s$`{}*?|;&<>=]", word)
            return word if plain and not word.startswith(("/", "~")) else None
    return None


def check_entry(command: Sequence[str], files: Collection[str] | None) -> None:
    """That the script is in the code. files: paths in the snapshot; None: the job takes no code along."""
    entry = entry_of(command)
    if entry is None:
        return
    path = _normal(entry)
    if path is None:
        raise UsageError(
            f"{entry} lies outside the code, which is all that a job takes along.",
            "Give a folder with --code that holds it.",
            code="entry_outside",
        )
    if files is None:
        raise UsageError(
            f"The command starts {entry}, but the job takes no code along.",
            "Give the folder that holds it with --code (snapshot in a request).",
            code="entry_outside",
        )
    if path in files:
        return
    name = path.rpartition("/")[2]
    scripts = [f for f in files if f.endswith(".py")]
    near = next((f for f in sorted(scripts) if f.rpartition("/")[2] == name), None) or nearest(path, scripts)
    raise UsageError(
        f"The code has no {entry}, which the command starts.",
        f"Did you mean {near}?" if near else f"It holds {len(files)} files, none like it.",
        code="entry_outside",
    )


def _normal(path: str) -> str | None:
    """`./a/../b.py` -> `b.py`; None when it leads out."""
    found: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not found:
                return None
            found.pop()
        else:
            found.append(part)
    return "/".join(found)


# -- a job made of another


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request with some changed. In mappings such as `parameters` a value of None takes a key out."""
    found = dict(base)
    for key, value in changes.items():
        if key in JOINED and isinstance(found.get(key), Mapping) and isinstance(value, Mapping):
            found[key] = {k: v for k, v in {**found[key], **value}.items() if v is not None}
        else:
            found[key] = value
    return found


def with_parameters(command: Sequence[str], before: Mapping[str, Any], changes: Mapping[str, Any]) -> list[str]:
    """The command with the new values where it says `--name value`, `--name=value` or `name=value`."""
    words = list(command)
    for name, value in changes.items():
        flags = {f"--{name}", f"--{name.replace('_', '-')}", f"-{name}" if len(name) == 1 else f"--{name}"}
        for at, word in enumerate(words):
            head, equals, _ = word.partition("=")
            if equals and (head in flags or head == name):
                words[at] = f"{head}={_text(value)}"
            elif word in flags and at + 1 < len(words):
                follows = words[at + 1]
                if follows == _text(before.get(name)) if name in before else not follows.startswith("--"):
                    words[at + 1] = _text(value)
    return words


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- dependencies


def check_after(job: int | None, after: Sequence[int], depends: Mapping[int, Sequence[int]]) -> None:
    """That no job waits for itself. job: None for one that is new; depends: what the others wait for."""
    if job is None:
        return
    if job in after:
        raise UsageError(f"Job {job} cannot come after itself.", "Leave it out of after.", code="cycle")
    for first in after:
        trail, seen = [first], set[int]()
        while trail:
            at = trail.pop()
            if at == job:
                raise RefusedError(
                    f"Job {first} waits for job {job} already; neither would ever start.", "Leave one of them out.",
                    code="cycle",
                )  # fmt: skip
            if at not in seen:
                seen.add(at)
                trail += depends.get(at, ())
