"""The index beside an evaluation's outputs: `index.jsonl`, one line a cell, and the same as a table in `index.parquet`.

The lines are enough to rebuild the record of the cells. The table is made from them, by a process of its own
(`python -m headway.storage.indexes FOLDER`): what reads and writes tables is large, and nobody else needs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.storage.full import TargetFullError
from headway.storage.publish import publish_bytes

INDEX = "index.jsonl"
TABLE = "index.parquet"
#: exit status when the table cannot be written because its place is full
FULL = 75
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def publish(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Publishes `index.jsonl` in `folder`; no quota counts it. Raises TargetFullError, or OSError.

    rows: of `store.Evaluations.index`. `path` in them is under the root, or absolute.
    """
    import orjson

    lines = [
        orjson.dumps(
            {**row, "scores": orjson.Fragment(row["scores"]), "outputs": orjson.Fragment(row["outputs"])},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for row in rows
    ]
    # never empty: an empty file is what a full disk leaves
    publish_bytes(b"".join(lines) or b"\n", folder / INDEX, kind="file")


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of the index. Raises OSError, and ValueError for one that is no line of an index."""
    with open(folder / INDEX, encoding="utf-8") as file:
        for text in filter(str.strip, file):
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError(f"{folder / INDEX} has a line that is no object")
            yield found


def stale(folder: Path) -> bool:
    """Whether there is an index whose table is not made yet, or is older. False where that cannot be seen."""
    try:
        made = (folder / INDEX).stat().st_mtime_ns
    except OSError:
        return False
    try:
        return (folder / TABLE).stat().st_mtime_ns < made
    except OSError:
        return True


def made(folder: Path) -> float:
    """When the index was written, in seconds since the epoch; 0 where there is none to be seen."""
    try:
        return (folder / INDEX).stat().st_mtime
    except OSError:
        return 0.0


def start_table(folder: Path) -> subprocess.Popen[bytes]:
    """Starts making the table; its exit status is 0, `FULL`, or another one with a sentence on stderr."""
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "headway.storage.indexes", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        close_fds=True,
    )


def write_table(folder: Path) -> None:
    """Publishes `index.parquet` from `index.jsonl`: a column `score.NAME` for each score, lists as JSON texts.

    Raises TargetFullError, OSError, ValueError.
    """
    import pyarrow
    import pyarrow.parquet

    rows = list(read(folder))
    text, number, count = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    types = {
        **dict.fromkeys(("cell", "job", "checkpoint_id", "repeat", "bytes", "files", "ran", "tries"), count),
        **dict.fromkeys(("checkpoint", "sha256", "row", "case", "key", "state", "path", "publication"), text),
        **dict.fromkeys(("score", "seconds", "ended_at"), number),
        **dict.fromkeys(("reason", "cause"), text),
    }
    columns = {name: pyarrow.array([row.get(name) for row in rows], kind) for name, kind in types.items()}
    columns["outputs"] = pyarrow.array([_ENCODE(row.get("outputs") or []) for row in rows], text)
    for name in sorted({name for row in rows for name in row.get("scores") or {}}):
        values = [_number((row.get("scores") or {}).get(name)) for row in rows]
        columns[f"score.{name}"] = pyarrow.array(values, number)
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    publish_bytes(sink.getvalue().to_pybytes(), folder / TABLE, kind="file")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def main(arguments: list[str]) -> int:
    try:
        write_table(Path(arguments[0]))
    except TargetFullError as full:
        print(full.message, file=sys.stderr)
        return FULL
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
