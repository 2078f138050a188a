"""A project's storage quota: what it may have of outputs and datasets together.

The record has the limits and the datasets' share. Both stand in files as well, which publishers on every node read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.errors import RefusedError
from headway.rules.records import Project
from headway.rules.units import render_size
from headway.services.context import Services
from headway.storage.quota import ProjectQuota
from headway.store.base import Transaction
from headway.wire.people import Usage

#: seconds for which room is kept for an object that was announced and has not arrived: a signed URL is good as long
KEPT_SECONDS = 3600.0


def of(ctx: Services, project: str) -> ProjectQuota:
    return ProjectQuota(ctx.project_folder(project))


def usage(ctx: Services, project: str) -> Usage:
    """Bytes and files that the project's vouched-for outputs take."""
    size, files = of(ctx, project).usage()
    return Usage(bytes=size, files=files)


def data_usage(tx: Transaction, project: Project) -> Usage:
    """Bytes and objects that the project's datasets take in its store."""
    size, objects = tx.datasets.stored(project.id)
    return Usage(bytes=size, files=objects)


def write(ctx: Services, project: Project) -> None:
    """Makes the file of the limits say what the record says."""
    file = of(ctx, project.name)
    if file.limits() != (project.quota_bytes, project.quota_files):
        file.set_limits(project.quota_bytes, project.quota_files)


def write_data(ctx: Services, project: Project) -> None:
    """Makes the file of the datasets' share say what the record says; not where there is no limit. Not in a write."""

    def count() -> tuple[int, int]:
        with ctx.store.read() as tx:
            return tx.datasets.stored(project.id, expected_since=ctx.clock() - KEPT_SECONDS)

    if (project.quota_bytes, project.quota_files) != (None, None):
        of(ctx, project.name).set_data(count)


def write_all(ctx: Services) -> None:
    with ctx.store.read() as tx:
        projects = tx.people.projects()
    for project in projects:
        write(ctx, project)
        write_data(ctx, project)


def require_room(ctx: Services, tx: Transaction, project: Project, *, bytes: int, files: int) -> None:
    """Call it once the rows of so much more are there, in the same transaction: nobody else can take the room then.

    Raises RefusedError (over_quota) when the project then has more than it may.
    """
    for one in _limits(ctx, tx, project):
        needed = bytes if one.what == "bytes" else files
        if needed > 0 and one.used > one.limit:
            raise _over(project, replace(one, used=one.used - needed, data=one.data - needed), needed)


def require_not_full(ctx: Services, tx: Transaction, project: Project) -> None:
    """Raises RefusedError (over_quota) when the project has all that it may."""
    for one in _limits(ctx, tx, project):
        if one.used >= one.limit:
            raise _over(project, one, 1)


@dataclass(frozen=True)
class _Limit:
    #: "bytes" or "files"
    what: str
    limit: int
    #: by outputs and datasets, and by datasets alone
    used: int
    data: int


def _limits(ctx: Services, tx: Transaction, project: Project) -> list[_Limit]:
    """Those that the project has. Locks them until the commit."""
    limits = (project.quota_bytes, project.quota_files)
    if limits == (None, None):
        return []
    tx.people.lock_project(project.id)
    outputs = of(ctx, project.name).usage()
    stored = tx.datasets.stored(project.id, expected_since=ctx.clock() - KEPT_SECONDS)
    every = zip(("bytes", "files"), limits, outputs, stored, strict=True)
    return [_Limit(what, limit, used + data, data) for what, limit, used, data in every if limit is not None]


def _over(project: Project, found: _Limit, needed: int) -> RefusedError:
    def said(count: int) -> str:
        return render_size(count) if found.what == "bytes" else f"{count} files"

    return RefusedError(
        f"Project {project.name} may have {said(found.limit)}: {said(found.used)} are used "
        f"({said(found.data)} by datasets), {said(needed)} more are needed.",
        f"Raise it (`headway project quota {project.name}` with --{found.what}), or remove versions "
        "(`headway dataset rm`) and then what they alone held (`headway dataset gc`).",
        code="over_quota",
    )
