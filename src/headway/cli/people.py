"""`headway project`, `user`, `token`: who may do what, and how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli import common

if TYPE_CHECKING:
    from headway.wire.people import TokenView

projects = common.group("Projects: the unit of access and quota.")
users = common.group("Users.")
tokens = common.group("Tokens of users.")
Name = Annotated[str, typer.Argument(show_default=False)]


@projects.command("ls")
def project_ls(as_json: common.AsJson = False) -> None:
    """List projects."""
    from headway.rules.units import render_size

    with common.client() as client:
        found = client.projects.ls()
    common.print_listing(
        found,
        ["project", "outputs", "datasets", "quota", "files", "files quota"],
        [
            [
                p.name,
                render_size(p.used.bytes),
                render_size(p.data.bytes),
                render_size(p.quota_bytes) if p.quota_bytes is not None else None,
                p.used.files + p.data.files,
                p.quota_files,
            ]
            for p in found
        ],
        as_json,
        "You are in no project.",
    )


@projects.command("create")
def project_create(name: Name) -> None:
    """Make a project."""
    with common.client() as client:
        print(f"project {client.projects.create(name).name} is made")
    common.next_step(f"headway project member {name} USER --role member", f"headway --project {name} ls")


@projects.command("quota")
def project_quota(
    name: Name,
    size: Annotated[str | None, typer.Option("--bytes", help="Such as 500GiB, or none.")] = None,
    files: Annotated[str | None, typer.Option(help="A number, or none.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Show or set how much a project's outputs and datasets may take."""
    from headway.errors import UsageError
    from headway.rules.units import parse_size, render_size

    limits: dict[str, int | None] = {}
    if size is not None:
        limits["quota_bytes"] = None if size == "none" else parse_size(size, "--bytes")
    if files is not None:
        if files != "none" and not files.isdigit():
            raise UsageError(f"--files {files!r} is no number.", "Give a number, or none.")
        limits["quota_files"] = None if files == "none" else int(files)
    with common.client() as client:
        view = client.projects.set_quota(name, **limits) if limits else client.projects.get(name)
    if as_json:
        common.print_json(view)
        return
    _print_used("bytes", view.used.bytes, view.data.bytes, view.quota_bytes, render_size)
    _print_used("files", view.used.files, view.data.files, view.quota_files, str)


def _print_used(what: str, outputs: int, data: int, limit: int | None, said: Callable[[int], str]) -> None:
    parts = f" ({said(outputs)} by outputs, {said(data)} by datasets)" if data else ""
    print(f"{what}: {said(outputs + data)} used{parts}, {'no limit' if limit is None else said(limit)}")


