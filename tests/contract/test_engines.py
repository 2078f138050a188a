"""The engine suite on the engines that headway has, and what the local one does besides."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.engines.base import Presence
from headway.engines.local import CLAIM_SECONDS, LocalEngine
from headway.errors import UsageError
from headway.protocol import identity
from headway.protocol.files import read_json, write_json
from headway.testing.engines import FOREVER, Attempt, EngineContract, python


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def engine(self, root: Path) -> LocalEngine:
        return LocalEngine(root)

    def test_one_that_is_never_claimed_is_lost(self, engine: LocalEngine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER))
        attempt.folder.path.mkdir(parents=True)
        write_json(attempt.folder.launch, attempt.launch.to_json())
        assert attempt.presence is Presence.STARTING
        old = time.time() - CLAIM_SECONDS - 1
        os.utime(attempt.folder.launch, (old, old))
        assert attempt.presence is Presence.LOST

    def test_a_swept_attempt_cannot_begin_any_more(self, engine: LocalEngine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER))
        attempt.folder.path.mkdir(parents=True)
        write_json(attempt.folder.launch, attempt.launch.to_json())
        engine.sweep(attempt.id)
        attempt.start()
        assert attempt.presence is Presence.LOST
        assert attempt.events("started") == []

    def test_sweep_leaves_a_living_attempt_alone(self, engine: LocalEngine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER)).start()
        attempt.said("up")
        engine.sweep(attempt.id)
        assert attempt.presence is Presence.ALIVE
        assert len(attempt.processes()) == 1

    def test_sweep_removes_the_sockets(self, engine: LocalEngine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER)).start()
        attempt.said("up")
        sockets = Path(read_json(attempt.node.runner)["sockets"])
        assert sockets.is_dir()
        identity.send_signal(attempt.runner(), signal.SIGKILL)
        while attempt.presence is not Presence.LOST:
            pass
        engine.sweep(attempt.id)
        assert not sockets.exists()

    def test_an_interpreter_that_is_missing_is_an_os_error(self, root: Path, make: Callable[..., Attempt]) -> None:
        attempt = make(python("pass"))
        for program in ("/nowhere/python", "/bin/false"):
            with pytest.raises(OSError):
                LocalEngine(root, python=program).start(attempt.launch)

    def test_no_descriptor_reaches_the_runner(self, root: Path, make: Callable[..., Attempt]) -> None:
        read, write = os.pipe()
        os.set_inheritable(write, True)
        try:
            attempt = make(python(FOREVER)).start()
            attempt.said("up")
            held = {os.readlink(f) for f in Path(f"/proc/{attempt.runner().pid}/fd").iterdir()}
            assert os.readlink(f"/proc/self/fd/{write}") not in held
        finally:
            os.close(read)
            os.close(write)


def test_declared_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "- {name: a, cpus: 8, memory: 32GiB,\n"
        "   accelerators: [{kind: H200, memory: 141GiB}, {kind: H200, memory: 141GiB}]}\n"
    )
    (node,) = LocalEngine(tmp_path, node_file=file).nodes(3.0)
    assert (node.name, node.cpus, node.memory_bytes, node.declared) == ("a", 8.0, 32 << 30, True)
    assert [(d["index"], d["kind"], d["memory_bytes"]) for d in node.accelerators] == [
        (0, "H200", 141 << 30),
        (1, "H200", 141 << 30),
    ]


def test_declared_nodes_may_have_an_address_and_give_notice(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "- {name: a, cpus: 1, memory: 1GiB, address: 10.0.0.7, notice: /run/taken}\n- {name: b, cpus: 1, memory: 1GiB}"
    )
    first, second = LocalEngine(tmp_path, node_file=file).nodes(3.0)
    assert (first.address, first.notice) == ("10.0.0.7", "/run/taken")
    assert (second.address, second.notice) == ("127.0.0.1", None)


@pytest.mark.parametrize(
    "text",
    [
        "- {cpus: many, memory: 1GiB}",
        "- {memory: 1GiB}",
        "[",
        "- 3",
        "nodes: 5",
        "- {cpus: 1, memory: 1 acre}",
        "- {cpus: -1, memory: 1GiB}",
        "- {cpus: .nan, memory: 1GiB}",
        "- {name: a, cpus: 1, memory: 1GiB}\n- {name: a, cpus: 1, memory: 1GiB}",
    ],
)
def test_a_node_file_that_is_none_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"nodes\.yaml"):
        LocalEngine(tmp_path, node_file=file).nodes(0.0)
