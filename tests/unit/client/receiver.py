"""A server that takes pushes in, as the api does by its contract, and looks at all that it is told."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headway.client.transport import Transport
from headway.rules.datasets import digest, order, path_fault

#: small ones, so that a few files fill several
PACK, LARGE, PART = 64 << 10, 32 << 10, 16 << 10


class Receiver:
    """What a project holds. The attributes may be changed to make trouble."""

    def __init__(self) -> None:
        self.direct = False
        #: whether what is sent straight to the store is answered as a store does, with an ETag
        self.tagged = True
        self.objects: dict[str, bytes] = {}
        #: every body's name, in the order that they came
        self.bodies: list[str] = []
        self.packs: dict[str, list[str]] = {}
        self.contents: set[str] = set()
        self.large: dict[str, list[str]] = {}
        self.rows: list[list[Any]] = []
        self.versions: list[dict[str, Any]] = []
        #: called with method and path before each request; gives (status, error) to answer that instead
        self.trouble: Callable[[str, str], tuple[int, dict[str, str]] | None] = lambda method, path: None
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        with self._lock:
            trouble = self.trouble(method, path)
            if trouble:
                return trouble[0], {"error": trouble[1]}
            what = path.split("?")[0].split("/")
            if what[1] == "straight":
                self.bodies.append(what[2])
                self.objects[what[2]] = body
                return 200, None
            if method == "PUT":
                self.bodies.append(what[-1])
                self.take(what[-2][:-1], what[-1], body)
                return 200, {"sha256": what[-1], "bytes": len(body)}
            if method == "GET":
                return (200, self.versions) if self.versions else (404, {"error": {"message": "none"}})
            return 200, getattr(self, what[-1])(json.loads(body))

    def take(self, kind: str, sha256: str, body: bytes) -> None:
        assert hashlib.sha256(body).hexdigest() == sha256
        self.objects[sha256] = body
        if kind == "pack":
            with tarfile.open(fileobj=io.BytesIO(body)) as tar:
                members = tar.getmembers()
                self.packs[sha256] = [m.name for m in members]
                for m in members:
                    self.contents.add(hashlib.sha256(body[m.offset_data : m.offset_data + m.size]).hexdigest())

    def pushes(self, body: dict[str, Any]) -> dict[str, Any]:
        self.rows = []
        self.opened = body
        sizes = {"pack_bytes": PACK, "large_bytes": LARGE, "part_bytes": PART}
        return {"id": 1, "project": "default", "name": body["name"], "direct": self.direct, **sizes}

    def known(self, body: dict[str, Any]) -> dict[str, Any]:
        has = self.contents | set(self.large)
        return {
            "contents": [i for i, c in enumerate(body.get("contents", [])) if c in has],
            "parts": [i for i, c in enumerate(body.get("parts", [])) if c in self.objects],
        }

    def grants(self, body: dict[str, Any]) -> dict[str, Any]:
        (item,) = body["objects"]
        return {"urls": [None if item["sha256"] in self.objects else f"{self.url}/straight/{item['sha256']}?signed=1"]}

    def sent(self, body: dict[str, Any]) -> None:
        for item in body["objects"]:
            self.take(item["kind"], item["sha256"], self.objects[item["sha256"]])
            for sha256, offset, size in item["contents"]:
                assert hashlib.sha256(self.objects[item["sha256"]][offset : offset + size]).hexdigest() == sha256

    def add_large(self, body: dict[str, Any]) -> None:
        for file in body["files"]:
            whole = b"".join(self.objects[p] for p in file["parts"])
            assert (hashlib.sha256(whole).hexdigest(), len(whole)) == (file["sha256"], file["bytes"])
            self.large[file["sha256"]] = file["parts"]

    def add_rows(self, body: dict[str, Any]) -> None:
        self.rows[body["start"] :] = body["rows"]

    def publish(self, body: dict[str, Any]) -> dict[str, Any]:
        paths = [r[0] for r in self.rows]
        assert paths == sorted(set(paths), key=order)
        assert not any(path_fault(p) for p in paths)
        assert {r[2] for r in self.rows} <= self.contents | set(self.large)
        assert body["digest"] == digest(tuple(r) for r in self.rows)
        assert (body["files"], body["bytes"]) == (len(self.rows), sum(r[1] for r in self.rows))
        facts = {"source": self.opened["source"], "created_by": "me", "created_at": "2026-01-01T00:00:00Z"}
        version = {"name": self.opened["name"], "version": len(self.versions) + 1, **body, **facts}
        self.versions.append(version)
        return version


@contextlib.contextmanager
def receiving() -> Iterator[tuple[Receiver, Transport]]:
    receiver = Receiver()
    names = {"large": "add_large", "rows": "add_rows"}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # an answer goes out whole
        wbufsize = 1 << 20

        def do_any(self) -> None:
            path = self.path.removeprefix("/api/v1")
            last = path.rpartition("/")[2]
            if last in names:
                path = path.removesuffix(last) + names[last]
            status, found = receiver.answer(self.command, path, self._body())
            said = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            if receiver.tagged and path.startswith("/straight/"):
                self.send_header("ETag", '"tag"')
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_PUT = do_POST = do_any

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

        def log_message(self, *about: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    transport = Transport(receiver.url, "token")
    try:
        yield receiver, transport
    finally:
        transport.close()
        server.shutdown()
        server.server_close()
