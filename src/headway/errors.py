"""Every error that headway raises on purpose.

    HeadwayError
    ├── UsageError          exit 2   http 422   the request itself is wrong: unknown key, wrong unit, missing file
    ├── RefusedError        exit 3   http 409   understood, and refused: quota, capacity, a port in use, a newer home
    │   └── ForbiddenError  exit 3   http 403   the caller's role does not allow it
    ├── UnauthorizedError   exit 3   http 401   no token, or one that is wrong, revoked or expired
    ├── NotFoundError       exit 4   http 404   no such thing (or none that the caller may see)
    ├── UnreachableError    exit 5   http 503   the server does not answer
    └── FailedError         exit 1   http 500   the work was tried and failed

An error is a stable `code`, one sentence of what is wrong with the offending value, and one of what to do.
"""

from __future__ import annotations


class HeadwayError(Exception):
    """The root. `code` is stable for programs; `message` and `remedy` are one sentence each for people."""

    #: exit code of the CLI
    exit_code = 1
    #: status of the API
    status = 500
    #: code when the raiser names none
    default_code = "failed"

    def __init__(self, message: str, remedy: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code or self.default_code

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()

    def as_dict(self) -> dict[str, str]:
        """The one shape that errors have on the wire, under the key `error`."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy}


class UsageError(HeadwayError):
    exit_code, status, default_code = 2, 422, "usage"


class RefusedError(HeadwayError):
    exit_code, status, default_code = 3, 409, "refused"


class ForbiddenError(RefusedError):
    exit_code, status, default_code = 3, 403, "forbidden"


class UnauthorizedError(HeadwayError):
    exit_code, status, default_code = 3, 401, "unauthorized"


class NotFoundError(HeadwayError):
    exit_code, status, default_code = 4, 404, "not_found"


class UnreachableError(HeadwayError):
    exit_code, status, default_code = 5, 503, "unreachable"


class FailedError(HeadwayError):
    exit_code, status, default_code = 1, 500, "failed"


def from_answer(status: int, error: dict[str, str]) -> HeadwayError:
    """The error that an API answer carries, as the client raises it.

    status: the HTTP status; error: the object under `error`. An unknown status becomes `FailedError`.
    """
    kind: type[HeadwayError]
    for kind in (ForbiddenError, UsageError, RefusedError, UnauthorizedError, NotFoundError, UnreachableError):
        if kind.status == status:
            break
    else:
        kind = FailedError
    return kind(
        error.get("message", f"The server answered {status}."), error.get("remedy", ""), code=error.get("code", "")
    )
