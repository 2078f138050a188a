"""The engine of one machine: runners are processes of this host, found again by identity."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

import headway.runner
from headway.engines.base import Engine, NodeObservation, Observation, Presence
from headway.errors import UsageError
from headway.protocol import identity, layout, names
from headway.protocol.files import AttemptFolder, NodeFolder, read_json, write_first, write_json
from headway.protocol.launch import Launch
from headway.rules.records import Node
from headway.runner import memory

_STARTER = Path(headway.runner.__file__).with_name("starter.py")
#: modules that are loaded once for the helpers of all evaluation workers
_CELLS = ("headway.helper.__main__", "headway.helper.cells")
#: starters that are killed one after the other before a runner counts as one that cannot be started
STARTS = 5
#: a runner that has not claimed its attempt after this long never will
CLAIM_SECONDS = 30.0
#: attempts whose number of nodes is remembered
COUNTS = 10_000
#: what `sweep` puts in the place of a runner that never came
_NOBODY = {"pid": 0, "started": 0, "boot": "", "at": 0.0}


class _Starter:
    """The process that forks runners; started when first needed, and again when it is gone."""

    def __init__(self, python: str, *modules: str) -> None:
        """modules: of the helper's, that it has loaded besides the runner's."""
        # what a runner needs is in Python itself, what a helper needs may be not
        self._command = [python, "-I", *([] if modules else ["-S"]), str(_STARTER), *modules]
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def start(self, folder: Path, index: int) -> None:
        """Returns once the runner is detached. Raises OSError when it could not be started."""
        with self._turn:
            for _ in range(STARTS):
                if self._process is None or self._process.poll() is not None:
                    self._process = self._spawn()
                stdin, stdout = self._process.stdin, self._process.stdout
                assert stdin is not None and stdout is not None
                with contextlib.suppress(OSError):
                    stdin.write(os.fsencode(folder) + b"\t%d\n" % index)
                    if stdout.readline():
                        return
                # it was killed: what it had been told may or may not have been done, and doing it twice does no harm
                self._end(self._process)
                self._process = None
        raise OSError(f"the runner in {folder} could not be started: its starter ended")

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            start_new_session=True,
        )

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        with self._turn:
            if self._process is not None:
                self._end(self._process)
                self._process = None


class LocalEngine(Engine):
    name = "local"

    def __init__(
        self, root: Path, *, python: str = sys.executable, node_file: Path | None = None, node_name: str | None = None
    ) -> None:
        """root: the shared root. python: the interpreter that runners start in. node_file: YAML that declares nodes."""
        self._root = root
        self._starter = _Starter(python)
        # evaluations start many helpers, and each would load for longer than its first cells take
        self._cells_starter = _Starter(python, *_CELLS)
        self._node_file = node_file
        self._node_name = node_name or os.uname().nodename
        #: attempt -> its number of nodes
        self._counts: dict[str, int] = {}

    # -- nodes

    def nodes(self, now: float) -> list[Node]:
        """This machine, or what the node file declares. Raises UsageError on a node file that cannot be understood."""
        if self._node_file is not None and self._node_file.exists():
            return self._declared(self._node_file, now)
        cpus = len(psutil.Process().cpu_affinity() or []) or psutil.cpu_count() or 1
        return [
            Node(
                name=self._node_name,
                engine=self.name,
                address="127.0.0.1",
                cpus=float(cpus),
                memory_bytes=psutil.virtual_memory().total,
                accelerators=_accelerators(),
                declared=False,
                seen_at=now,
            )
        ]

    def _declared(self, file: Path, now: float) -> list[Node]:
        from headway.rules.units import parse_size as size

        try:
            raw = yaml.safe_load(file.read_text(encoding="utf-8")) or []
            nodes = raw["nodes"] if isinstance(raw, dict) else raw
            found = [
                Node(
                    name=str(node.get("name", f"{self._node_name}-{position}")),
                    engine=self.name,
                    address=str(node.get("address", "127.0.0.1")),
                    cpus=float(node["cpus"]),
                    memory_bytes=size(node["memory"]),
                    accelerators=[
                        {
                            "index": index,
                            "kind": str(device.get("kind", "")),
                            "memory_bytes": size(device.get("memory", 0)),
                            "uuid": f"declared-{position}-{index}",
                        }
                        for index, device in enumerate(node.get("accelerators", []))
                    ],
                    declared=True,
                    seen_at=now,
                    notice=str(node["notice"]) if node.get("notice") else None,
                )
                for position, node in enumerate(nodes)
            ]
            for node in found:
                if not (math.isfinite(node.cpus) and node.cpus > 0 and node.memory_bytes > 0):
                    raise ValueError(f"node {node.name!r} has no CPUs or no memory")
            if len({node.name for node in found}) < len(found):
                raise ValueError("two nodes have the same name")
            return found
        except (KeyError, TypeError, ValueError, AttributeError, UsageError, yaml.YAMLError) as error:
            raise UsageError(
                f"{file} does not declare nodes: {str(getattr(error, 'message', error)).rstrip('.')}.",
                "Write a list of {name, cpus, memory, address, notice, accelerators: [{kind, memory}]}.",
            ) from None

    # -- attempts

    def _folder(self, attempt: str) -> AttemptFolder:
        return AttemptFolder.of(self._root, attempt)

    def start(self, launch: Launch) -> None:
        folder = self._folder(launch.attempt)
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not folder.launch.exists():
            write_first(folder.launch, launch.to_json())
        for index in range(self._count(launch.attempt, folder)):
            # of two runners that were started at once, the second finds the node claimed and ends
            if not folder.node(index).runner.exists():
                (self._cells_starter if launch.plan.get("cells") else self._starter).start(folder.path, index)

    def close(self) -> None:
        """Ends the starters; runs go on."""
        self._starter.close()
        self._cells_starter.close()

    def _count(self, attempt: str, folder: AttemptFolder) -> int:
        """Nodes of the attempt: what its launch.json says, which never changes; 1 while there is none."""
        if (known := self._counts.get(attempt)) is not None:
            return known
        try:
            count = max(1, len(read_json(folder.launch)["nodes"]))
        except (OSError, ValueError, TypeError, KeyError):
            return 1
        if len(self._counts) > COUNTS:
            self._counts = {}
        self._counts[attempt] = count
        return count

    def _nodes(self, attempt: str) -> tuple[AttemptFolder, list[NodeFolder]]:
        folder = self._folder(attempt)
        return folder, [folder.node(index) for index in range(self._count(attempt, folder))]

    def observe(self, attempts: Iterable[str]) -> Mapping[str, Observation]:
        return {attempt: self._observe(attempt) for attempt in attempts}

    def _observe(self, attempt: str) -> Observation:
        folder, nodes = self._nodes(attempt)
        return Observation.of([_observe_node(folder, node) for node in nodes])

    def stop(self, attempt: str, *, grace: float, cause: str, message: str) -> None:
        folder, nodes = self._nodes(attempt)
        if not folder.path.exists() or all(node.exit.exists() for node in nodes):
            return
        try:
            if grace < _grace(folder):
                write_json(folder.stop, {"grace": grace, "cause": cause, "message": message, "at": time.time()})
        finally:
            # also when a full disk did not take our words: the runner then stops for the reason "stopped"
            for node in nodes:
                if (runner := _runner(node)) is not None:
                    identity.send_signal(runner, signal.SIGTERM)

    def amend(self, attempt: str, changes: Mapping[str, Any]) -> None:
        folder = self._folder(attempt)
        if folder.path.exists():
            write_json(folder.amended, dict(changes))

    def sweep(self, attempt: str, node: int | None = None, *, lost: bool = False) -> None:
        folder, nodes = self._nodes(attempt)
        if not folder.launch.exists():
            return
        alive = {i for i, one in enumerate(nodes) if (runner := _runner(one)) and identity.alive(runner)}
        swept = [i for i in range(len(nodes)) if node in (None, i) and (lost or i not in alive)]
        for index in swept:
            if _raw_runner(nodes[index]) is None:
                # a runner that was started and is slow must find its node taken
                nodes[index].path.mkdir(mode=0o700, exist_ok=True)
                write_first(nodes[index].runner, _NOBODY)
        # a process that hides its node is one of those that are swept when all are
        ranks = None if len(swept) == len(nodes) else frozenset(f"{names.NODE_RANK}={i}".encode() for i in swept)
        if swept:
            _kill_marked(f"{names.ATTEMPT_PATH}={os.path.realpath(folder.path)}".encode(), ranks)
        for index in swept:
            raw = _raw_runner(nodes[index])
            if index not in alive and raw is not None and (sockets := raw.get("sockets")):
                shutil.rmtree(sockets, ignore_errors=True)
            if index not in alive:
                _remove_group(nodes[index])


def _observe_node(folder: AttemptFolder, node: NodeFolder) -> NodeObservation:
    heartbeat = None
    with contextlib.suppress(OSError):
        heartbeat = node.heartbeat.stat().st_mtime
    if node.exit.exists():
        return NodeObservation(Presence.ENDED, heartbeat)
    runner = _runner(node)
    if runner is None:
        return NodeObservation(_unclaimed(folder, time.time()), heartbeat)
    if identity.alive(runner) or _kept(node):
        return NodeObservation(Presence.ALIVE, heartbeat)
    # it may have written its last word between our two looks
    return NodeObservation(Presence.ENDED if node.exit.exists() else Presence.LOST, heartbeat)


def _kill_marked(marker: bytes, ranks: frozenset[bytes] | None) -> None:
    """Every process whose environment has the attempt's marker and, unless that is None, one of `ranks`."""
    for _ in range(20):  # what forks while we look is found the next time
        left = [
            pid
            for pid in psutil.pids()
            if marker in (words := _environment(pid)) and (ranks is None or not ranks.isdisjoint(words))
        ]
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _grace(folder: AttemptFolder) -> float:
    """The grace period that the attempt was asked to end within; infinite while it was not asked."""
    try:
        return float(read_json(folder.stop)["grace"])
    except (OSError, ValueError, TypeError, KeyError):
        return math.inf


