"""Where the contents of a version are now: what a manifest is written from."""

from __future__ import annotations

from collections.abc import Iterable

from headway.errors import RefusedError, UsageError
from headway.rules.datasets import Row
from headway.rules.records import StoredObject
from headway.services.context import Services
from headway.storage.manifests import Writer
from headway.store.datasets import Place


def write(ctx: Services, project_id: int, told: Iterable[list[Row]], writer: Writer) -> set[int]:
    """Adds these rows, in their order, with their places; the ids of the objects that are used.

    Raises RefusedError (conflict) for a content that the project has not, UsageError for one of another size.
    """
    objects: dict[int, StoredObject] = {}
    numbers: dict[int, int] = {}
    for rows in told:
        places = _places(ctx, project_id, rows, objects)
        for row in rows:
            place = places[bytes.fromhex(row[2])]
            if place.bytes != row[1]:
                raise UsageError(f"{row[0]!r} has {row[1]} bytes, and its content {place.bytes}.", "Push again.")
            ids = place.parts if place.pack_id is None else [place.pack_id]
            for one in ids:
                if one not in numbers:
                    found = objects[one]
                    numbers[one] = writer.number(found.kind, found.name, found.bytes)
            if place.pack_id is None:
                writer.add(row, [numbers[one] for one in ids])
            else:
                writer.add(row, numbers[place.pack_id], place.offset or 0)
    return set(numbers)


def _places(ctx: Services, project_id: int, rows: list[Row], objects: dict[int, StoredObject]) -> dict[bytes, Place]:
    """Where the contents of these rows are; fills in the objects that they are in."""
    wanted = {bytes.fromhex(sha256) for _, _, sha256 in rows}
    with ctx.store.read() as tx:
        places = tx.datasets.places(project_id, wanted)
        new = {p.pack_id for p in places.values() if p.pack_id is not None}
        new.update(*(p.parts for p in places.values()))
        objects.update(tx.datasets.objects_by_id(new - objects.keys()))
    for path, _, sha256 in rows:
        place = places.get(bytes.fromhex(sha256))
        ids = [] if place is None else place.parts if place.pack_id is None else [place.pack_id]
        if place is None or any(one not in objects for one in ids):
            raise RefusedError(f"The project has no content for {path!r}.", "Push again.", code="conflict")
    return places
