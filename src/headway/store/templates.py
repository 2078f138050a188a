"""Saved job templates and their versions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from headway.rules.records import Template, TemplateVersion
from headway.store.area import Area
from headway.store.tables import template_versions, templates


class Templates(Area):
    def get(self, project_id: int, name: str) -> Template | None:
        return self._one(
            Template, sa.select(templates).where(templates.c.project_id == project_id, templates.c.name == name)
        )

    def listing(self, project_id: int) -> list[Template]:
        """By name."""
        query = sa.select(templates).where(templates.c.project_id == project_id)
        return self._all(Template, query.order_by(templates.c.name))

    def add(self, *, project_id: int, name: str, now: float) -> Template:
        return self._insert(Template, templates, project_id=project_id, name=name, created_at=now)

    def remove(self, template_id: int) -> None:
        """With all versions."""
        self._connection.execute(sa.delete(template_versions).where(template_versions.c.template_id == template_id))
        self._connection.execute(sa.delete(templates).where(templates.c.id == template_id))

    def versions(self, template_id: int) -> list[TemplateVersion]:
        """Oldest first."""
        query = sa.select(template_versions).where(template_versions.c.template_id == template_id)
        return self._all(TemplateVersion, query.order_by(template_versions.c.version))

    def add_version(self, **values: Any) -> TemplateVersion:
        return self._insert(TemplateVersion, template_versions, **values)
