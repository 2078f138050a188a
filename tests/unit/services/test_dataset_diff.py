"""A comparison of versions that the store no longer holds whole."""

from __future__ import annotations

import pytest

from headway.errors import FailedError
from headway.rules.access import Caller
from headway.services.context import Services
from headway.services.dataset_diff import diff
from headway.storage import layout

from .test_pushes import FILES, Pusher

TWO = (("digits", 1), ("digits", 2))


def test_a_lost_or_damaged_manifest_is_said(ctx: Services, member: Caller) -> None:
    view = Pusher(ctx, member, FILES).all()
    Pusher(ctx, member, {**FILES, "c": b"more"}).all()
    found = diff(ctx, member, "default", *TWO)
    assert (found.older, found.newer, found.added, found.new_bytes) == ("digits@1", "digits@2", 1, 4)
    rows = layout.rows_key("default", view.digest)
    ctx.objects.put_bytes(rows, b"not what was there")
    with pytest.raises(FailedError, match=r"digits@1 and digits@2 cannot be compared .* mends it\."):
        diff(ctx, member, "default", *TWO)
    ctx.objects.delete(rows)
    with pytest.raises(FailedError, match="cannot be compared"):
        diff(ctx, member, "default", *TWO)
    ctx.objects.delete(layout.root_key("default", view.digest))
    with pytest.raises(FailedError, match=r"there is no object .*\.json\)"):
        diff(ctx, member, "default", *TWO)
