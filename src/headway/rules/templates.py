"""Job templates: a job with named gaps, and what fills them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import unknown

_GAP = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PARAMETER_KEYS = ("default", "help", "choices", "least", "most")
#: of a job: values of these are joined with what a use gives, key by key; others are replaced
_JOINED = ("environment", "parameters", "tags", "least", "limits", "spot", "retention", "retry_rules")


@dataclass(frozen=True)
class Parameter:
    #: whether it must be given: it has no default
    required: bool
    default: Any = None
    help: str = ""
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Body:
    """What a version of a template holds."""

    description: str
    parameters: dict[str, Parameter]
    #: fields of a job request; `{name}` in their texts is filled in
    job: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        parameters = {}
        for name, p in self.parameters.items():
            found = {"help": p.help, "choices": list(p.choices), "least": p.least, "most": p.most}
            parameters[name] = {k: v for k, v in found.items() if v not in ("", [], None)}
            if not p.required:
                parameters[name]["default"] = p.default
        return {"description": self.description, "parameters": parameters, "job": self.job}


def parse(raw: Any, where: str = "template") -> Body:
    """The template in `raw`: `{description, parameters: {name: {default, help, choices, least, most}}, job: {...}}`.

    A parameter without a default must be given at each use. Raises UsageError: one sentence that names the key.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("job"), Mapping):
        raise UsageError(f"{where} has no job.", "Write job: with the fields of a job.")
    for key in raw:
        if key not in ("name", "description", "parameters", "job"):
            raise unknown("key", str(key), ("description", "parameters", "job"), where)
    parameters = raw.get("parameters") or {}
    if not isinstance(parameters, Mapping):
        raise UsageError(f"{where}: parameters is {parameters!r}.", "Write names with {default, help}.")
    body = Body(
        str(raw.get("description") or ""),
        {str(name): _parameter(str(name), given, where) for name, given in parameters.items()},
        dict(raw["job"]),
    )
    for name in sorted(_gaps(body.job)):
        if name not in body.parameters:
            raise unknown("parameter", name, body.parameters, f"{where}: job")
    return body


def _parameter(name: str, given: Any, where: str) -> Parameter:
    if not _GAP.fullmatch(f"{{{name}}}"):
        raise UsageError(f"{where}: {name!r} is no name of a parameter.", "Use letters, digits and _.")
    if not isinstance(given, Mapping):
        return Parameter(required=given is None, default=given)
    for key in given:
        if key not in _PARAMETER_KEYS:
            raise unknown("key", str(key), _PARAMETER_KEYS, f"{where}: parameters.{name}")
    found = Parameter(
        required="default" not in given,
        default=given.get("default"),
        help=str(given.get("help") or ""),
        choices=tuple(given.get("choices") or ()),
        least=given.get("least"),
        most=given.get("most"),
    )
    if not found.required:
        _check(name, found, found.default, where)
    return found


def fill(body: Body, given: Mapping[str, Any], changes: Mapping[str, Any], where: str = "template") -> dict[str, Any]:
    """The fields of a job request: gaps filled with `given` and defaults, then `changes` laid over them.

    The parameters stand in the job's `parameters` too. Raises UsageError for a parameter that is missing (all missing
    ones are named), unknown, or not what the template allows.
    """
    for name in given:
        if name not in body.parameters:
            raise unknown("parameter", name, body.parameters, where)
    missing = [name for name, p in body.parameters.items() if p.required and name not in given]
    if missing:
        raise UsageError(
            f"{where} needs {', '.join(missing)}.",
            f"Give {' '.join(f'--param {name}=...' for name in missing)}.",
            code="missing_parameter",
        )
    values: dict[str, Any] = {}
    for name, parameter in body.parameters.items():
        values[name] = _check(name, parameter, given.get(name, parameter.default), where)
    job = {key: _filled(value, values, as_text=key in ("command", "environment")) for key, value in body.job.items()}
    job["parameters"] = {**job.get("parameters", {}), **values}
    for key, value in changes.items():
        joins = key in _JOINED and isinstance(job.get(key), Mapping) and isinstance(value, Mapping)
        job[key] = {**job[key], **value} if joins else value
    return job


def _check(name: str, parameter: Parameter, value: Any, where: str) -> Any:
    if parameter.choices and value not in parameter.choices:
        known = ", ".join(map(str, parameter.choices))
        raise UsageError(f"{where}: {name} is {value!r}.", f"It may be one of {known}.")
    bounded = parameter.least is not None or parameter.most is not None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if bounded and not number:
        raise UsageError(f"{where}: {name} is {value!r}, no number.", "Give a number.")
    if parameter.least is not None and value < parameter.least:
        raise UsageError(f"{where}: {name} is {value}.", f"It may be {parameter.least:g} at least.")
    if parameter.most is not None and value > parameter.most:
        raise UsageError(f"{where}: {name} is {value}.", f"It may be {parameter.most:g} at most.")
    return value


def _gaps(value: Any) -> set[str]:
    if isinstance(value, str):
        return set(_GAP.findall(value))
    if isinstance(value, Mapping):
        return {name for inner in value.values() for name in _gaps(inner)}
    return {name for inner in value for name in _gaps(inner)} if isinstance(value, list | tuple) else set()


def _filled(value: Any, values: Mapping[str, Any], *, as_text: bool) -> Any:
    """A text that is one gap alone becomes the value itself, unless text is what is wanted."""
    if isinstance(value, str):
        if not as_text and (whole := _GAP.fullmatch(value)):
            return values[whole[1]]
        return _GAP.sub(lambda match: _text(values[match[1]]), value)
    if isinstance(value, Mapping):
        return {key: _filled(inner, values, as_text=as_text) for key, inner in value.items()}
    return [_filled(inner, values, as_text=as_text) for inner in value] if isinstance(value, list | tuple) else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
