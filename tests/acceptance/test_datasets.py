"""`headway dataset ls`, `cat` and `pull` against a real server."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from .conftest import Server

FILES = {"a/b.txt": "b", "a/中文.txt": "c" * 3000, "c d\n.txt": "x", "empty": ""}


@pytest.fixture(scope="module")
def pushed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("looked-at")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    with server.client() as client:
        view = client.datasets.push("looked-at", folder)
    return f"looked-at@{view.version}"


def test_files_are_listed(server: Server, pushed: str) -> None:
    listed = json.loads(server.cli("dataset", "ls", pushed, "--json").stdout)
    assert [f["path"] for f in listed] == list(FILES)
    assert listed[0]["sha256"] == hashlib.sha256(b"b").hexdigest()
    shown = server.cli("dataset", "ls", pushed, "a").stdout.splitlines()
    assert [line.split()[-1] for line in shown] == ["a/b.txt", "a/中文.txt"]
    refused = server.cli("dataset", "ls", "looked-at", "a")
    assert refused.returncode == 2
    assert "looked-at@VERSION a" in refused.stderr


def test_a_file_is_written_out(server: Server, pushed: str) -> None:
    assert server.cli("dataset", "cat", pushed, "a/中文.txt").stdout == FILES["a/中文.txt"]
    missing = server.cli("dataset", "cat", pushed, "nothing")
    assert missing.returncode == 4
    assert "has no file 'nothing'" in missing.stderr


def test_a_version_is_pulled(server: Server, pushed: str, tmp_path: Path) -> None:
    into = tmp_path / "into"
    done = server.cli("dataset", "pull", "looked-at", str(into))
    assert done.returncode == 0, done.stderr
    assert {p: (into / p).read_text() for p in FILES} == FILES
    (into / "a" / "b.txt").unlink()
    again = json.loads(server.cli("dataset", "pull", pushed, str(into), "--json").stdout)
    assert (again["files"], again["fetched_files"]) == (len(FILES), 1)
    (into / "empty").write_text("mine")
    refused = server.cli("dataset", "pull", pushed, str(into), "--path", "empty")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert server.cli("dataset", "pull", pushed, str(into), "--path", "empty", "--force").returncode == 0
    assert (into / "empty").read_text() == ""
