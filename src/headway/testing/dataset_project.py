"""A project whose data lies in a store of the test's choice, a real api before it, and lines to cut or hold."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from headway.client import Client
from headway.client.pushing.entries import Choice
from headway.client.pushing.progress import Progress
from headway.client.transport import Transport
from headway.rules import datasets as rules
from headway.rules.access import Role
from headway.services import connections, storage
from headway.services.context import Services
from headway.storage import layout, secrets
from headway.storage.manifests import open_manifest
from headway.storage.objects import ObjectStore, open_access
from headway.store.base import Store
from headway.testing.api import Api, serve
from headway.testing.proxies import Proxy, proxy
from headway.testing.s3servers import S3Server
from headway.testing.services import caller, open_services
from headway.wire.datasets import DatasetVersionView, VerifyView
from headway.wire.storage import ConnectionRequest, StorageRequest

#: sizes in place of the real ones, so that a little data fills several packs and parts
PACK, LARGE, PART = 256 << 10, 128 << 10, 256 << 10

#: a part of headway with these sizes, as its supervisor starts it
_PART_OF_HEADWAY = """
import sys
from headway.rules import datasets as rules
rules.PACK_BYTES, rules.LARGE_BYTES, rules.PART_BYTES = map(int, sys.argv[1:4])
from headway import bootstrap
sys.exit(bootstrap.main(sys.argv[4:]))
"""


@dataclass
class Project:
    """One project. Its api and an S3 server are reached through lines: proxies that tests cut and hold."""

    api: Api
    name: str
    token: str
    #: its store, past all lines
    store: ObjectStore
    home: Path
    api_line: Proxy
    #: None: the store is a folder
    store_line: Proxy | None
    client: Client
    #: what the last push said
    notes: list[str] = field(default_factory=list)
    told: list[Progress] = field(default_factory=list)

    @property
    def line(self) -> Proxy:
        """The one that bodies of a push go over."""
        return self.store_line or self.api_line

    @property
    def transport(self) -> Transport:
        return self.client.transport

    def push(self, source: Path | str, name: str = "digits", **choice: bool) -> DatasetVersionView:
        self.notes.clear()
        self.told.clear()
        return self.client.datasets.push(
            name, source, choice=Choice(**choice), progress=self.told.append, notes=self.notes.append
        )

    def begin_push(self, source: Path, name: str = "digits") -> subprocess.Popen[bytes]:
        """`headway dataset push`, in a process that may be killed."""
        words = ["--project", self.name, "dataset", "push", str(source), name]
        address = {"HEADWAY_URL": self.api_line.url, "HEADWAY_TOKEN": self.token, "HEADWAY_HOME": str(self.home)}
        return subprocess.Popen(
            [sys.executable, "-m", "headway", *words],
            env={**os.environ, **address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def verify(self, version: int, name: str = "digits", sample: float | None = None) -> VerifyView:
        path = f"/projects/{self.name}/datasets/{name}/versions/{version}/verify"
        return VerifyView.model_validate(self.transport.call("POST", path, body={"sample": sample}, timeout=600))

    def numbers(self, name: str = "digits") -> list[int]:
        """The versions that are seen."""
        if name not in {d.name for d in self.client.datasets.ls()}:
            return []
        return [v.version for v in self.client.datasets.versions(name)]

    def key(self, key: str) -> str:
        return f"projects/{self.name}/{key}"

    def keys(self, folder: str = "") -> list[str]:
        """Of what lies in one of the project's folders ("packs", "parts", "manifests", "datasets"); "" is all."""
        return list(self.store.list(self.key(folder).rstrip("/")))

    def packs(self) -> dict[str, bytes]:
        """The packs that are whole, by key."""
        return {key: self.store.get_bytes(key) for key in self.keys("packs") if key.endswith(".tar")}

    def arrived(self) -> int:
        """Bytes of packs and parts that are whole in the store."""
        found = [s for folder in ("packs", "parts") for s in self.store.details(self.key(folder))]
        return sum(s.bytes for s in found if not s.key.endswith(".json"))

    def contents(self, digest: str) -> dict[str, bytes]:
        """What the store holds of a version, by path, each content where the manifest places it."""
        found = {}
        read = functools.cache(self.store.get_bytes)
        for row in open_manifest(self.store, self.name, digest).rows():
            if row.pack is None:
                found[row.path] = b"".join(read(layout.part_key(self.name, p)) for p, _ in row.parts)
            else:
                start = row.offset or 0
                found[row.path] = read(layout.pack_key(self.name, row.pack))[start : start + row.bytes]
            assert hashlib.sha256(found[row.path]).hexdigest() == row.sha256
        return found


