"""Writes what the helper leaves for `headway.data`: packs, and a channel's index."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from headway.protocol import columns
from headway.rules import datasets as rules

#: a file of so many bytes and more travels in parts of that size
LARGE = 3000


def write_channel(
    folder: Path, packs: Path, files: dict[str, bytes], *, per_pack: int = 7, urls: str | None = None
) -> dict[str, Path]:
    """folder: <attempt>/node-0/data/<channel>. Returns the packs by SHA-256. urls: what stands before their names."""
    folder.mkdir(parents=True)
    packs.mkdir(parents=True, exist_ok=True)
    paths = sorted(files, key=rules.order)
    small = [path for path in paths if len(files[path]) < LARGE]
    places: dict[str, tuple[str, int, int]] = {}
    held: dict[str, Path] = {}
    for start in range(0, len(small), per_pack):
        held |= _pack(packs, {p: files[p] for p in small[start : start + per_pack]}, places)
    builder = columns.Builder()
    for path in paths:
        sha256 = hashlib.sha256(files[path]).hexdigest()
        if path in places:
            pack, size, offset = places[path]
            builder.add(path, len(files[path]), sha256, builder.number(pack, size), offset)
            continue
        numbers = []
        for at in range(0, len(files[path]), LARGE):
            part = files[path][at : at + LARGE]
            name = hashlib.sha256(part).hexdigest()
            held[name] = packs / name
            held[name].write_bytes(part)
            numbers.append(builder.number(name, len(part)))
        builder.add_parts(path, len(files[path]), sha256, numbers)
    builder.write(str(folder / columns.FILE))
    tell(folder, held, urls)
    return held


def tell(folder: Path, held: dict[str, Path], urls: str | None = None) -> None:
    """sources.json"""
    said = {sha256: {"url": f"{urls}/{path.name}"} if urls else {"path": str(path)} for sha256, path in held.items()}
    whole = {"name": folder.name, "version": 3, "root": None, "packs": said, "expires": None}
    (folder / "sources.new").write_text(json.dumps(whole))
    (folder / "sources.new").replace(folder / "sources.json")


def _pack(packs: Path, files: dict[str, bytes], places: dict[str, tuple[str, int, int]]) -> dict[str, Path]:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    sha256 = hashlib.sha256(whole.getbuffer()).hexdigest()
    (packs / f"{sha256}.tar").write_bytes(whole.getbuffer())
    with tarfile.open(packs / f"{sha256}.tar") as tar:
        for member in tar:
            places[member.name] = (sha256, len(whole.getbuffer()), member.offset_data)
    return {sha256: packs / f"{sha256}.tar"}


def some_files(count: int, size: int = 40) -> dict[str, bytes]:
    """Images of three classes, by name alone."""
    return {
        f"{'abc'[n % 3]}/{n:04d}.jpg": hashlib.sha256(str(n).encode()).digest() * (size // 32 + 1) for n in range(count)
    }
