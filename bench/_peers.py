"""The peers: Ray and Slurm on this machine, each started in a temporary folder and ended with the benchmark."""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _rig import CLOCK, NOTHING, REPOSITORY, folder, say, until

RAY = REPOSITORY / ".peers" / "ray" / "bin" / "ray"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Daemons:
    """Processes that are ended together, last one first."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        with (self.where / f"{name}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def check(self) -> bool:
        """Always True; raises RuntimeError with the last words of a daemon that has ended."""
        for process in self.processes:
            if process.poll() is not None:
                name = Path(str(process.args[0])).name  # type: ignore[index]
                logs = "".join(p.read_text(errors="replace") for p in self.where.glob(f"{name}*.log"))
                raise RuntimeError(f"{name} ended: {logs.strip()[-300:]}")
        return True

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Slurm:
    """slurmctld, slurmd and munged for one node with as many CPUs as are given."""

    name = "slurm"

    def __init__(self, where: Path, cpus: int = 2) -> None:
        self.where = where
        self._daemons = Daemons(where)
        host = socket.gethostname().split(".")[0]
        (where / "key").write_bytes(secrets.token_bytes(1024))
        (where / "key").chmod(0o600)
        for name in ("state", "spool"):
            (where / name).mkdir()
        user = "root" if os.getuid() == 0 else os.environ.get("USER", str(os.getuid()))
        settings = {
            "ClusterName": "bench",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": free_port(),
            "SlurmdPort": free_port(),
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={where}/munge.sock",
            "StateSaveLocation": where / "state",
            "SlurmdSpoolDir": where / "spool",
            "SlurmctldPidFile": where / "slurmctld.pid",
            "SlurmdPidFile": where / "slurmd.pid",
            "SlurmctldLogFile": where / "slurmctld-own.log",
            "SlurmdLogFile": where / "slurmd-own.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            # as quick as it can be made: by default a batch job waits up to three seconds for others to come
            "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=1",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU",
            "ReturnToService": 2,
            "MpiDefault": "none",
            "JobAcctGatherType": "jobacct_gather/none",
            "AccountingStorageType": "accounting_storage/none",
            "NodeName": f"{host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN",
            "PartitionName": f"main Nodes={host} Default=YES MaxTime=INFINITE State=UP",
        }
        self.configuration = where / "slurm.conf"
        self.configuration.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        self.environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        self.host = host

    @staticmethod
    def absent() -> str | None:
        """Why it cannot be started; None when it can."""
        gone = [n for n in ("slurmctld", "slurmd", "sbatch", "munged") if not _which(n)]
        return f"no {gone[0]} here; `make peers`" if gone else None

    def up(self) -> None:
        where = self.where
        munged = [_which("munged") or "munged", "--foreground", "--force", f"--socket={where}/munge.sock"]
        munged += [f"--{k}-file={where}/{v}" for k, v in (("key", "key"), ("pid", "munge.pid"), ("log", "munge.log"))]
        self._daemons.start("munged", [*munged, f"--seed-file={where}/seed"])
        until(lambda: self._daemons.check() and (where / "munge.sock").exists(), 10, "munged")
        conf = ["-D", "-f", str(self.configuration)]
        self._daemons.start("slurmctld", [_which("slurmctld") or "", *conf], self.environment)
        self._daemons.start("slurmd", [_which("slurmd") or "", *conf, "-N", self.host], self.environment)
        until(lambda: self._daemons.check() and "idle" in self._ask("sinfo", "-h", "-o", "%T"), 60, "slurm", 0.2)

    def down(self) -> None:
        self._daemons.stop()

    def pids(self) -> list[int]:
        return [p.pid for p in self._daemons.processes]

    def _ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, env=self.environment).stdout

    def _submit(self, command: list[str], output: str) -> None:
        words = " ".join(f"'{w}'" for w in command)
        submit = ["sbatch", "--parsable", "-n1", "-o", output, "--wrap", f"exec {words}"]
        subprocess.run(submit, check=True, capture_output=True, env=self.environment, cwd=self.where)

    def _idle(self) -> bool:
        return not self._ask("squeue", "-h").strip()

    def first_line(self) -> float:
        output = self.where / f"out-{secrets.token_hex(4)}"
        # slurmctld looks once a second: not always just after it has looked
        time.sleep(random.random())
        start = time.time()
        self._submit(CLOCK, str(output))
        line = until(lambda: output.exists() and output.read_text().strip(), 60, "a Slurm job's output", 0.01)
        until(self._idle, 60, "Slurm to be idle", 0.1)
        return float(line) - start

    def throughput(self, runs: int) -> float:
        start = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: self._submit(NOTHING, "/dev/null"), range(runs)))
        until(self._idle, 600, "Slurm to be idle", 0.1)
        return runs / (time.perf_counter() - start)

    def help(self) -> list[str]:
        return ["sbatch", "--help"]


class Ray:
    """A Ray head with its dashboard (which takes the jobs), from .peers/ray."""

    name = "ray"

    def __init__(self, where: Path, cpus: int = 2) -> None:
        self.where = where
        self.cpus = cpus
        self._daemons = Daemons(where)
        self.dashboard = free_port()
        self.address = f"http://127.0.0.1:{self.dashboard}"
        self.environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": self.address}

    @staticmethod
    def absent() -> str | None:
        return None if RAY.exists() else "no .peers/ray; `make peers`"

    def up(self) -> None:
        environment = {k: v for k, v in self.environment.items() if k != "RAY_ADDRESS"}
        command = [str(RAY), "start", "--head", "--block", f"--num-cpus={self.cpus}", f"--port={free_port()}"]
        command += ["--dashboard-host=127.0.0.1", f"--dashboard-port={self.dashboard}", f"--temp-dir={self.where}"]
        self._daemons.start("ray", command, environment)
        until(lambda: self._daemons.check() and self._answers(), 120, "ray", 0.5)

    def _answers(self) -> bool:
        ask = [str(RAY), "job", "list"]
        return subprocess.run(ask, capture_output=True, env=self.environment).returncode == 0

    def down(self) -> None:
        self._daemons.stop()

    def pids(self) -> list[int]:
        return [p.pid for p in self._daemons.processes]

    def first_line(self) -> float:
        start = time.time()
        submit = [str(RAY), "job", "submit", "--", *CLOCK]
        output = subprocess.run(submit, check=True, capture_output=True, text=True, env=self.environment).stdout
        found = re.search(r"^(\d{10}\.\d+)$", output, re.MULTILINE)
        if found is None:
            raise SystemExit(f"bench: no line from a Ray job: {output[-500:]}")
        return float(found[1]) - start

    def throughput(self, runs: int) -> float:
        """Submitted and followed through its own SDK in one process: quicker for it than a command for each."""
        code = f"""
