"""The commands against a real platform."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Server, eventually


@pytest.fixture(scope="module")
def job(server: Server) -> int:
    """A job that has succeeded, with two lines and a metric."""
    script = "print('hello'); print('step=1 loss=0.5'); print('step=2 loss=0.25')"
    done = server.cli("job", "submit", "--name", "first", "--param", "epochs=3", "--json", "--", "python", "-c", script)
    assert done.returncode == 0, done.stderr
    number = int(json.loads(done.stdout)["id"])
    with server.client() as client:
        assert client.runs.wait(number, timeout=60).state == "succeeded"
    return number


def test_submit_says_what_to_type_next(server: Server) -> None:
    done = server.cli("job", "submit", "--", "python", "-c", "print(1)")
    assert done.returncode == 0, done.stderr
    assert "next: headway logs -f" in done.stdout


def test_submit_and_follow_ends_as_the_job_ends(server: Server) -> None:
    done = server.cli("job", "submit", "-f", "--", "python", "-c", "print('a'); print('b')")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["a", "b"]
    done = server.cli("job", "submit", "-f", "--", "python", "-c", "import sys; print('x'); sys.exit(7)")
    assert done.returncode == 1
    assert "7" in done.stderr


@pytest.mark.parametrize(
    ("spec", "code", "words"), [("smal", 2, "Did you mean small?"), ("gpu", 3, "asked 1 GPUs; the largest node has 0.")]
)
def test_a_flow_with_a_spec_that_cannot_be_had_begins_nothing(
    server: Server, tmp_path: Path, spec: str, code: int, words: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("a")
    (tmp_path / "flow.yaml").write_text(
        f"dataset: {{name: never, path: data}}\ntrain: {{command: python -V, spec: {spec}, data: never}}\n"
    )
    done = server.cli("run", str(tmp_path / "flow.yaml"))
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "never" not in server.cli("dataset", "ls").stdout


def test_logs(server: Server, job: int) -> None:
    assert server.cli("logs", str(job)).stdout.splitlines()[0] == "hello"
    assert server.cli("logs", str(job), "--follow").stdout.splitlines()[0] == "hello"
    assert server.cli("logs", str(job), "--tail", "1").stdout == "step=2 loss=0.25\n"
    line = json.loads(server.cli("logs", str(job), "--json").stdout.splitlines()[0])
    assert (line["text"], line["rank"], line["stream"]) == ("hello", 0, "out")
    assert server.cli("logs", str(job), "--kind", "diag").returncode == 0
    assert server.cli("logs", str(job), "--kind", "dig").stderr.endswith("Did you mean diag?\n")


def test_logs_are_followed_live(server: Server) -> None:
    import subprocess
    import sys

    from .conftest import environment

    script = "import sys; print('waiting', flush=True); sys.stdin.read(); import time; time.sleep(60)"
    number = json.loads(server.cli("job", "submit", "--json", "--", "python", "-c", script).stdout)["id"]
    follower = subprocess.Popen(
        [sys.executable, "-m", "headway", "logs", "-f", str(number)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(server.home),
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "waiting\n"
    assert server.cli("stop", str(number), "--grace", "1s").returncode == 0
    assert follower.wait(30) == 0
    with server.client() as client:
        assert client.runs.wait(number, timeout=30).state == "stopped"


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["job", "ls"],
        ["dataset", "ls"],
        ["eval", "ls"],
        ["model", "ls"],
        ["endpoint", "ls"],
        ["project", "ls"],
        ["project", "members", "default"],
        ["user", "ls"],
        ["token", "ls", "admin"],
        ["node", "ls"],
        ["spec", "ls"],
    ],
)
def test_every_listing_has_json(server: Server, job: int, words: list[str]) -> None:
    done = server.cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list)
    plain = server.cli(*words)
    assert plain.returncode == 0
    assert plain.stdout.strip()


def test_job_show_metrics_bill(server: Server, job: int) -> None:
    shown = json.loads(server.cli("job", "show", str(job), "--json").stdout)
    assert (shown["name"], shown["state"], shown["parameters"]) == ("first", "succeeded", {"epochs": 3})
    eventually(lambda: json.loads(server.cli("job", "metrics", str(job), "--json").stdout), what="metrics")
    series = json.loads(server.cli("job", "metrics", str(job), "--json").stdout)
    assert [p["value"] for s in series if s["name"] == "loss" for p in s["points"]] == [0.5, 0.25]
    bill = json.loads(server.cli("bill", "--run", str(job), "--json").stdout)
    assert [e["attempt"] for e in bill["entries"]] == [f"{job}-1"]
    assert bill["total"] > 0


def test_code_is_taken_along(server: Server, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print('from the snapshot')")
    done = server.cli("job", "submit", "-f", "--code", str(tmp_path), "--", "python", "main.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "from the snapshot"


def test_datasets(server: Server, tmp_path: Path) -> None:
    for name in ("a/1.txt", "b/2.txt"):
        file = tmp_path / name
        file.parent.mkdir()
        file.write_text(name)
    done = server.cli("dataset", "push", "texts", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["version"], json.loads(done.stdout)["files"]) == (1, 2)
    # the same files are the same version
    assert json.loads(server.cli("dataset", "push", "texts", str(tmp_path), "--json").stdout)["version"] == 1
    assert server.cli("dataset", "verify", "texts").returncode == 0
    (tmp_path / "c.txt").write_text("c")
    assert json.loads(server.cli("dataset", "push", "texts", str(tmp_path), "--json").stdout)["version"] == 2
    assert [v["version"] for v in json.loads(server.cli("dataset", "ls", "texts", "--json").stdout)] in ([1, 2], [2, 1])
    script = "import os; print(sorted(f for _, _, fs in os.walk(os.environ['DATA_PATH']) for f in fs))"
    used = server.cli("job", "submit", "-f", "--data", "texts@1", "--", "python", "-c", script)
    assert used.stdout.splitlines()[-1] == "['1.txt', '2.txt']", used.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["job", "show", "999999"], 4, "999999"),
        (["logs", "999999"], 4, "999999"),
        (["dataset", "show", "nothing"], 4, "nothing"),
        (["endpoint", "stop", "nothing"], 4, "nothing"),
        (["job", "submit", "--spec", "smal", "--", "true"], 2, "small"),
        (["job", "submit", "--max-duration", "90", "--", "true"], 2, "--max-duration: '90' is not a duration."),
        (["job", "submit", "--memory", "4 lots", "--", "true"], 2, "--memory: '4 lots' is not a size."),
        (["job", "submit", "--env", "x", "--", "true"], 2, "NAME=VALUE"),
        (["job", "submit", "--gpus", "8", "--", "true"], 3, "asked 8 GPUs; the largest node has 0"),
        (["job", "submit", "--data", "nothing", "--", "true"], 4, "nothing"),
        (["job", "submit", "--code", "/nowhere", "--", "true"], 2, "/nowhere"),
        (["run", "/nowhere/flow.yaml"], 2, "/nowhere/flow.yaml"),
        (["project", "quota", "default", "--files", "x"], 2, "'x'"),
    ],
)
def test_errors_are_one_sentence_with_an_exit_code(server: Server, words: list[str], code: int, said: str) -> None:
    with server.client() as client:
        before = [r.id for r in client.runs.ls(limit=1)]
    done = server.cli(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    with server.client() as client:
        assert [r.id for r in client.runs.ls(limit=1)] == before


def test_a_wrong_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    from .conftest import environment

    done = subprocess.run(
        [sys.executable, "-m", "headway", "ls"],
        capture_output=True,
        text=True,
        env={**environment(server.home), "HEADWAY_TOKEN": "hw_wrong"},
    )
    assert done.returncode == 3
    assert "hw_wrong" not in done.stderr


def test_quota(server: Server) -> None:
    assert server.cli("project", "quota", "default", "--bytes", "5GiB", "--files", "1000").returncode == 0
    shown = json.loads(server.cli("project", "quota", "default", "--json").stdout)
    assert (shown["quota_bytes"], shown["quota_files"]) == (5 << 30, 1000)
    assert server.cli("project", "quota", "default", "--bytes", "none", "--files", "none").returncode == 0
    shown = json.loads(server.cli("project", "quota", "default", "--json").stdout)
    assert (shown["quota_bytes"], shown["quota_files"]) == (None, None)


def test_users_and_roles(server: Server) -> None:
    import subprocess
    import sys

    from .conftest import environment

    assert server.cli("user", "create", "ada").returncode == 0
    token = server.cli("token", "create", "ada").stdout.strip()

    def as_ada(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headway", *words],
            capture_output=True,
            text=True,
            env={**environment(server.home), "HEADWAY_TOKEN": token},
        )

    assert as_ada("ls").returncode in (3, 4)
    assert server.cli("project", "member", "default", "ada", "--role", "viewer").returncode == 0
    assert as_ada("ls").returncode == 0
    assert as_ada("job", "submit", "--", "true").returncode == 3
    assert server.cli("project", "member", "default", "ada", "--role", "none").returncode == 0
    assert as_ada("ls").returncode in (3, 4)
