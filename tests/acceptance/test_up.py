"""`headway up`: ready, one on a home, restarted parts, clean stops, nothing left behind; runs outlive all of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from headway.protocol import identity

from .conftest import Server, environment, eventually, start


def up(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headway", "up", *words],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=60,
    )


def parts(server: Server) -> dict[str, int]:
    return {name: part["pid"] for name, part in server.up()["parts"].items() if part["pid"]}


def gone(pid: int) -> bool:
    return identity.of(pid) is None


def test_ready_means_that_it_answers(server: Server) -> None:
    with server.client() as client:
        assert client.platform.health().status == "ok"
        assert client.platform.me().is_admin
        assert {s.name for s in client.platform.specs()} >= {"small", "medium", "large", "gpu"}
    assert httpx.get(f"{server.url}/api/docs", trust_env=False).status_code == 200


def test_tokens_are_kept_readable_by_the_owner_alone(server: Server) -> None:
    for name in ("admin.token", "gateway.token"):
        file = server.home / name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text().startswith("hw_")
    assert server.token not in (server.home / "log" / "headway.log").read_text()
    assert server.token.encode() not in (server.home / "headway.db").read_bytes()


def test_internal_ports_are_loopback(server: Server) -> None:
    assert server.up()["api"].startswith("http://127.0.0.1:")


def test_a_second_one_on_the_home_is_refused(server: Server) -> None:
    done = up(server.home, "--port", "0")
    assert done.returncode == 3
    assert done.stderr == (
        f"error: headway already runs on {server.home} (process {server.ready['pid']}, {server.url}). "
        "Use it as it is, or stop it first with `headway down`.\n"
    )


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for words in ([], ["--detach"]):
            done = up(tmp_path, "--port", str(port), *words)
            assert done.returncode == 3
            assert (
                done.stderr
                == f"error: Port {port} on 127.0.0.1 is in use. Give another one with --port (0: any free one).\n"
            )
    assert not (tmp_path / "headway.db").exists()


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = up(tmp_path / "file" / "home", "--port", "0")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_home_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "headway.db")) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("INSERT INTO alembic_version VALUES ('9999_from_the_future')")
        database.commit()
    done = up(tmp_path, "--port", "0")
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("\n") == 1
    assert "newer headway" in done.stderr


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("config.yaml", "database: mysql://x", "'mysql'"),
        ("config.yaml", "objects: ftp://x", "'ftp://x'"),
        ("nodes.yaml", "nodes: 5", "nodes.yaml"),
    ],
)
def test_settings_that_no_part_can_use_are_one_sentence(tmp_path: Path, file: str, text: str, words: str) -> None:
    (tmp_path / file).write_text(f"{text}\n")
    for more in ([], ["--detach"]):
        done = up(tmp_path, "--port", "0", *more)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert words in done.stderr
    assert not (tmp_path / "up.json").exists()


def test_a_part_that_refuses_later_does_not_take_the_others_along(fresh: Server) -> None:
    (fresh.home / "nodes.yaml").write_text("nodes: 5\n")
    os.kill(parts(fresh)["controller"], signal.SIGKILL)
    log = fresh.home / "log" / "headway.log"
    eventually(lambda: "does not declare nodes" in log.read_text(), seconds=20)
    with fresh.client() as client:
        assert client.platform.health().status == "ok"
    (fresh.home / "nodes.yaml").write_text("[{name: a, cpus: 1, memory: 1GiB}]\n")
    eventually(lambda: fresh.up()["parts"]["controller"]["ready"], seconds=20)


def test_status(server: Server) -> None:
    done = server.cli("status", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["running"]
    assert set(found["parts"]) == {"api", "controller", "gateway", "console"}
    assert "gateway" in server.cli("status").stdout


def test_every_part_is_started_again(fresh: Server) -> None:
    for name in ("api", "controller", "gateway"):
        before = parts(fresh)[name]
        os.kill(before, signal.SIGKILL)
        eventually(
            lambda name=name, before=before: (p := fresh.up()["parts"][name])["ready"] and p["pid"] != before,
            what=f"a new {name}",
        )
        with fresh.client() as client:
            assert client.platform.health().status == "ok"


def test_ctrl_c_stops_everything(fresh: Server) -> None:
    pids = parts(fresh)
    fresh.process.send_signal(signal.SIGINT)
    assert fresh.process.wait(20) == 0
    assert all(gone(pid) for pid in pids.values())
    assert not (fresh.home / "up.json").exists()


def test_down_and_up_again_keeps_everything(fresh: Server) -> None:
    token = fresh.token
    with fresh.client() as client:
        job = client.jobs.submit(["python", "-c", "print('kept')"])
        assert client.runs.wait(job.id, timeout=60).state == "succeeded"
    assert fresh.cli("down").returncode == 0
    assert fresh.process.wait(20) == 0
    again = start(fresh.home)
    fresh.process, fresh.ready = again.process, again.ready
    assert fresh.token == token
    assert fresh.cli("logs", str(job.id)).stdout == "kept\n"


def test_kill_of_the_supervisor_ends_its_parts_and_no_run(fresh: Server) -> None:
    """And of every part as well: the run goes on, and the next start finds all that it wrote."""
    with fresh.client() as client:
        script = "import time\nfor i in range(40):\n    print('line', i, flush=True)\n    time.sleep(0.1)"
        job = client.jobs.submit(["python", "-c", script])
        eventually(lambda: client.runs.logs(job.id).lines, what="a first line")
    pids = parts(fresh)
    os.kill(fresh.ready["pid"], signal.SIGKILL)
    fresh.process.wait(20)
    for name, pid in pids.items():
        eventually(lambda pid=pid: gone(pid), seconds=10, what=f"the end of the {name}")
    again = start(fresh.home)
    fresh.process, fresh.ready = again.process, again.ready
    with fresh.client() as client:
        ended = client.runs.wait(job.id, timeout=60)
        assert (ended.state, ended.exit_code, ended.attempts) == ("succeeded", 0, 1)
        assert [line.text for line in client.runs.all_logs(job.id)] == [f"line {i}" for i in range(40)]


def test_detach_returns_when_it_is_ready(tmp_path: Path) -> None:
    done = up(tmp_path, "--port", "0", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert httpx.get(f"{found['url']}/api/v1/health", trust_env=False).status_code == 200
    down = subprocess.run(
        [sys.executable, "-m", "headway", "down"], capture_output=True, text=True, env=environment(tmp_path), timeout=60
    )
    assert down.returncode == 0
    assert gone(found["pid"])
