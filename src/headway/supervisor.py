"""`headway up`: api, controller, gateway and console as child processes of one small supervisor.

- Standard library only and no state of its own: killing it loses nothing. Its children hold the reading end of a pipe
  (the lifeline) whose writing end only the supervisor has; they end when it is gone, also after `kill -9`.
- It binds the listening sockets itself and hands them down, so a port is known before its server runs, stays bound
  while a server is restarted (requests wait in its backlog), and is never taken by somebody else in between.
- A part that ends by itself is started again after a pause that doubles from 0.1 s to 10 s, and is short again once the
  part has lived for 10 s.

Run as `python -m headway.supervisor [--json] [--ready-fd N]` with its settings in HEADWAY_* variables.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headway import config
from headway.errors import FailedError, HeadwayError, RefusedError, UsageError
from headway.protocol import identity
from headway.protocol.files import read_json, write_json

#: started at once, in this order; the console follows when these are ready, so that it does not slow them down
CORE = ("api", "controller", "gateway")
CONSOLE = "console"
#: seconds
SHORTEST_PAUSE, LONGEST_PAUSE, SETTLED = 0.1, 10.0, 10.0
#: from SIGTERM to SIGKILL for a part
GRACE = 5.0
#: failures in a row before a start that was never ready is given up
FIRST_START_TRIES = 4
LOG_BYTES, LOG_KEPT = 10 << 20, 3


@dataclass
class Part:
    name: str
    arguments: list[str]
    #: sockets handed down
    descriptors: list[int] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    ready: bool = False
    restarts: int = 0
    failures: int = 0
    #: monotonic time of the next start; None: none is due
    due: float | None = None
    #: not to be started again: what it needs is not installed
    absent: bool = False
    last_lines: list[str] = field(default_factory=list)


class Log:
    """JSON lines in HOME/log/headway.log (kept under 10 MB, three old ones), and on stdout as asked."""

    def __init__(self, folder: os.PathLike[str], *, as_json: bool) -> None:
        self.path = os.path.join(folder, "headway.log")
        self.as_json = as_json
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - open as long as the supervisor lives

    def write(self, part: str, text: str, **fields: Any) -> None:
        """`fields` go into the JSON form; people see `text`, and of parts only warnings and errors."""
        record = {"time": round(time.time(), 3), "part": part, "text": text, **fields}
        line = json.dumps(record, ensure_ascii=False)
        try:
            self._rotate()
            self._file.write(line.encode() + b"\n")
        except OSError:
            pass  # a full disk must not stop the parts
        if self.as_json:
            self._say(line)
        elif part == "up" or fields.get("level") in ("WARNING", "ERROR", "CRITICAL"):
            self._say(text if part == "up" else f"{part}: {text}")

    def _rotate(self) -> None:
        if self._file.tell() < LOG_BYTES:
            return
        self._file.close()
        for number in range(LOG_KEPT - 1, 0, -1):
            if os.path.exists(f"{self.path}.{number}"):
                os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
        os.replace(self.path, f"{self.path}.1")
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115

    @staticmethod
    def _say(line: str) -> None:
        try:
            print(line, flush=True)
        except OSError:
            pass  # whoever read it is gone


class Supervisor:
    def __init__(self, settings: config.Settings, *, as_json: bool = False) -> None:
        """Takes the home's lock and binds the ports. Raises UsageError or RefusedError; nothing is started then."""
        self.settings = settings
        self._make_folders()
        self._lock()
        self.log = Log(settings.log_folder, as_json=as_json)
        self.public = self._bind_public()
        self.internal = {name: _loopback() for name in ("api", CONSOLE)}
        host, port = settings.host, self.public.getsockname()[1]
        self.port = port
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
        self.url = f"http://{shown}:{port}"
        self.lifeline = os.pipe()
        self.selector = selectors.DefaultSelector()
        self.stopping = False
        self.told_ready = False
        self.on_ready: Callable[[dict[str, Any]], None] = lambda up: None
        self.refusal: HeadwayError | None = None
        self.parts = {name: self._describe(name) for name in (*CORE, CONSOLE)}
        self.started_at = time.time()

    # -- before the start

    def _make_folders(self) -> None:
        home = self.settings.home
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.settings.root, self.settings.log_folder, self.settings.cache):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"The folder {error.filename or home} cannot be made: {error.strerror}.",
                "Give another one with --home or HEADWAY_HOME.",
            ) from error

    def _lock(self) -> None:
        self._lock_fd = os.open(self.settings.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + 1.0
        while True:
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                # the holder may be a supervisor that is just ending
                if time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                up = read_up(self.settings) or {}
                who = f" (process {up['pid']}, {up['url']})" if up else ""
                raise RefusedError(
                    f"headway already runs on {self.settings.home}{who}.",
                    "Use it as it is, or stop it first with `headway down`.",
                    code="home_in_use",
                ) from None

    def _bind_public(self) -> socket.socket:
        host, port = self.settings.host, self.settings.port
        before = _read_quietly(self.settings.up_file)
        # after `kill -9` of a supervisor its gateway holds the port for some milliseconds more
        patience = 3.0 if before and before.get("port") == port else 0.0
        deadline = time.monotonic() + patience
        while True:
            try:
                return _listen(host, port)
            except OSError as error:
                if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                raise _cannot_bind(host, port, error) from error

    def _describe(self, name: str) -> Part:
        arguments = [sys.executable, "-m", "headway.bootstrap", name]
        descriptors = []
        listener = {"api": self.internal["api"], CONSOLE: self.internal[CONSOLE], "gateway": self.public}.get(name)
        if listener is not None:
            arguments += ["--listen-fd", str(listener.fileno())]
            descriptors.append(listener.fileno())
        if name in ("gateway", CONSOLE):
            arguments += ["--api-url", _address(self.internal["api"])]
        if name == "gateway":
            arguments += ["--console-url", _address(self.internal[CONSOLE])]
        return Part(name, arguments, descriptors)

    # -- while it runs

    def run(self) -> int:
        """Until told to stop. The exit code: 0 after a stop, else that of what made it give up."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.selector.register(wake_read, selectors.EVENT_READ, lambda: self._signalled(wake_read))
        self._write_up()
        try:
            for name in CORE:
                self._start(self.parts[name])
            while not self.stopping:
                self._turn()
        finally:
            self._stop_all()
            try:
                self.settings.up_file.unlink(missing_ok=True)
            except OSError:
                pass  # a disk that became read-only: readers see from the identity in it that nobody runs
        if self.refusal is not None:
            raise self.refusal
        self.log.write("up", "Stopped. Runs go on; `headway up` finds them again.", event="stopped")
        return 0

    def _turn(self) -> None:
        """One step: whatever has happened, then the starts that are due."""
        dues = [p.due for p in self.parts.values() if p.due is not None]
        timeout = max(0.0, min(dues) - time.monotonic()) if dues else None
        for key, _ in self.selector.select(timeout):
            key.data()
        for part in self.parts.values():
            if part.due is not None and part.due <= time.monotonic() and not self.stopping:
                self._start(part)

    def _signalled(self, fd: int) -> None:
        os.read(fd, 512)
        self.stopping = True

    def _start(self, part: Part) -> None:
        part.due, part.ready, part.started = None, False, time.monotonic()
        part.last_lines.clear()
        try:
            self._spawn(part)
        except OSError as error:
            # no memory, process or descriptor to be had now
            part.last_lines.append(str(error))
            self._again(part, f"could not be started ({error})")

    def _spawn(self, part: Part) -> None:
        """Raises OSError."""
        out_read, out_write = os.pipe()
        ready_read, ready_write = os.pipe()
        try:
            part.process = subprocess.Popen(
                [*part.arguments, "--lifeline-fd", str(self.lifeline[0]), "--ready-fd", str(ready_write)],
                stdin=subprocess.DEVNULL,
                stdout=out_write,
                stderr=out_write,
                pass_fds=[self.lifeline[0], ready_write, *part.descriptors],
                # Ctrl-C in the terminal reaches the supervisor alone, which stops its parts in order
                start_new_session=True,
            )
        except OSError:
            os.close(out_read)
            os.close(ready_read)
            raise
        finally:
            os.close(out_write)
            os.close(ready_write)
        self._watch_lines(out_read, lambda line: self._output(part, line))
        self._watch_lines(ready_read, lambda line: self._told(part, line))
        process = part.process
        pidfd = os.pidfd_open(process.pid)
        self.selector.register(pidfd, selectors.EVENT_READ, lambda: self._ended(part, process, pidfd))
        self._write_up()

    def _watch_lines(self, fd: int, take: Callable[[str], None]) -> None:
        buffer = bytearray()

        def read() -> None:
            block = os.read(fd, 65536)
            buffer.extend(block)
            *lines, rest = bytes(buffer).split(b"\n")
            buffer[:] = rest if block else b""
            if not block:
                lines = [*lines, rest] if rest else lines
                self.selector.unregister(fd)
                os.close(fd)
            for line in lines:
                take(line.decode("utf-8", "replace"))

        self.selector.register(fd, selectors.EVENT_READ, read)

    def _output(self, part: Part, line: str) -> None:
        if not line.strip():
            return
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        told = record["text"] if isinstance(record, dict) and isinstance(record.get("text"), str) else line
        part.last_lines = [*part.last_lines[-19:], " ".join(told.split())]
        if isinstance(record, dict) and told is not line:
            fields = {k: v for k, v in record.items() if k not in ("text", "part", "time")}
            self.log.write(part.name, record["text"], **fields)
        else:
            self.log.write(part.name, line)

    def _told(self, part: Part, line: str) -> None:
        """What a part says about itself: `{"ready": true}`, `{"absent": why}` or `{"refused": {...}}`."""
        word = json.loads(line)
        if "refused" in word:
            error = word["refused"]
            kind = UsageError if word.get("exit") == UsageError.exit_code else RefusedError
            if self.told_ready:
                # it had been ready once: what it needs may come back, and stopping the others would help nobody
                self.log.write(part.name, f"{error['message']} {error['remedy']}", level="ERROR")
            else:
                self.refusal = kind(error["message"], error["remedy"], code=error["code"])
                self.stopping = True
        elif "absent" in word:
            part.absent = True
            self.log.write(part.name, word["absent"], level="WARNING")
        else:
            part.ready = True
            self.log.write(part.name, f"{part.name} is ready.", event="part_ready", pid=self._pid(part))
            self._write_up()
            self._perhaps_ready()

    def _perhaps_ready(self) -> None:
        if self.told_ready or not all(self.parts[name].ready for name in CORE):
            return
        self.told_ready = True
        self._start(self.parts[CONSOLE])
        up = self._write_up()
        seconds = round(time.time() - self.started_at, 2)
        self.log.write("up", f"headway is ready at {self.url}", event="ready", seconds=seconds, **up)
        if not self.log.as_json:
            self.log.write("up", f"  token: {self.settings.admin_token_file}   next: headway run FILE | headway ls")
            self.log.write("up", "  Ctrl-C stops it (runs go on).")
        self.on_ready(up)

    def _ended(self, part: Part, process: subprocess.Popen[bytes], pidfd: int) -> None:
        self.selector.unregister(pidfd)
        os.close(pidfd)
        code = process.wait()
        if part.process is not process:
            return
        part.process, part.ready = None, False
        if self.stopping or part.absent:
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._again(part, f"ended with {how}")

    def _again(self, part: Part, how: str) -> None:
        """Has a part that `how` (one clause) started again after its pause; gives up on one that was never ready."""
        lived = time.monotonic() - part.started
        part.failures = 1 if lived >= SETTLED else part.failures + 1
        pause = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** min(part.failures - 1, 10))
        self.log.write(part.name, f"{how} after {lived:.1f} s; starting it again in {pause:.1f} s.", level="WARNING")
        if not self.told_ready and part.failures >= FIRST_START_TRIES:
            last = part.last_lines[-1] if part.last_lines else "it printed nothing"
            self.refusal = FailedError(
                f"The {part.name} {how} {part.failures} times in a row: {last[:300]}",
                f"The whole log is {self.log.path}.",
                code="part_failed",
            )
            self.stopping = True
            return
        part.restarts += 1
        part.due = time.monotonic() + pause
        self._write_up()

    def _pid(self, part: Part) -> int | None:
        return part.process.pid if part.process else None

    def _write_up(self) -> dict[str, Any]:
        """up.json as it is now; its content is returned."""
        up = {
            "url": self.url,
            "host": self.settings.host,
            "port": self.port,
            "pid": os.getpid(),
            "identity": identity.own().to_json(),
            "started": self.started_at,
            "ready": self.told_ready,
            "home": str(self.settings.home),
            "api": _address(self.internal["api"]),
            "parts": {
                p.name: {"pid": self._pid(p), "ready": p.ready, "restarts": p.restarts} for p in self.parts.values()
            },
        }
        try:
            write_json(self.settings.up_file, up)
        except OSError as error:
            self.log.write("up", f"{self.settings.up_file} could not be written: {error}.", level="ERROR")
        return up

    def _stop_all(self) -> None:
        """SIGTERM to every part, SIGKILL to those still there after the grace."""
        living = [p.process for p in self.parts.values() if p.process is not None]
        for process in living:
            process.terminate()
        deadline = time.monotonic() + GRACE
        for process in living:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


def _loopback() -> socket.socket:
    return _listen("127.0.0.1", 0)


def _address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _cannot_bind(host: str, port: int, error: OSError) -> HeadwayError:
    if error.errno == errno.EADDRINUSE:
        return RefusedError(
            f"Port {port} on {host} is in use.", "Give another one with --port (0: any free one).", code="port_in_use"
        )
    return UsageError(
        f"Port {port} on {host} cannot be opened: {error.strerror or error}.",
        "Give another one with --host and --port.",
    )


def _read_quietly(path: os.PathLike[str]) -> dict[str, Any] | None:
    from pathlib import Path

    try:
        value = read_json(Path(path))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_up(settings: config.Settings) -> dict[str, Any] | None:
    """up.json of the supervisor that runs on this home now; None when none does."""
    up = _read_quietly(settings.up_file)
    if up is None:
        return None
    try:
        return up if identity.alive(identity.Identity.from_json(up["identity"])) else None
    except (KeyError, TypeError, ValueError):
        return None


def main(arguments: list[str]) -> int:
    """The process `python -m headway.supervisor`. Errors are one sentence on stderr and on the ready pipe."""
    ready_fd = int(arguments[arguments.index("--ready-fd") + 1]) if "--ready-fd" in arguments else None

    def tell(word: dict[str, Any]) -> None:
        nonlocal ready_fd
        if ready_fd is not None:
            fd, ready_fd = ready_fd, None
            try:
                os.write(fd, json.dumps(word).encode() + b"\n")
                os.close(fd)
            except OSError:
                pass  # whoever waited is gone

    try:
        if ready_fd is not None:
            os.set_inheritable(ready_fd, False)
        supervisor = Supervisor(config.load().settings, as_json="--json" in arguments)
        supervisor.on_ready = lambda up: tell({"ready": up})
        return supervisor.run()
    except HeadwayError as error:
        tell({"error": error.as_dict(), "exit": error.exit_code})
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
