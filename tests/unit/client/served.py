"""A version behind a real HTTP server: the routes that a reader of versions asks, honouring ranges."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from headway.client.contents import Version
from headway.client.transport import Transport
from headway.rules.datasets import order

#: files from here on go in parts
LARGE, PART = 100_000, 40_000


@dataclass
class Served:
    files: dict[str, bytes]
    packs: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    #: paths of the requests for bytes, with their ranges
    asked: list[tuple[str, str]] = field(default_factory=list)
    #: requests for bytes that are answered; the connections of others are cut
    patience: int = 1_000_000
    ignores_ranges: bool = False
    page: int = 7

    def __post_init__(self) -> None:
        """Packs of two files, or one larger one, each."""
        small: list[tuple[str, bytes]] = []
        places: dict[str, tuple[str, int]] = {}
        for path, content in sorted(self.files.items(), key=lambda item: order(item[0])):
            if len(content) < LARGE and _sha(content) not in places:
                small.append((path, content))
                places[_sha(content)] = ("", 0)
        for start in range(0, len(small), 5):
            self._pack(small[start : start + 5], places)
        for path, content in sorted(self.files.items(), key=lambda item: order(item[0])):
            row: dict[str, object] = {"path": path, "bytes": len(content), "sha256": _sha(content)}
            if len(content) < LARGE:
                row["pack"], row["offset"] = places[_sha(content)]
            else:
                cut = [content[at : at + PART] for at in range(0, len(content), PART)]
                self.parts |= {_sha(part): part for part in cut}
                row["parts"] = [[_sha(part), len(part)] for part in cut]
            self.rows.append(row)

    def _pack(self, files: list[tuple[str, bytes]], places: dict[str, tuple[str, int]]) -> None:
        made, offsets = io.BytesIO(), {}
        with tarfile.open(fileobj=made, mode="w") as tar:
            for path, content in files:
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
                offsets[_sha(content)] = tar.offset - -(-len(content) // 512) * 512
        name = _sha(made.getvalue())
        self.packs[name] = made.getvalue()
        places.update({sha256: (name, offset) for sha256, offset in offsets.items()})

    @property
    def digest(self) -> str:
        return _sha(json.dumps(self.rows).encode())

    @property
    def bytes(self) -> int:
        return sum(map(len, self.files.values()))


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def version(served: Served) -> Iterator[Version]:
    """Reads it as `digits@1`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # an answer goes out whole
        wbufsize = 1 << 20

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            at = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(at.query).items()}
            match [unquote(p) for p in at.path.split("/")][5:]:
                case ["datasets", "digits", "versions", "1", "files"]:
                    paths = [row["path"] for row in served.rows]
                    start = paths.index(query["after"]) + 1 if "after" in query else 0
                    rows = served.rows[start : start + served.page]
                    more = start + served.page < len(paths)
                    body = {
                        "files": [[r["path"], r["bytes"], r["sha256"]] for r in rows],
                        "after": rows[-1]["path"] if more else None,
                    }
                    self._answer(200, json.dumps(body).encode())
                case ["datasets", "digits", "versions", "1", "places"]:
                    start = int(query["page"]) * served.page
                    body = {
                        "page": int(query["page"]),
                        "pages": -(-len(served.rows) // served.page),
                        "rows": served.rows[start : start + served.page],
                    }
                    self._answer(200, json.dumps(body).encode())
                case ["datasets", "digits", "versions", "1", "content"]:
                    self._bytes(served.files[query["path"]])
                case ["packs", sha256]:
                    self._bytes(served.packs[sha256])
                case ["parts", sha256]:
                    self._bytes(served.parts[sha256])

        def _bytes(self, content: bytes) -> None:
            asked = self.headers["Range"]
            served.asked.append((self.path, asked))
            if len(served.asked) > served.patience:
                self.close_connection = True
                return
            start, end = (int(n) for n in asked.removeprefix("bytes=").split("-"))
            if served.ignores_ranges:
                self._answer(200, content)
            else:
                self._answer(206, content[start : end + 1])

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    transport = Transport(f"http://127.0.0.1:{server.server_port}", "token", patience=0.2)
    try:
        yield Version(transport, "default", "digits", 1)
    finally:
        transport.close()
        server.shutdown()
        thread.join()
        server.server_close()


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
