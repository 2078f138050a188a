"""Where a project's data may lie. Pure.

A region is a word that the platform's people agree on: a cloud's own ("cn-hangzhou") or one of theirs ("berlin"). A
connection has one, a node has one, and the platform itself has one for its own folders. "" is not known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway.errors import RefusedError, UsageError

_REGION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


def check_region(text: str) -> str:
    """`text`, when it can name a region. Raises UsageError."""
    if not _REGION.fullmatch(text):
        raise UsageError(
            f"{text!r} names no region.", "Write lower-case letters, digits and dashes, as in cn-hangzhou."
        )
    return text


def allowed(regions: Sequence[str], region: str) -> bool:
    """Whether data of a project that names `regions` may lie in `region`. regions: empty is any.

    A place whose region is not known is none of those named.
    """
    return not regions or region in regions


def require(project: str, regions: Sequence[str], region: str, place: str) -> None:
    """Raises RefusedError (code region) when the project's data may not lie at `place` ("the store s3://bucket")."""
    if allowed(regions, region):
        return
    where = f"lies in {region}" if region else "has no region that is known"
    raise RefusedError(
        f"Data of project {project} may lie in {', '.join(regions)} only, and {place} {where}.",
        "Use a place in one of these regions, or have an admin change the project's regions.",
        code="region",
    )
