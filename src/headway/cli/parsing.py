"""Errors of the parser of the command line, as headway says all of its errors."""

from __future__ import annotations

import re
from typing import Any

from headway.errors import UsageError

#: beginnings of what types are called -> what their values are
_SHOULD = {"int": "a whole number", "float": "a number", "bool": "true or false", "path": "a path"}


def told(error: Exception) -> UsageError | None:
    """What the parser's error says, in one sentence with what to do; None when it is none of the parser's.

    They are told apart by name: which library the parser is of depends on typer's version.
    """
    context, kind = getattr(error, "ctx", None), type(error).__name__
    if not hasattr(error, "format_message"):
        return None
    where = context.command_path if context is not None else "headway"
    look = f"`{where} --help` says more."
    if kind == "NoSuchOption":
        return _option(where, getattr(error, "option_name", ""), context)
    if kind == "NoArgsIsHelpError":
        return UsageError(f"`{where}` lacks a command.", f"Take one of those that `{where} --help` lists.")
    parameter = getattr(error, "param", None)
    if kind == "MissingParameter" and parameter is not None:
        return _missing(where, parameter, context)
    if kind == "BadParameter" and parameter is not None:
        return _value(error, parameter, look)
    text = " ".join(error.format_message().split()).rstrip(".")
    if kind == "BadOptionUsage" and "requires an argument" in text:
        name = getattr(error, "option_name", "")
        return UsageError(f"{name} has no value.", f"Write it like {name} VALUE.", code="missing_value")
    if found := re.match(r"No such command '([^']*)'", text):
        return _command(where, found[1], context)
    if found := re.match(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text):
        return UsageError(f"`{where}` does not take {found[1]!r}.", f"Leave it out; {look}")
    return UsageError(f"`{where}`: {text}.", look)


def _option(where: str, name: str, context: Any) -> UsageError:
    """A flag that the command has not; one of the program's own is meant where the command takes a program."""
    from headway.rules.nearest import nearest

    parameters = context.command.get_params(context) if context is not None else []
    known = [text for p in parameters if p.param_type_name == "option" for text in (*p.opts, *p.secondary_opts)]
    found = nearest(name, [text for text in known if text.startswith("--")])
    program = any(p.param_type_name == "argument" and p.nargs == -1 and p.name == "command" for p in parameters)
    remedy = [f"Did you mean {found}?" if found else f"`{where} --help` lists them."]
    remedy += ["What is the program's own goes after --."] if program else []
    return UsageError(f"`{where}` has no option {name}.", " ".join(remedy), code="unknown_option")


def _command(where: str, name: str, context: Any) -> UsageError:
    from headway.rules.nearest import advice

    known = [n for n, c in getattr(context.command, "commands", {}).items() if not c.hidden] if context else []
    return UsageError(f"`{where}` has no command {name!r}.", advice(name, known), code="unknown_command")


def _missing(where: str, parameter: Any, context: Any) -> UsageError:
    name = _name(parameter)
    if parameter.param_type_name != "argument":
        return UsageError(f"`{where}` lacks {name}.", f"Give {name}: {parameter.help}", code="missing_key")
    words = [_name(p) for p in context.command.params if p.param_type_name == "argument" and p.required]
    return UsageError(f"`{where}` lacks {name}.", f"Write it like `{' '.join([where, *words])}`.", code="missing_key")


def _value(error: Any, parameter: Any, look: str) -> UsageError:
    """A value that is of another type than it should be."""
    cause, text = error.__cause__, " ".join(str(error.message).split()).rstrip(".")
    if hasattr(cause, "errors"):
        fault = cause.errors()[0]
        value, kind = fault.get("input"), str(fault.get("type")).partition("_")[0]
    else:
        found = re.match(r"'(.*)' is not a valid (\w+)", text)
        value, kind = (found[1], found[2]) if found else (None, "")
    should = next((words for begin, words in _SHOULD.items() if kind and kind.startswith(begin)), None)
    if should is None:
        return UsageError(f"{_name(parameter)}: {text}.", look)
    return UsageError(f"{_name(parameter)} is {value!r}.", f"It should be {should}.")


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).upper()
    return str(next((text for text in parameter.opts if text.startswith("--")), parameter.opts[0]))
