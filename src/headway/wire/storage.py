"""Where projects keep their data: connections, storage URLs, checks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr

from headway.wire.base import Answer, Request

ConnectionKind = Literal["s3", "oss", "obs", "gcs", "azure"]
ConnectionName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$")]


class ConnectionRequest(Request):
    """A connection as it is to be. Without a secret, one that is there keeps the secret it has."""

    kind: ConnectionKind
    #: URL of the service, without the bucket: "http://minio.lan:9000"; "" is the cloud's own
    endpoint: str = Field(default="", max_length=2048)
    region: str = Field(default="", max_length=64)
    #: "style": "path" or "virtual" (the bucket's name in the host name); "ca": certificates to trust, as PEM
    options: dict[Literal["style", "ca"], str] = {}
    #: s3, oss, obs: access_key_id, secret_access_key, session_token; gcs: service_account_key; azure: account_name,
    #: account_key, sas_token. It never comes back.
    secret: dict[str, SecretStr] | None = None


class ConnectionView(Answer):
    name: str
    kind: ConnectionKind
    endpoint: str
    region: str
    options: dict[str, Any]
    #: whether it has one
    secret: bool
    #: projects whose data lies behind it
    projects: list[str]
    created_at: datetime
    changed_at: datetime


class StorageRequest(Request):
    """Where a project's data is to lie; what is left out stays."""

    #: file:///FOLDER, s3://BUCKET/PREFIX, oss://, obs://, gs://, az://; "" is the platform's own
    url: str | None = Field(default=None, max_length=2048)
    #: name; "" is none
    connection: str | None = None
    #: that data may lie in; [] is any
    regions: list[str] | None = None


class StorageView(Answer):
    project: str
    #: None: the platform's own
    url: str | None
    connection: str | None
    #: of the store; "" is not known
    region: str
    #: that the project's data may lie in; [] is any
    regions: list[str]
    #: why the data may not lie where it does; "" when it may
    refused: str = ""


class StorageCheckRequest(Request):
    #: "" is where the project's data lies
    url: str = Field(default="", max_length=2048)
    connection: str | None = None


class StorageLine(Answer):
    """One thing that was tried."""

    #: "reach", "list", "write", "read back", "range", "delete", "sign", "clock", "space"
    what: str
    ok: bool
    #: what was found, and what it means
    says: str
    #: what to do about it; "" when nothing
    remedy: str = ""


class StorageCheckView(Answer):
    url: str
    #: whether a project can keep its data there
    ok: bool
    lines: list[StorageLine]
