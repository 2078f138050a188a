"""A project's storage quota: in the record, and in the file that publishers on every node read."""

from __future__ import annotations

from headway.rules.records import Project
from headway.services.context import Services
from headway.storage.quota import ProjectQuota
from headway.wire.people import Usage


def of(ctx: Services, project: str) -> ProjectQuota:
    return ProjectQuota(ctx.project_folder(project))


def usage(ctx: Services, project: str) -> Usage:
    """Bytes and files that the project's vouched-for outputs take."""
    size, files = of(ctx, project).usage()
    return Usage(bytes=size, files=files)


def write(ctx: Services, project: Project) -> None:
    """Makes the file say what the record says."""
    file = of(ctx, project.name)
    if file.limits() != (project.quota_bytes, project.quota_files):
        file.set_limits(project.quota_bytes, project.quota_files)


def write_all(ctx: Services) -> None:
    with ctx.store.read() as tx:
        projects = tx.people.projects()
    for project in projects:
        write(ctx, project)
