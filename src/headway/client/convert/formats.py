"""The formats by name, and by the endings of files."""

from __future__ import annotations

from pathlib import Path

from headway.client.convert import parquet, tfrecord, webdataset
from headway.client.convert.member import Format
from headway.errors import UsageError

FORMATS: dict[str, Format] = {"webdataset": webdataset, "tfrecord": tfrecord, "parquet": parquet}
_ENDINGS = {
    **dict.fromkeys((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"), "webdataset"),
    **dict.fromkeys((".tfrecord", ".tfrecords"), "tfrecord"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}


def format_of(path: Path) -> Format:
    """By the ending of its name. Raises UsageError for another one."""
    for ending, name in _ENDINGS.items():
        if path.name.casefold().endswith(ending):
            return FORMATS[name]
    raise UsageError(f"{path} has none of the endings {', '.join(_ENDINGS)}.", "Name it by what it is.")
