"""The settings and where each came from: flags > HEADWAY_* variables > HOME/config.yaml > defaults.

Standard library only (PyYAML is loaded when there is a config.yaml), because the supervisor keeps this in memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.protocol import hints
from headway.rules.regions import check_region

DEFAULT_PORT = 8400

#: what may be set, with one sentence each; `home` alone cannot stand in the file
KEYS: dict[str, str] = {
    "home": "Folder with headway's state.",
    "root": "Shared root: attempts, outputs, checkpoints. Every node must see it at the same path.",
    "database": "sqlite:///PATH or postgresql://USER@HOST/NAME.",
    "objects": "Object store: file:///PATH or s3://BUCKET/PREFIX.",
    "host": "Address that the public port is bound to.",
    "port": "The public port.",
    "currency": "Currency of prices and bills.",
    "region": "Region that this platform's folders and its nodes' caches lie in, such as cn-hangzhou.",
    "cache": "Folder on each node for fetched data.",
    "cache_bytes": "Most bytes that the cache of a node holds, such as 200GiB; without it a share of its file system.",
    "cache_high": "Share of the file system (or of cache_bytes) above which the cache is emptied, 0 to 1.",
    "cache_low": "Share down to which it is then emptied, least recently used first.",
    "node_file": "YAML file that declares nodes and accelerators instead of finding them.",
    "prices": "Spot prices: a CSV or JSON file, or an http(s) URL; without it spot costs what on-demand does.",
}


@dataclass(frozen=True)
class Settings:
    home: Path
    root: Path
    database: str
    objects: str
    host: str
    port: int
    currency: str
    cache: Path
    cache_bytes: int | None
    cache_high: float
    cache_low: float
    node_file: Path | None
    #: path or URL
    prices: str | None = None
    #: "" is not known
    region: str = ""

    @property
    def cache_limits(self) -> dict[str, Any]:
        """As launches and `storage.cache` have them."""
        return {"bytes": self.cache_bytes, "high": self.cache_high, "low": self.cache_low}

    @property
    def hints(self) -> Path:
        return hints.folder(self.home)

    @property
    def lock_file(self) -> Path:
        """Held (flock) by the one supervisor of this home."""
        return self.home / "lock"

    @property
    def up_file(self) -> Path:
        """Written by a running supervisor: `{"url", "host", "port", "pid", "identity", "started", "parts"}`."""
        return self.home / "up.json"

    @property
    def admin_token_file(self) -> Path:
        return self.home / "admin.token"

    @property
    def gateway_token_file(self) -> Path:
        return self.home / "gateway.token"

    @property
    def secret_key_file(self) -> Path:
        """The key that opens connections' secrets, made on the first start."""
        return self.home / "secret.key"

    @property
    def log_folder(self) -> Path:
        return self.home / "log"


@dataclass(frozen=True)
class Loaded:
    settings: Settings
    #: key -> "flag", "HEADWAY_PORT", "/home/x/.headway/config.yaml" or "default"
    sources: dict[str, str]


