"""Versions of datasets as the wire has them."""

from __future__ import annotations

from collections.abc import Sequence

from headway.rules.records import DatasetVersion
from headway.services.context import moment
from headway.store.base import Transaction
from headway.wire.datasets import DatasetVersionView


def version_views(tx: Transaction, name: str, found: Sequence[DatasetVersion]) -> list[DatasetVersionView]:
    """name: of their dataset."""
    people = tx.people.names({v.created_by for v in found})
    return [
        DatasetVersionView(
            name=name,
            version=v.version,
            digest=v.digest,
            files=v.files,
            bytes=v.bytes,
            statistics=v.statistics,
            source=v.source,
            parents=v.parents,
            created_by=people[v.created_by],
            created_at=moment(v.created_at),
            sent_bytes=v.sent_bytes,
            damaged=v.damaged,
        )
        for v in found
    ]
