"""What is printed of a dataset: its numbers, its warnings, and the warnings before a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli import dataset_stats
from headway.cli.app import app
from headway.client import Client
from headway.services.context import Services
from headway.testing.services import open_services

Headway = Callable[..., Any]
WARNINGS = [{"code": "leak", "text": "1 file of val is in train too."}, "An old sentence."]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    yield opened
    opened.store.close()


@pytest.fixture(scope="module")
def pushed(address: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data")
    (folder / "a.txt").write_text("a")
    with Client(*address) as client:
        client.datasets.push("warned", folder, statistics={"warnings": WARNINGS})
        (folder / "b.txt").write_text("b")
        client.datasets.push("warned", folder)
    return "warned"


@pytest.fixture
def headway(address: tuple[str, str], pushed: str, monkeypatch: pytest.MonkeyPatch) -> Headway:
    monkeypatch.setenv("HEADWAY_URL", address[0])
    monkeypatch.setenv("HEADWAY_TOKEN", address[1])
    return lambda *words: CliRunner().invoke(app, list(words))


def test_warnings_before_a_job(headway: Headway) -> None:
    for words in (["--dry-run"], ["--held"], ["--held", "--json"]):
        done = headway("job", "submit", "--data", "pics=warned@1", *words, "--", "true")
        assert done.exit_code == 0, done.output
        assert done.stderr.splitlines() == [
            "warning: warned@1: 1 file of val is in train too.",
            "warning: warned@1: An old sentence.",
        ]
        if "--json" in words:
            assert json.loads(done.stdout)["datasets"]
            again = headway("job", "clone", str(json.loads(done.stdout)["id"]), "--held")
            assert again.stderr == done.stderr


def test_nothing_is_said_of_a_version_without_warnings(headway: Headway) -> None:
    assert headway("job", "submit", "--data", "warned", "--held", "--", "true").stderr == ""


def test_stats(headway: Headway) -> None:
    assert headway("dataset", "stats", "warned@1").stdout.splitlines() == [
        "warning: 1 file of val is in train too.",
        "warning: An old sentence.",
    ]
    assert json.loads(headway("dataset", "stats", "warned@1", "--json").stdout) == {"warnings": WARNINGS}
    assert "headway dataset stats warned@2 --refresh" in headway("dataset", "stats", "warned").stdout


def printed(capsys: pytest.CaptureFixture[str], statistics: dict[str, Any]) -> str:
    dataset_stats.print_statistics(statistics)
    return capsys.readouterr().out


def test_few_classes_are_side_by_side_in_the_order_of_a_folder_reader(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(
        capsys,
        {
            "splits": {"test": {"10": 1}, "train": {"10": 2, "2": 3}},
            "classes": {"test": ["10"], "train": ["10", "2"]},
        },
    )
    assert found.splitlines() == ["split  10  2  all", "test    1  0    1", "train   2  3    5"]


def test_many_classes_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{n:03}" for n in range(100)]
    found = printed(capsys, {"splits": {"all": dict.fromkeys(names, 3)}, "classes": {"all": names}})
    assert "100" in found
    assert found.splitlines()[-1].endswith("011 and 88 more")


def test_what_others_named_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    column = {"name": "a\x1b[2J", "type": "text", "missing": 0, "characters": {"min": 1, "mean": 1.5, "max": 2}}
    table = {"kind": "csv", "split": "all", "files": 1, "rows": 2, "read_rows": 2, "exact": False}
    found = printed(
        capsys,
        {
            "tables": [{**table, "example": "x\n.csv", "columns": [column]}],
            "labels": {"label\x1b": {"all": {"a\x1bb": 1}}},
            "warnings": [{"code": "x", "text": "bad \x1b[31m"}],
        },
    )
    assert "\x1b" not in found
    assert "x\\n.csv: 2 rows read, there are more" in found
    assert "1 to 2 characters, mean 1.5" in found
