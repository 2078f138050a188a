"""What the runner watches by itself: limits, hangs, memory, the machine's notice, samples; no server is alive here."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.protocol.causes import Cause
from headway.protocol.files import log_lines, read_records, write_json
from headway.runner import memory, usage
from headway.runner.disk import occupied
from headway.runner.notice import answers
from headway.testing.engines import FOREVER, Attempt, eventually, python

Make = Callable[..., Attempt]

#: a printer of stacks that needs no rights
STACKS = [sys.executable, "-c", "import sys; print('stack of', sys.argv[1])"]


def diag(attempt: Attempt) -> str:
    return "\n".join(line.text for line, _ in log_lines(attempt.node.diag_log))


def test_silence_ends_it_and_says_where_each_rank_stands(make: Make) -> None:
    attempt = make(python(FOREVER), processes=2, limits={"idle_output": 0.4}, stacks=STACKS).start()
    end = attempt.exit()
    assert (end.cause, end.message) == (Cause.IDLE_OUTPUT, "printed nothing for 0.4 s.")
    for pid in attempt.events("launched")[0]["pids"]:
        assert f"stack of {pid}" in diag(attempt)


def test_who_prints_is_not_idle(make: Make) -> None:
    code = "import time\nfor n in range(8): print(n, flush=True); time.sleep(0.1)"
    assert make(python(code), limits={"idle_output": 0.6, "hang": 0.6}).start().exit().cause is Cause.DONE


def test_a_hang_is_silence_without_work(make: Make) -> None:
    attempt = make(python(FOREVER), limits={"hang": 0.8}, stacks=["/nowhere/py-spy", "dump"]).start()
    end = attempt.exit()
    assert (end.cause, "did no work" in end.message) == (Cause.HANG, True)
    assert "stacks cannot be printed" in diag(attempt)


def test_silent_work_is_no_hang(make: Make) -> None:
    code = "import time\nend = time.time() + 2\nwhile time.time() < end: pass"
    assert make(python(code), limits={"hang": 0.6}).start().exit().cause is Cause.DONE


@pytest.mark.parametrize(
    ("code", "limits", "cause", "words"),
    [
        ("print('loss=nan')", {"nan": True}, Cause.NAN_METRIC, "loss is NaN"),
        (
            "import headway; headway.log(step=3, loss=float('inf'))",
            {"nan": ["loss"]},
            Cause.NAN_METRIC,
            "inf at step 3",
        ),
        (
            "print('step 1 loss=0.5')",
            {"no_progress": {"metric": "loss", "seconds": 0.4, "mode": "min"}},
            Cause.NO_PROGRESS,
            "0.5 at step 1 is its best",
        ),
    ],
)
def test_metrics_end_it(make: Make, code: str, limits: dict[str, Any], cause: Cause, words: str) -> None:
    end = make(python(f"{code}\n{FOREVER}"), limits=limits).start().exit()
    assert end.cause is cause
    assert words in end.message


def test_too_much_on_the_disk_ends_it(make: Make, tmp_path: Path) -> None:
    code = "import os\nopen(os.environ['OUTPUT_PATH'] + '/big', 'wb').write(b'x' * (3 << 20))\n" + FOREVER
    output = tmp_path / "output"
    output.mkdir()
    environment = {"PATH": os.environ["PATH"], "OUTPUT_PATH": str(output)}
    end = make(python(code), environment=environment, limits={"disk_bytes": 1 << 20}).start().exit()
    assert (end.cause, end.message) == (Cause.DISK_LIMIT, "has 3 MiB in its own folders; its limit is 1 MiB.")


def test_limits_that_are_changed_while_it_runs_hold(make: Make) -> None:
    attempt = make(python(FOREVER), max_duration=3600.0).start()
    attempt.said("up")
    write_json(attempt.folder.amended, {"max_duration": 0.5, "grace": 1.0})
    end = attempt.exit()
    assert (end.cause, end.message) == (Cause.TIME_LIMIT, "ran for its limit of 0.5 s.")
    assert attempt.events("stopping")[0]["grace"] == 1.0


def test_the_machines_notice_reclaims_it(make: Make, tmp_path: Path) -> None:
    notice = tmp_path / "notice"
    nodes = [{"name": "n", "address": "127.0.0.1", "accelerators": [], "notice": str(notice), "notice_grace": 7.0}]
    code = f"import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0))\n{FOREVER}"
    attempt = make(python(code), nodes=nodes).start()
    attempt.said("up")
    notice.write_text("")
    end = attempt.exit()
    # it saved and returned 0: reclaimed all the same
    assert (end.cause, end.code) == (Cause.RECLAIMED, 0)
    (event,) = attempt.events("stopping")
    assert (event["cause"], event["grace"]) == ("reclaimed", 7.0)


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, int]]]:
    status = {"/notice": 404}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[self.path])
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/notice", status
        server.shutdown()
        thread.join()


def test_a_url_gives_notice_when_it_answers_200(server: tuple[str, dict[str, int]]) -> None:
    url, status = server
    assert not answers(url)
    status["/notice"] = 200
    assert answers(url)


def test_notice_by_a_url(make: Make, server: tuple[str, dict[str, int]]) -> None:
    url, status = server
    status["/notice"] = 200
    nodes = [{"name": "n", "address": "127.0.0.1", "accelerators": [], "notice": url}]
    assert make(python(FOREVER), nodes=nodes).start().exit().cause is Cause.RECLAIMED


def test_paused_is_paused_whatever_it_returns(make: Make) -> None:
    code = f"import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0))\n{FOREVER}"
    attempt = make(python(code)).start()
    attempt.said("up")
    attempt.engine.stop(attempt.id, grace=9.0, cause="paused", message="asked to pause.")
    end = attempt.exit()
    assert (end.cause, end.code) == (Cause.PAUSED, 0)


class TestMemory:
    def test_a_bomb_is_an_oom_kill_and_leaves_no_cgroup(self, make: Make) -> None:
        code = "held = []\nwhile True: held.append(bytearray(b'x') * (16 << 20))"
        attempt = make(python(code), memory_bytes=200 << 20).start()
        end = attempt.exit()
        assert end.cause is Cause.OOM_KILL
        assert "200 MiB" in end.message
        assert not (attempt.node.path / "cgroup").exists()

    def test_a_child_that_is_killed_is_told_though_its_parent_lives(self, make: Make) -> None:
        if (group := memory.make(f"headway-test-{os.getpid()}", 100 << 20)) is None:
            pytest.skip("no cgroup can be made here")
        group.close()
        child = "    time.sleep(1)\n    b = bytearray(b'x') * (300 << 20)\n"
        code = f"import os, time\nif os.fork() == 0:\n{child}os.wait()\n{FOREVER}"
        end = make(python(code), memory_bytes=100 << 20).start().exit()
        assert end.cause is Cause.OOM_KILL
        # whoever sees it first: the kernel, or the runner that looks at what is used
        assert "killed by the kernel" in end.message or "its spec has 100 MiB" in end.message

    def test_what_a_fork_shares_counts_once(self) -> None:
        held = bytearray(b"x") * (64 << 20)
        children = []
        gate, start = os.pipe()
        for _ in range(3):
            if (pid := os.fork()) == 0:
                os.close(start)
                os.read(gate, 1)
                os._exit(0)
            children.append(pid)
        try:
            pids = [os.getpid(), *children]
            assert memory.resident(pids) > 4 * len(held)
            assert memory.proportional(pids) < memory.resident([os.getpid()]) + len(held)
        finally:
            os.close(start)
            os.close(gate)
            for pid in children:
                os.waitpid(pid, 0)

    def test_the_machine_ends_runs_first(self, make: Make) -> None:
        attempt = make(python("print(open('/proc/self/oom_score_adj').read())")).start()
        attempt.exit()
        assert attempt.lines()[0] == "800"


def test_samples_say_what_each_process_uses(make: Make) -> None:
    attempt = make(python(FOREVER), processes=2).start()
    (line,) = eventually(lambda: read_records(attempt.node.usage)[0][:1], "a sample")
    assert sorted(one["rank"] for one in line["each"]) == [0, 1]
    assert all(one["rss_bytes"] > 1 << 20 for one in line["each"])
    assert line["rss_bytes"] == sum(one["rss_bytes"] for one in line["each"])
    assert {"read_bytes", "write_bytes", "received_bytes", "sent_bytes", "disk_free_bytes"} <= line.keys()


def test_a_long_run_is_sampled_ever_more_rarely() -> None:
    age, lines = 0.0, 0
    while age < 30 * 86400:
        age += usage.interval(age)
        lines += 1
    assert usage.interval(0.0) == 5.0
    assert lines < 25_000


def test_the_start_says_what_the_node_is_like(make: Make) -> None:
    nodes = [{"name": "n", "address": "127.0.0.1", "accelerators": [0, 1]}]
    attempt = make(python("pass"), nodes=nodes, memory_bytes=1 << 60).start()
    attempt.exit()
    said = diag(attempt)
    for words in ("CPUs:", "inodes free under", "/dev/shm:", "ulimit -n", "this run owns 0, 1", "memory:"):
        assert words in said
    assert "that is more than the machine has" in " ".join(e["message"] for e in attempt.events("warning"))


def test_bytes_of_folders_count_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * (1 << 20))
    os.link(tmp_path / "a" / "b" / "file", tmp_path / "a" / "again")
    (tmp_path / "a" / "link").symlink_to("/")
    alone = occupied([str(tmp_path / "a" / "b")])
    both = occupied([str(tmp_path / "a"), str(tmp_path / "a" / "b"), str(tmp_path / "none")])
    assert 1 << 20 <= alone <= both < alone + (64 << 10)


class TestTracking:
    SERVER = (
        "import os, signal, socket\nserver = socket.socket(fileno=int(os.environ['HEADWAY_TRACKING_FD']))\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('flushed', flush=True), os._exit(0)))\n"
        "while True:\n    with server.accept()[0] as one: one.sendall(os.environ['MLFLOW_TRACKING_TOKEN'].encode())"
    )
    CLIENT = (
        "import os, socket\nhost, port = os.environ['MLFLOW_TRACKING_URI'][7:].split(':')\n"
        "with socket.create_connection((host, int(port))) as one:\n"
        "    print(one.recv(99).decode() == os.environ['MLFLOW_TRACKING_TOKEN'])"
    )

    def test_the_first_connection_starts_it_and_the_end_ends_it(self, make: Make) -> None:
        attempt = make(python(self.CLIENT), tracking=python(self.SERVER)).start()
        assert attempt.exit().cause is Cause.DONE
        assert attempt.lines() == ["True"]
        assert "flushed" in diag(attempt)
        assert attempt.processes() == []

    def test_one_that_died_is_started_again(self, make: Make) -> None:
        server = self.SERVER + "\n    os._exit(3)"
        attempt = make(python(f"for _ in range(3):\n    exec({self.CLIENT!r})"), tracking=python(server)).start()
        attempt.exit()
        assert attempt.lines() == ["True"] * 3

    def test_without_a_connection_nothing_is_started(self, make: Make) -> None:
        attempt = make(python("pass"), tracking=["/nowhere"]).start()
        assert attempt.exit().cause is Cause.DONE
        assert "tracking" not in diag(attempt)

    def test_the_users_own_endpoint_stays(self, make: Make) -> None:
        environment = {"PATH": os.environ["PATH"], "MLFLOW_TRACKING_URI": "http://mine"}
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        attempt = make(python(code), tracking=["/nowhere"], environment=environment).start()
        attempt.exit()
        found = json.loads(attempt.lines()[0])
        assert (found["MLFLOW_TRACKING_URI"], "MLFLOW_TRACKING_TOKEN" in found) == ("http://mine", False)
