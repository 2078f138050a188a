"""Pushes that nobody goes on with: what they left on the server, rows and bodies on their way in.

What they sent is in the store, where another push finds it: `dataset_gc` sees to that.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from headway.rules.records import Project
from headway.services import pushes
from headway.services.context import Services

#: seconds after which a push that was left is swept by itself, and for which each stays whoever asks
PATIENCE, LEAST = 7 * 86_400.0, 3600.0


class DeadPush(NamedTuple):
    id: int
    folder: Path
    bytes: int


def sweep(ctx: Services) -> None:
    """Removes what no push of any project has touched for `PATIENCE`."""
    with ctx.store.read() as tx:
        projects = tx.people.projects()
    for project in projects:
        removed(ctx, project, ctx.clock() - PATIENCE)


def removed(ctx: Services, project: Project, before: float) -> list[DeadPush]:
    """What `found` finds, removed. The record remembers published pushes, whose publishing may be asked for again."""
    before = min(before, ctx.clock() - LEAST)
    left = found(ctx, project, before)
    # the rows first: without one nothing more is taken in
    with ctx.store.begin() as tx:
        for push in tx.datasets.open_pushes(project.id):
            if push.touched_at <= before:
                tx.datasets.remove_push(push.id)
    for dead in left:
        shutil.rmtree(dead.folder, ignore_errors=True)
    return left


def found(ctx: Services, project: Project, before: float) -> list[DeadPush]:
    """Folders of pushes that are published, gone, or have not been touched since `before`."""
    before = min(before, ctx.clock() - LEAST)
    with ctx.store.read() as tx:
        alive = {push.id for push in tx.datasets.open_pushes(project.id) if push.touched_at > before}
    return [
        DeadPush(int(folder.name), folder, sum(_size(path) for path in folder.rglob("*")))
        for folder in _folders(ctx, project)
        if int(folder.name) not in alive and _touched(folder) <= before
    ]


def _folders(ctx: Services, project: Project) -> Iterator[Path]:
    try:
        with os.scandir(pushes.folder(ctx, project.name, 0).parent) as several:
            yield from (Path(one.path) for one in several if one.name.isdecimal())
    except FileNotFoundError:
        return


def _touched(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0
