"""What a push tells and asks the api, but for the bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from headway.client.pushing.sending import persistently
from headway.client.transport import Transport
from headway.rules.datasets import PAGE_ROWS, Row, lines
from headway.wire.datasets import DatasetVersionView, PushView

#: contents that are asked for in one request
_ASKED = 20_000
#: seconds for an answer that takes the server long
_LONG = 900.0


class Desk:
    def __init__(self, transport: Transport, project: str, name: str) -> None:
        self.transport = transport
        #: of the push, once it is open
        self.path = f"/projects/{project}/pushes"
        self._name = name
        self._files = self._bytes = 0
        self._digest = hashlib.sha256()

    def open(self, source: str, files: int, size: int) -> PushView:
        said = source.encode("utf-8", "replace").decode()[:4096]
        body = {"name": self._name, "source": said, "files": files, "bytes": size}
        view = PushView.model_validate(self._post("", body))
        self.path += f"/{view.id}"
        return view

    def known(self, contents: Iterable[str]) -> set[str]:
        """Those of these contents that the project has."""
        asked, found = list(dict.fromkeys(contents)), set[str]()
        for start in range(0, len(asked), _ASKED):
            some = asked[start : start + _ASKED]
            found.update(some[i] for i in self._post("/known", {"contents": some})["contents"])
        return found

    def add_large(self, files: list[dict[str, Any]]) -> None:
        """Of large files whose parts are there: sha256, bytes, parts."""
        self._post("/large", {"files": files})

    def add_rows(self, rows: list[Row]) -> None:
        """The next rows of the version."""
        for start in range(0, len(rows), PAGE_ROWS):
            some = rows[start : start + PAGE_ROWS]
            self._post("/rows", {"start": self._files, "rows": some})
            self._files += len(some)
        self._bytes += sum(size for _, size, _ in rows)
        for line in lines(rows):
            self._digest.update(line)

    def publish(self, statistics: dict[str, Any] | None) -> DatasetVersionView:
        body = {
            "files": self._files,
            "bytes": self._bytes,
            "digest": self._digest.hexdigest(),
            "statistics": statistics or {},
        }
        return DatasetVersionView.model_validate(self._post("/publish", body))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return persistently(lambda: self.transport.call("POST", self.path + path, body=body, timeout=_LONG))
