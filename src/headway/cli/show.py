"""Progress of a flow's stages: a live line on a terminal, plain lines elsewhere, nothing with --json."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from headway.rules.units import render_duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from headway.client.flow import Outcome

#: off a terminal a step is printed when it is this many per cent further
_PLAIN_SHARE = 20


class Silent:
    """Tells nothing."""

    def begin(self, stage: str, command: str) -> None: ...

    def step(self, stage: str, text: str, done: int = 0, total: int = 0) -> None: ...

    def note(self, stage: str, text: str) -> None: ...

    def end(self, stage: str, outcome: Outcome) -> None: ...

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Plain(Silent):
    """Lines on stderr: the start, some steps, the end of each stage."""

    def __init__(self) -> None:
        self._told = ""

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(self, stage: str, command: str) -> None:
        self._told = ""
        self._print(f"{stage}: $ {command}")

    def step(self, stage: str, text: str, done: int = 0, total: int = 0) -> None:
        # figures in the text change all the time: its first words and the tenths of the way say enough
        mark = f"{' '.join(text.split()[:3])} {done * 100 // total // _PLAIN_SHARE if total else ''}"
        if mark != self._told:
            self._told = mark
            self._print(f"  {text}" + (f" ({done} of {total})" if total else ""))

    def note(self, stage: str, text: str) -> None:
        self._print(f"  {text}")

    def end(self, stage: str, outcome: Outcome) -> None:
        how = "found" if outcome.found else f"done in {render_duration(outcome.seconds)}"
        self._print(f"  {how}: {outcome.text}")


class Live(Silent):
    """A bar that moves, with what is worth keeping printed above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True, highlight=False)
        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Live:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, stage: str, command: str) -> None:
        from rich.markup import escape

        self._drop()
        self._console.print(f"[bold]{stage}[/bold]  [dim]$ {escape(command)}[/dim]", soft_wrap=True)
        self._task = self._progress.add_task(stage, total=None)

    def step(self, stage: str, text: str, done: int = 0, total: int = 0) -> None:
        from rich.markup import escape

        if self._task is not None:
            self._progress.update(self._task, description=escape(text), completed=done, total=total or None)

    def note(self, stage: str, text: str) -> None:
        from rich.markup import escape

        self._console.print(f"  [yellow]{escape(text)}[/yellow]", soft_wrap=True)

    def end(self, stage: str, outcome: Outcome) -> None:
        from rich.markup import escape

        self._drop()
        how = "found" if outcome.found else render_duration(outcome.seconds)
        self._console.print(f"  [green]✓[/green] {escape(outcome.text)} [dim]({how})[/dim]", soft_wrap=True)

    def _drop(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


def reporter(*, as_json: bool) -> Silent:
    """The one that fits: live on a terminal, plain lines otherwise (on stderr, also with --json)."""
    return Live() if sys.stderr.isatty() and not as_json else Plain()
