"""How attempts end: limits, stops, fences, gangs, and what is written about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.engines.local import LocalEngine
from headway.protocol import hints, identity
from headway.protocol.exits import Cause
from headway.protocol.files import read_json, read_records, write_json
from headway.runner.run import read_launch
from headway.testing.engines import FOREVER, STUBBORN, WITH_SESSION, Attempt, eventually, python

Make = Callable[..., Attempt]


def test_one_rank_that_fails_ends_the_gang(make: Make) -> None:
    code = "import os, sys\nif os.environ['RANK'] == '1': sys.exit(9)\n" + FOREVER
    end = make(python(code), processes=3).start().exit()
    assert (end.cause, end.code, end.rank) == (Cause.EXIT, 9, 1)


def test_the_reason_of_a_failure_has_its_last_words(make: Make) -> None:
    end = make(python("import sys; print('begins', file=sys.stderr); raise KeyError('learning_rate')")).start().exit()
    assert end.message == "rank 0 returned 1: KeyError: 'learning_rate'."


def test_a_rank_that_returns_0_does_not_end_the_others(make: Make) -> None:
    code = "import os, time\nif os.environ['RANK'] == '0': raise SystemExit\ntime.sleep(0.3)\nprint('last')"
    attempt = make(python(code), processes=2).start()
    assert attempt.exit().cause is Cause.DONE
    assert attempt.lines() == ["last"]


def test_the_time_limit_holds_with_nobody_else_alive(make: Make) -> None:
    end = make(python(STUBBORN), max_duration=0.3, grace=0.3).start().exit()
    assert (end.cause, end.signal) == (Cause.TIME_LIMIT, signal.SIGKILL)
    assert "0.3 s" in end.message


def test_too_much_memory_is_an_oom_kill(make: Make) -> None:
    code = "import time; held = b'x' * (300 << 20)\nwhile True: time.sleep(0.1)"
    end = make(python(code), memory_bytes=100 << 20).start().exit()
    assert end.cause is Cause.OOM_KILL
    assert "100 MiB" in end.message


def test_a_later_attempt_ends_it(make: Make) -> None:
    attempt = make(python(FOREVER)).start()
    attempt.said("up")
    attempt.folder.fence.write_text("2")
    identity.send_signal(attempt.runner(), signal.SIGTERM)
    assert attempt.exit().cause is Cause.FENCED


def test_a_run_whose_folder_is_removed_ends_by_itself(make: Make) -> None:
    attempt = make(python(FOREVER), grace=0.1).start()
    attempt.said("up")
    runner, ranks = attempt.runner(), attempt.processes()
    shutil.rmtree(attempt.folder.path)
    eventually(lambda: not identity.alive(runner), "the runner to end")
    assert not [pid for pid in ranks if identity.of(pid)]


def test_a_request_from_before_the_start_is_honoured(make: Make) -> None:
    attempt = make(python("print('never')"))
    attempt.folder.path.mkdir(parents=True)
    write_json(attempt.folder.stop, {"grace": 1.0, "cause": "stopped", "message": "no longer wanted."})
    end = attempt.start().exit()
    assert (end.cause, end.message, end.launched) == (Cause.STOPPED, "no longer wanted.", None)
    assert attempt.lines() == []


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a tmpfs needs root")
def test_a_failure_on_a_full_disk_names_the_disk(tmp_path: Path) -> None:
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)], check=True)
    try:
        heap = root / "heap"
        code = f"import time\nwith open({str(heap)!r}, 'wb', 0) as file:\n    while True: file.write(bytes(4096))"
        attempt = Attempt(LocalEngine(root), root, python(code)).start()
        # the runner cannot even write the end: it sleeps between its tries, until there is room
        asleep = Path(f"/proc/{attempt.runner().pid}/wchan")
        eventually(lambda: heap.exists() and "nanosleep" in asleep.read_text(), "the runner to wait for room")
        heap.unlink()
        end = attempt.exit()
        assert end.cause is Cause.EXIT
        assert "No space is left" in end.message
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_asked_again_with_less_patience_it_ends_sooner(make: Make) -> None:
    attempt = make(python(STUBBORN)).start()
    attempt.said("up")
    attempt.stop(grace=3600.0)
    eventually(lambda: attempt.events("stopping"), "the first request")
    attempt.stop(grace=0.0)
    assert attempt.exit().cause is Cause.STOPPED


@pytest.mark.parametrize("asked", [{}, {"cause": "whim"}, {"grace": "soon", "message": None}])
def test_a_request_that_is_odd_stops_all_the_same(make: Make, asked: dict[str, object]) -> None:
    attempt = make(python(FOREVER), grace=2.0).start()
    attempt.said("up")
    write_json(attempt.folder.stop, asked)
    identity.send_signal(attempt.runner(), signal.SIGTERM)
    assert attempt.exit().cause is Cause.STOPPED


def test_the_stop_file_and_the_event_come_with_the_request(make: Make) -> None:
    code = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n"
        "while not os.path.exists(os.environ['HEADWAY_STOP_FILE']): time.sleep(0.01)\nprint('seen')"
    )
    attempt = make(python(code)).start()
    attempt.said("up")
    attempt.stop()
    end = attempt.exit()
    assert (end.cause, end.code) == (Cause.STOPPED, 0)
    assert attempt.lines()[-1] == "seen"
    assert attempt.events("stopping")[0]["cause"] == "stopped"


def test_a_process_left_in_the_background_does_not_outlive_the_run(make: Make) -> None:
    attempt = make(python(WITH_SESSION.replace(r"os.write(1, b'up\n')", "raise SystemExit"))).start()
    assert attempt.exit().cause is Cause.DONE
    assert attempt.processes() == []


def test_a_process_that_hides_its_environment_is_found(make: Make, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    inner = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid()))\nwhile True: time.sleep(0.1)"
    code = (
        "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
        f"    os.execve(sys.executable, [sys.executable, '-c', {inner!r}], {{}})\n"
        f"while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.01)"
    )
    assert make(python(code)).start().exit().cause is Cause.DONE
    assert identity.of(int(note.read_text())) is None


def test_launch_json_that_cannot_be_read_is_an_end(make: Make) -> None:
    attempt = make(python("pass"))
    attempt.folder.path.mkdir(parents=True)
    write_json(attempt.folder.launch, {"version": 99})
    end = attempt.start().exit()
    assert end.cause is Cause.NOT_STARTED
    assert "99" in end.message


def test_a_working_folder_that_cannot_be_made_is_an_end(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    end = make(python("pass"), cwd=str(tmp_path / "file" / "cwd")).start().exit()
    assert end.cause is Cause.NOT_STARTED


def test_exit_json_says_what_the_event_says(make: Make) -> None:
    attempt = make(python("pass")).start()
    end = attempt.exit()
    (event,) = attempt.events("exit")
    assert {k: event[k] for k in ("cause", "code", "signal", "rank", "message")} == {
        "cause": "done",
        "code": 0,
        "signal": None,
        "rank": None,
        "message": end.message,
    }
    assert end.started <= (end.launched or 0) <= end.ended
    assert end.usage["cpu_seconds"] > 0
    assert end.usage["max_rss_bytes"] > 1 << 20
    assert [e["event"] for e in read_records(attempt.node.events)[0]] == ["started", "launched", "exit"]


def test_the_runner_leaves_nothing_behind(make: Make) -> None:
    attempt = make(python("pass")).start()
    runner = attempt.runner()
    attempt.exit()
    eventually(lambda: not identity.alive(runner), "the runner's end")
    assert not Path(read_json(attempt.node.runner)["sockets"]).exists()
    assert [p.name for p in attempt.node.path.iterdir() if p.name.startswith(".")] == []


def test_hints_come_with_what_it_writes(make: Make, tmp_path: Path) -> None:
    listener = hints.Listener(tmp_path / "h", "test")
    try:
        attempt = make(python("pass"), hints=str(tmp_path / "h")).start()
        attempt.exit()
        heard = eventually(listener.receive)
        assert set(heard) == {("attempt", attempt.id)}
    finally:
        listener.close()


def test_each_rank_finds_its_place(make: Make) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    attempt = make(python(code), processes=2, environment={"MINE": "1", "PATH": os.environ["PATH"]}).start()
    attempt.exit()
    first, second = sorted((json.loads(line) for line in attempt.lines()), key=lambda e: str(e["RANK"]))
    assert (first["RANK"], second["RANK"]) == ("0", "1")
    assert (first["LOCAL_RANK"], second["LOCAL_RANK"]) == ("0", "1")
    for found in (first, second):
        assert found["MINE"] == "1"
        assert found["WORLD_SIZE"] == found["LOCAL_WORLD_SIZE"] == "2"
        assert found["NODE_RANK"] == "0"
        assert found["MASTER_ADDR"] == "127.0.0.1"
        assert found["MASTER_PORT"] == first["MASTER_PORT"]
        assert found["HEADWAY_ATTEMPT"] == attempt.id


def test_what_a_runner_reads_is_what_a_launch_has(make: Make) -> None:
    attempt = make(["x"], max_duration=3.0)
    attempt.folder.path.mkdir(parents=True)
    write_json(attempt.folder.launch, attempt.launch.to_json())
    assert vars(read_launch(str(attempt.folder.launch))) == attempt.launch.to_json()
