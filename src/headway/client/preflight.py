"""What of an evaluation is told to be wrong before a server is asked: its request, and what it names in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import advice

#: what a request has that is known only later
_LATER: dict[str, Any] = {"jobs": [1], "snapshot": "-"}
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def check_request(fields: Mapping[str, Any], cases: list[dict[str, Any]], where: str) -> None:
    """Everything of the request that needs no record. where: begins an error. Raises UsageError."""
    from headway.client.transport import build
    from headway.rules import evalchecks
    from headway.wire.evaluations import EvaluationRequest

    try:
        request = build(EvaluationRequest, {**fields, **_LATER, "cases": cases})
        evalchecks.check(request)
        for output in request.outputs:
            _check_schema(output.name, output.schema_)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.remedy, code=error.code) from None


def _check_schema(name: str, schema: dict[str, Any] | None) -> None:
    if schema is None:
        return
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
    except ImportError:  # the server has it, and looks before anything is begun
        return
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        raise UsageError(f"outputs.{name}: schema is no JSON schema: {error.message}.", "Correct it.") from None


def check_entries(folder: Path, entries: Mapping[str, str]) -> None:
    """That each FILE.py:NAME is in the folder's code. entries: how an error names it -> entry. Raises UsageError."""
    for where, entry in entries.items():
        file, _, name = entry.partition(":")
        if not (folder / file).is_file():
            raise UsageError(
                f"{where} {entry!r} names no file in {folder}.",
                "Correct the name, or add the file.",
                code="missing_file",
            )
        statements = _statements(folder / file, f"{where} {entry!r}")
        bound = {found for statement in statements for found in _bound(statement)}
        # with these two the text does not tell what there is
        if name not in bound and not bound & {"*", "__getattr__"}:
            known = sorted({s.name for s in statements if isinstance(s, _DEFINITIONS)})
            remedy = advice(name, known) if known else "Define it there."
            raise UsageError(f"{where} {entry!r}: {file} has no {name}.", remedy, code="unknown_entry")


def _statements(file: Path, where: str) -> list[ast.stmt]:
    try:
        return list(_all(ast.parse(file.read_bytes(), str(file)).body))
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise UsageError(f"{where}: {file.name}{line} is not Python: {error.msg}.", "Correct that line.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: {file.name} cannot be read: {error}.", "Give a Python file.") from None


def _all(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those inside its `if`s, `try`s, `with`s and loops too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                yield from _all(getattr(statement, part, []))
            for handler in getattr(statement, "handlers", []):
                yield from _all(handler.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
