"""Parquet: one row a file, with the columns path, bytes, label and sha256."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.client.convert.member import Member
from headway.errors import UsageError

ending = ".parquet"
#: a value of a column is held whole, by every reader
largest: int | None = 1 << 30
#: bytes of files that make a row group; readers hold one
_GROUP = 32 << 20
_COLUMNS = ("path", "bytes", "sha256")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet needs the package pyarrow.", "Install it: pip install pyarrow.") from None
    return pyarrow


class ParquetWriter:
    def __init__(self, path: Path) -> None:
        self._pa = pa = _pyarrow()
        text = pa.string()
        self._schema = pa.schema([("path", text), ("bytes", pa.binary()), ("label", text), ("sha256", text)])
        # contents are mostly compressed already, and each is another one
        self._writer = pa.parquet.ParquetWriter(
            path, self._schema, compression="none", use_dictionary=["label"], write_statistics=["path"]
        )
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def add(self, member: Member) -> None:
        content = b"".join(member.pieces)
        row = {"path": member.path, "bytes": content, "label": member.label or None, "sha256": member.sha256}
        self._rows.append(row)
        self._size += len(content) + len(member.path)
        if self._size >= _GROUP:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(self._pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._size = [], 0

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


write = ParquetWriter


def read(path: Path) -> Iterator[Member]:
    pa = _pyarrow()
    try:
        with pa.parquet.ParquetFile(path, buffer_size=1 << 20) as file:
            _check_columns(path, set(file.schema_arrow.names))
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                # a few rows at once, by how long they are on average
                rows = max(1, min(1000, _GROUP * group.num_rows // max(1, group.total_byte_size)))
                for batch in file.iter_batches(rows, row_groups=[number], columns=columns):
                    yield from map(_member, batch.to_pylist())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", "Get the file again, or make it anew.") from None


def _check_columns(path: Path, names: set[str]) -> None:
    if not {"path", "bytes"} <= names:
        raise UsageError(
            f"{path} has no columns path and bytes, only {', '.join(sorted(names)) or 'none'}.",
            "Unpack what `headway dataset pack` wrote, or give such columns.",
        )


def _member(row: dict[str, Any]) -> Member:
    path, content = row["path"], row["bytes"]
    if not isinstance(path, str) or not isinstance(content, bytes):
        raise ValueError(f"path {path!r} is no text, or bytes are none")
    return Member(path, len(content), row.get("sha256"), iter([content]))
