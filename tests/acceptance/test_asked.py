"""What people ask of jobs that wait or run: to pause and go on, to come after another, to have other limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.client import Client

from .conftest import Server, eventually

#: saves on request, and goes on from what it saved
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
output = Path(os.environ["OUTPUT_PATH"], "count")
count = int(output.read_text()) if output.exists() else 0
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("begins with", count, flush=True)
while not asked and not Path(os.environ["OUTPUT_PATH"], "enough").exists():
    count += 1
    time.sleep(0.05)
output.write_text(str(count))
print("ends with", count, flush=True)
"""


@pytest.fixture
def code(server: Server, tmp_path: Path) -> str:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "work.py").write_text(SCRIPT)
    with server.client() as client:
        return client.snapshots.push(folder).digest


def state(client: Client, run: int, wanted: str) -> bool:
    return client.runs.get(run).state == wanted


def said(client: Client, run: int) -> str:
    return "\n".join(line.text for line in client.runs.logs(run).lines)


def test_a_paused_job_saves_is_held_and_goes_on_when_released(server: Server, code: str) -> None:
    with server.client() as client:
        run = client.jobs.submit(["python", "work.py"], snapshot=code, cpus=0.1, grace=30).id
        output = server.home / "root" / "projects" / "default" / "jobs" / str(run) / "output"
        # from that line on it saves when it is asked to end
        eventually(lambda: "begins with 0" in said(client, run), what="the job's first line")
        client.runs.pause(run)
        eventually(lambda: state(client, run, "held"), what="the pause")
        paused = client.runs.get(run)
        assert paused.reason == "Paused by admin: resume it to go on."
        saved = int((output / "count").read_text())
        client.runs.resume(run)
        eventually(lambda: state(client, run, "running"), what="the job again")
        (output / "enough").touch()
        ended = client.runs.wait(run, timeout=60)
        assert ended.state == "succeeded", ended.reason
        assert [a.cause for a in client.runs.attempts(run)] == ["paused", "done"]
        assert int((output / "count").read_text()) >= saved


def test_a_job_waits_for_those_that_it_comes_after_and_fails_with_them(server: Server) -> None:
    with server.client() as client:
        first = client.jobs.submit(["true"], cpus=0.1, held=True).id
        second = client.jobs.submit(["true"], cpus=0.1, after=[first]).id
        client.runs.release(first)
        assert client.runs.wait(second, timeout=60).state == "succeeded"
        bad = client.jobs.submit(["false"], cpus=0.1, held=True).id
        worse = client.jobs.submit(["true"], cpus=0.1, after=[bad]).id
        worst = client.jobs.submit(["true"], cpus=0.1, after=[worse]).id
        client.runs.release(bad)
        ended = client.runs.wait(worst, timeout=60)
        assert (ended.state, ended.cause) == ("failed", "dependency")
        assert ended.reason == f"Job {worse}, which it was to come after, failed."
        assert client.runs.get(worse).reason == f"Job {bad}, which it was to come after, failed."


def test_a_job_that_runs_is_given_another_limit(server: Server, code: str) -> None:
    with server.client() as client:
        run = client.jobs.submit(["python", "work.py"], snapshot=code, cpus=0.1, max_duration=600).id
        eventually(lambda: state(client, run, "running"), what="the job")
        client.runs.change(run, max_duration=1)
        ended = client.runs.wait(run, timeout=60)
        assert (ended.state, ended.cause) == ("failed", "time_limit")
