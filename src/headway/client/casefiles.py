"""Cases on the user's disk: a file in YAML, JSON, JSONL or CSV, or a folder with a file for each."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from headway.errors import UsageError
from headway.rules.casefile import Placed, distinct, from_lines, from_list, from_table

_LISTS = (".yaml", ".yml", ".json")


def load_yaml(file: Path) -> Any:
    """What a YAML file holds. Raises UsageError with one sentence."""
    return _yaml(text(file), str(file))


def _yaml(content: str, name: str) -> Any:
    import yaml

    try:
        return yaml.load(content, _loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{name}, line {mark.line + 1}" if mark else name
        said = [getattr(error, "context", None), getattr(error, "problem", None)] if mark else [str(error)]
        words = " ".join(" ".join(str(part) for part in said if part).split())
        raise UsageError(f"{where} is not YAML: {words}.", "Correct that line.") from None
    except (ValueError, RecursionError) as error:
        # a date such as 2024-13-01, or lists without end
        raise UsageError(f"{name} is not YAML: {error}.", "Correct that value, or write it in quotes.") from None


def _json(content: str, name: str) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}, line {error.lineno} is not JSON: {error.msg}.", "Correct that line.") from None
    except RecursionError as error:
        raise UsageError(f"{name} is not JSON: {error}.", "Make it flatter.") from None


def _loader() -> Any:
    import yaml

    # the loader in C is several times as fast as the other
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    return distinct(placed(path, name))


def placed(path: Path, name: str) -> list[Placed]:
    """The cases of `read`, each with where it stands; an id may be there twice. Raises UsageError."""
    if path.is_dir():
        return _folder(path, name)
    content = text(path)
    if path.suffix == ".jsonl":
        return from_lines(content, name)
    if path.suffix == ".csv":
        return from_table(content, name)
    return from_list(_loaded(path, content, name), name, _Lines(content, name).place)


def _loaded(path: Path, content: str, name: str) -> Any:
    return _json(content, name) if path.suffix == ".json" else _yaml(content, name)


class _Lines:
    """Where the cases of a list in YAML or JSON begin. Looked at again only when there is an error to tell."""

    def __init__(self, content: str, name: str) -> None:
        self._content = content
        self._name = name

    def place(self, number: int, key: str) -> str:
        """Of the key of case `number`, or of the case where it has no such key ("": of the case)."""
        node = self._case(number)
        if node is None:
            return f"{self._name}: cases[{number}]"
        keys = [at for at, _ in node.value if at.value == key] if isinstance(node.value, list) and key else []
        return f"{self._name}, line {(keys[0] if keys else node).start_mark.line + 1}"

    def _case(self, number: int) -> Any:
        import yaml

        try:
            node = yaml.compose(self._content, _loader())
        except (yaml.YAMLError, RecursionError):  # JSON need not be YAML
            return None
        if isinstance(node, yaml.MappingNode):
            node = next((value for at, value in node.value if at.value == "cases"), None)
        return node.value[number] if isinstance(node, yaml.SequenceNode) and number < len(node.value) else None


def _folder(path: Path, name: str) -> list[Placed]:
    """A case for each file, hidden ones aside: of YAML or JSON what it holds, its name the id if it says none; of text
    the input `text`; of any other the inputs `file`, its path as the worker finds it, and `sha256`."""
    found: list[Placed] = []
    for file in sorted(path.rglob("*")):
        below = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in below.parts):
            where = f"{name.rstrip('/')}/{below}"
            found += _of_file(file, "-".join(below.with_suffix("").parts), where)
    if not found:
        raise UsageError(f"{name} holds no cases.", "Put a file for each case into it.")
    return found


def _of_file(file: Path, usual: str, where: str) -> list[Placed]:
    if file.suffix in _LISTS:
        content = text(file)
        raw = _loaded(file, content, where)
        if isinstance(raw, dict) and "cases" not in raw:
            return from_list([{"id": usual, **raw}], where, lambda number, key: where)
        return from_list(raw, where, _Lines(content, where).place)
    inputs = {"text": text(file).strip()} if file.suffix == ".txt" else {"file": where, "sha256": _sha256(file)}
    return from_list([{"id": usual, "inputs": inputs}], where, lambda number, key: where)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
