"""Where a project's data lies in its object store: the keys, one function each.

projects/<project>/packs/<sha256>.tar           small files: a tar, named by the SHA-256 of the whole of it
projects/<project>/packs/<sha256>.json          its index: {"contents": [[SHA-256, offset, bytes], ...]}, by offset
projects/<project>/parts/<sha256>               a part of a large file
projects/<project>/manifests/<digest>.json      the root of a manifest, and
projects/<project>/manifests/<digest>.rows.gz   its rows; see `storage.manifests`
projects/<project>/datasets/<name>/<version>.json   a version: {"name", "version", "digest", "files", "bytes",
                                                "parents", "created", "created_by", "source"}
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: the kinds of objects that the record knows; each is named by a SHA-256, a version by "<name>/<version>"
PACK, PART, MANIFEST, VERSION = "pack", "part", "manifest", "version"


def pack_key(project: str, sha256: str) -> str:
    return f"projects/{project}/packs/{sha256}.tar"


def index_key(project: str, sha256: str) -> str:
    return f"projects/{project}/packs/{sha256}.json"


def part_key(project: str, sha256: str) -> str:
    return f"projects/{project}/parts/{sha256}"


def root_key(project: str, digest: str) -> str:
    return f"projects/{project}/manifests/{digest}.json"


def rows_key(project: str, digest: str) -> str:
    return f"projects/{project}/manifests/{digest}.rows.gz"


def version_key(project: str, name: str, version: int) -> str:
    return f"projects/{project}/datasets/{name}/{version}.json"


def keys(project: str, kind: str, name: str) -> Sequence[str]:
    """The keys of one object of the record, in the order in which they are removed: what others are read by is last."""
    if kind == PACK:
        return pack_key(project, name), index_key(project, name)
    if kind == PART:
        return (part_key(project, name),)
    if kind == MANIFEST:
        return root_key(project, name), rows_key(project, name)
    return (f"projects/{project}/datasets/{name}.json",)


_SHA256 = re.compile(r"[0-9a-f]{64}")
#: folder below the project -> kind of what lies in it
FOLDERS = {"packs": PACK, "parts": PART, "manifests": MANIFEST, "datasets": VERSION}


def named(project: str, key: str) -> tuple[str, str] | None:
    """The (kind, name) whose key that is; None: nothing that is written here."""
    folder, _, rest = key.removeprefix(f"projects/{project}/").partition("/")
    kind = FOLDERS.get(folder)
    if kind is None:
        return None
    name = rest
    for suffix in (".tar", ".rows.gz", ".json"):
        name = name.removesuffix(suffix)
    ours = kind == VERSION or _SHA256.fullmatch(name)
    return (kind, name) if ours and key in keys(project, kind, name) else None
