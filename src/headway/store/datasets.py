"""What a project's data is made of: its objects and contents, the pushes that bring them, and versions that name them.

Objects come and go along `ObjectState`, so that nothing is removed that somebody counts on: whoever writes an object
has a row for it first (`expect`), says that it is there (`arrived`), and a version names it only while it is still here
(`hold`). Whoever removes one takes the row first (`condemn`), and fails where it was touched since it was looked at.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headway.rules.records import Dataset, DatasetVersion, Push, StoredObject
from headway.rules.states import ObjectState, PushState
from headway.store.area import Area, T
from headway.store.tables import (
    contents,
    dataset_versions,
    datasets,
    evaluations,
    model_versions,
    models,
    pushes,
    runs,
    stored_objects,
)

#: values of one question
BATCH = 5_000


class Place(NamedTuple):
    """Where a content is: in a pack, or in parts."""

    bytes: int
    pack_id: int | None
    offset: int | None
    parts: list[int]


class NewContent(NamedTuple):
    sha256: bytes
    bytes: int
    offset: int | None = None
    #: ids of a large file's parts
    parts: Sequence[int] = ()


def batches(values: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    several = iter(values)
    while batch := list(islice(several, size)):
        yield batch


class Datasets(Area):
    # objects

    def object(self, project_id: int, kind: str, name: str) -> StoredObject | None:
        return self._one(StoredObject, sa.select(stored_objects).where(_named(project_id, kind, name)))

    def objects(self, project_id: int, kind: str, names: Collection[str]) -> dict[str, StoredObject]:
        """Those of these that have a row, by name."""
        found: dict[str, StoredObject] = {}
        for batch in batches(names):
            query = sa.select(stored_objects).where(
                stored_objects.c.project_id == project_id,
                stored_objects.c.kind == kind,
                stored_objects.c.name.in_(batch),
            )
            found.update((o.name, o) for o in self._all(StoredObject, query))
        return found

    def objects_by_id(self, ids: Collection[int]) -> dict[int, StoredObject]:
        found: dict[int, StoredObject] = {}
        for batch in batches(ids):
            for one in self._all(StoredObject, sa.select(stored_objects).where(stored_objects.c.id.in_(batch))):
                found[one.id] = one
        return found

    def all_objects(self, project_id: int) -> list[StoredObject]:
        query = sa.select(stored_objects).where(stored_objects.c.project_id == project_id)
        return self._all(StoredObject, query.order_by(stored_objects.c.id))

    def stored(self, project_id: int, *, expected_since: float | None = None) -> tuple[int, int]:
        """(bytes, objects) that the project's datasets take in its store.

        expected_since: also what was announced since then and has not arrived.
        """
        counts = stored_objects.c.state != ObjectState.ARRIVING
        if expected_since is not None:
            counts |= stored_objects.c.touched_at >= expected_since
        row = self._connection.execute(
            sa.select(sa.func.coalesce(sa.func.sum(stored_objects.c.bytes), 0), sa.func.count()).where(
                stored_objects.c.project_id == project_id, counts
            )
        ).one()
        return int(row[0]), int(row[1])

    def expect(self, project_id: int, kind: str, name: str, *, bytes: int, now: float) -> StoredObject:
        """The row of an object that is about to be written, touched; a new one is arriving."""
        values = {"project_id": project_id, "kind": kind, "name": name, "bytes": bytes, "files": 0}
        times = {"created_at": now, "touched_at": now}
        self._connection.execute(
            self._insertion(stored_objects)
            .values(**values, **times, state=ObjectState.ARRIVING)
            .on_conflict_do_nothing()
        )
        self._update(
            stored_objects, _named(project_id, kind, name) & (stored_objects.c.state != ObjectState.REMOVING),
            touched_at=now,
        )  # fmt: skip
        found = self.object(project_id, kind, name)
        assert found is not None
        return found

    def arrived(self, object_id: int, *, bytes: int, files: int, now: float) -> bool:
        """The object is whole in the store. False: it was, or is being, removed meanwhile."""
        where = (stored_objects.c.id == object_id) & (stored_objects.c.state != ObjectState.REMOVING)
        changes = {"bytes": bytes, "files": files, "state": ObjectState.HERE, "touched_at": now}
        return bool(self._update(stored_objects, where, **changes))

    def hold(self, ids: Collection[int], now: float) -> bool:
        """Touches these objects, so that they stay; whether all of them are here. Locks them until the commit."""
        held = 0
        # in one order, so that two who hold the same never wait for each other
        for batch in batches(sorted(set(ids))):
            here = stored_objects.c.id.in_(batch) & (stored_objects.c.state == ObjectState.HERE)
            self._connection.execute(sa.select(stored_objects.c.id).where(here).order_by("id").with_for_update()).all()
            held += self._update(stored_objects, here, touched_at=now)
        return held == len(set(ids))

    def condemn(self, found: StoredObject) -> bool:
        """Takes an object out of use, with its contents, if nobody touched it since it was read; whether it was."""
        where = (stored_objects.c.id == found.id) & (stored_objects.c.touched_at == found.touched_at)
        if not self._update(stored_objects, where, state=ObjectState.REMOVING):
            return False
        self._forget_contents(found)
        return True

    def damage(self, found: StoredObject) -> None:
        """An object is no longer what it was: nothing new counts on it or its contents before it is sent again."""
        where = (stored_objects.c.id == found.id) & (stored_objects.c.state != ObjectState.REMOVING)
        if self._update(stored_objects, where, state=ObjectState.DAMAGED):
            self._forget_contents(found)

    def claim(self, project_id: int, kind: str, name: str, *, now: float) -> StoredObject | None:
        """A row, being removed, for an object that has none; None: it has one."""
        made = self._scalar(
            self._insertion(stored_objects)
            .values(
                project_id=project_id, kind=kind, name=name, bytes=0, files=0, state=ObjectState.REMOVING,
                created_at=now, touched_at=now,
            )
            .on_conflict_do_nothing()
            .returning(stored_objects.c.id)
        )  # fmt: skip
        return self.object(project_id, kind, name) if made is not None else None

    def forget(self, object_id: int) -> None:
        """The object is gone from the store."""
        where = (stored_objects.c.id == object_id) & (stored_objects.c.state == ObjectState.REMOVING)
        self._connection.execute(sa.delete(stored_objects).where(where))

    def _forget_contents(self, found: StoredObject) -> None:
        self._connection.execute(sa.delete(contents).where(contents.c.pack_id == found.id))
        if found.kind == "part":
            self._forget_large(found.project_id, found.id)

    def _forget_large(self, project_id: int, part_id: int) -> None:
        query = sa.select(contents.c.sha256, contents.c.parts).where(
            contents.c.project_id == project_id, contents.c.pack_id.is_(None)
        )
        lost = [row[0] for row in self._connection.execute(query) if part_id in row[1]]
        for batch in batches(lost):
            self._connection.execute(
                sa.delete(contents).where(contents.c.project_id == project_id, contents.c.sha256.in_(batch))
            )

    # contents

    def add_contents(self, project_id: int, pack_id: int | None, found: Iterable[NewContent]) -> None:
        """Those that the project holds already stay where they are."""
        names = ["project_id", "sha256", "bytes", "pack_id", "offset", "parts"]
        insertion = self._insertion(contents).on_conflict_do_nothing()
        for batch in batches(found):
            rows = [
                dict(zip(names, (project_id, c.sha256, c.bytes, pack_id, c.offset, json.dumps(c.parts)), strict=True))
                for c in batch
            ]
            self._many(insertion, rows, columns=names)

    def places(self, project_id: int, wanted: Collection[bytes]) -> dict[bytes, Place]:
        """Where those of these contents are that the project holds."""
        found: dict[bytes, Place] = {}
        # parts as text: all but a few rows have none, and reading them as JSON takes longer than the rest
        parts = sa.cast(contents.c.parts, sa.Text)
        columns = (contents.c.sha256, contents.c.bytes, contents.c.pack_id, contents.c.offset, parts)
        for batch in batches(wanted):
            query = sa.select(*columns).where(contents.c.project_id == project_id, contents.c.sha256.in_(batch))
            for sha256, size, pack_id, offset, text in self._connection.execute(query):
                found[sha256] = Place(size, pack_id, offset, json.loads(text) if pack_id is None else [])
        return found

    # pushes

    def add_push(self, *, project_id: int, name: str, source: str, created_by: int, now: float) -> Push:
        return self._insert(
            Push, pushes, project_id=project_id, name=name, source=source, created_by=created_by, created_at=now,
            touched_at=now, state=PushState.OPEN, version_id=None, sent_bytes=0,
        )  # fmt: skip

    def push(self, push_id: int) -> Push | None:
        return self._one(Push, sa.select(pushes).where(pushes.c.id == push_id))

    def open_pushes(self, project_id: int) -> list[Push]:
        query = sa.select(pushes).where(pushes.c.project_id == project_id, pushes.c.state == PushState.OPEN)
        return self._all(Push, query.order_by(pushes.c.id))

    def change_push(self, push_id: int, **changes: Any) -> None:
        self._update(pushes, pushes.c.id == push_id, **changes)

    def sent(self, push_id: int, size: int, now: float) -> None:
        """Counts bytes that the push had to send."""
        self._update(pushes, pushes.c.id == push_id, sent_bytes=pushes.c.sent_bytes + size, touched_at=now)

    def remove_push(self, push_id: int) -> None:
        self._connection.execute(sa.delete(pushes).where(pushes.c.id == push_id))

    # versions

    def ensure(self, project_id: int, name: str, now: float) -> Dataset:
        """The dataset of that name, new where there is none; several may ask at once."""
        values = {"project_id": project_id, "name": name, "created_at": now, "numbers": 0}
        self._connection.execute(self._insertion(datasets).values(**values).on_conflict_do_nothing())
        query = sa.select(datasets).where(datasets.c.project_id == project_id, datasets.c.name == name)
        (found,) = self._all(Dataset, query)
        return found

    def next_number(self, dataset_id: int) -> int:
        """A version's number that was given to none before. Locks the dataset until the commit."""
        self.lock(dataset_id)
        given: int = self._scalar(sa.select(datasets.c.numbers).where(datasets.c.id == dataset_id))
        newest = self.newest(dataset_id)
        number = max(given, newest.version if newest else 0) + 1
        self._update(datasets, datasets.c.id == dataset_id, numbers=number)
        return number

    def lock(self, dataset_id: int) -> None:
        """Until the commit nobody else publishes a version of it, or removes one."""
        self._connection.execute(sa.select(datasets.c.id).where(datasets.c.id == dataset_id).with_for_update())

    def newest(self, dataset_id: int) -> DatasetVersion | None:
        query = sa.select(dataset_versions).where(dataset_versions.c.dataset_id == dataset_id)
        return self._one(DatasetVersion, query.order_by(dataset_versions.c.version.desc()).limit(1))

    def versions_in(self, project_id: int) -> list[tuple[str, DatasetVersion]]:
        """Every version of the project with its dataset's name, by name, oldest first."""
        query = (
            sa.select(datasets.c.name.label("dataset_name"), dataset_versions)
            .join(datasets, datasets.c.id == dataset_versions.c.dataset_id)
            .where(datasets.c.project_id == project_id)
            .order_by(datasets.c.name, dataset_versions.c.version)
        )
        rows = self._connection.execute(query).mappings()
        return [(r["dataset_name"], DatasetVersion(**{c.name: r[c.name] for c in dataset_versions.c})) for r in rows]

    def mended(self, project_id: int, digest: str) -> None:
        """The manifest of these versions names what is here."""
        own = sa.select(datasets.c.id).where(datasets.c.project_id == project_id)
        where = dataset_versions.c.dataset_id.in_(own) & (dataset_versions.c.digest == digest)
        self._update(dataset_versions, where, damaged=False)

    def change_version(self, version_id: int, **changes: Any) -> None:
        self._update(dataset_versions, dataset_versions.c.id == version_id, **changes)

    def remove_version(self, version_id: int) -> None:
        self._update(pushes, pushes.c.version_id == version_id, version_id=None)
        self._connection.execute(sa.delete(dataset_versions).where(dataset_versions.c.id == version_id))

    def share(self, dataset_ids: Collection[int]) -> None:
        """Until the commit nobody removes a version of these. Whoever refers to one looks for it after that."""
        query = sa.select(datasets.c.id).where(datasets.c.id.in_(set(dataset_ids))).order_by(datasets.c.id)
        self._connection.execute(query.with_for_update(read=True)).all()

    def jobs_with(self, project_id: int, version_id: int) -> list[int]:
        """The jobs that were given the version, ended ones too, oldest first."""
        query = sa.select(runs.c.id, runs.c.datasets).where(
            runs.c.project_id == project_id, runs.c.owner == "job", sa.cast(runs.c.datasets, sa.Text) != "[]"
        )
        return self._naming(query.order_by(runs.c.id), version_id)

    def evaluations_with(self, project_id: int, version_id: int) -> list[int]:
        """The evaluations that were given the version, ended ones too, oldest first."""
        query = sa.select(evaluations.c.id, evaluations.c.plan["datasets"])
        return self._naming(query.where(evaluations.c.project_id == project_id).order_by(evaluations.c.id), version_id)

    def models_from(self, project_id: int, reference: str) -> list[str]:
        """The model versions ("digits@2") that come from `digits@1`, oldest first."""
        query = (
            sa.select(models.c.name, model_versions.c.version, model_versions.c.source)
            .join(models, models.c.id == model_versions.c.model_id)
            .where(models.c.project_id == project_id)
            .order_by(model_versions.c.id)
        )
        found = self._connection.execute(query)
        return [f"{name}@{number}" for name, number, source in found if reference in source.get("datasets", ())]

    # inside

    def _naming(self, query: sa.Select[Any], version_id: int) -> list[int]:
        """Of rows (id, what datasets it uses) the ids of those that use the version."""
        found = self._connection.execute(query)
        return [number for number, uses in found if any(use["version_id"] == version_id for use in uses or ())]

    def _insertion(self, table: sa.Table) -> Any:
        """An insert that can say what to do where a row is there already."""
        postgres = self._connection.dialect.name == "postgresql"
        return postgresql.insert(table) if postgres else sqlite.insert(table)


def _named(project_id: int, kind: str, name: str) -> sa.ColumnElement[bool]:
    return (
        (stored_objects.c.project_id == project_id) & (stored_objects.c.kind == kind) & (stored_objects.c.name == name)
    )
