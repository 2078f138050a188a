"""What the documentation says is so: commands and options exist, links lead somewhere, YAML and Python are valid, and
the reference is what the code says now."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from headway import config
from headway.rules import casefile, evalform, jobform, templates
from headway.rules import flow as flow_rules

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headway"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_in(line: str) -> Iterator[list[str]]:
    """Every call of headway in a shell line, also inside `$(...)` and pipes, as words after `headway`."""
    for part in re.split(r"\$\(|[|;&)]", line):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            # a quote that the split cut: an argument, not a command of ours
            continue
        while words and (re.match(r"^[A-Z_]+=", words[0])):
            words.pop(0)
        if words and words[0].rsplit("/", 1)[-1] == "headway":
            yield words[1:]


def check_command(words: list[str]) -> None:
    """Raises Typer's UsageError when there is no such command or option."""
    command: Any = typer.main.get_command(_app())
    context, path = None, "headway"
    while True:
        # without callbacks and values: only the words are checked
        context = command.context_class(command, info_name=path, parent=context)
        parser = command.make_parser(context)
        _, left, _ = parser.parse_args(list(words))
        if not hasattr(command, "commands"):
            return
        if not left:
            return
        _, below, words = command.resolve_command(context, left)
        assert below is not None
        command, path = below, below.name or ""


def _app() -> Any:
    from headway.cli.app import app

    return app


def documented() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in blocks(page, "sh", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                found += [(name_of(page), shlex.join(words)) for words in commands_in(line)]
        # in prose, in backticks; the reference has forms such as `headway ls [OPTIONS]`, which its own test holds
        if page.parent.name != "reference":
            prose = FENCE.sub("", page.read_text(encoding="utf-8"))
            for text in re.findall(r"`(headway [a-z][^`]*)`", prose):
                found += [(name_of(page), shlex.join(words)) for words in commands_in(text)]
    return sorted(set(found))


def advised() -> list[tuple[str, str]]:
    """Commands in backticks in messages and docstrings of the code."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        for text in re.findall(r"`(headway [a-z][^`\n]*)`", file.read_text(encoding="utf-8")):
            plain = re.sub(r"\{[^}]*\}", "1", text)
            found += [(name_of(file), shlex.join(words)) for words in commands_in(plain)]
    return sorted(set(found))


@pytest.mark.parametrize(("where", "command"), documented())
def test_a_documented_command_exists(where: str, command: str) -> None:
    check_command(shlex.split(command))


@pytest.mark.parametrize(("where", "command"), advised())
def test_a_command_that_a_message_advises_exists(where: str, command: str) -> None:
    check_command(shlex.split(command))


def test_a_command_that_does_not_exist_is_found() -> None:
    for wrong in (["job", "list"], ["ls", "--stat", "live"], ["no"]):
        with pytest.raises(Exception, match="No such"):
            check_command(wrong)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z]+)", text)) | set(
        re.findall(r"^make ([a-z]+)", "\n".join(blocks(page, "sh")), re.MULTILINE)
    )
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_variables_exist(page: Path) -> None:
    known = {f"HEADWAY_{key.upper()}" for key in config.KEYS}
    source = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    for name in set(re.findall(r"\bHEADWAY_[A-Z_]+\b", page.read_text(encoding="utf-8"))):
        assert name in known or f'"{name}"' in source, name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_is_valid(page: Path) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_yaml_is_what_it_shows(page: Path) -> None:
    for block in blocks(page, "yaml"):
        value = yaml.safe_load(block)
        if isinstance(value, list) and "id" in value[0]:
            casefile.parse_cases(value, "cases.yaml")
        elif isinstance(value, list):
            assert all({"cpus", "memory"} <= set(node) for node in value)
        elif set(value) & set(flow_rules.STAGES):
            flow_rules.parse(value)
        elif "job" in value:
            templates.parse(value)
        elif "cases" in value:
            evalform.check(evalform.fields(value, str), str)
        elif "command" in value:
            jobform.fields({k: v for k, v in value.items() if k != "code"}, str)
        else:
            assert set(value) <= set(config.KEYS) - {"home"}


def test_every_key_of_a_flow_is_documented() -> None:
    page = (ROOT / "docs/reference/flow.md").read_text()
    readers = {
        "dataset": flow_rules._dataset,
        "train": flow_rules._train,
        "evaluate": flow_rules._evaluate,
        "model": flow_rules._model,
        "endpoint": flow_rules._endpoint,
    }
    for stage, reader in readers.items():
        section = page.split(f"\n## {stage}\n")[1].split("\n## ")[0]
        told = set(re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
        assert told == set(_keys_of(reader)), stage


def _keys_of(reader: Any) -> list[str]:
    """The keys that a stage's reader knows, from the mapping that it hands its section."""
    known: list[str] = []

    class Spy(Exception):
        pass

    def section(raw: Any, file: str, path: str, keys: Any, required: Any = ()) -> Any:
        known.extend(keys)
        raise Spy

    original = flow_rules._Section
    flow_rules._Section = section  # type: ignore[assignment,misc]
    try:
        with pytest.raises(Spy):
            reader({}, "flow.yaml")
    finally:
        flow_rules._Section = original  # type: ignore[misc]
    return known


def test_both_readmes_show_the_same_commands() -> None:
    def shown(name: str) -> list[str]:
        text = "\n".join(blocks(ROOT / name, "sh", "yaml"))
        return [re.sub(r"\s*#.*", "", line).rstrip() for line in text.splitlines()]

    assert shown("README.md") == shown("README.zh-CN.md")


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name not in ("index.md",):
            assert f"]({page.relative_to(ROOT / 'docs')})" in index, page
