"""`headway demo`: from files on disk to an answered request, with a fault in the middle that nothing is lost to."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.up import Home
from headway.errors import FailedError, RefusedError, UsageError

if TYPE_CHECKING:
    from headway.cli.demo_stages import Result
    from headway.config import Settings


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="End with one line of JSON on stdout.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean/--keep", help="At the end stop everything and remove the state.")
    ] = False,
    home: Home = None,
    file: Annotated[Path | None, typer.Option(help="Another flow.yaml than examples/digits.", hidden=True)] = None,
) -> None:
    """Run the whole path on real data: push, train, evaluate, register, serve. Goes on where it was interrupted."""
    from headway import config
    from headway.cli.demo_stages import Demo
    from headway.cli.show import reporter

    settings = config.load({"home": home}).settings
    flow = file or find_example(settings)
    lock = _lock(settings)
    try:
        with reporter(as_json=as_json) as shown:
            result = Demo(settings, flow, shown).run()
        if not as_json:
            _summary(result, settings)
        if clean:
            _clean(settings)
    finally:
        lock.close()
    if as_json:
        print(json.dumps(result.as_json(), ensure_ascii=False))
    if not result.ok:
        raise FailedError(f"The demo ended, but {result.fault}.", "Its summary shows what came out.")


def find_example(settings: Settings) -> Path:
    """examples/digits/flow.yaml of the checkout, or a copy in the home of the one that the package carries.

    Raises UsageError when there is neither.
    """
    import headway

    package = Path(headway.__file__).parent
    in_checkout = package.parent.parent / "examples" / "digits" / "flow.yaml"
    if in_checkout.is_file():
        return in_checkout
    shipped = package / "_examples" / "digits"
    if not shipped.is_dir():
        raise UsageError("The demo's example is not in this installation.", "Run it in a clone of headway.")
    import shutil

    # an installed package may be read-only, and the example writes its data beside its flow
    own = settings.home / "demo" / "digits"
    if not own.is_dir():
        own.parent.mkdir(parents=True, exist_ok=True)
        temporary = own.with_name("digits.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(shipped, temporary)
        temporary.rename(own)
    return own / "flow.yaml"


def _lock(settings: Settings) -> Any:
    """Held until closed. Raises RefusedError when another demo runs on this home."""
    import fcntl

    folder = settings.home / "demo"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open(folder / "lock", "ab")  # noqa: SIM115 - open as long as the demo runs
    except OSError as error:
        raise UsageError(f"{folder} cannot be used: {error.strerror}.", "Give another HEADWAY_HOME.") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RefusedError(
            f"Another demo runs on {settings.home}.", "Wait for it, or set HEADWAY_HOME to another folder."
        ) from None
    return file


def _summary(result: Result, settings: Settings) -> None:
    from rich.console import Console
    from rich.table import Table

    from headway.rules.units import render_duration

    # off a terminal Rich would cut at 80 columns
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    table = Table(title="What was done", title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("stage", "time", f"cost ({result.currency})", "what came out", "where its outputs lie"):
        table.add_column(column, overflow="fold", justify="right" if column.startswith(("time", "cost")) else "left")
    for outcome in result.outcomes:
        seconds = result.stage_seconds.get(outcome.stage, outcome.seconds)
        table.add_row(outcome.stage, render_duration(seconds), f"{outcome.cost:.4f}", outcome.text, outcome.path)
    table.add_row("all", render_duration(result.seconds), f"{result.cost:.4f}", "", style="bold")
    console.print(table)
    job, evaluation = result.detail("train"), result.detail("evaluate")
    name = result.detail("endpoint").get("name", "")
    # as the user would have to type it
    moved = f"HEADWAY_HOME={settings.home} " if str(settings.home) != str(Path(".headway").absolute()) else ""
    console.print(
        f"""
[bold]answer[/bold]    a picture of a {result.expected} was read as {result.predicted}; a wrong token got 401
[bold]console[/bold]   {result.url}
[bold]API[/bold]       {result.url}/api/docs
[bold]go on[/bold]     {moved}headway job show {job.get("id")}   {moved}headway logs {job.get("id")}
          {moved}headway eval show {evaluation.get("id")}   {moved}headway bill
[bold]clean up[/bold]  {moved}headway endpoint stop {name}   {moved}headway down   rm -r {settings.home}
          (or all at once: {moved}headway demo --clean)""",
        soft_wrap=True,
    )


def _clean(settings: Settings) -> None:
    """Stops the endpoint and the platform, and removes the state."""
    import shutil

    from headway.cli import up
    from headway.client import Client

    with Client(home=settings.home) as client:
        for endpoint in client.endpoints.ls():
            if endpoint.state != "stopped":
                client.endpoints.stop(endpoint.name)
        for run in client.runs.ls(state="live"):
            client.runs.wait(run.id, timeout=30)
    up.stop(settings)
    for folder, _, _ in os.walk(settings.home):
        os.chmod(folder, 0o700)  # what was fetched is kept read-only
    shutil.rmtree(settings.home)
    print(f"Stopped; {settings.home} is removed.", file=sys.stderr)
