"""`headway logs`: what a run printed, searched, followed, downloaded."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import common
from headway.cli.runs import RunId, newest, print_lines
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.runs import LogLineView


def logs(
    run: RunId = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only the last lines.")] = None,
    grep: Annotated[str, typer.Option("--grep", "-g", help="Only lines with this text, or /regular expression/.")] = "",
    since: Annotated[str | None, typer.Option(help="From then on: 10m ago, or a time (2026-03-01T12:30).")] = None,
    until: Annotated[str | None, typer.Option(help="Up to then, written the same.")] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="Only what this process printed.")] = None,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only standard error.")] = False,
    diag: Annotated[bool, typer.Option("--diag", help="The run's set-up instead of what it prints.")] = False,
    kind: Annotated[str, typer.Option(help="run, or diag, which is the same as --diag.")] = "run",
    download: Annotated[Path | None, typer.Option(help="Write the log to this file.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="With --download: without time, rank and stream.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Show a run's log, search it, follow it or download it."""
    if kind not in ("run", "diag"):
        from headway.rules.nearest import unknown

        raise unknown("kind", kind, ("run", "diag"), "--kind")
    kind = "diag" if diag else kind
    filters: dict[str, Any] = {
        "grep": grep or None,
        "since": moment(since, "--since") if since else None,
        "until": moment(until, "--until") if until else None,
        "rank": rank,
        "stream": "err" if stderr else None,
    }
    whole = not any(value is not None for value in filters.values())
    with common.client() as client:
        number = newest(client, run)
        if download is not None:
            size = client.runs.download(number, download, kind=kind, raw=raw, **filters)
            print(f"{download}: {size} bytes of the log of run {number}")
            return
        lines: Iterable[LogLineView]
        if tail is not None:
            page = client.runs.logs(number, kind=kind, tail=tail, **filters)
            any_lines = print_lines(page.lines, as_json)
            if not any_lines and tail and not follow and whole and not as_json:
                _nothing(client, number, kind)
            if not follow or page.complete:
                return
            lines = client.runs.follow(number, kind=kind, after=page.cursor, **filters)
        elif follow:
            lines = client.runs.follow(number, kind=kind, **filters)
        else:
            lines = client.runs.all_logs(number, kind=kind, **filters)
        try:
            if not print_lines(lines, as_json) and whole and not as_json and not tail:
                _nothing(client, number, kind)
        except KeyboardInterrupt:
            # whoever stops looking does not stop the run
            raise typer.Exit(130) from None


def _nothing(client: Client, number: int, kind: str) -> None:
    """Says why a log is empty, and where to look instead."""
    view = client.runs.get(number)
    if not view.attempts:
        print(f"run {number} is {view.state} and was never started: {view.reason}", file=sys.stderr)
    elif kind == "run":
        has = "printed nothing" if view.ended_at else "has printed nothing yet"
        print(f"run {number} {has}; `headway logs {number} --kind diag` has its set-up", file=sys.stderr)


def moment(text: str, option: str) -> float:
    """Seconds since the epoch of `10m` (so long ago), of a date and time (local when it names no zone), or of seconds.

    Raises UsageError naming the option.
    """
    from datetime import datetime

    from headway.rules.units import parse_duration

    plain = text.strip().removesuffix("ago").strip()
    try:
        return time.time() - parse_duration(plain)
    except UsageError:
        pass
    try:
        seconds = float(plain)
        if 1e8 < seconds < 1e11:
            return seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(plain.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{option}: {text!r} is no time.", "Write how long ago, such as 10m, or a time, such as 2026-03-01T12:30."
        ) from None
