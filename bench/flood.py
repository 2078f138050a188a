"""What a process loses by printing more than anybody reads: ours, and `tail` as the limit.

flood      300 MB in lines of 100 bytes, printed at up to 100 MB/s, to the end of the process, s
flood_2    the same in lines of two bytes, s
"""

from __future__ import annotations

import subprocess
from functools import partial

from _rig import PYTHON, Headway, Row, arguments, folder, headway, in_turn, report

TOTAL, RATE = 300_000_000, 100e6
#: prints, and says in its last line how many seconds that took
FLOOD = """
import os, sys, time
total, length, rate = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
block = (b"y" * (length - 1) + b"\\n") * (32768 // length)
start, sent = time.monotonic(), 0
while sent < total:
    time.sleep(max(0.0, start + sent / rate - time.monotonic()))
    view = memoryview(block)
    while view: view = view[os.write(1, view):]
    sent += len(block)
print(time.monotonic() - start)
"""


def command(length: int) -> list[str]:
    return [PYTHON, "-c", FLOOD, str(TOTAL), str(length), str(RATE)]


def by_headway(ours: Headway, length: int) -> float:
    run = ours.done(command(length))
    return float(ours.client.runs.logs(run, tail=1).lines[-1].text)


def by_tail(length: int) -> float:
    with subprocess.Popen(command(length), stdout=subprocess.PIPE) as flood:
        done = subprocess.run(["tail", "-n", "1"], stdin=flood.stdout, capture_output=True, check=True, text=True)
    return float(done.stdout)


def main() -> None:
    options = arguments(__doc__ or "")
    rows = []
    with folder() as base, headway(base / "home") as ours:
        for what, length in (("flood", 100), ("flood_2", 2)):
            if options.only and what not in options.only:
                continue
            row = Row(what, "s", "lower", target="<= 1.2 x limit")
            turns = 1 if options.quick else 5
            row.ours, row.limit = in_turn(turns, partial(by_headway, ours, length), partial(by_tail, length))
            rows.append(row)
    report("flood", rows, {})


if __name__ == "__main__":
    main()