@projects.command("limits")
def project_limits(
    name: Name,
    cpus: Annotated[str | None, typer.Option(help="A number, or none.")] = None,
    memory: Annotated[str | None, typer.Option(help="Such as 500GiB, or none.")] = None,
    accelerators: Annotated[str | None, typer.Option(help="A number, or none.")] = None,
    nodes: Annotated[str | None, typer.Option(help="A number, or none.")] = None,
    runs: Annotated[str | None, typer.Option(help="Runs at once, or none.")] = None,
    weight: Annotated[float | None, typer.Option(help="Share of what is contended for, against others.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Show or set what a project's runs may occupy at once, and its weight against other projects."""
    from headway.rules.units import parse_size, render_size

    given = {"cpus": cpus, "accelerators": accelerators, "nodes": nodes, "runs": runs}
    values = {key: _limit(text, f"--{key}", whole=key != "cpus") for key, text in given.items() if text is not None}
    if memory is not None:
        values["memory_bytes"] = None if memory == "none" else parse_size(memory, "--memory")
    if weight is not None:
        values["weight"] = weight
    with common.client() as client:
        view = client.platform.set_limits(name, **values) if values else client.platform.limits(name)
    if as_json:
        common.print_json(view)
        return
    for key, used in view.used.items():
        text, limit = f"{used:g}", view.limits.get(key)
        if key == "memory_bytes":
            text = render_size(int(used))
        most = "no limit" if limit is None else render_size(int(limit)) if key == "memory_bytes" else f"{limit:g}"
        print(f"{key.removesuffix('_bytes')}: {text} used, {most}")
    print(f"weight: {view.weight:g}")
    if view.waiting:
        print(f"{view.waiting} waiting")
        common.next_step(f"headway --project {name} queue ls")


def _limit(text: str, option: str, *, whole: bool) -> float | None:
    """A limit as written; None for none. Raises UsageError."""
    from headway.errors import UsageError

    if text == "none":
        return None
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1e12:
        raise UsageError(f"{option} {text!r} is no number.", "Give a number, or none.")
    return value


@projects.command("members")
def project_members(name: Name, as_json: common.AsJson = False) -> None:
    """List a project's members."""
    with common.client() as client:
        found = client.projects.members(name)
    common.print_listing(found, ["user", "role"], [[m.user, m.role] for m in found], as_json, "It has no members.")


@projects.command("member")
def project_member(
    name: Name, user: Name, role: Annotated[str, typer.Option(help="owner, member, viewer or none.")] = "member"
) -> None:
    """Give a user a role in a project, or take it (none)."""
    with common.client() as client:
        if role == "none":
            client.projects.remove_member(name, user)
        else:
            client.projects.set_member(name, user, role)
    print(f"{user} has {'no role' if role == 'none' else f'the role {role}'} in {name}")


@users.command("ls")
def user_ls(as_json: common.AsJson = False) -> None:
    """List users."""
    with common.client() as client:
        found = client.users.ls()
    rows = [[u.name, "yes" if u.is_admin else "no", common.ago(u.created_at)] for u in found]
    common.print_listing(found, ["user", "admin", "made"], rows, as_json, "There are no users.")


@users.command("create")
def user_create(name: Name, admin: Annotated[bool, typer.Option("--admin", help="May do everything.")] = False) -> None:
    """Make a user."""
    with common.client() as client:
        print(f"user {client.users.create(name, is_admin=admin).name} is made")
    common.next_step(f"headway token create {name}", f"headway project member PROJECT {name}")


@users.command("me")
def user_me(as_json: common.AsJson = False) -> None:
    """Show who you are."""
    with common.client() as client:
        me = client.platform.me()
    if as_json:
        common.print_json(me)
        return
    roles = ", ".join(f"{role} of {project}" for project, role in me.projects.items())
    common.print_fields({"user": me.name, "admin": "yes" if me.is_admin else "no", "roles": roles})


def print_tokens(found: list[TokenView], as_json: bool) -> None:
    common.print_listing(
        found,
        ["token", "name", "made", "expires", "state"],
        [
            [
                t.id,
                t.name,
                common.ago(t.created_at),
                t.expires_at.isoformat(timespec="minutes") if t.expires_at else "never",
                "revoked" if t.revoked_at else "valid",
            ]
            for t in found
        ],
        as_json,
        "There are no tokens.",
    )


@tokens.command("ls")
def token_ls(user: Name, as_json: common.AsJson = False) -> None:
    """List a user's tokens."""
    with common.client() as client:
        print_tokens(client.users.tokens(user), as_json)


@tokens.command("create")
def token_create(
    user: Name,
    name: Annotated[str, typer.Option(help="To tell it from others.")] = "cli",
    lifetime: Annotated[str | None, typer.Option(help="Such as 30d; without: it does not expire.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Make a token; its secret is shown this once."""
    from headway.rules.units import parse_duration

    seconds = parse_duration(lifetime, "--lifetime") if lifetime else None
    with common.client() as client:
        made = client.users.create_token(user, name, lifetime=seconds)
    if as_json:
        common.print_json(made)
    else:
        print(made.token)


@tokens.command("revoke")
def token_revoke(user: Name, token: Annotated[int, typer.Argument(show_default=False)]) -> None:
    """Revoke a token."""
    with common.client() as client:
        client.users.revoke_token(user, token)
    print(f"token {token} is revoked")
