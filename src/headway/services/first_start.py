"""What a record needs before anyone can use it: the admin, the gateway's own user, a project, specs, tokens."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from headway.protocol.files import write_whole
from headway.rules.records import Spec
from headway.services import quota
from headway.services.access import digest, new_secret
from headway.services.context import Services
from headway.store.base import ConflictError, Transaction

ADMIN = "admin"
GATEWAY = "gateway"
PROJECT = "default"
_GIB = 1 << 30
SPECS = (
    Spec(name="small", cpus=1, memory_bytes=2 * _GIB, accelerators=0, accelerator_kind=None, price_hour=40_000),
    Spec(name="medium", cpus=2, memory_bytes=4 * _GIB, accelerators=0, accelerator_kind=None, price_hour=80_000),
    Spec(name="large", cpus=4, memory_bytes=16 * _GIB, accelerators=0, accelerator_kind=None, price_hour=160_000),
    Spec(name="gpu", cpus=4, memory_bytes=16 * _GIB, accelerators=1, accelerator_kind=None, price_hour=1_200_000),
)


def ensure(ctx: Services, *, admin_file: Path, gateway_file: Path) -> None:
    """Makes whatever of it is missing; a start with nothing missing writes nothing. Call it after the migration.

    admin_file, gateway_file: where the two tokens are kept, readable by their owner alone; a file that is missing, or
    whose token the record does not accept, is written with a new one. Raises OSError when that cannot be done.
    """
    if not _complete(ctx):
        # of several apis that start at once one makes it, whole
        with suppress(ConflictError), ctx.store.begin() as tx:
            _fill(ctx, tx)
    for user, file in ((ADMIN, admin_file), (GATEWAY, gateway_file)):
        _ensure_token(ctx, user, file)
    # a crash between a quota's commit and its file leaves them apart: the record is right
    quota.write_all(ctx)


def _complete(ctx: Services) -> bool:
    with ctx.store.read() as tx:
        people = tx.people
        return bool(people.user(ADMIN) and people.user(GATEWAY) and people.project(PROJECT) and tx.runs.specs())


def _fill(ctx: Services, tx: Transaction) -> None:
    now = ctx.clock()
    if tx.people.user(ADMIN) is None:
        tx.people.add_user(name=ADMIN, is_admin=True, now=now)
    if tx.people.user(GATEWAY) is None:
        tx.people.add_user(name=GATEWAY, is_admin=False, is_service=True, now=now)
    if tx.people.project(PROJECT) is None:
        tx.people.add_project(name=PROJECT, now=now)
    if not tx.runs.specs():
        for spec in SPECS:
            tx.runs.put_spec(spec)


def _ensure_token(ctx: Services, user_name: str, file: Path) -> None:
    name = f"{socket.gethostname()}:{file}"
    with ctx.store.read() as tx:
        user = tx.people.user(user_name)
        assert user is not None
        kept = tx.people.by_token(digest(file.read_text().strip())) if file.exists() else None
        if kept and kept[0].id == user.id and kept[1].revoked_at is None:
            return
    secret, hashed = new_secret()
    with ctx.store.begin() as tx:
        # what the file held before is lost or wrong; nobody should be able to use it
        for token in tx.people.tokens(user.id):
            if token.name == name:
                tx.people.revoke_token(token.id, ctx.clock())
        tx.people.add_token(user_id=user.id, name=name, hash=hashed, now=ctx.clock())
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, secret.encode() + b"\n")
