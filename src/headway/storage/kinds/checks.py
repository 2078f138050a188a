"""The kinds by name, and the one check of a file by its kind and its rule."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from headway.rules.outputkinds import OUTPUT_KEYS
from headway.storage.kinds import archives, images, isolated, tensors, texts, torchfiles
from headway.storage.kinds.base import Facts, InvalidError, Rule

_NO_RULE: Rule = {}


def check(path: Path, kind: str, rule: Rule | None = None) -> Facts:
    """Facts about `path` as a file of `kind` (see KINDS) that is what `rule` asks for.

    rule: those of the keys min_bytes, width, height, frames, seconds, rate, channels, rows, columns, schema, shape and
    tolerance (of seconds) that are asked for; others are not looked at. Raises InvalidError, OSError, or ValueError:
    unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; known are {', '.join(sorted(KINDS))}")
    if not _is_plain(path):
        raise InvalidError("There is no such file." if not path.exists() else "It is not a regular file.")
    rule = rule or _NO_RULE
    least = rule.get("min_bytes")
    if least is not None and (size := path.stat().st_size) < least:
        raise InvalidError(f"It has {size} bytes; at least {least} are asked for.", unfinished=True)
    facts = KINDS[kind](path, rule)
    if rule:
        _meets(facts, kind, rule)
    return facts


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except ValueError:  # a NUL in it
        return False
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise


def kind_of(path: Path) -> str:
    """What a checkpoint with this name must be: "torch" or "safetensors"."""
    return "safetensors" if path.suffix == ".safetensors" else "torch"


def _file(path: Path, rule: Rule) -> Facts:
    if path.stat().st_size == 0:
        raise InvalidError("It is empty.", unfinished=True)
    return {}


def _any(path: Path, rule: Rule) -> Facts:
    return {}


#: kind -> its check. "file": not empty; "any": whatever it holds
KINDS: dict[str, Callable[[Path, Rule], Facts]] = {
    "torch": torchfiles.torch,
    "torch_archive": torchfiles.torch_archive,
    "safetensors": tensors.safetensors,
    "tensors": tensors.tensors,
    "image": images.image,
    "video": isolated.video,
    "audio": isolated.audio,
    "json": texts.json_file,
    "csv": texts.csv_file,
    "tar": archives.tar,
    "file": _file,
    "any": _any,
}

_WORDS = {
    "width": "It is {found} pixels wide; {asked} are asked for.",
    "height": "It is {found} pixels high; {asked} are asked for.",
    "frames": "It has {found} frames; {asked} are asked for.",
    "rows": "It has {found} rows; {asked} are asked for.",
    "channels": "It has {found} channels; {asked} are asked for.",
    "rate": "It has {found:g} {what} a second; {asked:g} are asked for.",
    "seconds": "It lasts {found:g} seconds; {asked:g} are asked for.",
}
#: of a video's rate: 29.97 may be meant as 30000/1001
_RATE = 0.001


def _meets(facts: Facts, kind: str, rule: Rule) -> None:
    for key in OUTPUT_KEYS.get(kind, ()):
        asked = rule.get(key)
        if asked is None or key not in _WORDS:
            continue
        found = facts.get(key)
        if found is None:
            raise InvalidError(f"It does not tell its {key}; {asked} is asked for.")
        slack = {"seconds": rule.get("tolerance", 0.1), "rate": _RATE * asked if kind == "video" else 0}.get(key, 0)
        if abs(found - asked) > slack:
            what = "frames" if kind == "video" else "samples"
            raise InvalidError(_WORDS[key].format(found=found, asked=asked, what=what))
