"""Datasets: push a folder as a version, list, verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headway.client import pulling, push
from headway.client.contents import Version
from headway.client.pulling import Pulled
from headway.client.transport import Transport
from headway.rules.datasets import Row
from headway.wire.products import DatasetVersionView, FileEntry, KnownAnswer, VerifyView, VersionRequest


class Datasets:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._name = project
        self._project = f"/projects/{project}"

    def ls(self) -> list[DatasetVersionView]:
        """The newest version of each dataset."""
        found = self._transport.call("GET", f"{self._project}/datasets")
        return [DatasetVersionView.model_validate(d) for d in found]

    def versions(self, name: str) -> list[DatasetVersionView]:
        found = self._transport.call("GET", f"{self._project}/datasets/{name}/versions")
        return [DatasetVersionView.model_validate(d) for d in found]

    def push(
        self,
        name: str,
        folder: Path,
        *,
        statistics: dict[str, Any] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> DatasetVersionView:
        """Pushes every file under `folder`; contents that the project has already are not sent again.

        The same files as the newest version return that version. progress: told (bytes done, bytes in all).
        Raises UsageError for a folder that is missing or empty, or a file that changes meanwhile.
        """
        found = push.scan(folder)
        known = self._known({f.sha256 for f in found})
        missing = {f.sha256: f for f in found if f.sha256 not in known}
        total = sum(f.bytes for f in missing.values())
        done = 0
        for pack in push.packs(folder, list(missing.values())):
            self._transport.call("PUT", f"{self._project}/packs/{pack.sha256}", content=_chunks(pack.path), timeout=600)
            pack.path.unlink()
            for sha256, offset in pack.offsets.items():
                file = missing[sha256]
                done += file.bytes
                known[sha256] = FileEntry(
                    path=file.path, bytes=file.bytes, sha256=sha256, pack=pack.sha256, offset=offset
                )
            progress(done, total)
        entries = [known[f.sha256].model_copy(update={"path": f.path}) for f in found]
        body = VersionRequest(files=entries, source=str(folder.absolute()), statistics=statistics or {})
        path = f"{self._project}/datasets/{name}/versions"
        return DatasetVersionView.model_validate(self._transport.call("POST", path, body=body, timeout=600))

    def _known(self, contents: set[str]) -> dict[str, FileEntry]:
        """Places of the contents that the project has; asked for in portions."""
        found: dict[str, FileEntry] = {}
        wanted = sorted(contents)
        for start in range(0, len(wanted), 10_000):
            answer = self._transport.call(
                "POST", f"{self._project}/datasets/known", body={"sha256": wanted[start : start + 10_000]}
            )
            found |= KnownAnswer.model_validate(answer).known
        return found

    def verify(self, name: str, version: int) -> VerifyView:
        """Has the server read every file of the version and compare it with the manifest."""
        path = f"{self._project}/datasets/{name}/versions/{version}/verify"
        return VerifyView.model_validate(self._transport.call("POST", path, timeout=3600))

    def put_statistics(self, name: str, version: int, statistics: dict[str, Any]) -> DatasetVersionView:
        """Keeps statistics with a version, in the place of those it had."""
        path = f"{self._project}/datasets/{name}/versions/{version}/statistics"
        answer = self._transport.call("PUT", path, body={"statistics": statistics})
        return DatasetVersionView.model_validate(answer)

    def files(self, reference: str, folder: str = "") -> Iterator[Row]:
        """Path, bytes and SHA-256 of each file of `digits@1`, in order; folder: only what lies below it."""
        found = self.find(reference)
        return Version(self._transport, self._name, found.name, found.version).rows(folder)

    def cat(self, reference: str, path: str) -> Iterator[bytes]:
        """The content of one file. Raises NotFoundError."""
        found = self.find(reference)
        at = f"{self._project}/datasets/{found.name}/versions/{found.version}/content"
        return self._transport.pieces(at, params={"path": path})

    def pull(
        self,
        reference: str,
        into: Path,
        *,
        path: str = "",
        force: bool = False,
        told: Callable[[Pulled], None] = lambda pulled: None,
    ) -> Pulled:
        """Copies a version into a folder; what is there already stays. See `client.pulling.pull`."""
        found = self.find(reference)
        version = Version(self._transport, self._name, found.name, found.version)
        return pulling.pull(version, into, path=path, force=force, told=told)

    def find(self, reference: str) -> DatasetVersionView:
        """The version that `digits@1` or `digits` (newest) names. Raises NotFoundError."""
        from headway.errors import NotFoundError

        name, _, number = reference.partition("@")
        versions = self.versions(name)
        for version in sorted(versions, key=lambda v: -v.version):
            if not number or str(version.version) == number:
                return version
        raise NotFoundError(f"There is no dataset {reference}.", "`headway dataset ls` lists those that there are.")


def _chunks(path: Path) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                yield block

    return read
