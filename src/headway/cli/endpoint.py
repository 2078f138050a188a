"""`headway endpoint`: served models and their tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from headway.cli import common
from headway.errors import FailedError

app = common.group("Endpoints: served model versions.")
Name = Annotated[str, typer.Argument(help="Name of the endpoint.", show_default=False)]


@app.command()
def ls(as_json: common.AsJson = False) -> None:
    """List endpoints."""
    with common.client() as client:
        found = client.endpoints.ls()
        url = client.url
    common.print_listing(
        found,
        ["endpoint", "state", "model", "revision", "replicas", "spec", "cost", "address", "reason"],
        [
            [
                e.name,
                e.state,
                e.model,
                e.revision,
                f"{sum(r.ready for r in e.replicas)} of {len(e.replicas)} ready",
                e.spec,
                f"{e.cost:.4f}",
                f"{url}{e.path}",
                e.reason,
            ]
            for e in found
        ],
        as_json,
        "No endpoints yet. `headway endpoint deploy NAME --model MODEL` makes one.",
    )


@app.command()
def deploy(
    name: Name,
    model: Annotated[str, typer.Option(help="MODEL or MODEL@VERSION.")],
    replicas: Annotated[int, typer.Option(help="How many.")] = 1,
    spec: Annotated[str, typer.Option(help="Resources of each.")] = "small",
    max_duration: Annotated[str | None, typer.Option(help="Ends it after so long, such as 2h.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it answers.")] = True,
    as_json: common.AsJson = False,
) -> None:
    """Serve a model version; a new revision when the endpoint exists."""
    from headway.rules.units import parse_duration

    seconds = parse_duration(max_duration, "--max-duration") if max_duration else None
    with common.client() as client:
        view = client.endpoints.deploy(name, model=model, replicas=replicas, spec=spec, max_duration=seconds)
        if wait:
            view = client.endpoints.wait(name)
        url = client.url
    if as_json:
        common.print_json(view)
    else:
        print(f"endpoint {view.name} is {view.state} at {url}{view.path}" + (f": {view.reason}" if view.reason else ""))
        common.next_step(
            f"headway endpoint token {name}",
            f"curl -H 'Authorization: Bearer TOKEN' -d '{{\"inputs\": ...}}' {url}{view.path}/predict",
            f"headway endpoint stop {name}",
        )
    if view.state == "failed":
        raise FailedError(f"Endpoint {name} failed: {view.reason}", "`headway ls --owner endpoint` shows its replicas.")


@app.command()
def show(name: Name, as_json: common.AsJson = False) -> None:
    """Show one endpoint."""
    with common.client() as client:
        view, url = client.endpoints.get(name), client.url
    if as_json:
        common.print_json(view)
        return
    common.print_fields(
        {
            "endpoint": view.name,
            "state": view.state,
            "reason": view.reason,
            "model": view.model,
            "revision": view.revision,
            "address": f"{url}{view.path}/predict",
            "cost": f"{view.cost:.4f}",
        }
    )
    common.print_table(
        ["run", "state", "ready", "address"],
        [[r.run, r.state, "yes" if r.ready else "no", r.address] for r in view.replicas],
    )


@app.command()
def stop(name: Name) -> None:
    """Stop an endpoint and its replicas."""
    with common.client() as client:
        client.endpoints.stop(name)
    print(f"endpoint {name} is stopping")
    common.next_step("headway endpoint ls")


@app.command()
def token(
    name: Name,
    label: Annotated[str, typer.Option("--name", help="To tell it from others.")] = "cli",
    lifetime: Annotated[str | None, typer.Option(help="Such as 30d; without: it does not expire.")] = None,
    ls: Annotated[bool, typer.Option("--ls", help="List tokens instead.")] = False,
    revoke: Annotated[int | None, typer.Option(help="Revoke this token instead.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Make a token for an endpoint; its secret is shown this once."""
    from headway.cli.people import print_tokens
    from headway.rules.units import parse_duration

    with common.client() as client:
        if ls:
            print_tokens(client.endpoints.tokens(name), as_json)
            return
        if revoke is not None:
            client.endpoints.revoke_token(name, revoke)
            print(f"token {revoke} is revoked")
            return
        seconds = parse_duration(lifetime, "--lifetime") if lifetime else None
        made = client.endpoints.create_token(name, label, lifetime=seconds)
    if as_json:
        common.print_json(made)
    else:
        print(made.token)
