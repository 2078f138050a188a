"""Code and data, before the user process starts. Done again it finds what is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.helper.voice import Voice

if TYPE_CHECKING:
    from headway.helper.data import Data


def prepare(plan: dict[str, Any], launch: dict[str, Any], attempt: Path, voice: Voice) -> Data | None:
    """Unpacks the plan's snapshot and puts its datasets in place. Raises whatever hinders that.

    What is returned has to be told when the run has ended.
    """
    if snapshot := plan.get("snapshot"):
        from headway.storage import snapshots
        from headway.storage.objects import open_objects

        snapshots.unpack(open_objects(plan["objects"]), snapshot["key"], Path(snapshot["into"]))
        voice.log(f"code {snapshot['key'].rpartition('/')[2][:12]} is unpacked")
    if not plan.get("datasets"):
        return None
    from headway.helper.data import Data

    data = Data(plan, launch, attempt, voice)
    data.prepare()
    return data


def reason(error: BaseException) -> str:
    """One sentence for the record."""
    said = getattr(error, "message", "") or getattr(error, "reason", "") or str(error) or type(error).__name__
    remedy = getattr(error, "remedy", "")
    # object stores append pages of their own state
    return f"{str(said).splitlines()[0]} {remedy}".strip()
