"""What runs are made of and make: datasets, checkpoints, models."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from headway.rules.records import Checkpoint, Dataset, DatasetVersion, Model, ModelVersion
from headway.rules.states import VersionState
from headway.store.area import Area, defaults
from headway.store.tables import checkpoints, dataset_versions, datasets, model_versions, models, runs


class Products(Area):
    # datasets

    def dataset(self, project_id: int, name: str) -> Dataset | None:
        return self._one(
            Dataset, sa.select(datasets).where(datasets.c.project_id == project_id, datasets.c.name == name)
        )

    def datasets(self, project_id: int) -> list[Dataset]:
        return self._all(
            Dataset, sa.select(datasets).where(datasets.c.project_id == project_id).order_by(datasets.c.name)
        )

    def add_dataset(self, *, project_id: int, name: str, now: float) -> Dataset:
        return self._insert(Dataset, datasets, project_id=project_id, name=name, created_at=now, numbers=0)

    def add_dataset_version(self, **values: Any) -> DatasetVersion:
        return self._insert(DatasetVersion, dataset_versions, **{**defaults(DatasetVersion), **values})

    def dataset_versions(self, dataset_id: int) -> list[DatasetVersion]:
        """Oldest first."""
        query = sa.select(dataset_versions).where(dataset_versions.c.dataset_id == dataset_id)
        return self._all(DatasetVersion, query.order_by(dataset_versions.c.version))

    def dataset_version(self, dataset_id: int, version: int) -> DatasetVersion | None:
        query = sa.select(dataset_versions).where(
            dataset_versions.c.dataset_id == dataset_id, dataset_versions.c.version == version
        )
        return self._one(DatasetVersion, query)

    def dataset_version_by_id(self, version_id: int) -> DatasetVersion | None:
        return self._one(DatasetVersion, sa.select(dataset_versions).where(dataset_versions.c.id == version_id))

    def change_dataset_version(self, version_id: int, **changes: Any) -> None:
        self._update(dataset_versions, dataset_versions.c.id == version_id, **changes)

    # checkpoints

    def put_checkpoint(self, *, run_id: int, name: str, **values: Any) -> Checkpoint:
        """Records a checkpoint; one of the same run and name is replaced (its id stays)."""
        values = {**defaults(Checkpoint), **values}
        where = (checkpoints.c.run_id == run_id) & (checkpoints.c.name == name)
        if not self._update(checkpoints, where, **values):
            return self._insert(Checkpoint, checkpoints, run_id=run_id, name=name, **values)
        found = self._one(Checkpoint, sa.select(checkpoints).where(where))
        assert found is not None
        return found

    def checkpoints(self, run_id: int) -> list[Checkpoint]:
        """In the order of step, epoch, then appearance."""
        query = sa.select(checkpoints).where(checkpoints.c.run_id == run_id)
        return sorted(self._all(Checkpoint, query), key=lambda c: (c.step or 0, c.epoch or 0, c.id))

    def checkpoint_counts(self, run_ids: Collection[int]) -> dict[int, int]:
        """How many valid checkpoints each run has that are there; a run with none is left out."""
        rows = self._connection.execute(
            sa.select(checkpoints.c.run_id, sa.func.count())
            .where(checkpoints.c.run_id.in_(list(run_ids)), checkpoints.c.valid, checkpoints.c.removed_at.is_(None))
            .group_by(checkpoints.c.run_id)
        )
        return {row[0]: row[1] for row in rows}

    def checkpoint(self, checkpoint_id: int) -> Checkpoint | None:
        return self._one(Checkpoint, sa.select(checkpoints).where(checkpoints.c.id == checkpoint_id))

    def checkpoint_named(self, run_id: int, name: str) -> Checkpoint | None:
        return self._one(
            Checkpoint, sa.select(checkpoints).where(checkpoints.c.run_id == run_id, checkpoints.c.name == name)
        )

    def checkpoint_marks(self) -> dict[int, tuple[int, float]]:
        """Of each run with several checkpoints that are there: how many, and when the last one appeared."""
        rows = self._connection.execute(
            sa.select(checkpoints.c.run_id, sa.func.count(), sa.func.max(checkpoints.c.created_at))
            .where(checkpoints.c.valid, checkpoints.c.removed_at.is_(None))
            .group_by(checkpoints.c.run_id)
            .having(sa.func.count() > 1)
        )
        return {row[0]: (row[1], row[2]) for row in rows}

    def removed_checkpoints(self) -> list[Checkpoint]:
        """Those that are marked as removed and whose bytes may still be there: they have a path."""
        query = sa.select(checkpoints).where(checkpoints.c.removed_at.is_not(None), checkpoints.c.path != "")
        return self._all(Checkpoint, query.order_by(checkpoints.c.id))

    def change_checkpoint(self, found: Checkpoint, **changes: Any) -> bool:
        """Changes it if it is still the content that `found` is, removed or not as there; whether it was."""
        where = (checkpoints.c.id == found.id) & (checkpoints.c.sha256 == found.sha256)
        return bool(
            self._update(
                checkpoints, where & checkpoints.c.removed_at.is_not_distinct_from(found.removed_at), **changes
            )
        )

    def registered_checkpoints(self, run_id: int) -> set[int]:
        """Ids of the run's checkpoints that a model version was made from, or is being made from."""
        query = (
            sa.select(model_versions.c.source)
            .join(models, models.c.id == model_versions.c.model_id)
            .join(runs, runs.c.project_id == models.c.project_id)
            .where(runs.c.id == run_id)
        )
        sources = [row[0] for row in self._connection.execute(query)]
        return {int(s["checkpoint_id"]) for s in sources if s.get("job") == run_id and "checkpoint_id" in s}

    # models

    def model(self, project_id: int, name: str) -> Model | None:
        return self._one(Model, sa.select(models).where(models.c.project_id == project_id, models.c.name == name))

    def models(self, project_id: int) -> list[Model]:
        return self._all(Model, sa.select(models).where(models.c.project_id == project_id).order_by(models.c.name))

    def add_model(self, *, project_id: int, name: str, now: float) -> Model:
        return self._insert(Model, models, project_id=project_id, name=name, created_at=now)

    def add_model_version(self, **values: Any) -> ModelVersion:
        return self._insert(ModelVersion, model_versions, **values)

    def model_versions(self, model_id: int) -> list[ModelVersion]:
        """Oldest first."""
        query = sa.select(model_versions).where(model_versions.c.model_id == model_id)
        return self._all(ModelVersion, query.order_by(model_versions.c.version))

    def model_version_by_id(self, version_id: int) -> ModelVersion | None:
        return self._one(ModelVersion, sa.select(model_versions).where(model_versions.c.id == version_id))

    def model_by_id(self, model_id: int) -> Model | None:
        return self._one(Model, sa.select(models).where(models.c.id == model_id))

    def checking(self) -> list[ModelVersion]:
        """Versions whose check is due: state checking, in any project, oldest first."""
        query = sa.select(model_versions).where(model_versions.c.state == VersionState.CHECKING)
        return self._all(ModelVersion, query.order_by(model_versions.c.id))

    def model_version_by_key(self, model_id: int, key: str) -> ModelVersion | None:
        query = sa.select(model_versions).where(model_versions.c.model_id == model_id, model_versions.c.key == key)
        return self._one(ModelVersion, query)

    def change_model_version(self, version_id: int, **changes: Any) -> None:
        self._update(model_versions, model_versions.c.id == version_id, **changes)
