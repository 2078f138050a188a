"""Datasets: push a folder as a version, list, verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.client import pulling
from headway.client.contents import Version
from headway.client.pulling import Pulled
from headway.client.transport import Transport
from headway.rules.datasets import Row
from headway.wire.datasets import DatasetVersionView, DiffView, GcRequest, GcView, RemovedView, VerifyView

if TYPE_CHECKING:
    from headway.client.pushing.entries import Choice
    from headway.client.pushing.progress import Progress


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
        source: Path | str,
        *,
        statistics: dict[str, Any] | None = None,
        choice: Choice | None = None,
        label: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        notes: Callable[[str], None] = lambda note: None,
    ) -> DatasetVersionView:
        """Pushes a folder, an archive (tar, zip), a file, or the http(s) URL of one, as a new version.

        Only what the project has not yet is sent; interrupted anywhere, the same call goes on. The same files as the
        newest version return that one. choice: which files are taken. label: where they come from, for people. notes:
        told what was left out, and what may cause trouble. Raises UsageError for a source that cannot be pushed (empty,
        unreadable files, links out of it, a file that changes meanwhile); nothing is published then.
        """
        from headway.client.pushing import push as pushing

        return pushing.push(
            self._transport, self._name, name, source, statistics=statistics, choice=choice, label=label,
            told=progress, notes=notes,
        )  # fmt: skip

    def measure(
        self,
        view: DatasetVersionView,
        folder: Path | None = None,
        *,
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> DatasetVersionView:
        """The version with statistics, made and kept; see `client.statistics`.

        folder: that it was pushed from just now; None: its files are read from the store.
        """
        from headway.client import statistics

        version = Version(self._transport, self._name, view.name, view.version)
        files = version if folder is None else statistics.Folder(folder, version.rows)
        return self.put_statistics(view.name, view.version, statistics.of(files, progress))

    def verify(self, name: str, version: int, sample: float | None = None) -> VerifyView:
        """Has the server read the files of the version and compare them with the manifest.

        sample: share of the files that is read, above 0 and at most 1; None: all.
        """
        path = f"{self._project}/datasets/{name}/versions/{version}/verify"
        body = {} if sample is None else {"sample": sample}
        return VerifyView.model_validate(self._transport.call("POST", path, body=body, timeout=3600))

    def diff(self, older: str, newer: str) -> DiffView:
        """What differs between two versions, `digits@1` and `digits@2`; a name alone is the newest."""
        before, after = self.find(older), self.find(newer)
        params: dict[str, Any] = {"older": before.version, "newer": after.version}
        if before.name != after.name:
            params["older_name"] = before.name
        found = self._transport.call("GET", f"{self._project}/datasets/{after.name}/diff", params=params, timeout=600)
        return DiffView.model_validate(found)

    def rm(self, name: str, version: int) -> RemovedView:
        """Removes a version; its bytes go with `gc`. Raises RefusedError (in_use) while anything refers to it."""
        path = f"{self._project}/datasets/{name}/versions/{version}"
        return RemovedView.model_validate(self._transport.call("DELETE", path))

    def gc(self, *, dry_run: bool = True, older_than: float = 86_400.0) -> GcView:
        """What lies in the project's store and belongs to no version; removed when it is no dry run.

        older_than: seconds; what a push has used since then stays. Raises RefusedError where that cannot be told.
        """
        body = GcRequest(dry_run=dry_run, older_than=older_than)
        answer = self._transport.call("POST", f"{self._project}/datasets/gc", body=body, timeout=3600)
        return GcView.model_validate(answer)

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