@contextmanager
def served(home: Path, record: Store) -> Iterator[Api]:
    """A real api over a fresh record, by the real clock."""
    with serve(replace(open_services(home, record), clock=time.time)) as api:
        yield api


@contextmanager
def made(api: Api, home: Path, server: S3Server | None) -> Iterator[Project]:
    """A project of its own with a fresh place in the server, or in a folder below `home`."""
    name, ctx = f"p{uuid4().hex[:10]}", api.ctx
    with ctx.store.begin() as tx:
        tx.people.add_project(name=name, now=ctx.clock())
    caller(ctx, "mia", Role.MEMBER, name)
    token = api.token("mia")
    with ExitStack() as stack:
        api_line = stack.enter_context(proxy(api.url))
        store_line = stack.enter_context(proxy(server.endpoint)) if server else None
        if server is None or store_line is None:
            store = _folder(ctx, name, home / "store")
        else:
            store = _bucket(ctx, name, server, store_line.url)
        client = stack.enter_context(Client(api_line.url, token, project=name, patience=60))
        yield Project(api, name, token, store, home, api_line, store_line, client)


def _folder(ctx: Services, name: str, folder: Path) -> ObjectStore:
    url = f"file://{folder}"
    storage.use(ctx, caller(ctx, "admin"), name, StorageRequest(url=url))
    return open_access({"url": url}, None)


def _bucket(ctx: Services, name: str, server: S3Server, endpoint: str) -> ObjectStore:
    url, admin = server.url, caller(ctx, "admin")
    secret = {"access_key_id": server.key_id, "secret_access_key": server.secret}
    given = {"kind": "s3", "endpoint": endpoint, "region": server.region, "secret": secret}
    connections.put(ctx, admin, name, ConnectionRequest.model_validate(given))
    storage.use(ctx, admin, name, StorageRequest(url=url, connection=name))
    assert ctx.secret_key is not None
    access = {"url": url, "connection": server.connection, "secret": secrets.seal(secret, ctx.secret_key)}
    return open_access(access, ctx.secret_key)


@contextmanager
def api_process(
    project: Project, sizes: tuple[int, int, int] = (PACK, LARGE, PART)
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A further api over the project's record, in a process of its own that may be killed, and its URL.

    sizes: bytes of a pack, of the smallest large file, of a part.
    """
    engine = project.api.ctx.store.engine
    root = Path(project.api.ctx.root)
    settings = {
        "HEADWAY_HOME": str(root.parent),
        "HEADWAY_ROOT": str(root),
        "HEADWAY_DATABASE": engine.url.render_as_string(hide_password=False),
        "HEADWAY_OBJECTS": project.api.ctx.objects_url,
    }
    said, told = os.pipe()
    lifeline, held = os.pipe()
    with socket_of_its_own() as (listener, url):
        words = [*map(str, sizes), "api", "--ready-fd", str(told), "--lifeline-fd", str(lifeline)]
        process = subprocess.Popen(
            [sys.executable, "-c", _PART_OF_HEADWAY, *words, "--listen-fd", str(listener)],
            env={**os.environ, **settings},
            pass_fds=(told, lifeline, listener),
        )
    os.close(told)
    os.close(lifeline)
    try:
        with open(said, "rb") as ready:
            assert json.loads(ready.readline() or b"{}").get("ready"), "the api did not start"
        yield process, url
    finally:
        os.close(held)
        process.wait(20)


@contextmanager
def socket_of_its_own() -> Iterator[tuple[int, str]]:
    """A listening socket to hand over, and the URL that it is reached by."""
    from headway import asgi

    with asgi.listen("127.0.0.1", 0) as listener:
        yield listener.fileno(), f"http://127.0.0.1:{listener.getsockname()[1]}"


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Makes the folder with these files."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def in_order(files: Mapping[str, bytes]) -> list[str]:
    return sorted(files, key=rules.order)
