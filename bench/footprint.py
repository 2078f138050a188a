"""What headway costs while it does nothing: ours, Ray and Slurm, and bare interpreters as the limit.

idle_rss   resident memory of all its processes together, shared pages counted in each, MB
idle_cpu   CPU of all its processes over a minute, per cent of one CPU
cli_help   `headway --help`, s
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import time
from collections.abc import Iterator

from _peers import KINDS, Ray, Slurm, running
from _rig import (
    NOTHING,
    PYTHON,
    Row,
    arguments,
    cpu_seconds,
    family,
    folder,
    headway,
    in_turn,
    report,
    resident,
    say,
    took,
)


def watch(pids: list[int], seconds: float, settle: float) -> tuple[float, float]:
    """MB and per cent of one CPU of these processes and all below them."""
    time.sleep(settle)
    processes = [p for pid in pids for p in family(pid)]
    before, start = cpu_seconds(processes), time.monotonic()
    time.sleep(seconds)
    used, passed = cpu_seconds(processes) - before, time.monotonic() - start
    return resident(processes), 100 * used / passed


@contextlib.contextmanager
def bare(count: int) -> Iterator[list[int]]:
    """As many interpreters that only wait."""
    command = [PYTHON, "-c", "import sys; sys.stdin.read()"]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield [p.pid for p in processes]
    finally:
        for process in processes:
            process.communicate()


def main() -> None:
    options = arguments(__doc__ or "")
    seconds, settle, rounds = (5.0, 2.0, 3) if options.quick else (60.0, 10.0, 10)
    rows = {
        "idle_rss": Row("idle_rss", "MB", "lower", target="<= 400"),
        "idle_cpu": Row("idle_cpu", "%", "lower", target="< 1"),
        "cli_help": Row("cli_help", "s", "lower", target="< 0.25"),
    }
    wanted = [r for r in rows if not options.only or r in options.only]
    idle = bool({"idle_rss", "idle_cpu"} & set(wanted))
    missing: dict[str, str] = {}
    if idle:
        with folder() as base, headway(base / "home") as ours:
            if not ours.wait_for_console():
                say("without the console, which is not installed")
            say("ours, idle")
            rows["idle_rss"].ours, rows["idle_cpu"].ours = watch([ours.pid], seconds, settle)
            parts = family(ours.pid)
            for process in parts:
                say(f"  {process.memory_info().rss / 1e6:6.1f} MB  {' '.join(process.cmdline()[1:4])}")
        with bare(len(parts)) as pids:
            rows["idle_rss"].limit, rows["idle_cpu"].limit = watch(pids, min(seconds, 5.0), 1.0)
    missing.update({k.name: why for k in KINDS if (why := "left out" if options.no_peers else k.absent())})
    here = [kind for kind in KINDS if kind.name not in missing]
    if idle:
        for kind in here:
            watch_peer(kind, rows, missing, seconds, settle)
    if "cli_help" in wanted:
        say("cli_help")
        help_row(rows["cli_help"], here, rounds)
    report("footprint", [rows[r] for r in wanted], missing)


def help_row(row: Row, kinds: list[type[Slurm] | type[Ray]], rounds: int) -> None:
    with contextlib.ExitStack() as stack:
        # none is started; Slurm's commands only want to find a configuration
        peers = [kind(stack.enter_context(folder())) for kind in kinds]
        measures = [lambda: took([PYTHON, "-m", "headway", "--help"]), lambda: took(NOTHING)]
        measures += [functools.partial(took, peer.help(), peer.environment) for peer in peers]
        row.ours, row.limit, *others = in_turn(rounds, *measures)
        row.peers = {peer.name: value for peer, value in zip(peers, others, strict=True)}


def watch_peer(
    kind: type[Slurm] | type[Ray], rows: dict[str, Row], missing: dict[str, str], seconds: float, settle: float
) -> None:
    with running(kind, missing) as peer:
        if peer is not None:
            say(f"{kind.name}, idle")
            memory, cpu = watch(peer.pids(), seconds, settle)
            rows["idle_rss"].peers[kind.name], rows["idle_cpu"].peers[kind.name] = memory, cpu


if __name__ == "__main__":
    main()
