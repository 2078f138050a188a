"""What `headway.data` reads of a channel: the manifest, and where each pack is to be had, kept valid while a run lives.

<attempt>/node-<i>/data/<channel>/columns        the manifest's rows: see `protocol.columns`
                                  sources.json   {"root": folder with the files | null, "packs": {SHA-256 of a pack
                                                 or part: {"path", "checked": its bytes were looked at when they came
                                                 to this node} | {"url"}}, "expires": seconds | null, ...}
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
from headway.protocol import columns
from headway.protocol.files import write_json
from headway.storage import layout
from headway.storage.cache import Unit
from headway.storage.cache.wanted import whole
from headway.storage.manifests import Manifest
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
        packs, signed = dict[str, dict[str, str | bool]](), False
        for sha256, unit in self.packs.items():
            key = unit.objects[0][0]
            if held := self.held.get(sha256):
                packs[sha256] = {"path": str(held), "checked": True}
            elif path := self.store.local(key):
                packs[sha256] = {"path": str(path), "checked": False}
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
    """Raises InvalidError where the rows are not the manifest's, OSError."""
    builder = columns.Builder()
    numbers = {p.sha256: builder.number(p.sha256, p.bytes) for p in stream.manifest.packs}
    for row in stream.manifest.rows():
        if row.pack is None:
            builder.add_parts(row.path, row.bytes, row.sha256, [numbers[sha256] for sha256, _ in row.parts])
        else:
            builder.add(row.path, row.bytes, row.sha256, numbers[row.pack], row.offset or 0)
    builder.write(str(stream.folder / columns.FILE))