def load(flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Loaded:
    """The settings of this process.

    flags: values from the command line; None counts as not given. environment: `os.environ` when None.
    Raises UsageError for an unknown key (with the nearest known one) or a value of the wrong kind.
    """
    environment = os.environ if environment is None else environment
    given = {k: v for k, v in (flags or {}).items() if v is not None}
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def settle(key: str, default: Any, filed: Mapping[str, Any], file: Path | None) -> Any:
        variable = f"HEADWAY_{key.upper()}"
        if key in given:
            values[key], sources[key] = given[key], "flag"
        elif environment.get(variable):
            values[key], sources[key] = environment[variable], variable
        elif key in filed:
            values[key], sources[key] = filed[key], str(file)
        else:
            values[key], sources[key] = default, "default"
        return values[key]

    home = Path(settle("home", ".headway", {}, None)).expanduser().absolute()
    file = home / "config.yaml"
    filed = _read(file)
    root = _path("root", settle("root", home / "root", filed, file), sources["root"])
    settle("database", f"sqlite:///{home / 'headway.db'}", filed, file)
    settle("objects", f"file://{root / 'objects'}", filed, file)
    settle("host", "127.0.0.1", filed, file)
    settle("port", DEFAULT_PORT, filed, file)
    settle("currency", "USD", filed, file)
    settle("cache", home / "cache", filed, file)
    settle("cache_bytes", None, filed, file)
    settle("cache_high", 0.8, filed, file)
    settle("cache_low", 0.6, filed, file)
    default_nodes = home / "nodes.yaml"
    settle("node_file", default_nodes if default_nodes.exists() else None, filed, file)
    settle("prices", None, filed, file)
    settle("region", "", filed, file)
    settings = Settings(
        home=home,
        root=root,
        database=str(values["database"]),
        objects=str(values["objects"]),
        host=str(values["host"]),
        port=_port(values["port"], sources["port"]),
        currency=str(values["currency"]),
        cache=_path("cache", values["cache"], sources["cache"]),
        cache_bytes=_bytes("cache_bytes", values["cache_bytes"], sources["cache_bytes"]),
        cache_high=_share("cache_high", values["cache_high"], sources["cache_high"]),
        cache_low=_share("cache_low", values["cache_low"], sources["cache_low"]),
        node_file=_node_file(values["node_file"], sources["node_file"]),
        prices=_prices(values["prices"], sources["prices"]),
        region=check_region(str(values["region"])) if values["region"] else "",
    )
    if settings.cache_low > settings.cache_high:
        raise UsageError(
            f"cache_low {settings.cache_low:g} is above cache_high {settings.cache_high:g}.", "Give it a smaller share."
        )
    return Loaded(settings, sources)


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Make it readable, or move it away.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text.", "Write it as UTF-8.") from error
    import yaml

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}.", "Correct that line.") from error
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UsageError(
            f"{file} holds a {type(raw).__name__}, not keys with values.", "Write lines like `port: 8400`."
        )
    known = [k for k in KEYS if k != "home"]
    for key in raw:
        if key not in known:
            from headway.rules.nearest import unknown

            raise unknown("key", str(key), known, str(file))
    return raw


def _port(value: Any, source: str) -> int:
    try:
        port = int(value)
    except (TypeError, ValueError):
        port = -1
    if isinstance(value, bool) or not 0 <= port <= 65535:
        raise UsageError(
            f"port {value!r} ({source}) is no port.", "Give a number from 1 to 65535, or 0 for a free one."
        )
    return port


def _path(key: str, value: Any, source: str) -> Path:
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise UsageError(f"{key} {value!r} ({source}) is no path.", "Give the path of a folder.")
    return Path(value).expanduser().absolute()


def _bytes(key: str, value: Any, source: str) -> int | None:
    if value is None:
        return None
    from headway.rules.units import parse_size

    size = parse_size(value, f"{key} ({source})")
    if size <= 0:
        raise UsageError(f"{key} {value!r} ({source}) is no room at all.", "Give a size such as 200GiB.")
    return size


def _share(key: str, value: Any, source: str) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 < share <= 1:
        raise UsageError(f"{key} {value!r} ({source}) is no share.", "Give a number above 0, up to 1.")
    return share


def _node_file(value: Any, source: str) -> Path | None:
    if value is None:
        return None
    path = _path("node_file", value, source)
    if not path.is_file():
        raise UsageError(f"node_file {str(value)!r} ({source}) is no file.", "Give the path of a YAML file of nodes.")
    return path


def _prices(value: Any, source: str) -> str | None:
    if value is None or str(value).startswith(("http://", "https://")):
        return None if value is None else str(value)
    path = _path("prices", value, source)
    if not path.is_file():
        raise UsageError(f"prices {str(value)!r} ({source}) is no file.", "Give a CSV or JSON file, or an http(s) URL.")
    return str(path)


def flags_of(settings: Settings) -> dict[str, str]:
    """The environment that gives another headway process exactly these settings."""
    plain = {
        "home": settings.home,
        "root": settings.root,
        "database": settings.database,
        "objects": settings.objects,
        "host": settings.host,
        "port": settings.port,
        "currency": settings.currency,
        "cache": settings.cache,
        "cache_bytes": settings.cache_bytes,
        "cache_high": settings.cache_high,
        "cache_low": settings.cache_low,
        "node_file": settings.node_file,
        "prices": settings.prices,
        "region": settings.region or None,
    }
    return {f"HEADWAY_{k.upper()}": str(v) for k, v in plain.items() if v is not None}
