"""What `headway.data` reads of a channel: the manifest, and where each pack is to be had, kept valid while a run lives.

<attempt>/node-<i>/data/<channel>/index.json     the manifest's root
                                  rows.gz        its rows
                                  sources.json   {"root": folder with the files | null, "packs": {SHA-256 of a pack
                                                 or part: {"path"} | {"url"}}, "expires": seconds | null, ...}
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import FailedError
from headway.helper.voice import Voice
from headway.protocol.files import write_json, write_whole
from headway.storage import layout
from headway.storage.cache import Unit
from headway.storage.cache.wanted import whole
from headway.storage.manifests import Manifest, Writer
from headway.storage.objects import ObjectStore

#: how long a URL is good; it is replaced when half of that is over
URL_SECONDS = 4 * 3600


class Stream:
    """One channel's."""

    def __init__(self, store: ObjectStore, use: Mapping[str, Any], manifest: Manifest, folder: Path) -> None:
        self.store, self.use, self.manifest, self.folder = store, use, manifest, folder
        self.project = str(use["project"])
        self.held: Mapping[str, Path] = {}
        self.root: Path | None = None
        #: SHA-256 of packs and parts -> each as a unit of the cache
        self.packs: dict[str, Unit] = {
            p.sha256: whole(self._key(p.kind, p.sha256), p.sha256, p.bytes, f"{p.kind} {p.sha256[:12]}")
            for p in manifest.packs
        }

    def _key(self, kind: str, sha256: str) -> str:
        return (layout.pack_key if kind == layout.PACK else layout.part_key)(self.project, sha256)

    def sources(self, now: float) -> dict[str, Any]:
        """Raises FailedError when the store can neither be read as a folder nor give URLs."""
        said: dict[str, Any] = {"name": self.use["name"], "version": self.use["version"]}
        if self.root is not None:
            return {**said, "root": str(self.root), "packs": {}, "expires": None}
        packs, signed = dict[str, dict[str, str]](), False
        for sha256, unit in self.packs.items():
            key = unit.objects[0][0]
            if path := self.held.get(sha256) or self.store.local(key):
                packs[sha256] = {"path": str(path)}
            elif url := self.store.sign_get(key, URL_SECONDS):
                packs[sha256], signed = {"url": url}, True
            else:
                raise FailedError(
                    f"Dataset {self.use['name']} cannot be streamed: its store gives no URLs.",
                    "Ask for it without `:stream`.",
                )
        return {**said, "root": None, "packs": packs, "expires": now + URL_SECONDS if signed else None}


@dataclass
class Streams:
    """All of a run's on one node."""

    voice: Voice
    _signed: list[Stream] = field(default_factory=list)
    _done: threading.Event = field(default_factory=threading.Event)

    def write(self, stream: Stream, *, root: Path | None = None, held: Mapping[str, Path] | None = None) -> None:
        """root: the files are there; held: packs that are in the cache. Raises FailedError, OSError."""
        stream.root, stream.held = root, held or {}
        sources = stream.sources(time.time())
        stream.folder.mkdir(parents=True, exist_ok=True)
        write_index(stream)
        write_json(stream.folder / "sources.json", sources)
        if sources["expires"] is not None:
            self._signed.append(stream)

    def keep(self) -> None:
        """From now on URLs are replaced before they end."""
        if self._signed:
            threading.Thread(target=self._renew, name="urls", daemon=True).start()

    def stop(self) -> None:
        self._done.set()

    def _renew(self) -> None:
        while not self._done.wait(URL_SECONDS / 2):
            for stream in self._signed:
                try:
                    write_json(stream.folder / "sources.json", stream.sources(time.time()))
                except Exception as error:
                    self.voice.log(f"WARNING: the URLs of {stream.use['name']} could not be renewed: {error}")


def write_index(stream: Stream) -> None:
    """index.json and rows.gz: copies, or made anew of a manifest of before there were pages."""
    store, digest = stream.store, stream.manifest.digest
    rows, key = stream.folder / "rows.gz", layout.rows_key(stream.project, digest)
    rows.unlink(missing_ok=True)
    if store.head(key) is not None:
        store.fetch(key, rows)
        write_whole(stream.folder / "index.json", store.get_bytes(layout.root_key(stream.project, digest)))
        return
    with open(rows, "xb") as out:
        writer = Writer(out)
        for row in stream.manifest.rows():
            assert row.pack is not None  # large files came with the pages
            number = writer.number(layout.PACK, row.pack, stream.packs[row.pack].bytes)
            writer.add((row.path, row.bytes, row.sha256), number, row.offset or 0)
        write_json(stream.folder / "index.json", writer.root(stream.manifest.created))
