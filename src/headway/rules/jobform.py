"""A job as people write it, in a file or in flags: ranges `1..4`, sizes, durations. Pure.

`fields` makes of it the fields of a job request, which has numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.errors import UsageError
from headway.rules.commands import fill as fill_text
from headway.rules.commands import fill_words
from headway.rules.nearest import unknown
from headway.rules.units import parse_duration, parse_range, parse_size

#: other words for a key: those of the API, and those that people try
ALIASES = {
    "memory_bytes": "memory",
    "datasets": "data",
    "dataset": "data",
    "metric_patterns": "metrics",
    "keep": "retention",
    "gpus": "accelerators",
    "gpu_kind": "accelerator_kind",
}
BILLINGS, COMPATS, VIEWS = ("on_demand", "spot", "subscription"), ("modelarts", "pai", "sagemaker"), ("node", "process")
ACTIONS, MODES = ("again", "elsewhere", "stop"), ("max", "min")
_OFF = ("0", "0s", "off", "none", "False")

Where = Callable[[str], str]


def fields(raw: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The fields of a job request that `raw` names. Of ranges, the upper end is the field, the lower one in `least`.

    where: how an error names a key, such as "job.yaml: max_wait" or "--max-wait". Raises UsageError; an unknown key's
    names the nearest known one. A command that is one text stays so until `filled` makes words of it.
    """
    found: dict[str, Any] = {}
    for key, value in raw.items():
        name = ALIASES.get(key, key)
        if name not in _READERS:
            known = [*_READERS, *ALIASES]
            raise unknown("key", str(key), known, where("").rstrip(": "))
        if value is not None:
            for field, inner in _READERS[name](value, where(key)).items():
                # several ranges have their lower ends in one place
                found[field] = {**found.get(field, {}), **inner} if field == "least" else inner
    return found


def filled(found: Mapping[str, Any], where: str = "command") -> dict[str, Any]:
    """`fields` with the command as words and its gaps filled in; asked once all parameters are known.

    In a text every `{name}` must be a parameter; in a list, whose words may hold braces of their own, only those that
    are parameters are filled. Raises UsageError.
    """
    command, parameters = found.get("command"), found.get("parameters") or {}
    if command is None:
        return dict(found)
    return {
        **found,
        "command": fill_text(command, parameters, where)
        if isinstance(command, str)
        else fill_words(command, parameters),
    }


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, value, "text")
    return value


def _integer(low: int, high: int) -> Callable[[Any, str], int]:
    def read(value: Any, where: str) -> int:
        if isinstance(value, bool) or not str(value).lstrip("-").isdigit() or not low <= int(value) <= high:
            raise _wrong(where, value, f"a whole number from {low} to {high}")
        return int(value)

    return read


def _number(value: Any, where: str) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise _wrong(where, value, "a number") from None


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, value, "true or false")
    return value


def _choice(known: Sequence[str]) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if value not in known:
            raise unknown("value", str(value), known, where)
        return str(value)

    return read


def _duration(value: Any, where: str) -> float:
    return parse_duration(value, where)


def _pause(value: Any, where: str) -> float:
    """A duration that may be none at all."""
    return 0.0 if str(value) in _OFF else parse_duration(value, where)


def _words(value: Any, where: str) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(v, str) for v in found):
        raise _wrong(where, value, "text, or a list of texts")
    return list(found)


def _command(value: Any, where: str) -> str | list[str]:
    return value if isinstance(value, str) else [str(word) for word in _listed(value, where)]


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, value, "a list")
    return list(value)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise _wrong(where, value, "keys with values")
    return dict(value)


def _texts(value: Any, where: str) -> dict[str, str]:
    found = _mapping(value, where)
    if not all(isinstance(v, str | int | float) for v in found.values()):
        raise _wrong(where, value, "keys with plain values")
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in found.items()}


def _parts(
    readers: Mapping[str, Callable[[Any, str], Any]], names: Mapping[str, str] | None = None
) -> Callable[[Any, str], dict[str, Any]]:
    """Reads keys with values. names: other words for some of the keys."""

    def read(value: Any, where: str) -> dict[str, Any]:
        found = {}
        for key, inner in _mapping(value, where).items():
            name = (names or {}).get(key, key)
            if name not in readers:
                raise unknown("key", key, [*readers, *(names or {})], where)
            if inner is not None:
                found[name] = readers[name](inner, f"{where}.{key}")
        return found

    return read


def _numbers(value: Any, where: str) -> tuple[float, float]:
    """`2..8`, or `0.5`."""
    low, dots, high = str(value).partition("..")
    ends = _number(low, where), _number(high if dots else low, where)
    if isinstance(value, bool) or not 0 < ends[0] <= ends[1]:
        raise _wrong(where, value, "a number above 0, or a range such as 2..8")
    return ends


def _sizes(value: Any, where: str) -> tuple[int, int]:
    """`8GiB..16GiB`, or `4GiB`."""
    low, dots, high = value.partition("..") if isinstance(value, str) else (value, "", value)
    ends = parse_size(low, where), parse_size(high if dots else low, where)
    if ends[0] > ends[1]:
        raise _wrong(where, value, "a size, or a range such as 8GiB..16GiB")
    return ends


def _ends(name: str, read: Callable[[Any, str], tuple[Any, Any]]) -> Callable[[Any, str], dict[str, Any]]:
    def into(value: Any, where: str) -> dict[str, Any]:
        low, high = read(value, where)
        return {name: high, "least": {name: low}} if low < high else {name: high}

    return into


