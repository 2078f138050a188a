"""Whether checkpoints are still what their cells' keys say: read beside the worker that loads them, once each."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.storage.publish import content_digest, file_digest, signature, verify_folder
from headway.storage.verify import InvalidError
from headway.storage.writing import Signature


class Sources:
    """The plan's checkpoints, by their places. Nothing of one counts before its bytes have been compared."""

    def __init__(self, checkpoints: Sequence[Mapping[str, Any]]) -> None:
        self._checkpoints = checkpoints
        self._lock = threading.Lock()
        self._readers: dict[int, threading.Thread] = {}
        self._faults: dict[int, str] = {}
        self._known: dict[int, list[Signature]] = {}

    def start(self, index: int) -> None:
        """Begins to read it, unless that was begun before: whoever loads it now finds it in the page cache."""
        with self._lock:
            if index in self._readers:
                return
            reader = threading.Thread(target=self._read, args=(index,), name=f"checkpoint {index}", daemon=True)
            self._readers[index] = reader
            reader.start()

    def fault(self, index: int) -> str:
        """What is wrong with it, one sentence; "" when it is what it should be. Waits until it is read."""
        self.start(index)
        self._readers[index].join()
        if index not in self._faults:
            try:
                if self._signatures(index) != self._known[index]:
                    self._faults[index] = self._changed(index)
            except (OSError, InvalidError) as error:
                self._faults[index] = self._unreadable(index, error)
        return self._faults.get(index, "")

    def _read(self, index: int) -> None:
        asked = self._checkpoints[index]
        path = Path(asked["path"])
        try:
            before = self._signatures(index)
            digest = content_digest(verify_folder(path).files) if path.is_dir() else file_digest(path)
            if digest != asked["sha256"] or self._signatures(index) != before:
                self._faults[index] = self._changed(index)
            self._known[index] = before
        except InvalidError as error:
            self._faults[index] = f"{self._changed(index)} {error.reason}"
        except OSError as error:
            self._faults[index] = self._unreadable(index, error)

    def _signatures(self, index: int) -> list[Signature]:
        path = Path(self._checkpoints[index]["path"])
        if path.is_dir():
            return [signature(file) for file in sorted(path.rglob("*")) if file.is_file()]
        return [signature(path)]

    def _changed(self, index: int) -> str:
        one = self._checkpoints[index]
        return f"Checkpoint {one['name']} is not what it was when it was published (SHA-256 {one['sha256'][:12]})."

    def _unreadable(self, index: int, error: OSError | InvalidError) -> str:
        why = error.reason if isinstance(error, InvalidError) else error.strerror or str(error)
        return f"Checkpoint {self._checkpoints[index]['name']} cannot be read: {why.rstrip('.')}."
