"""Writes the pages of docs/reference that follow from the code: cli, api, settings, states, exit-codes.

python scripts/reference.py            writes them
python scripts/reference.py --check    exit code 1 when one is not as it would be written
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Written by scripts/reference.py; change the code, then run it again. -->\n\n"


def cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def table(columns: list[str], rows: list[list[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell(c) for c in line) + " |" for line in lines) + "\n"


def comments(path: Path) -> dict[str, str]:
    """The comment above each `NAME = ...` of a class: {"RunState.HELD": "not to be placed ..."}."""
    found: dict[str, str] = {}
    text = path.read_text(encoding="utf-8")
    owner, pending = "", []
    for line in text.splitlines():
        if match := re.match(r"class (\w+)", line):
            owner, pending = match[1], []
        elif match := re.match(r"\s+#:? ?(.*)", line):
            pending.append(match[1])
        elif match := re.match(r"\s+([A-Za-z_]\w*)\s*[:=]", line):
            if pending:
                found[f"{owner}.{match[1]}"] = " ".join(pending)
            pending = []
    return found


# -- cli


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it, in the order of `--help`."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            if not below.hidden:
                yield from commands(below, (*words, name))
    else:
        yield words, command


def option_rows(command: Any) -> list[list[object]]:
    rows: list[list[object]] = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name in ("help", "install_completion", "show_completion"):
            continue
        is_argument = parameter.param_type_name == "argument"
        if is_argument:
            shown = f"`{parameter.name.upper()}`"
        else:
            shown = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
        notes = [getattr(parameter, "help", None) or ""]
        if parameter.required:
            notes.append("Required.")
        if getattr(parameter, "multiple", False) and "may be repeated" not in notes[0]:
            notes.append("May be repeated.")
        if parameter.envvar:
            notes.append(f"Variable: `{parameter.envvar}`.")
        rows.append([shown, " ".join(n for n in notes if n)])
    return rows


def cli() -> str:
    import typer.main

    from headway.cli.app import app

    root = typer.main.get_command(app)
    parts = [
        "# Commands\n\n",
        NOTE,
        "Every listing takes `--json`. A command that starts something prints what to type next. Exit codes: see\n",
        "[exit-codes](exit-codes.md). `headway --install-completion` installs completion for your shell.\n\n",
        "Before the command:\n\n",
        table(["option", "what it does"], option_rows(root)),
    ]
    for words, command in commands(root, ("headway",)):
        arguments = " ".join(
            f"{p.name.upper()}{'...' if p.nargs == -1 else ''}" if p.required else f"[{p.name.upper()}]"
            for p in command.params
            if p.param_type_name == "argument"
        )
        parts.append(f"\n## {' '.join(words)}\n\n`{' '.join([*words, arguments]).strip()}`\n\n")
        parts.append(prose(command.help) + "\n")
        rows = option_rows(command)
        if rows:
            parts.append("\n" + table(["option", "what it does"], rows))
    return "".join(parts)


def prose(text: str | None) -> str:
    """A docstring as paragraphs."""
    blocks = (text or "").replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(block.split()) for block in blocks)


# -- api


def api() -> str:
    from headway.api.app import create_app

    spec = create_app(None).openapi()  # type: ignore[arg-type]  # the routes do not depend on the services
    parts = [
        "# HTTP API\n\n",
        NOTE,
        "All of it lies under `/api/v1` on the public port; a request carries `Authorization: Bearer TOKEN`. A\n",
        "running headway shows this list with all fields at `/api/docs`, and the OpenAPI document at\n",
        "`/api/openapi.json`.\n\n",
        'An error has one shape, `{"error": {"code", "message", "remedy"}}`, with the status of\n',
        "[its kind](exit-codes.md).\n\n",
    ]
    rows: list[list[object]] = []
    for path, methods in sorted(spec["paths"].items()):
        for method, operation in methods.items():
            what = operation.get("description") or operation.get("summary") or ""
            rows.append([method.upper(), f"`{path}`", prose(what.split("\n\n")[0])])
    return "".join([*parts, table(["method", "path", "what it does"], rows)])


# -- settings


def settings() -> str:
    from headway import config

    home = ROOT / ".headway"
    loaded = config.load({"home": home}, {}).settings
    rows: list[list[object]] = []
    for key, what in config.KEYS.items():
        value = getattr(loaded, key)
        shown = "" if value is None else str(value).replace(str(home), "HOME").replace(str(ROOT) + "/", "")
        rows.append([f"`{key}`", f"`HEADWAY_{key.upper()}`", f"`{shown}`" if shown else "", what])
    rows[0][2] = "`.headway`"
    return "".join(
        [
            "# Settings\n\n",
            NOTE,
            "A flag of `headway up` wins over a variable, a variable over `HOME/config.yaml`, the file over the\n",
            "default; `headway config show` prints every value and where it comes from. `home` alone cannot stand in\n",
            "the file. A key that does not exist is an error that names the nearest one that does.\n\n",
            table(["key", "variable", "default", "what it is"], rows),
        ]
    )


# -- states


def states() -> str:
    from headway.rules import states as module

    notes = comments(Path(module.__file__))
    parts = [
        "# States\n\n",
        NOTE,
        "Every legal move; nothing else ever happens. Whoever changes a state asks these tables first.\n",
    ]
    for title, moves in (
        ("Run", module.RUN_MOVES),
        ("Attempt", module.ATTEMPT_MOVES),
        ("Evaluation", module.EVALUATION_MOVES),
        ("Cell", module.CELL_MOVES),
        ("Model version", module.VERSION_MOVES),
        ("Endpoint", module.ENDPOINT_MOVES),
    ):
        rows: list[list[object]] = []
        for state in moves:
            later = [f"`{s.value}`" for s in type(state) if s in moves[state]]
            meaning = notes.get(f"{type(state).__name__}.{state.name}", "")
            rows.append([f"`{state.value}`", meaning, ", ".join(later) or "(the end)"])
        parts.append(f"\n## {title}\n\n" + table(["state", "meaning", "may become"], rows))
    return "".join(parts)


# -- exit codes


def exit_codes() -> str:
    from headway import errors
    from headway.protocol.causes import Cause

    kinds: list[list[object]] = []
    tree = re.findall(r"(\w+Error)\s+exit (\d)\s+http (\d+)\s+(.*)", errors.__doc__ or "")
    for name, code, status, what in tree:
        kind = getattr(errors, name)
        assert (kind.exit_code, kind.status) == (int(code), int(status)), name
        kinds.append([code, status, f"`{kind.default_code}`", what])
    # a cause without a meaning is an error here, and no empty cell
    notes = comments(Path(sys.modules[Cause.__module__].__file__ or ""))
    causes: list[list[object]] = [[f"`{c.value}`", notes[f"Cause.{c.name}"]] for c in Cause]
    return "".join(
        [
            "# Exit codes, errors and causes\n\n",
            NOTE,
            "## Of the command `headway`\n\n",
            "0 is done. Every other end prints one sentence of what is wrong and one of what to do on stderr (with\n",
            "`--json` as an object), never a traceback; `HEADWAY_DEBUG=1` shows the traceback of what should not\n",
            "happen. 130 is Ctrl-C.\n\n",
            table(["exit code", "HTTP status", "code, unless a closer one is told", "meaning"], kinds),
            "\n## Of a run\n\n",
            "Why an attempt ended, in `exit.json` and in `headway job show`:\n\n",
            table(["cause", "meaning"], causes),
        ]
    )


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "api.md": api,
    "settings.md": settings,
    "states.md": states,
    "exit-codes.md": exit_codes,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale = []
    for name, write in PAGES.items():
        path, text = FOLDER / name, write()
        if (path.read_text(encoding="utf-8") if path.exists() else "") == text:
            continue
        if arguments.check:
            stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"not up to date: {', '.join(stale)}; run: python scripts/reference.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
