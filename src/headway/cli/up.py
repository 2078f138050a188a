"""`headway up`, `down`, `status`: the platform on this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import common
from headway.errors import FailedError, HeadwayError, UnreachableError

Home = Annotated[Path | None, typer.Option(help="Folder with headway's state [.headway, or HEADWAY_HOME].")]


def up(
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Public port; 0: any free one [8400].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log JSON lines to stdout.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it is ready; it goes on running.")
    ] = False,
    home: Home = None,
) -> None:
    """Start api, controller, gateway and console on this machine."""
    from headway import config

    settings = config.load({"home": home, "host": host, "port": port}).settings
    os.environ.update(config.flags_of(settings))
    if detach:
        started = start(settings)
        if as_json:
            common.print_json(started)
        else:
            print(f"headway is ready at {started['url']} (process {started['pid']})")
            common.next_step("headway run FILE", "headway ls", "headway down")
        return
    # the supervisor takes this process over without the CLI's imports in its memory
    arguments = [sys.executable, "-m", "headway.supervisor", *(["--json"] if as_json else [])]
    sys.stdout.flush()
    os.execv(sys.executable, arguments)


def start(settings: Any) -> dict[str, Any]:
    """Starts a detached supervisor and waits until it is ready: the content of up.json.

    settings: a `config.Settings`. Raises the HeadwayError with which the supervisor gave up.
    """
    import subprocess

    from headway import config

    ready_read, ready_write = os.pipe()
    # silent: its log is HOME/log/headway.log, its errors come through the pipe
    process = subprocess.Popen(
        [sys.executable, "-m", "headway.supervisor", "--ready-fd", str(ready_write)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[ready_write],
        start_new_session=True,
        env={**os.environ, **config.flags_of(settings)},
    )
    os.close(ready_write)
    with open(ready_read, encoding="utf-8") as pipe:
        line = pipe.readline()
    if not line:
        raise FailedError(
            f"headway ended before it was ready (exit code {process.wait()}).",
            f"Its log is {settings.log_folder}/headway.log.",
        )
    word: dict[str, Any] = json.loads(line)
    if "error" in word:
        process.wait()
        raise error_of(word)
    process.returncode = 0  # it goes on without us: no warning about that at our end
    up: dict[str, Any] = word["ready"]
    return up


def error_of(word: dict[str, Any]) -> HeadwayError:
    """The error that a supervisor told: `{"error": {...}, "exit": code}`."""
    from headway import errors

    kinds = (errors.UsageError, errors.RefusedError, errors.NotFoundError, errors.UnreachableError)
    kind = next((k for k in kinds if k.exit_code == word["exit"]), FailedError)
    error = word["error"]
    return kind(error["message"], error["remedy"], code=error["code"])


def down(home: Home = None) -> None:
    """Stop the platform of this home. Runs go on."""
    from headway import config

    settings = config.load({"home": home}).settings
    if stop(settings):
        print("Stopped. Runs go on; `headway up` finds them again.")
    else:
        print(f"Nothing runs on {settings.home}.")


def stop(settings: Any, *, patience: float = 20.0) -> bool:
    """Stops the supervisor of a home and waits for its end; False when none runs.

    Raises FailedError when it is still there after `patience` seconds.
    """
    import select
    import signal

    from headway import supervisor
    from headway.protocol import identity

    found = supervisor.read_up(settings)
    if found is None:
        return False
    who = identity.Identity.from_json(found["identity"])
    try:
        pidfd = os.pidfd_open(who.pid)
    except OSError:
        return False
    try:
        if not identity.send_signal(who, signal.SIGTERM):
            return False
        ended, _, _ = select.select([pidfd], [], [], patience)
    finally:
        os.close(pidfd)
    if not ended:
        raise FailedError(
            f"Process {who.pid} is still there after {patience:.0f} s.", f"Look into {settings.log_folder}."
        )
    return True


def status(as_json: common.AsJson = False, home: Home = None) -> None:
    """Show whether the platform of this home runs, and its parts."""
    from headway import config, supervisor

    settings = config.load({"home": home}).settings
    found = supervisor.read_up(settings)
    if found is None:
        if as_json:
            common.print_json({"running": False, "home": str(settings.home)})
        raise UnreachableError(f"Nothing runs on {settings.home}.", "Start it with `headway up`.")
    if as_json:
        common.print_json({"running": True, **found})
        return
    common.print_fields(
        {
            "url": found["url"],
            "home": found["home"],
            "process": found["pid"],
            "log": settings.log_folder / "headway.log",
        }
    )
    common.print_table(
        ["part", "process", "ready", "restarts"],
        [[name, p["pid"], "yes" if p["ready"] else "no", p["restarts"]] for name, p in found["parts"].items()],
    )


Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on.")]
ApiUrl = Annotated[str, typer.Option(help="Address of the api, such as http://10.0.0.1:8400.")]


def api(host: Host = None, port: Port = None, home: Home = None) -> None:
    """Run an api alone, against the configured database and object store."""
    _part("api", home, "--host", host, "--port", port)


def controller(home: Home = None) -> None:
    """Run a controller alone; one of several leads."""
    _part("controller", home)


def gateway(
    api_url: ApiUrl,
    host: Host = None,
    port: Port = None,
    console_url: Annotated[str | None, typer.Option(help="Address of the console.")] = None,
    home: Home = None,
) -> None:
    """Run a gateway alone."""
    _part("gateway", home, "--api-url", api_url, "--console-url", console_url, "--host", host, "--port", port)


def console(api_url: ApiUrl, host: Host = None, port: Port = None, home: Home = None) -> None:
    """Run a console alone."""
    _part("console", home, "--api-url", api_url, "--host", host, "--port", port)


def _part(name: str, home: Path | None, *flags: object) -> None:
    """Becomes that part; flags whose value is None are left out."""
    from headway import config

    os.environ.update(config.flags_of(config.load({"home": home}).settings))
    pairs = zip(flags[::2], flags[1::2], strict=True)
    given = [str(word) for flag, value in pairs if value is not None for word in (flag, value)]
    os.execv(sys.executable, [sys.executable, "-m", "headway.bootstrap", name, *given])
