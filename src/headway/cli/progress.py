"""Progress: a Rich bar on a terminal, nothing or plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.client.pushing.progress import Progress

#: seconds between two lines where there is no terminal
_PAUSE = 10.0
_STAGES = {"fetch": "fetching", "scan": "looking at", "send": "pushing", "publish": "publishing"}


@contextmanager
def bytes_shown(text: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A function that is told (bytes done, bytes in all)."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def count_shown(text: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A function that is told (done, in all)."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def push_shown(name: str, *, quiet: bool = False) -> Iterator[Callable[[Progress], None]]:
    """A function that is told a push's progress: one line on a terminal, elsewhere one now and then."""
    if quiet:
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        yield _Lines(name).tell
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        yield lambda progress: live.update(Text(push_line(name, progress), no_wrap=True), refresh=True)


class _Lines:
    def __init__(self, name: str) -> None:
        self._name, self._last = name, time.monotonic()

    def tell(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= _PAUSE:
            self._last = time.monotonic()
            print(push_line(self._name, progress), file=sys.stderr, flush=True)


def push_line(name: str, progress: Progress) -> str:
    """`pushing digits: 12,000 of 20,000 files, 240 MB of 400 MB, 80 MB/s, 2s left`"""
    from headway.rules.units import render_duration, render_size

    said = [f"{progress.files:,} files"]
    if progress.stage == "send":
        said = [f"{progress.files:,} of {progress.of_files:,} files"]
    if progress.of_bytes and progress.stage != "scan":
        said.append(f"{render_size(progress.bytes)} of {render_size(progress.of_bytes)}")
    if progress.rate and progress.stage in ("fetch", "send"):
        said.append(f"{render_size(int(progress.rate))}/s")
    if progress.left is not None:
        said.append(f"{render_duration(progress.left)} left")
    return f"{_STAGES[progress.stage]} {name}: {', '.join(said[1:] if progress.stage == 'fetch' else said)}"
