"""`headway storage` against a real platform and a real S3 server: connect, check, use, push, run, refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.testing.s3servers import S3Server, rclone

from .conftest import Server, environment

__all__ = ["rclone"]


def cli(server: Server, *words: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headway", *words],
        input=given, capture_output=True, text=True, timeout=120, env={**environment(server.home), **variables},
    )  # fmt: skip


@pytest.fixture(scope="module")
def connected(server: Server, rclone: S3Server) -> str:
    """Name of a connection to rclone."""
    done = cli(
        server, "storage", "connection", "add", "lab", "--endpoint", rclone.endpoint, "--region", "us-east-1",
        "--from-env", AWS_ACCESS_KEY_ID=rclone.key_id, AWS_SECRET_ACCESS_KEY=rclone.secret,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "headway storage check s3://BUCKET --connection lab" in done.stdout
    return "lab"


@pytest.fixture(scope="module")
def project(server: Server, rclone: S3Server, connected: str) -> str:
    """A project whose data lies there."""
    assert cli(server, "project", "create", "elsewhere").returncode == 0
    used = cli(server, "--project", "elsewhere", "storage", "use", rclone.url, "--connection", connected)
    assert used.returncode == 0, used.stderr
    return "elsewhere"


def test_a_store_that_works_says_so(server: Server, project: str, rclone: S3Server) -> None:
    checked = cli(server, "--project", project, "storage", "check")
    assert checked.returncode == 0, checked.stderr
    for what in ("reach", "list", "write", "read back", "range", "delete", "clock"):
        assert f"ok    {what}" in checked.stdout
    shown = json.loads(cli(server, "--project", project, "storage", "show", "--json").stdout)
    assert (shown["connection"], shown["region"], shown["refused"]) == ("lab", "us-east-1", "")
    listed = cli(server, "storage", "connection", "ls", "--json").stdout
    assert json.loads(listed)[0]["projects"] == ["elsewhere"]
    assert rclone.secret not in listed


def test_data_goes_there_and_comes_back(server: Server, project: str, rclone: S3Server, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(30):
        (data / f"{number:02}.txt").write_text(f"file {number}")
    pushed = cli(
        server, "--project", project, "dataset", "push", str(data), "far", "--json", XDG_CACHE_HOME=str(tmp_path)
    )
    assert pushed.returncode == 0, pushed.stderr
    assert json.loads(pushed.stdout)["version"] == 1
    pulled = cli(server, "--project", project, "dataset", "pull", "far", str(tmp_path / "back"))
    assert pulled.returncode == 0, pulled.stderr
    assert {p.name: p.read_text() for p in (tmp_path / "back").iterdir()} == {
        p.name: p.read_text() for p in data.iterdir()
    }
    # the connection cannot go, nor the project's store change, while data lies there
    for words in (("storage", "connection", "rm", "lab"), ("--project", project, "storage", "use", "--platform")):
        refused = cli(server, *words)
        assert refused.returncode == 3, refused.stdout
    # a run in each mode has it
    for mode in ("cache", "stream"):
        script = "import os,pathlib;print(len(list(pathlib.Path(os.environ['DATA_PATH']).glob('*.txt'))))"
        if mode == "stream":
            script = "import headway; print(sum(1 for _ in headway.data('far')))"
        reference = "far" if mode == "cache" else "far:stream"
        run = cli(
            server, "--project", project, "job", "submit", "--data", reference, "--spec", "small", "-f", "--",
            sys.executable, "-c", script,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout + run.stderr
        assert "30" in run.stdout.split(), run.stdout


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("key", "does not accept the key"),
        ("port", "Nothing answers"),
        ("host", "cannot be found"),
        ("bucket", "no such bucket"),
    ],
)
def test_what_is_wrong_is_named(server: Server, rclone: S3Server, connected: str, what: str, says: str) -> None:
    """And such a store is not used."""
    endpoint = {"port": "http://127.0.0.1:9", "host": "http://nowhere.invalid"}.get(what, rclone.endpoint)
    secret = {"access_key_id": "AKIA", "secret_access_key": "not-the-secret"}
    if what != "key":
        secret = {"access_key_id": rclone.key_id, "secret_access_key": rclone.secret}
    made = cli(
        server, "storage", "connection", "add", f"wrong-{what}", "--endpoint", endpoint, "--region", "us-east-1",
        "--secret", "-", given=json.dumps(secret),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    url = "s3://no-bucket-there/x" if what == "bucket" else rclone.url
    for words in (("check", url), ("use", url)):
        found = cli(server, "--project", "default", "storage", *words, "--connection", f"wrong-{what}")
        assert found.returncode == 1
        assert says in found.stderr
        assert secret["secret_access_key"] not in found.stdout + found.stderr
    assert json.loads(cli(server, "storage", "show", "--json").stdout)["url"] is None
    assert cli(server, "storage", "connection", "rm", f"wrong-{what}").returncode == 0


def test_data_may_lie_in_the_named_regions_only(
    server: Server, rclone: S3Server, connected: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert cli(server, "project", "create", "local").returncode == 0
    at = ("--project", "local")
    named = cli(server, *at, "storage", "regions", "berlin")
    assert named.returncode == 0
    assert "warning: Data of project local may lie in berlin only" in named.stdout
    for words in (
        ("dataset", "push", str(tmp_path), "d"),
        ("storage", "use", rclone.url, "--connection", connected),
    ):
        refused = cli(server, *at, *words)
        assert refused.returncode == 3, refused.stdout
        assert "may lie in berlin only" in refused.stderr
    assert cli(server, *at, "storage", "regions", "--any").returncode == 0
    assert cli(server, *at, "dataset", "push", str(tmp_path), "d", XDG_CACHE_HOME=str(tmp_path / "c")).returncode == 0


def test_words_that_are_wrong(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('["s3cret"]')
    for words, says in (
        (("storage", "use"), "--platform"),
        (("storage", "regions", "x", "--any"), "cannot both be"),
        (("storage", "connection", "add", "x", "--kind", "ftp"), "no kind of store"),
        (("storage", "connection", "add", "x", "--secret", str(tmp_path / "bad.json")), "no JSON object"),
        (("storage", "connection", "add", "x", "--secret", str(tmp_path / "no.json")), "cannot be read"),
        (("storage", "connection", "add", "x", "--from-env"), "AWS_ACCESS_KEY_ID"),
        (("storage", "connection", "add", "x", "--endpoint", "minio:9000"), "no http(s) URL"),
    ):
        found = cli(server, *words, **{k: "" for k in os.environ if k.startswith("AWS_")})
        assert found.returncode == 2, (words, found.stdout, found.stderr)
        assert says in found.stderr
        assert "s3cret" not in found.stderr
    assert cli(server, "storage", "connection", "rm", "none").returncode == 4