def _unclaimed(folder: AttemptFolder, now: float) -> Presence:
    """Of an attempt without a runner.json: one that was handed over a while ago will not be claimed any more."""
    try:
        handed = folder.launch.stat().st_mtime
    except OSError:
        return Presence.UNKNOWN
    return Presence.STARTING if now - handed < CLAIM_SECONDS else Presence.LOST


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _raw_runner(node: NodeFolder) -> dict[str, Any] | None:
    try:
        raw = read_json(node.runner)
    except (OSError, ValueError):
        return None
    return raw if isinstance(raw, dict) else None


def _remove_group(node: NodeFolder) -> None:
    """The cgroup of a runner that was killed together with its keeper."""
    note = node.path / layout.CGROUP
    with contextlib.suppress(OSError):
        memory.remove(os.fsdecode(note.read_bytes()))
        note.unlink()


def _kept(node: NodeFolder) -> bool:
    """Whether the runner's keeper is still putting its last lines into the log, and ending what it left."""
    raw = (_raw_runner(node) or {}).get("keeper")
    try:
        return raw is not None and identity.alive(identity.Identity.from_json(raw))
    except (KeyError, ValueError, TypeError):
        return False


def _runner(node: NodeFolder) -> identity.Identity | None:
    raw = _raw_runner(node)
    try:
        return None if raw is None else identity.Identity.from_json(raw)
    except (KeyError, ValueError, TypeError):
        return None


def _accelerators() -> list[dict[str, Any]]:
    """What NVML reports; nothing where there is no driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        return []
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            found.append(
                {
                    "index": index,
                    "kind": str(pynvml.nvmlDeviceGetName(device)),
                    "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(device).total),
                    "uuid": str(pynvml.nvmlDeviceGetUUID(device)),
                }
            )
        return found
    finally:
        pynvml.nvmlShutdown()