import time
from ray.job_submission import JobSubmissionClient
client = JobSubmissionClient({self.address!r})
start = time.perf_counter()
left = {{client.submit_job(entrypoint={" ".join(NOTHING)!r}) for _ in range({runs})}}
while left:
    left = {{i for i in left if not client.get_job_status(i).is_terminal()}}
    time.sleep(0.1)
print({runs} / (time.perf_counter() - start))
"""
        python = str(RAY.parent / "python")
        done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, env=self.environment)
        return float(done.stdout.split()[-1])

    def help(self) -> list[str]:
        return [str(RAY), "--help"]


KINDS: tuple[type[Slurm] | type[Ray], ...] = (Slurm, Ray)


@contextlib.contextmanager
def running(kind: type[Slurm] | type[Ray], missing: dict[str, str]) -> Iterator[Slurm | Ray | None]:
    """A peer that is up within the block; None, with the reason in `missing`, when it cannot be."""
    why = kind.absent()
    if why is not None:
        missing[kind.name] = why
        yield None
        return
    with folder() as where:
        peer = kind(where)
        try:
            say(f"starting {kind.name}")
            try:
                peer.up()
            except (RuntimeError, SystemExit, OSError) as error:
                missing[kind.name] = " ".join(str(error).split())
                yield None
                return
            yield peer
        finally:
            peer.down()


def _which(name: str) -> str | None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return shutil.which(name, path=path)


if __name__ == "__main__":
    sys.exit("This is a part of the other benchmarks.")
