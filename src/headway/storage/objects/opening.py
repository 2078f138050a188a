"""From a URL and a connection to a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headway.errors import UsageError
from headway.storage.objects.base import ObjectStore
from headway.storage.objects.cloud import ObstoreStore
from headway.storage.objects.folder import FolderStore

#: scheme -> kind of the connection it takes
KINDS = {"s3": "s3", "s3a": "s3", "oss": "oss", "obs": "obs", "gs": "gcs", "az": "azure", "azure": "azure"}
#: of a cloud whose buckets are reached by S3's protocol at its own hosts
_ENDPOINTS = {"oss": "https://s3.oss-{region}.aliyuncs.com", "obs": "https://obs.{region}.myhuaweicloud.com"}
#: where the credentials of a cloud stand when no connection gives them
_VARIABLES = {
    "oss": ("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_SESSION_TOKEN", "OSS_ENDPOINT", "OSS_REGION"),
    "obs": ("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY", "OBS_SECURITY_TOKEN", "OBS_ENDPOINT", "OBS_REGION"),
}
#: a retry has an end: whoever waits can say so, and try the whole again
_MOST_RETRIES, _RETRY_SECONDS = 5, 60


def open_objects(url: str) -> ObjectStore:
    """The store that `url` names: file:///FOLDER (or an absolute path), s3://BUCKET/PREFIX, oss://, obs://, gs://,
    az://, memory:///.

    Credentials, region and endpoint of a cloud store come from its usual variables (AWS_ACCESS_KEY_ID,
    AWS_ENDPOINT_URL, OSS_ACCESS_KEY_ID, ...). Raises UsageError for a URL that names no store.
    """
    return open_access({"url": url}, None)


def open_access(access: Mapping[str, Any], secret_key: Path | None) -> ObjectStore:
    """The store that an access names, as launch plans carry it.

    access: {"url", "connection": {"kind", "endpoint", "region", "options"} | None, "secret": sealed text | None}.
    secret_key: file with the key that opens the secret. Raises UsageError for a URL that names no store, for a
    connection of another kind, and for a secret that this key does not open.
    """
    url, connection = str(access["url"]), access.get("connection")
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderStore(Path(unquote(parts.path)))
    if not parts.scheme and url.startswith("/"):
        return FolderStore(Path(url))
    if parts.scheme == "memory":
        from obstore.store import MemoryStore

        return ObstoreStore(MemoryStore())
    kind = KINDS.get(parts.scheme)
    if kind is None or not parts.netloc:
        raise UsageError(f"{url!r} names no object store.", "Write file:///FOLDER or s3://BUCKET/PREFIX.")
    if connection is None and kind in _VARIABLES:
        connection, secret = _from_variables(kind)
    else:
        secret = _secret(access, secret_key)
    if connection is not None and connection["kind"] != kind:
        raise UsageError(
            f"{url!r} needs a connection of kind {kind}, and this one is of kind {connection['kind']}.",
            "Name another connection, or correct the URL.",
        )
    try:
        return _open(url, connection, secret)
    except UsageError:
        raise
    except Exception as error:
        # the constructor's text may hold what it was given
        reason = "its URL or its options are not understood" if secret else str(error).partition("\n")[0]
        raise UsageError(f"The object store {url!r} cannot be opened: {reason}.", "Correct the URL.") from None


def _secret(access: Mapping[str, Any], key: Path | None) -> dict[str, str]:
    sealed = access.get("secret")
    if not sealed:
        return {}
    if key is None:
        raise UsageError("A connection's secret needs headway's key to be read.", "Give the setting secret_key.")
    from headway.storage.secrets import unseal

    return unseal(str(sealed), key)


def _from_variables(kind: str) -> tuple[dict[str, Any], dict[str, str]]:
    key, secret, token, endpoint, region = (os.environ.get(name) for name in _VARIABLES[kind])
    if not key or not secret:
        raise UsageError(
            f"{kind}:// needs credentials.",
            f"Name a connection, or set {_VARIABLES[kind][0]} and {_VARIABLES[kind][1]}.",
        )
    given = {"access_key_id": key, "secret_access_key": secret} | ({"session_token": token} if token else {})
    return {"kind": kind, "endpoint": endpoint, "region": region, "options": {}}, given


def _client(connection: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the HTTP client and of retries; see obstore's ClientConfig and RetryConfig."""
    from datetime import timedelta

    endpoint, options = str(connection.get("endpoint") or ""), connection.get("options") or {}
    # no limit for a whole request: a large object over a thin line takes its time, a stalled one does not move
    client: dict[str, Any] = {"timeout": "1 day", "read_timeout": "60s", "connect_timeout": "10s"}
    if endpoint.startswith("http://"):
        client["allow_http"] = True
    if options.get("ca"):
        client["root_certificate"] = options["ca"]
    retry = {"max_retries": _MOST_RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    return {"client_options": client, "retry_config": retry}


def _open(url: str, connection: Mapping[str, Any] | None, secret: Mapping[str, str]) -> ObjectStore:
    from obstore.store import from_url

    parts = urlsplit(url)
    if connection is None:
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        found = from_url(url, **_client({"endpoint": endpoint}))
        # the bucket's own host where no endpoint is given
        host = urlsplit(endpoint).netloc or f"{parts.netloc}.s3.amazonaws.com"
        signs = parts.scheme in ("s3", "s3a")
        return ObstoreStore(found, _name(parts.netloc, parts.scheme, endpoint), host if signs else None)
    if connection["kind"] in ("s3", "oss", "obs"):
        return _open_s3(url, connection, secret)
    keys = {"gcs": ("service_account_key",), "azure": ("account_name", "account_key", "sas_token")}
    given: dict[str, Any] = {k: secret[k] for k in keys[connection["kind"]] if k in secret}
    if connection["kind"] == "azure" and connection.get("endpoint"):
        given["endpoint"] = connection["endpoint"]
    opened: Any = from_url
    found = opened(url, config=given, **_client(connection))
    return ObstoreStore(found, _name(parts.netloc, parts.scheme, connection.get("endpoint") or ""))


def _open_s3(url: str, connection: Mapping[str, Any], secret: Mapping[str, str]) -> ObjectStore:
    from obstore.store import S3Store

    parts, kind, region = urlsplit(url), connection["kind"], connection.get("region") or ""
    options = connection.get("options") or {}
    endpoint = str(connection.get("endpoint") or "").rstrip("/")
    if not endpoint and kind in _ENDPOINTS:
        if not region:
            raise UsageError(f"A connection to {kind} needs its region or its endpoint.", "Give one of them.")
        endpoint = _ENDPOINTS[kind].format(region=region)
    if not endpoint:
        region = region or "us-east-1"
        endpoint = f"https://s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
    virtual = options.get("style", "virtual" if kind in _ENDPOINTS else "path") == "virtual"
    if virtual:
        scheme, _, rest = endpoint.partition("://")
        endpoint = f"{scheme}://{parts.netloc}.{rest}"
    config: dict[str, Any] = {
        "bucket": parts.netloc,
        "region": region or "us-east-1",
        # both: the second one would else come from a variable, and win
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "virtual_hosted_style_request": virtual,
        # not every server has S3's request for many at once
        "disable_bulk_delete": True,
    }
    if secret:
        # a provider: keys and a session token of the environment do not mix in
        found = {"access_key_id": secret["access_key_id"], "secret_access_key": secret["secret_access_key"]}
        held = {**found, "token": secret.get("session_token"), "expires_at": None}
        config["credential_provider"] = lambda: dict(held)
    else:
        config["skip_signature"] = True
    prefix = unquote(parts.path.strip("/")) or None
    store = S3Store(prefix=prefix, **config, **_client({**connection, "endpoint": endpoint}))
    return ObstoreStore(store, _name(parts.netloc, parts.scheme, endpoint), urlsplit(endpoint).netloc)


def _name(bucket: str, scheme: str, endpoint: str) -> str:
    host = urlsplit(endpoint).netloc
    return f"{scheme}://{bucket}" + (f" at {host}" if host else "")
