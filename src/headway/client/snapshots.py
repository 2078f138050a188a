"""Code snapshots: the user's folder as one content-addressed tar."""

from __future__ import annotations

from pathlib import Path

from headway.client.snapshot import Snapshot, take
from headway.client.transport import Transport
from headway.wire.runs import SnapshotView


class Snapshots:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self.project = project

    def push(self, folder: Path) -> SnapshotView:
        """Takes a snapshot of `folder` and uploads it."""
        return self.upload(take(folder))

    def upload(self, snapshot: Snapshot) -> SnapshotView:
        """Uploading what is there already changes nothing."""
        answer = self._transport.call(
            "PUT",
            f"/projects/{self.project}/snapshots/{snapshot.digest}",
            params={"commit": snapshot.commit, "dirty": str(snapshot.dirty).lower()},
            content=snapshot.content,
            timeout=600,
        )
        return SnapshotView.model_validate(answer)
