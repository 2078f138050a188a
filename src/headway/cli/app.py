"""All commands put together."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from headway.cli import (
    cache,
    checkpoint,
    common,
    configuration,
    dataset,
    demo,
    endpoint,
    evaluation,
    flow,
    job,
    logs,
    model,
    people,
    platform,
    runs,
    storage,
    template,
    up,
)

app = typer.Typer(
    help="headway: data, training, evaluation and serving, with the evidence and the bill of every step.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from headway import __version__

        print(__version__)
        sys.exit(0)


@app.callback()
def _options(
    project: Annotated[
        str | None, typer.Option(envvar="HEADWAY_PROJECT", help="Project that commands are about [default].")
    ] = None,
    url: Annotated[str | None, typer.Option(envvar="HEADWAY_URL", help="Address of the server.")] = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    common.chosen.update(project=project, url=url)


def _add(*functions: Any, **named: Any) -> None:
    for function in functions:
        app.command(function.__name__.rstrip("_"))(function)
    for name, function in named.items():
        app.command(name)(function)


_add(up.up, up.down, up.status, flow.run, flow.plan, runs.ls, logs.logs, runs.stop, platform.bill, demo.demo)
_add(up.api, up.controller, up.gateway, up.console)
for name, words in {
    "job": job.app,
    "checkpoint": checkpoint.app,
    "template": template.app,
    "dataset": dataset.app,
    "cache": cache.app,
    "storage": storage.app,
    "eval": evaluation.app,
    "model": model.app,
    "endpoint": endpoint.app,
    "project": people.projects,
    "user": people.users,
    "token": people.tokens,
    "node": platform.nodes,
    "queue": platform.queue,
    "price": platform.prices,
    "spec": platform.specs,
    "config": configuration.app,
}.items():
    app.add_typer(words, name=name)
# the whole word does as well
app.add_typer(evaluation.app, name="evaluation", hidden=True)
