"""`headway storage`: where a project's data lies, whether that store works, and connections to stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common, credentials
from headway.errors import FailedError, UsageError

if TYPE_CHECKING:
    from headway.wire.storage import StorageCheckView, StorageView

app = common.group("Where a project's data lies.")
connections = common.group("Connections to object stores: endpoint, region, credentials. For admins.")
app.add_typer(connections, name="connection")

Url = Annotated[str, typer.Argument(help="file:///FOLDER, s3://BUCKET/PREFIX, oss://, obs://, gs://, az://.")]
Connection = Annotated[str | None, typer.Option(help="Name of a connection.", show_default=False)]
ConnectionName = Annotated[str, typer.Argument(help="Name of the connection.", show_default=False)]


@app.command()
def show(as_json: common.AsJson = False) -> None:
    """Show where the project's data lies, and where it may."""
    with common.client() as client:
        _print(client.storage.show(), as_json)


@app.command()
def check(url: Url = "", connection: Connection = None, as_json: common.AsJson = False) -> None:
    """Have the server try a store: reach, list, write, read, delete, clock, space. Without URL the project's own."""
    with common.client() as client:
        found = client.storage.check(url, connection)
    if as_json:
        common.print_json(found)
    else:
        _print_lines(found)
    _require_ok(found)


def _print_lines(found: StorageCheckView) -> None:
    print(found.url)
    for line in found.lines:
        print(f"  {'ok   ' if line.ok else 'FAULT'} {line.what:<9} {line.says}{_and(line.remedy)}")


def _and(remedy: str) -> str:
    return f" {remedy}" if remedy else ""


def _require_ok(found: StorageCheckView) -> None:
    """Raises FailedError with the first fault."""
    for line in found.lines:
        if not line.ok:
            raise FailedError(f"No project can keep its data in {found.url}: {line.says}", line.remedy)


@app.command()
def use(
    url: Url = "",
    connection: Connection = None,
    platform: Annotated[bool, typer.Option("--platform", help="The platform's own store, in place of a URL.")] = False,
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Do not try the store before.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Have the project keep its data in another store, once that works. For admins, while it has no datasets."""
    if platform == bool(url):
        raise UsageError("It is not said which store is meant.", "Give the URL of one, or --platform.")
    with common.client() as client:
        if not platform and not unchecked:
            _require_ok(client.storage.check(url, connection))
        found = client.storage.use(url, connection=connection)
    _print(found, as_json)
    if not as_json:
        common.next_step("headway storage check")


@app.command()
def regions(
    named: Annotated[list[str] | None, typer.Argument(metavar="REGION...", show_default=False)] = None,
    anywhere: Annotated[bool, typer.Option("--any", help="The project's data may lie anywhere.")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Show, or change, the regions that the project's data may lie in. Changing is for admins."""
    if named and anywhere:
        raise UsageError(f"{' '.join(named)} and --any cannot both be.", "Give one of them.")
    with common.client() as client:
        changed = bool(named) or anywhere
        _print(client.storage.use(regions=named or []) if changed else client.storage.show(), as_json)


def _print(found: StorageView, as_json: bool) -> None:
    if as_json:
        common.print_json(found)
        return
    common.print_fields(
        {
            "project": found.project,
            "store": found.url or "the platform's own",
            "connection": found.connection or "none",
            "region": found.region or "not known",
            "data may lie in": ", ".join(found.regions) or "any region",
        }
    )
    if found.refused:
        print(f"warning: {found.refused}")


# -- connections


@connections.command("ls")
def connection_ls(as_json: common.AsJson = False) -> None:
    """List connections. Secrets are never shown."""
    with common.client() as client:
        found = client.storage.connections()
    common.print_listing(
        found,
        ["connection", "kind", "endpoint", "region", "secret", "projects"],
        [
            [c.name, c.kind, c.endpoint or "the cloud's", c.region, "yes" if c.secret else "none", " ".join(c.projects)]
            for c in found
        ],
        as_json,
        "No connections yet. `headway storage connection add` makes one.",
    )


@connections.command("add")
def connection_add(
    name: ConnectionName,
    kind: Annotated[str, typer.Option(help="s3, oss, obs, gcs or azure.")] = "s3",
    endpoint: Annotated[
        str, typer.Option(help="URL of the service without the bucket; without it the cloud's own.", show_default=False)
    ] = "",
    region: Annotated[str, typer.Option(help="Region that its data lies in.", show_default=False)] = "",
    style: Annotated[
        str, typer.Option(help="path, or virtual: the bucket's name in the host name.", show_default=False)
    ] = "",
    ca: Annotated[
        Path | None, typer.Option(help="File with the certificates to trust, as PEM.", show_default=False)
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option(help="File with the credentials, as JSON; - is standard input.", show_default=False),
    ] = None,
    from_env: Annotated[
        bool, typer.Option("--from-env", help="Take the credentials from the variables that the cloud's tools read.")
    ] = False,
    no_secret: Annotated[
        bool, typer.Option("--no-secret", help="The server's own environment or machine has the credentials.")
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Make or change a connection. Credentials are asked for, or read from a file or from variables."""
    if kind not in credentials.KINDS:
        raise UsageError(f"{kind!r} is no kind of store.", f"Give one of {', '.join(credentials.KINDS)}.")
    if sum((secret is not None, from_env, no_secret)) > 1:
        raise UsageError("The credentials have several sources.", "Give one of --secret, --from-env and --no-secret.")
    options = {"style": style} if style else {}
    if ca is not None:
        options["ca"] = credentials.text(ca)
    given = None if no_secret else credentials.given(kind, secret, from_env=from_env)
    with common.client() as client:
        made = client.storage.connect(name, kind, endpoint=endpoint, region=region, options=options, secret=given)
    if as_json:
        common.print_json(made)
        return
    print(f"connection {made.name} is saved")
    scheme = {"gcs": "gs", "azure": "az"}.get(kind, kind)
    common.next_step(
        f"headway storage check {scheme}://BUCKET --connection {made.name}",
        f"headway --project PROJECT storage use {scheme}://BUCKET --connection {made.name}",
    )


@connections.command("rm")
def connection_rm(name: ConnectionName) -> None:
    """Remove a connection behind which no project keeps data."""
    with common.client() as client:
        client.storage.disconnect(name)
    print(f"connection {name} is removed")
