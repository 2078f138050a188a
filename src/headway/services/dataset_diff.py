"""What differs between two versions."""

from __future__ import annotations

from headway.errors import FailedError
from headway.rules.access import Caller
from headway.services import data
from headway.services.context import Services
from headway.storage.comparing import compare
from headway.storage.objects import MissingObjectError
from headway.storage.verify import InvalidError
from headway.wire.datasets import Change, DiffView


def diff(ctx: Services, caller: Caller, project: str, older: tuple[str, int], newer: tuple[str, int]) -> DiffView:
    """older, newer: name and number. Raises NotFoundError, FailedError when a manifest is damaged."""
    before, after = (data.version(ctx, caller, project, *one) for one in (older, newer))
    try:
        found = compare(data.opened(before), data.opened(after))
    except (InvalidError, MissingObjectError) as error:
        raise FailedError(
            f"{before} and {after} cannot be compared ({error}).",
            "`headway dataset verify` says which; push its files again: that mends it.",
        ) from None
    counts = {what: found.counts.get(what, 0) for what in ("added", "removed", "changed", "moved")}
    return DiffView(
        older=str(before),
        newer=str(after),
        **counts,
        same=found.same,
        new_bytes=found.new_bytes,
        changes=[Change(path=c.path, what=c.what, before=c.before, bytes=c.bytes) for c in found.changes],
    )
