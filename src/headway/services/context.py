"""What every use case works on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from headway.protocol import hints
from headway.storage.prices import NoPrices, Prices
from headway.store.base import Store

if TYPE_CHECKING:
    from headway.storage.objects import ObjectStore

MICROS = 1_000_000


@dataclass(frozen=True)
class Services:
    store: Store
    #: the shared root
    root: Path
    objects: ObjectStore
    #: folder of hint sockets; None: nobody is told, and everybody looks in its own time
    hints: Path | None
    currency: str = "USD"
    #: what specs cost on the spot market
    prices: Prices = field(default_factory=NoPrices)
    #: the URL of `objects`, as nodes open it
    objects_url: str = ""
    #: file with the key that opens connections' secrets; None: there are none
    secret_key: Path | None = None
    #: where the platform's own folders lie; "" is not known
    region: str = ""
    #: seconds since the epoch
    clock: Callable[[], float] = time.time

    def hint(self, topic: str, detail: object = "") -> None:
        """Tells the listeners on this machine; to be called after the commit."""
        hints.send(self.hints, topic, str(detail))

    def project_folder(self, project: str) -> Path:
        return self.root / "projects" / project


def moment(seconds: float) -> datetime:
    """Seconds since the epoch as the wire has times."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def moment_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else moment(seconds)


def money(micros: int) -> float:
    """Micros as the wire has money: currency units."""
    return micros / MICROS
