"""`headway dataset versions`, `diff` and `verify` against a served api."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.client import Client
from headway.client.pushing.push import push
from headway.errors import FailedError, NotFoundError, UsageError
from headway.services.context import Services
from headway.testing.services import open_services

Headway = Callable[..., Any]
FIRST = {"a/1.txt": "one", "a/2.txt": "two", "b/3.txt": "three", "c.txt": "four", "gone.txt": "gone"}
SECOND = {"a/1.txt": "one", "a/2.txt": "two!", "中/3.txt": "three", "c.txt": "four", "new.txt": "new", "x": "new"}


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    yield opened
    opened.store.close()


@pytest.fixture(scope="module")
def pushed(address: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """`letters@1` holds FIRST, `letters@2` SECOND, `other@1` FIRST."""
    with Client(*address) as client:
        for name, files in (("letters", FIRST), ("letters", SECOND), ("other", FIRST)):
            folder = tmp_path_factory.mktemp(name)
            for path, text in files.items():
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(text)
            push(client.transport, "default", name, folder, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture
def headway(address: tuple[str, str], pushed: None, monkeypatch: pytest.MonkeyPatch) -> Headway:
    monkeypatch.setenv("HEADWAY_URL", address[0])
    monkeypatch.setenv("HEADWAY_TOKEN", address[1])
    return lambda *words: CliRunner().invoke(app, ["dataset", *words])


@pytest.mark.parametrize("words", [("versions", "letters"), ("ls", "letters")])
def test_versions_are_listed_oldest_first(headway: Headway, words: tuple[str, ...]) -> None:
    listed = json.loads(headway(*words, "--json").stdout)
    assert [(v["version"], v["files"], v["parents"]) for v in listed] == [(1, 5, []), (2, 6, ["letters@1"])]
    head, *lines = headway(*words).stdout.splitlines()
    assert head.split() == ["VERSION", "FILES", "SIZE", "DIGEST", "PUSHED", "BY", "SENT"]
    assert [line.split()[0] for line in lines] == ["letters@1", "letters@2"]
    assert all("admin" in line for line in lines)


@pytest.mark.parametrize("words", [("letters@1", "letters@2"), ("letters",), ("letters@2",), ("other", "letters")])
def test_what_changed_is_told(headway: Headway, words: tuple[str, ...]) -> None:
    done = headway("diff", *words)
    assert done.exit_code == 0, done.output
    head, *lines = done.stdout.splitlines()
    assert head.split(": ")[1] == "2 added, 1 removed, 1 changed, 1 moved, 2 as before, 7 B of new content"
    assert [(line[0], line.split("  ")[-1]) for line in lines] == [
        ("~", "a/2.txt"), ("-", "gone.txt"), ("+", "new.txt"), ("+", "x"), (">", "中/3.txt (was b/3.txt)"),
    ]  # fmt: skip


def test_the_same_is_no_difference(headway: Headway) -> None:
    found = json.loads(headway("diff", "other@1", "letters@1", "--json").stdout)
    assert (found["older"], found["newer"], found["same"], found["changes"]) == ("other@1", "letters@1", 5, [])


def test_what_cannot_be_compared_is_said(headway: Headway) -> None:
    first = headway("diff", "letters@1")
    assert isinstance(first.exception, UsageError)
    assert "No version of letters is older than letters@1." in str(first.exception)
    missing = headway("diff", "letters@1", "letters@7")
    assert isinstance(missing.exception, NotFoundError)
    assert "letters@7" in str(missing.exception)


def test_a_sample_is_told_as_one(headway: Headway) -> None:
    whole = headway("verify", "letters@2")
    assert whole.exit_code == 0 and "all 6 files read" in whole.stdout
    assert json.loads(headway("verify", "letters@2", "--sample", "100%", "--json").stdout)["read_files"] == 6
    few = json.loads(headway("verify", "letters@2", "--sample", "0.000001", "--json").stdout)
    assert few["files"] == 6 and few["read_files"] < 6
    for wrong in ("0", "5", "-1%", "some"):
        refused = headway("verify", "letters@2", f"--sample={wrong}")
        assert isinstance(refused.exception, UsageError)
        assert "--sample" in str(refused.exception)


def test_what_is_damaged_is_named_and_the_exit_code_says_so(
    headway: Headway, ctx: Services, address: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for number in range(3):
        (tmp_path / "data" / f"{number}\n.txt").write_text(f"hurt {number}")
    with Client(*address) as client:
        push(client.transport, "default", "hurt", tmp_path / "data", cache=tmp_path / "cache")
        before = {p for p in (Path(ctx.root) / "objects").rglob("*.tar") if b"hurt 1" in p.read_bytes()}
    (pack,) = before
    os.chmod(pack, 0o644)
    pack.write_bytes(pack.read_bytes().replace(b"hurt 1", b"hurt X"))
    done = headway("verify", "hurt")
    assert isinstance(done.exception, FailedError)
    assert "hurt@1 is damaged (files read: 3, faults: 1)" in str(done.exception)
    assert "1\\n.txt: Its content is not what the manifest says." in done.stdout
