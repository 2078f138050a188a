"""`headway job submit`, `clone`, `change`: jobs out of flags, files, templates and other jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import common, dataset_stats, options, runs
from headway.cli.options import Text
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.runs import DryRunView, RunView

JobId = Annotated[int, typer.Argument(help="Number of the job.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and do nothing.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", "--watch", help="Follow its log until it ends.")]


def submit(
    command: Annotated[
        list[str] | None, typer.Argument(help="Program and arguments, after --.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option(help="YAML with the job; flags take the place of what it says.")] = None,
    template: Annotated[Text, typer.Option(help="Template that makes the job; see `headway template ls`.")] = None,
    name: options.Name = None,
    spec: options.Spec = None,
    nodes: options.Nodes = None,
    processes: options.Processes = None,
    cpus: options.Cpus = None,
    memory: options.Memory = None,
    gpus: options.Gpus = None,
    gpu_kind: options.GpuKind = None,
    data: options.Data = None,
    code: options.Code = None,
    env: options.Env = None,
    param: options.Param = None,
    billing: options.Billing = None,
    spot: options.Spot = False,
    max_price: options.MaxPrice = None,
    max_discount: options.MaxDiscount = None,
    protection: options.Protection = None,
    max_duration: options.MaxDuration = None,
    max_wait: options.MaxWait = None,
    grace: options.Grace = None,
    idle_output: options.IdleOutput = None,
    hang: options.Hang = None,
    no_progress: options.NoProgress = None,
    fail_on_nan: options.FailOnNan = False,
    disk: options.Disk = None,
    retries: options.Retries = None,
    retry: options.Retry = None,
    checkpoint: options.Checkpoint = None,
    keep_last: options.KeepLast = None,
    keep_best: options.KeepBest = None,
    keep_every: options.KeepEvery = None,
    metric: options.Metric = None,
    priority: options.Priority = None,
    after: options.After = None,
    tag: options.Tag = None,
    compat: options.Compat = None,
    view: options.View = None,
    held: Annotated[bool, typer.Option("--held", help="Do not start it until released.")] = False,
    key: Annotated[Text, typer.Option(help="A second submit with the same key returns the first run.")] = None,
    dry_run: DryRun = False,
    follow: Follow = False,
    as_json: common.AsJson = False,
) -> None:
    """Submit a training run: headway job submit --spec medium -- python train.py."""
    from headway.rules import jobform
    from headway.rules.jobs import merged

    given = options.form(locals())
    fields = merged(options.file(file), given) if file is not None else given
    folder = code if code is not None else fields.pop("code", None)
    fields.pop("code", None)
    template = template or fields.pop("template", None)
    if command:
        fields["command"] = command
    if not template:
        fields = jobform.filled(fields, f"{file.name}: command" if file is not None else "command")
    if held:
        fields["held"] = True
    if key:
        fields["key"] = key
    if not template and not fields.get("command"):
        raise UsageError("There is no command.", "Give it after --, or name a --file or a --template.")
    with common.client() as client:
        if folder is not None:
            fields["snapshot"] = client.snapshots.push(folder).digest
        if dry_run:
            _said(client, _dry_run(client, template, fields), as_json)
        else:
            _told(client, _submit(client, template, fields), follow, as_json)


def _submit(client: Client, template: str | None, fields: dict[str, Any]) -> RunView:
    if template is None:
        return client.jobs.submit(fields.pop("command"), **fields)
    return client.templates.submit(template, fields.pop("parameters", {}), **fields)


def _dry_run(client: Client, template: str | None, fields: dict[str, Any]) -> DryRunView:
    if template is None:
        return client.jobs.dry_run(fields.pop("command"), **fields)
    return client.templates.dry_run(template, fields.pop("parameters", {}), **fields)


def _said(client: Client, view: DryRunView, as_json: bool) -> None:
    dataset_stats.print_warnings(client, view.request.get("datasets") or [])
    print_dry_run(view, as_json)


def _told(client: Client, view: RunView, follow: bool, as_json: bool) -> None:
    dataset_stats.print_warnings(client, view.datasets)
    if as_json and not follow:
        common.print_json(view)
    elif not as_json:
        print(f"job {view.id} is {view.state}" + (f": {view.reason}" if view.reason else ""))
    if follow:
        runs.print_lines(client.runs.follow(view.id), as_json)
        end(client.runs.wait(view.id))
    elif not as_json:
        common.next_step(f"headway logs -f {view.id}", f"headway job show {view.id}", f"headway stop {view.id}")


def end(view: Any) -> None:
    """Ends the command as the run ended. Raises FailedError unless it succeeded."""
    from headway.errors import FailedError

    if view.state != "succeeded":
        look = f"`{common.logs_of(view.id, view.cause)}` shows more." if view.attempts else ""
        raise FailedError(f"Run {view.id} {view.state}: {view.reason}", look)


def print_dry_run(view: DryRunView, as_json: bool) -> None:
    if as_json:
        common.print_json(view)
        return
    price = f" It costs {view.price_hour:g} an hour." if view.price_hour else ""
    print(view.sentence + price)
    print("\nrequest")
    shown = {k: v for k, v in view.request.items() if v not in (None, "", [], {})}
    for key, value in shown.items():
        plain = {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
        if plain not in ({}, []):
            print(f"  {key}: {common.plain(plain)}")
    print(f"\ncommand ({view.view} view)\n  {' '.join(view.command)}")
    print("\nenvironment, to which each process's ranks are added")
    for key, value in sorted(view.environment.items()):
        print(f"  {key}={common.plain(value)}")


def clone(
    job: JobId,
    command: Annotated[
        list[str] | None, typer.Argument(help="Another program and arguments, after --.", show_default=False)
    ] = None,
    name: options.Name = None,
    spec: options.Spec = None,
    nodes: options.Nodes = None,
    processes: options.Processes = None,
    cpus: options.Cpus = None,
    memory: options.Memory = None,
    gpus: options.Gpus = None,
    gpu_kind: options.GpuKind = None,
    data: options.Data = None,
    code: options.Code = None,
    env: options.Env = None,
    param: options.Param = None,
    billing: options.Billing = None,
    spot: options.Spot = False,
    max_price: options.MaxPrice = None,
    max_discount: options.MaxDiscount = None,
    protection: options.Protection = None,
    max_duration: options.MaxDuration = None,
    max_wait: options.MaxWait = None,
    grace: options.Grace = None,
    idle_output: options.IdleOutput = None,
    hang: options.Hang = None,
    no_progress: options.NoProgress = None,
    fail_on_nan: options.FailOnNan = False,
    disk: options.Disk = None,
    retries: options.Retries = None,
    retry: options.Retry = None,
    checkpoint: options.Checkpoint = None,
    keep_last: options.KeepLast = None,
    keep_best: options.KeepBest = None,
    keep_every: options.KeepEvery = None,
    metric: options.Metric = None,
    priority: options.Priority = None,
    after: options.After = None,
    tag: options.Tag = None,
    compat: options.Compat = None,
    view: options.View = None,
    held: Annotated[bool, typer.Option("--held", help="Do not start it until released.")] = False,
    dry_run: DryRun = False,
    follow: Follow = False,
    as_json: common.AsJson = False,
) -> None:
    """Submit a job like another one, some of it changed: headway job clone 12 --param lr=0.1.

    A parameter changes in the command too, where that says --NAME VALUE or NAME=VALUE.
    """
    fields = options.form(locals())
    if command:
        fields["command"] = command
    if held:
        fields["held"] = True
    with common.client() as client:
        if code is not None:
            fields["snapshot"] = client.snapshots.push(code).digest
        if dry_run:
            _said(client, client.jobs.dry_clone(job, **fields), as_json)
        else:
            _told(client, client.jobs.clone(job, **fields), follow, as_json)


def change(
    job: JobId,
    priority: options.Priority = None,
    max_duration: options.MaxDuration = None,
    max_wait: options.MaxWait = None,
    grace: options.Grace = None,
    idle_output: options.IdleOutput = None,
    hang: options.Hang = None,
    no_progress: options.NoProgress = None,
    fail_on_nan: options.FailOnNan = False,
    disk: options.Disk = None,
    retries: options.Retries = None,
    retry: options.Retry = None,
    after: options.After = None,
    name: options.Name = None,
    tag: options.Tag = None,
    as_json: common.AsJson = False,
) -> None:
    """Change a job that waits or runs: headway job change 12 --priority 7 --max-duration 3h.

    A limit given as none is taken away. --tag takes the place of all tags.
    """
    fields = options.form(locals())
    with common.client() as client:
        view = client.runs.change(job, **fields)
    if as_json:
        common.print_json(view)
        return
    print(f"job {view.id} is {view.state}; changed: {', '.join(sorted(fields))}")
    common.next_step(f"headway job show {view.id}")
