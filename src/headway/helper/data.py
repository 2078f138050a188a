"""A run's data: in place before the user process starts, by the mode that was asked for; let go when it has ended."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.errors import FailedError, HeadwayError
from headway.helper.inplace import check_in_place
from headway.helper.rate import Rate
from headway.helper.streams import Stream, Streams
from headway.helper.voice import Voice
from headway.protocol import events, identity, layout, names
from headway.rules.datasets import Mode
from headway.rules.units import render_size
from headway.storage.cache import Cache, Limits, Pin, Unit
from headway.storage.cache.fill import Filled, fetch, fill
from headway.storage.cache.place import place
from headway.storage.cache.told import tell
from headway.storage.cache.wanted import holders, units
from headway.storage.full import TargetFullError, from_oserror
from headway.storage.manifests import Manifest, open_manifest
from headway.storage.objects import MissingObjectError, ObjectStore, open_access
from headway.storage.probe import probe
from headway.storage.verify import InvalidError

#: in a folder that was to hold files and holds none
README = "README-headway-stream.txt"
_WHY = """The files of {name} did not fit on this machine:
{why}
They are not here. `headway.data("{channel}")` reads them from the store, one after another, without a copy.
"""


class Data:
    """Of one attempt on one node. `prepare` may be done again, by a helper that takes over."""

    def __init__(self, plan: Mapping[str, Any], launch: Mapping[str, Any], attempt: Path, voice: Voice) -> None:
        index = int(os.environ.get(names.NODE_RANK) or 0)
        nodes = launch.get("nodes") or [{}]
        self._root, self._name = Path(plan["root"]), str(nodes[index].get("name") or os.uname().nodename)
        self._voice, self._uses = voice, plan["datasets"]
        self._node = attempt / layout.node(index)
        #: where DATA_PATH points
        self._seen = self._node / "files" if len(nodes) > 1 else attempt / "data"
        self._stores = [open_access(access, _path(plan.get("secret_key"))) for access in plan["stores"]]
        self.cache = Cache(Path(plan["cache"]), Limits.from_json(plan.get("cache_limits")))
        self._attempt = attempt.name
        self._warm = (launch.get("environment") or {}).get(names.WARM) == "1"
        self._streams = Streams(voice)
        self._pin = self._pinned(f"{self._attempt}.{index}")

    def _pinned(self, name: str) -> Pin | None:
        """None: the cache cannot be used at all."""
        try:
            return Pin(self.cache.folder, name, identity.of(os.getppid()))
        except OSError as error:
            self._warn(f"the cache {self.cache.folder} cannot be used ({error.strerror}); all is fetched for this run")
            return None

    def prepare(self) -> None:
        """Raises FailedError naming the dataset, and whatever else hinders."""
        for use in self._uses:
            name = f"{use['name']}@{use['version']}"
            store = self._stores[use["store"]]
            try:
                manifest = open_manifest(store, use["project"], use["digest"])
                self._prepare(use, name, store, manifest)
            except MissingObjectError as error:
                raise _broken(name, f"the store has no object {error.key}.") from error
            except InvalidError as error:
                raise _broken(name, error.reason) from error
        self._streams.keep()
        if self._pin is not None:
            tell(self._root, self._name, self.cache)

    def finish(self) -> None:
        """The run has ended: nothing of its data stays but what the cache keeps."""
        self._streams.stop()
        for folder in ("data", "overflow", "places"):
            shutil.rmtree(self._node / folder, ignore_errors=True)
        if self._pin is not None:
            self.cache.leave(self._pin)
            tell(self._root, self._name, self.cache)

    def _prepare(self, use: Mapping[str, Any], name: str, store: ObjectStore, manifest: Manifest) -> None:
        mode, channel = Mode(use.get("mode") or "cache"), str(use["channel"])
        stream = Stream(store, use, manifest, self._node / "data" / channel)
        if mode is Mode.LINK:
            folder = check_in_place(str(use.get("source") or ""), manifest, name)
            self._show(channel, folder)
            self._streams.write(stream, root=self._seen / channel)
            self._voice.log(f"data {name} is read in place from {folder}")
        elif mode is Mode.STREAM:
            self._stream(use, name, store, stream)
        elif not self._cached(name, channel, store, manifest, stream):
            self._streams.write(stream)

    # -- stream

    def _stream(self, use: Mapping[str, Any], name: str, store: ObjectStore, stream: Stream) -> None:
        with contextlib.suppress(FileExistsError):
            (self._seen / str(use["channel"])).mkdir(parents=True)
        held = self._whole_packs(name, store, stream) if self._pin is not None else {}
        self._streams.write(stream, held=held)
        self._voice.log(f"data {name} is read by headway.data, {len(held)} of {len(stream.packs)} packs from the cache")

    def _whole_packs(self, name: str, store: ObjectStore, stream: Stream) -> dict[str, Path]:
        """Packs and parts that lie in the cache as they are, by SHA-256: fetched only where the run is to warm it."""
        assert self._pin is not None
        wanted = list(stream.packs.values())
        if not self._warm:
            wanted = [u for u in wanted if self.cache.unit(u.name).holds(u.contents[0])]
        if wanted:
            self._fill(name, store, wanted)
        places = {u.name: self.cache.unit(u.name) for u in wanted}
        return {u.name: places[u.name].content(u.name) for u in wanted if places[u.name].holds(u.contents[0])}

    # -- cache

    def _cached(self, name: str, channel: str, store: ObjectStore, manifest: Manifest, stream: Stream) -> bool:
        """False: nothing has room for the files; they are to be streamed."""
        wanted = units(stream.project, manifest.rows())
        left = self._fill(name, store, wanted).left if self._pin is not None else wanted
        try:
            aside = self._fetch_aside(name, store, left) if left else {}
            folder = self._place(channel, manifest, aside)
        except TargetFullError as full:
            self._degrade(name, channel, full, wanted)
            return False
        self._show(channel, folder)
        self._streams.write(stream, root=self._seen / channel)
        return True

    def _fill(self, name: str, store: ObjectStore, wanted: list[Unit]) -> Filled:
        assert self._pin is not None
        self.cache.pin(self._pin, wanted)
        rate = Rate(name, sum(len(u.contents) for u in wanted), sum(u.bytes for u in wanted))
        with rate.told(self._voice):
            filled = fill(self.cache, store, wanted, rate.add)
        again = f", {filled.corrupt} of them in place of damaged ones" if filled.corrupt else ""
        self._voice.log(
            f"data {name}: {filled.hits:,} files ({render_size(filled.hit_bytes)}) were in the cache, "
            f"{filled.misses:,} ({render_size(filled.miss_bytes)}) were fetched{again}; {rate.whole()}"
        )
        return filled

    def _fetch_aside(self, name: str, store: ObjectStore, left: list[Unit]) -> dict[str, Path]:
        """What the cache has no room for, into the attempt's own folder; SHA-256 -> file. Raises TargetFullError."""
        folder = self._node / "overflow"
        lacking = [(u, self.cache.unit(u.name).missing(u.contents)) for u in left]
        size, files = sum(c.bytes for _, cs in lacking for c in cs), sum(len(cs) for _, cs in lacking)
        self._warn(
            f"data {name}: the cache has no room for {files:,} files ({render_size(size)}), fetched for this run"
        )
        with _full(folder):
            probe(folder, bytes=size, files=files, write=False)
            for unit, contents in lacking:
                missing = [c for c in contents if not (folder / c.sha256).exists()]
                for _ in fetch(store, unit, missing, folder):
                    pass
        return {c.sha256: folder / c.sha256 for _, contents in lacking for c in contents}

    def _place(self, channel: str, manifest: Manifest, aside: Mapping[str, Path]) -> Path:
        """The folder with the files: in the cache's file system, or where that is full in the attempt's folder."""

        def files() -> Iterator[tuple[str, Path]]:
            for path, unit, sha256 in holders(manifest.rows()):
                yield path, aside.get(sha256) or self.cache.unit(unit).content(sha256)

        own = self._node / "places" / channel
        if self._pin is not None:
            folder = self.cache.place(self._attempt) / channel
            try:
                place(folder, files())
                return folder
            except OSError as error:
                if from_oserror(error, folder) is None:
                    raise
        with _full(own):
            place(own, files())
        return own

    def _degrade(self, name: str, channel: str, full: TargetFullError, wanted: list[Unit]) -> None:
        self._warn(f"data {name} is streamed: {full.message} Its files are not in DATA_PATH; headway.data reads them")
        shutil.rmtree(self._node / "overflow", ignore_errors=True)
        if self._pin is not None:
            with contextlib.suppress(OSError):
                self._pin.drop(u.name for u in wanted)
        with contextlib.suppress(OSError):
            (self._seen / channel).mkdir(parents=True, exist_ok=True)
            text = _WHY.format(name=name, channel=channel, why=f"{full.message} {full.remedy}")
            (self._seen / channel / README).write_text(text, encoding="utf-8")

    # -- what the run sees

    def _show(self, channel: str, folder: Path) -> None:
        link(folder, self._seen / channel)

    def _warn(self, text: str) -> None:
        self._voice.log(f"WARNING: {text}")
        self._voice.event(events.WARNING, message=text)


def link(folder: Path, into: Path) -> None:
    """Makes `into` a symbolic link to `folder`, at once, in place of another link or an empty folder."""
    into.parent.mkdir(parents=True, exist_ok=True)
    if into.is_dir() and not into.is_symlink():
        # another helper may be at it too
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            into.rmdir()
    temporary = into.with_name(f".{into.name}.{os.getpid()}.{os.urandom(3).hex()}.tmp")
    temporary.symlink_to(folder)
    os.replace(temporary, into)


@contextlib.contextmanager
def _full(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if (full := from_oserror(error, folder)) is None:
            raise
        raise full from error


def _broken(name: str, why: str) -> HeadwayError:
    return FailedError(f"Dataset {name}: {why}", f"Run `headway dataset verify {name}`.")


def _path(text: Any) -> Path | None:
    return Path(text) if text else None
