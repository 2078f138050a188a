"""A folder as a source: a sorted walk that holds one folder's names at a time."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from headway.client.pushing.entries import (
    Choice,
    Entry,
    Faults,
    Scan,
    Skipped,
    Stamp,
    empty,
    host,
    ignore,
    notes_on_case,
    notes_on_hidden,
)
from headway.client.pushing.reading import SIGNED
from headway.errors import UsageError
from headway.rules.datasets import folded, path_fault

_UNREADABLE, _SPECIAL = "cannot be read", "are no files (sockets, pipes or devices)"
_LINKS = "are links that lead out of it, to a folder or nowhere"
_REMEDIES = {
    _UNREADABLE: "Make them readable, or give --skip-unreadable to leave them out.",
    _SPECIAL: "Remove them, or give --skip-unreadable to leave them out.",
    _LINKS: "Replace them by files, or give --skip-links to leave them out.",
}
_RENAME = "Rename them."
#: files that are kept from the scan on, so that the folder is not walked twice
_KEPT = 50_000


class Folder:
    """Every file below a folder. Links to files inside it are taken as files."""

    def __init__(self, path: Path, choice: Choice) -> None:
        """Raises UsageError when there is no such folder."""
        if not path.is_dir():
            raise UsageError(f"{path} is no folder.", "Give the folder, archive or URL with the data.")
        self.root = os.path.realpath(path)
        self.label = f"{host()}:{path.absolute()}"
        self._name = str(path)
        self._choice = choice
        #: what the scan found, unless that is much
        self._found: list[Entry] | None = None

    def open(self, entry: Entry) -> int:
        return os.open(f"{self.root}/{entry.path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def scan(self, each: Callable[[Entry], None] = ignore) -> Scan:
        found, look = Scan(), _Look(self.root, self._choice)
        kept: list[Entry] = []
        remedies, faults = dict(_REMEDIES), look.faults
        for entry in look.walk():
            fault = path_fault(entry.path)
            if fault:
                remedies[f"have a name that {fault}"] = _RENAME
                faults.add(f"have a name that {fault}", _shown(entry.path))
                continue
            found.files += 1
            found.bytes += entry.bytes
            if found.files <= _KEPT:
                kept.append(entry)
            each(entry)
        faults.refuse(self._name, remedies)
        self._found = kept if found.files <= _KEPT else None
        if not found.files:
            raise empty(self._name, look.hidden)
        found.notes = notes_on_hidden(look.hidden) + look.left_out() + notes_on_case(look.clashes)
        return found

    def entries(self) -> Iterator[Entry]:
        return iter(self._found) if self._found is not None else _Look(self.root, self._choice).walk()


def _shown(path: str) -> str:
    """A name that may be no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class _Look:
    """One walk, and what it met that is no file to push."""

    def __init__(self, root: str, choice: Choice) -> None:
        self.root = root
        self.choice = choice
        self.faults = Faults()
        self.hidden, self.clashes = Skipped(), Skipped()
        self._left: dict[str, Skipped] = {}

    def left_out(self) -> list[str]:
        return [f"left out: {skipped.count} {reason} ({skipped})." for reason, skipped in self._left.items()]

    def walk(self) -> Iterator[Entry]:
        """Files in order, depth first, without recursion: folders may be nested deeply."""
        at = [iter(self._names(""))]
        while at:
            path = next(at[-1], None)
            if path is None:
                at.pop()
                continue
            kind = self._entry(path)
            if isinstance(kind, Entry):
                yield kind
            elif kind:
                at.append(iter(self._names(path)))

    def _names(self, folder: str) -> list[str]:
        """Paths in a folder, sorted by name; its hidden ones are counted, those that clash noted."""
        prefix = folder + "/" if folder else ""
        try:
            names = os.listdir(os.path.join(self.root, folder))
        except OSError:
            self._bad(_UNREADABLE, folder or ".", self.choice.skip_unreadable)
            return []
        if not self.choice.hidden:
            for name in names:
                if name.startswith("."):
                    self.hidden.add(prefix + name)
            names = [n for n in names if not n.startswith(".")]
        names.sort()
        if len({folded(n) for n in names}) < len(names):
            self._clash(prefix, names)
        return [prefix + n for n in names]

    def _clash(self, prefix: str, names: list[str]) -> None:
        seen = set()
        for name in names:
            if folded(name) in seen:
                self.clashes.add(prefix + name)
            seen.add(folded(name))

    def _entry(self, path: str) -> Entry | bool:
        """The file at `path`; True for a folder; False for what is left out or refused."""
        full = f"{self.root}/{path}"
        try:
            facts = os.lstat(full)
            if stat.S_ISLNK(facts.st_mode):
                target = os.path.realpath(full)
                facts = os.stat(full)
                inside = target.startswith(self.root.rstrip("/") + "/")
                if not inside or not stat.S_ISREG(facts.st_mode):
                    return self._bad(_LINKS, path, self.choice.skip_links)
        except FileNotFoundError:
            # a link that leads nowhere, or a file that has gone since the folder was listed
            return os.path.islink(full) and self._bad(_LINKS, path, self.choice.skip_links)
        except OSError:
            reason, skip = (_LINKS, self.choice.skip_links) if os.path.islink(full) else (_UNREADABLE, False)
            return self._bad(reason, path, skip or self.choice.skip_unreadable)
        if stat.S_ISDIR(facts.st_mode):
            return True
        if not stat.S_ISREG(facts.st_mode):
            return self._bad(_SPECIAL, path, self.choice.skip_unreadable)
        if not os.access(full, os.R_OK, effective_ids=True):
            return self._bad(_UNREADABLE, path, self.choice.skip_unreadable)
        return Entry(path, facts.st_size, Stamp(facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino & SIGNED))

    def _bad(self, reason: str, path: str, skip: bool) -> bool:
        if skip:
            self._left.setdefault(reason, Skipped()).add(path)
        else:
            self.faults.add(reason, path)
        return False
