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
from headway.engines.base import Engine, Observation, Presence
from headway.errors import UsageError
from headway.protocol import identity, names
from headway.protocol.files import AttemptFolder, NodeFolder, read_json, write_json
from headway.protocol.launch import Launch
from headway.rules.records import Node

_STARTER = Path(headway.runner.__file__).with_name("starter.py")
#: a runner that has not claimed its attempt after this long never will
CLAIM_SECONDS = 30.0
#: what `sweep` puts in the place of a runner that never came
_NOBODY = {"pid": 0, "started": 0, "boot": "", "at": 0.0}


class _Starter:
    """The process that forks runners; started when first needed, and again when it is gone."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def start(self, folder: Path, index: int) -> None:
        """Returns once the runner is detached. Raises OSError when it could not be started."""
        with self._turn:
            for _ in range(2):
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
            [self._python, "-I", "-S", str(_STARTER)],
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
        self._node_file = node_file
        self._node_name = node_name or os.uname().nodename

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
                    address="127.0.0.1",
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
                "Write a list of {name, cpus, memory, accelerators: [{kind, memory}]}.",
            ) from None

    # -- attempts

    def _folder(self, attempt: str) -> AttemptFolder:
        return AttemptFolder.of(self._root, attempt)

    def start(self, launch: Launch) -> None:
        folder = self._folder(launch.attempt)
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not folder.launch.exists():
            _write_once(folder.launch, launch.to_json())
        if folder.node(0).runner.exists():
            return
        # of two runners that were started at once, the second finds the attempt claimed and ends
        self._starter.start(folder.path, 0)

    def close(self) -> None:
        """Ends the starter; runs go on."""
        self._starter.close()

    def observe(self, attempts: Iterable[str]) -> Mapping[str, Observation]:
        return {attempt: self._observe(self._folder(attempt)) for attempt in attempts}

    def _observe(self, folder: AttemptFolder) -> Observation:
        node = folder.node(0)
        heartbeat = None
        with contextlib.suppress(OSError):
            heartbeat = node.heartbeat.stat().st_mtime
        if node.exit.exists():
            return Observation(Presence.ENDED, heartbeat)
        runner = _runner(node)
        if runner is None:
            return Observation(_unclaimed(folder, time.time()), heartbeat)
        if identity.alive(runner) or _kept(node):
            return Observation(Presence.ALIVE, heartbeat)
        # it may have written its last word between our two looks
        return Observation(Presence.ENDED if node.exit.exists() else Presence.LOST, heartbeat)

    def stop(self, attempt: str, *, grace: float, cause: str, message: str) -> None:
        folder = self._folder(attempt)
        if not folder.path.exists() or folder.node(0).exit.exists():
            return
        try:
            if grace < _grace(folder):
                write_json(folder.stop, {"grace": grace, "cause": cause, "message": message, "at": time.time()})
        finally:
            # also when a full disk did not take our words: the runner then stops for the reason "stopped"
            runner = _runner(folder.node(0))
            if runner is not None:
                identity.send_signal(runner, signal.SIGTERM)

    def sweep(self, attempt: str) -> None:
        folder = self._folder(attempt)
        if not folder.launch.exists():
            return
        if _raw_runner(folder.node(0)) is None:
            # a runner that was started and is slow must find the attempt taken
            folder.node(0).path.mkdir(mode=0o700, exist_ok=True)
            _write_once(folder.node(0).runner, _NOBODY)
        raw = _raw_runner(folder.node(0))
        runner = _runner(folder.node(0))
        if runner is not None and identity.alive(runner):
            return
        marker = f"{names.ATTEMPT_PATH}={os.path.realpath(folder.path)}".encode()
        for _ in range(20):  # what forks while we look is found the next time
            left = [pid for pid in psutil.pids() if marker in _environment(pid)]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        if raw is not None and (sockets := raw.get("sockets")):
            shutil.rmtree(sockets, ignore_errors=True)


def _write_once(path: Path, value: Any) -> None:
    """Whole, and only when there is no such file yet. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    write_json(temporary, value)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


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
