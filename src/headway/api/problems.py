"""Every fault as the one shape of errors: {"error": {"code", "message", "remedy"}}."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException

from headway.errors import FailedError, HeadwayError, NotFoundError, RefusedError, UnreachableError, UsageError
from headway.rules.nearest import unknown
from headway.storage.full import TargetFullError, from_oserror
from headway.storage.objects import MissingObjectError
from headway.storage.verify import InvalidError
from headway.store.base import ConflictError
from headway.wire.base import keys_at

_log = logging.getLogger("headway.api")


def install(app: FastAPI) -> None:
    """Makes `app` answer all that can be raised in the one shape."""

    for kind in (OverflowError, DataError):
        app.add_exception_handler(kind, _too_large)
    app.add_exception_handler(MissingObjectError, _missing)

    @app.exception_handler(HeadwayError)
    def raised(request: Request, error: HeadwayError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(unread(error.__cause__) or explain(error.errors(), request))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400 and (found := unread(error.__cause__)):
            return answer(found)
        return answer(_of_http(request, error), error.status_code)

    @app.exception_handler(ConflictError)
    def conflict(request: Request, error: ConflictError) -> JSONResponse:
        return answer(
            RefusedError("Somebody else made the same at the same moment.", "Look, and try again.", code="conflict")
        )

    @app.exception_handler(TargetFullError)
    def full(request: Request, error: TargetFullError) -> JSONResponse:
        return answer(RefusedError(str(error.message), str(error.remedy), code=str(error.cause)))

    @app.exception_handler(InvalidError)
    def not_valid(request: Request, error: InvalidError) -> JSONResponse:
        reason = error.reason.rstrip(".")
        return answer(UsageError(f"{reason[:1].upper()}{reason[1:]}.", "Correct what was sent.", code="invalid"))

    @app.exception_handler(OSError)
    def system(request: Request, error: OSError) -> JSONResponse:
        found = from_oserror(error, Path(error.filename or "/"))
        return full(request, found) if found else failed(request, error)

    @app.exception_handler(OperationalError)
    def away(request: Request, error: OperationalError) -> JSONResponse:
        _log.error("The record does not answer: %s", error.orig)
        return answer(UnreachableError("The record's database does not answer.", "See the api's log; try again later."))

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> JSONResponse:
        # what went wrong inside goes to the log, never to the caller
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(
            FailedError(
                f"The server failed on {request.method} {request.url.path} ({type(error).__name__}).",
                "See the api's log; please report it.",
                code="internal",
            )
        )


def answer(error: HeadwayError, status: int | None = None) -> JSONResponse:
    """The one shape, with the error's own status or another."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.status == 503:
        headers["Retry-After"] = "1"
    return JSONResponse({"error": error.as_dict()}, status_code=status or error.status, headers=headers)


def _too_large(request: Request, error: Exception) -> JSONResponse:
    return answer(UsageError("The request has a number that is too large.", "Give a smaller number."))


def _missing(request: Request, error: Exception) -> JSONResponse:
    remedy = "If a dataset holds it, run `headway dataset verify` on it, and push the same files again."
    return answer(NotFoundError(f"{str(error)[:1].upper()}{str(error)[1:]} in the store.", remedy))


def _of_http(request: Request, error: HTTPException) -> HeadwayError:
    if error.status_code == 404:
        return NotFoundError(f"There is nothing at {request.url.path}.", "/api/docs lists what there is.")
    if error.status_code == 405:
        return UsageError(
            f"{request.url.path} cannot be asked with {request.method}.", "/api/docs lists what there is.",
            code="wrong_method",
        )  # fmt: skip
    return UsageError(str(error.detail) or f"Status {error.status_code}.", "Correct the request.")


def unread(error: BaseException | None) -> UsageError | None:
    """Why a body could not be read as JSON, and where; None: that is not what the error says."""
    if isinstance(error, json.JSONDecodeError):
        where, why = (error.lineno, error.colno), f"{error.msg[:1].lower()}{error.msg[1:]}"
    elif isinstance(error, UnicodeDecodeError):
        before = error.object[: error.start].decode("utf-8", "replace")
        where = before.count("\n") + 1, len(before) - before.rfind("\n")
        why = f"byte 0x{error.object[error.start]:02x} is no UTF-8"
    elif isinstance(error, RecursionError):
        return UsageError("The body is nested too deep.", "Make it flatter.")
    elif isinstance(error, ValueError):
        return UsageError("The body has a number that is too large.", "Give a smaller number.")
    else:
        return None
    return UsageError(
        f"The body is not JSON: line {where[0]}, column {where[1]}: {why}.",
        "Correct it there; send JSON with Content-Type: application/json.",
    )


def explain(faults: Sequence[Any], request: Request | None = None) -> UsageError:
    """The first of Pydantic's faults as one sentence with the offending value, and the nearest key for an unknown."""
    fault = faults[0]
    where = [part for part in fault["loc"] if part not in ("body", "query", "path")]
    name = ".".join(str(p) for p in where)
    if fault["type"] == "extra_forbidden":
        return unknown("key", str(where[-1]), _keys(request, where[:-1]), ".".join(str(p) for p in where[:-1]))
    if fault["type"] == "missing":
        return UsageError(f"{name or 'The body'} is missing.", "Give it.")
    if not where and isinstance(fault.get("input"), bytes):
        return UsageError("The body was not sent as JSON.", "Send JSON with Content-Type: application/json.")
    shown = _shown(fault.get("input"))
    # a message never holds a secret, nor what was given in its place
    got = "" if "secret" in where or "secret" in shown else f" (got {shown})"
    return UsageError(f"{name}: {fault['msg']}{got}.", "Correct that value.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _keys(request: Request | None, path: Sequence[Any]) -> list[str]:
    """The keys that the request's model knows at `path`; empty when that cannot be told."""
    route = request.scope.get("route") if request else None
    body = getattr(getattr(route, "dependant", None), "body_params", [])
    model = body[0].field_info.annotation if body else None
    return keys_at(model, path)
