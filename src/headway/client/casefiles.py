"""Cases on the user's disk: a file in YAML, JSON, JSONL or CSV, or a folder with a file for each."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.rules.casefile import distinct, parse_cases, parse_lines, parse_table

_LISTS = (".yaml", ".yml", ".json")


def load_yaml(file: Path) -> Any:
    """What a YAML file holds. Raises UsageError with one sentence."""
    import yaml

    # the loader in C is several times as fast as the other
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text(file), loader)
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}.", "Correct that line.") from None


def text(file: Path) -> str:
    """Raises UsageError."""
    try:
        # with or without the mark that spreadsheets put first
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist.", "Correct the path.", code="missing_file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file}, line {line} is not UTF-8.", "Save the file as UTF-8, and try again.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}.", "Give the path of a text file.") from None


def read(path: Path, name: str) -> list[dict[str, Any]]:
    """The cases in a file or folder. name: what it is called where it is named, for errors. Raises UsageError."""
    if path.is_dir():
        return _folder(path, name)
    if path.suffix == ".jsonl":
        return parse_lines(text(path), name)
    if path.suffix == ".csv":
        return parse_table(text(path), name)
    return parse_cases(load_yaml(path), name)


def _folder(path: Path, name: str) -> list[dict[str, Any]]:
    """A case for each file, hidden ones aside: of YAML or JSON what it holds, its name the id if it says none; of text
    the input `text`; of any other the inputs `file`, its path as the worker finds it, and `sha256`."""
    found = []
    for file in sorted(path.rglob("*")):
        below = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in below.parts):
            where = f"{name.rstrip('/')}/{below}"
            found += [(where, case) for case in _of_file(file, "-".join(below.with_suffix("").parts), where)]
    if not found:
        raise UsageError(f"{name} holds no cases.", "Put a file for each case into it.")
    return distinct(found, name)


def _of_file(file: Path, usual: str, where: str) -> list[dict[str, Any]]:
    if file.suffix in _LISTS:
        raw = load_yaml(file)
        one = isinstance(raw, dict) and "cases" not in raw
        return parse_cases([{"id": usual, **raw}] if one else raw, where)
    inputs = {"text": text(file).strip()} if file.suffix == ".txt" else {"file": where, "sha256": _sha256(file)}
    return [{"id": usual, "inputs": inputs, "parameters": {}, "tags": []}]


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
