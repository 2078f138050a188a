"""Files, identities, hints, launches and exits as servers and runners share them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headway.protocol import hints, identity
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import LogLine, log_lines, read_json, read_lines, read_records, write_json, write_whole
from headway.protocol.launch import Launch
from headway.protocol.names import parameter_variable


def test_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"one")
    write_whole(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "folder"]


def test_json_there_and_back(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none") is None
    write_json(tmp_path / "j", {"word": "数据"})
    assert read_json(tmp_path / "j") == {"word": "数据"}
    (tmp_path / "bad").write_text("{")
    with pytest.raises(ValueError):
        read_json(tmp_path / "bad")


def test_only_complete_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    assert read_lines(file, 0) == ([], 0)
    file.write_bytes(b"one\ntwo\nthr")
    assert read_lines(file, 0) == ([b"one", b"two"], 8)
    assert read_lines(file, 8) == ([], 8)
    file.write_bytes(b"one\ntwo\nthree\n")
    assert read_lines(file, 8) == ([b"three"], 14)
    assert read_lines(file, 0, limit=2) == ([b"one"], 4)


def test_records_leave_out_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b'{"a": 1}\nnot json\n[1]\n{"b": 2}\n')
    assert read_records(tmp_path / "r")[0] == [{"a": 1}, {"b": 2}]


def test_log_lines_there_and_back(tmp_path: Path) -> None:
    line = LogLine(12.5, 3, "e", "two  spaces ")
    (tmp_path / "l").write_text(line.render() + "foreign\n")
    found = list(log_lines(tmp_path / "l"))
    assert [entry for entry, _ in found] == [line, LogLine(0.0, 0, "h", "foreign")]
    assert found[-1][1] == (tmp_path / "l").stat().st_size


def test_an_identity_is_one_process() -> None:
    own = identity.own()
    assert identity.alive(own)
    assert identity.Identity.from_json(own.to_json()) == own
    assert len({own, identity.own()}) == 1
    other = identity.Identity(own.pid, own.started + 1, own.boot)
    assert other != own
    assert not identity.alive(other)
    assert not identity.send_signal(other, signal.SIGKILL)
    assert not identity.alive(identity.Identity(own.pid, own.started, "another boot"))


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = identity.of(child.pid)
    assert found is not None
    assert identity.send_signal(found, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identity.of(child.pid) is None
    child.wait()
    assert child.stdin is not None
    child.stdin.close()


def test_hints_reach_all_listeners_and_forget_the_dead(tmp_path: Path) -> None:
    one, two = hints.Listener(tmp_path, "one"), hints.Listener(tmp_path, "two")
    hints.send(tmp_path, "attempt", "7-1")
    assert one.receive() == two.receive() == [("attempt", "7-1")]
    one._socket.close()
    hints.send(tmp_path, "run")
    assert two.receive() == [("run", "")]
    assert not one.path.exists()
    two.close()
    hints.send(tmp_path, "run")
    hints.send(None, "run")
    hints.send(tmp_path / "none", "run")


def test_the_hint_folder_of_a_deep_home_is_short() -> None:
    assert hints.folder(Path("/h")) == Path("/h/hints")
    assert len(str(hints.folder(Path("/" + "deep/" * 40)))) < 100


def test_launches_and_exits_there_and_back() -> None:
    launch = Launch(attempt="1-1", run=1, number=1, project="p", command=["x"], environment={}, cwd="/")
    assert Launch.from_json(launch.to_json()) == launch
    with pytest.raises(ValueError, match="version 2"):
        Launch.from_json({**launch.to_json(), "version": 2})
    end = Exit(Cause.EXIT, 3, None, 0, "rank 0 returned 3.", 1.0, 2.0, 3.0)
    assert Exit.from_json(end.to_json()) == end
    with pytest.raises(ValueError):
        Exit.from_json({**end.to_json(), "cause": "whim"})


def test_the_variable_of_a_parameter() -> None:
    assert parameter_variable("learning-rate") == "LEARNING_RATE"
