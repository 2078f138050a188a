"""Connections to object stores, and where projects keep their data."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from headway.rules.records import Connection
from headway.store.area import Area
from headway.store.tables import connections, dataset_versions, datasets, projects


class Connections(Area):
    def get(self, connection_id: int) -> Connection | None:
        return self._one(Connection, sa.select(connections).where(connections.c.id == connection_id))

    def named(self, name: str) -> Connection | None:
        return self._one(Connection, sa.select(connections).where(connections.c.name == name))

    def listing(self) -> list[Connection]:
        """By name."""
        return self._all(Connection, sa.select(connections).order_by(connections.c.name))

    def add(self, **values: Any) -> Connection:
        """Raises ConflictError when there is one of that name."""
        return self._insert(Connection, connections, **values)

    def change(self, connection_id: int, **changes: Any) -> None:
        self._update(connections, connections.c.id == connection_id, **changes)

    def remove(self, connection_id: int) -> None:
        self._connection.execute(sa.delete(connections).where(connections.c.id == connection_id))

    def used_by(self, connection_id: int) -> list[str]:
        """Names of the projects that use it, sorted."""
        query = sa.select(projects.c.name).where(projects.c.connection_id == connection_id)
        return [row[0] for row in self._connection.execute(query.order_by(projects.c.name))]

    def set_storage(self, project_id: int, storage: str | None, connection_id: int | None) -> None:
        self._update(projects, projects.c.id == project_id, storage=storage, connection_id=connection_id)

    def set_regions(self, project_id: int, regions: list[str]) -> None:
        self._update(projects, projects.c.id == project_id, regions=regions)

    def has_versions(self, project_id: int) -> bool:
        """Whether the project has a version of any dataset."""
        of = dataset_versions.join(datasets, dataset_versions.c.dataset_id == datasets.c.id)
        query = sa.select(dataset_versions.c.id).select_from(of).where(datasets.c.project_id == project_id)
        return self._scalar(query.limit(1)) is not None