def _progress(value: Any, where: str) -> dict[str, Any]:
    """`loss:2h`, `accuracy:30m:max`, or its keys."""
    if not isinstance(value, str):
        return _parts({"metric": _text, "seconds": _seconds, "mode": _choice(MODES)})(value, where)
    metric, _, rest = value.partition(":")
    length, _, mode = rest.partition(":")
    if not metric or not length:
        raise _wrong(where, value, "METRIC:DURATION, such as loss:2h or accuracy:30m:max")
    return {"metric": metric, "seconds": parse_duration(length, where), "mode": _choice(MODES)(mode or "min", where)}


def _seconds(value: Any, where: str) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain else parse_duration(value, where)


def _nan(value: Any, where: str) -> bool | list[str]:
    return value if isinstance(value, bool) else _words(value, where)


def _best(value: Any, where: str) -> dict[str, Any]:
    """`3:accuracy:max`, or its keys."""
    if not isinstance(value, str):
        return _parts({"n": _integer(1, 10_000), "metric": _text, "mode": _choice(MODES)})(value, where)
    count, _, rest = value.partition(":")
    metric, _, mode = rest.partition(":")
    if not metric:
        raise _wrong(where, value, "N:METRIC, such as 3:accuracy:max or 1:loss:min")
    return {"n": _integer(1, 10_000)(count, where), "metric": metric, "mode": _choice(MODES)(mode or "max", where)}


def _rules(value: Any, where: str) -> dict[str, Any]:
    return {cause: _rule(rule, f"{where}.{cause}") for cause, rule in _mapping(value, where).items()}


def _rule(value: Any, where: str) -> dict[str, Any]:
    """`elsewhere:5`, `stop`, or its keys."""
    if not isinstance(value, str):
        return _parts({"action": _choice(ACTIONS), "times": _integer(0, 1000)})(value, where)
    action, colon, times = value.partition(":")
    rule: dict[str, Any] = {"action": _choice(ACTIONS)(action, where)}
    return {**rule, "times": _integer(0, 1000)(times, where)} if colon else rule


def _metrics(value: Any, where: str) -> list[dict[str, str]]:
    """[{Name, Regex}], or {name: regex}."""
    if isinstance(value, Mapping):
        return [{"Name": name, "Regex": _text(regex, where)} for name, regex in value.items()]
    found = _listed(value, where)
    if not all(isinstance(m, Mapping) for m in found):
        raise _wrong(where, value, "a list of {Name, Regex}")
    return [dict(m) for m in found]


def _jobs(value: Any, where: str) -> list[int]:
    found = value if isinstance(value, list | tuple) else [value]
    return [_integer(1, 2**63 - 1)(number, where) for number in found]


def _plain(name: str, read: Callable[[Any, str], Any]) -> Callable[[Any, str], dict[str, Any]]:
    return lambda value, where: {name: read(value, where)}


_SPOT = {
    "bid": _choice(("cap", "market")),
    "max_price": _number,
    "max_discount": _number,
    "protection": _pause,
    "grace": _pause,
}
_LIMITS: dict[str, Callable[[Any, str], Any]] = {
    "idle_output": _duration,
    "hang": _pause,
    "no_progress": _progress,
    "nan": _nan,
    "disk_bytes": parse_size,
}
_RETENTION = {"keep_last": _integer(1, 10_000), "keep_best": _best, "keep_every": _integer(1, 2**53)}
#: key -> from its value and how errors name it, to fields of a request
_READERS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "command": _plain("command", _command),
    "name": _plain("name", _text),
    "environment": _plain("environment", _texts),
    "parameters": _plain("parameters", _mapping),
    "spec": _plain("spec", _text),
    "cpus": _ends("cpus", _numbers),
    "memory": _ends("memory_bytes", _sizes),
    "accelerators": _ends("accelerators", parse_range),
    "accelerator_kind": _plain("accelerator_kind", _text),
    "processes": _plain("processes", _integer(1, 1024)),
    "nodes": _ends("nodes", parse_range),
    "priority": _plain("priority", _integer(1, 9)),
    "billing": _plain("billing", _choice(BILLINGS)),
    "spot": _plain("spot", _parts(_SPOT)),
    "max_duration": _plain("max_duration", _duration),
    "max_wait": _plain("max_wait", _duration),
    "grace": _plain("grace", _pause),
    "retries": _plain("retries", _integer(0, 1000)),
    "retry_rules": _plain("retry_rules", _rules),
    "limits": _plain("limits", _parts(_LIMITS, {"disk": "disk_bytes"})),
    "snapshot": _plain("snapshot", _text),
    "data": _plain("datasets", _words),
    "checkpoints": _plain("checkpoints", _words),
    "retention": _plain("retention", _parts(_RETENTION)),
    "metrics": _plain("metric_patterns", _metrics),
    "after": _plain("after", _jobs),
    "tags": _plain("tags", _texts),
    "compat": _plain("compat", _choice(COMPATS)),
    "view": _plain("view", _choice(VIEWS)),
    "template": _plain("template", _text),
    "held": _plain("held", _flag),
    "key": _plain("key", _text),
}
KEYS = tuple(_READERS)


def _wrong(where: str, value: Any, should: str) -> UsageError:
    return UsageError(f"{where} is {value!r}.", f"It should be {should}.")
