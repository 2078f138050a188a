"""The command line itself: what it imports, its words, its exit codes for wrong usage. No server is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("httpx", "pydantic", "sqlalchemy", "fastapi", "yaml", "rich", "asyncio", "numpy")


def headway(*words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")}
    return subprocess.run(
        [sys.executable, "-m", "headway", *words],
        capture_output=True,
        text=True,
        env={**clean, **environment},
        cwd=cwd,
        timeout=60,
    )


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import sys
sys.argv = ["headway", "--help"]
import headway.cli
try:
    headway.cli.main()
except SystemExit:
    pass
print("LOADED", [m for m in {HEAVY} if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"
    for word in ("up", "run", "plan", "ls", "logs", "stop", "demo", "job", "dataset", "endpoint", "config"):
        assert f"\n  {word} " in done.stdout


def test_supervisor_imports_little() -> None:
    code = f"import sys, headway.supervisor; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version() -> None:
    import headway as package

    done = headway("--version")
    assert (done.returncode, done.stdout.strip()) == (0, package.__version__)


@pytest.mark.parametrize("words", [["rnu"], ["job", "submit"], ["logs", "--knd", "x"], ["ls", "--limit", "many"]])
def test_wrong_usage_exits_2(words: list[str]) -> None:
    done = headway(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_server(tmp_path: Path) -> None:
    done = headway("ls", HEADWAY_HOME=str(tmp_path))
    assert done.returncode == 5
    assert done.stderr.startswith("error: No headway runs for the home")
    assert "headway up" in done.stderr


def test_unreachable_server_exits_5(tmp_path: Path) -> None:
    done = headway("status", HEADWAY_HOME=str(tmp_path))
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1


def test_down_where_nothing_runs(tmp_path: Path) -> None:
    assert headway("down", HEADWAY_HOME=str(tmp_path)).returncode == 0


def test_config_show_says_where_from(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("currency: CNY\ndatabase: postgresql://u:secret@h/d\n")
    done = headway("config", "show", "--json", HEADWAY_HOME=str(tmp_path), HEADWAY_PORT="9000")
    found = json.loads(done.stdout)
    assert found["port"] == {"value": 9000, "source": "HEADWAY_PORT"}
    assert found["currency"] == {"value": "CNY", "source": str(tmp_path / "config.yaml")}
    assert found["database"]["value"] == "postgresql://u:***@h/d"
    assert "secret" not in headway("config", "show", HEADWAY_HOME=str(tmp_path)).stdout


def test_unknown_key_in_the_config_is_one_sentence_and_exits_2(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("curency: CNY\n")
    done = headway("up", HEADWAY_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}/config.yaml: unknown key 'curency'. Did you mean currency?\n"


def test_errors_are_json_when_json_is_asked_for(tmp_path: Path) -> None:
    done = headway("run", str(tmp_path / "none.yaml"), "--json")
    assert done.returncode == 2
    assert json.loads(done.stderr)["error"]["code"] == "missing_file"


def test_plan_needs_no_server(tmp_path: Path) -> None:
    file = Path(__file__).parents[3] / "examples" / "digits" / "flow.yaml"
    done = headway("plan", str(file), "--json", HEADWAY_HOME=str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    assert [s["stage"] for s in json.loads(done.stdout)] == ["dataset", "train", "evaluate", "model", "endpoint"]
    assert not (tmp_path / "none").exists()
