"""What goes wrong at a store over a network, told apart by what a person does about it.

obstore tells faults as text: the HTTP status, the store's own answer in XML or the system's reason. Only the store's
code and the status go into a fault; the rest may hold keys, signatures and addresses.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from enum import Enum

from headway.errors import RefusedError
from headway.storage.full import TargetFullError
from headway.storage.objects.base import MissingObjectError


class Fault(str, Enum):
    WRONG_KEY = "wrong_key"
    EXPIRED = "expired"
    NOT_ALLOWED = "not_allowed"
    NO_BUCKET = "no_bucket"
    CLOCK = "clock"
    #: no such host name
    NO_HOST = "no_host"
    REFUSED = "refused"
    TLS = "tls"
    #: something answers there, but not such a store
    ENDPOINT = "endpoint"
    REGION = "region"
    STYLE = "style"
    #: it may pass by itself
    TROUBLE = "trouble"


_SAYS: dict[Fault, tuple[str, str]] = {
    Fault.WRONG_KEY: ("{store} does not accept the key: {detail}.", "Correct the connection's key ID and secret."),
    Fault.EXPIRED: ("The session token for {store} has expired.", "Give the connection a new token."),
    Fault.NOT_ALLOWED: ("{store} does not allow this key to {doing}.", "Give the key that right, or use another key."),
    Fault.NO_BUCKET: ("{store} has no such bucket.", "Make the bucket, or correct its name in the URL."),
    Fault.CLOCK: (
        "The clock of this machine differs too much from the clock of {store}.",
        "Set this machine's clock (NTP).",
    ),
    Fault.NO_HOST: ("The host of {store} cannot be found.", "Correct the connection's endpoint, or the name service."),
    Fault.REFUSED: ("Nothing answers at {store}.", "Start the store, or correct host and port of the endpoint."),
    Fault.TLS: (
        "No secure connection to {store} can be made.",
        "Write http:// in the endpoint if it has no TLS, or give the connection its certificate authority.",
    ),
    Fault.ENDPOINT: ("{store} does not answer as such a store does ({detail}).", "Correct the connection's endpoint."),
    Fault.REGION: ("{store} lies in another region ({detail}).", "Correct the connection's region."),
    Fault.STYLE: (
        "{store} wants the bucket's name in the host name.",
        "Set the connection's style to virtual.",
    ),
    Fault.TROUBLE: ("{store} could not {doing}: {detail}.", "Try again; see the store's own state if it stays so."),
}

_BY_CODE: dict[str, Fault] = {
    **dict.fromkeys(("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidAccessKey"), Fault.WRONG_KEY),
    **dict.fromkeys(("AuthorizationHeaderMalformed", "IncorrectEndpoint", "PermanentRedirect"), Fault.REGION),
    **dict.fromkeys(("ExpiredToken", "InvalidToken", "SecurityTokenExpired", "InvalidSecurityToken"), Fault.EXPIRED),
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden"), Fault.NOT_ALLOWED),
    **dict.fromkeys(("NoSuchBucket", "InvalidBucketName", "ContainerNotFound"), Fault.NO_BUCKET),
    "RequestTimeTooSkewed": Fault.CLOCK,
    "SecondLevelDomainForbidden": Fault.STYLE,
}
_FULL_CODES = {"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}
#: what the system says of a connection that does not come about, in lower case
_BY_REASON: tuple[tuple[str, Fault], ...] = (
    ("dns error", Fault.NO_HOST),
    ("failed to lookup", Fault.NO_HOST),
    ("certificate", Fault.TLS),
    ("corrupt message", Fault.TLS),
    ("invalidcontenttype", Fault.TLS),
    ("invalid message", Fault.TLS),
    ("connection refused", Fault.REFUSED),
    ("unreachable", Fault.REFUSED),
)

_CODE = re.compile(r"<Code>\s*([A-Za-z0-9._-]{1,80})\s*</Code>|\(code: ([A-Za-z0-9._-]{1,80})\)")
_STATUS = re.compile(r"status code: (\d{3})")


class StoreFault(RefusedError):
    """A store that does not do what it is asked. `fault` says why; `doing` what it was asked ("write an object")."""

    def __init__(self, fault: Fault, store: str, doing: str, detail: str = "") -> None:
        message, remedy = _SAYS[fault]
        said = message.format(store=store, doing=doing, detail=detail or "no reason is given")
        super().__init__(said, remedy, code=f"store_{fault.value}")
        self.fault = fault
        self.store = store
        self.doing = doing
        self.detail = detail

    @property
    def passing(self) -> bool:
        """Whether it may pass by itself, with nothing changed by anybody."""
        return self.fault in (Fault.TROUBLE, Fault.REFUSED, Fault.NO_HOST)


def code_of(error: BaseException) -> str:
    """The store's own word for what is wrong; "" when it gave none."""
    found = _CODE.search(str(error))
    return (found.group(1) or found.group(2)) if found else ""


def status_of(error: BaseException) -> int | None:
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else None


def fault_of(error: BaseException, store: str, doing: str) -> StoreFault | TargetFullError:
    """What obstore's `error` stands for. store: how people know it; doing: "list objects"."""
    code, status = code_of(error), status_of(error)
    if code in _FULL_CODES or status == 507:
        return TargetFullError("over_quota", store, f"{store} takes no more: {code or f'status {status}'}.")
    if code in _BY_CODE:
        return StoreFault(_BY_CODE[code], store, doing, code)
    if status is None:
        text = str(error).lower()
        for said, fault in _BY_REASON:
            if said in text:
                return StoreFault(fault, store, doing)
        return StoreFault(Fault.TROUBLE, store, doing, "the connection failed")
    detail = f"status {status} {code}".strip()
    if status in (401, 403):
        return StoreFault(Fault.NOT_ALLOWED, store, doing, detail)
    if status >= 500 or status in (408, 429):
        return StoreFault(Fault.TROUBLE, store, doing, detail)
    return StoreFault(Fault.ENDPOINT, store, doing, detail)


def missing_of(error: FileNotFoundError, store: str, doing: str, key: str) -> StoreFault | MissingObjectError:
    """What it is that obstore did not find: `key`, or the bucket; `key` "" is always the bucket."""
    if not key or code_of(error) == "NoSuchBucket":
        return StoreFault(Fault.NO_BUCKET, store, doing)
    return MissingObjectError(key)


@contextlib.contextmanager
def faults_of(store: str, doing: str, key: str = "") -> Iterator[None]:
    """Inside, what obstore raises becomes a StoreFault, a TargetFullError, or for `key` a MissingObjectError."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        raise missing_of(error, store, doing, key) from None
    except BaseError as error:
        # obstore's text is not passed on: it may hold what is nobody's business
        raise fault_of(error, store, doing) from None
