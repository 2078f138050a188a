"""OpenStack Swift with its S3 gateway, all of it on loopback: run by the Python that Debian's packages are for.

    /usr/bin/python3 swift_all_in_one.py FOLDER PROXY_PORT

Four processes: proxy (with s3api and tempauth), account, container and object server, one copy of everything, a
dictionary for memcached. FOLDER gets rings, configuration and data. All of it ends when standard input does, however
that came.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from time import monotonic
from typing import Any

PR_SET_PDEATHSIG = 1
DEVICE = "d0"
#: account "test"; the administrator may all, the reader what a bucket's ACL gives to everybody
USERS = "user_test_tester = testing .admin\nuser_test_reader = reading"

SWIFT = "[swift-hash]\nswift_hash_path_suffix = headway\n[storage-policy:0]\nname = only\ndefault = yes\n"

SERVER = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}/data
mount_check = false
fallocate_reserve = 0
disable_fallocate = true
log_level = WARNING
"""

STORAGE = """[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

PROXY = """[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck memory listing_formats s3api tempauth bulk slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
error_suppression_interval = 0
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:memory]
paste.filter_factory = swift_all_in_one:memory_factory
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
"""


class Memory:
    """What the one proxy process remembers, in place of memcached."""

    def __init__(self) -> None:
        #: key -> value and when it ends
        self._kept: dict[str, tuple[Any, float]] = {}

    def get(self, key: str, **_: Any) -> Any:
        value, until = self._kept.get(key, (None, 0.0))
        return value if monotonic() < until else None

    def set(self, key: str, value: Any, time: float = 0, **_: Any) -> None:  # the name is Swift's
        self._kept[key] = (value, monotonic() + (time or 3600))

    def delete(self, key: str, **_: Any) -> None:
        self._kept.pop(key, None)

    def incr(self, key: str, delta: int = 1, time: float = 0, **_: Any) -> int:
        count = max(0, int(self.get(key) or 0) + delta)
        self.set(key, count, time)
        return count


def memory_factory(_: dict[str, str], **__: str) -> Any:
    """The WSGI filter that gives requests the proxy's memory."""
    memory = Memory()

    def wrap(app: Any) -> Any:
        def call(environment: dict[str, Any], start: Any) -> Any:
            environment["swift.cache"] = memory
            return app(environment, start)

        return call

    return wrap


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_ring(folder: Path, kind: str, port: int) -> None:
    """The file that says where things of a kind lie: all on our one device."""
    from swift.common.ring import RingBuilder  # type: ignore[import-not-found]

    builder: Any = RingBuilder(4, 1, 1)
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": port, "device": DEVICE})
    builder.rebalance(seed=1)
    builder.get_ring().save(str(folder / f"{kind}.ring.gz"))


def configure(folder: Path, proxy_port: int) -> None:
    """Writes the four servers' configuration and the rings."""
    import getpass

    (folder / "data" / DEVICE).mkdir(parents=True)
    (folder / "swift.conf").write_text(SWIFT)
    base = {"user": getpass.getuser(), "folder": folder}
    (folder / "proxy.conf").write_text(SERVER.format(port=proxy_port, **base) + PROXY + USERS + "\n")
    for kind in ("account", "container", "object"):
        port = free_port()
        make_ring(folder, kind, port)
        text = SERVER.format(port=port, **base) + STORAGE.format(kind=kind)
        (folder / f"{kind}.conf").write_text(text)


def end_with_parent() -> None:
    """Has the kernel kill this process when the one that forked it ends (Swift's servers leave its session)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(folder: Path, kind: str) -> None:
    """One of the servers, until it is killed."""
    end_with_parent()
    from swift.common.wsgi import run_wsgi  # type: ignore[import-not-found]

    run_wsgi(str(folder / f"{kind}.conf"), f"{kind}-server", verbose=True)


def main(folder: Path, proxy_port: int) -> None:
    # these are tests: what a crash of the machine would lose does not matter
    os.fsync = os.fdatasync = lambda fd: None
    import swift.common.utils  # type: ignore[import-not-found]

    swift.common.utils.SWIFT_CONF_FILE = str(folder / "swift.conf")
    configure(folder, proxy_port)
    for kind in ("account", "container", "object", "proxy"):
        if os.fork() == 0:
            try:
                serve(folder, kind)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
