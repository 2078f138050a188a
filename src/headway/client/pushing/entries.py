"""What is pushed: the files of a source, one after another in a version's order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headway.errors import UsageError


class Stamp(NamedTuple):
    """By which a file is known to be what it was: times in nanoseconds."""

    modified: int
    changed: int
    inode: int


class Entry(NamedTuple):
    """A file to push."""

    #: in the version, with forward slashes
    path: str
    bytes: int
    #: None: nothing tells whether it changes (a member of an archive)
    stamp: Stamp | None = None
    #: where it begins in what `Source.open` gives
    offset: int = 0


@dataclass
class Skipped:
    """How many of a source's files are left out, and the first of them."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        self.count += 1
        if len(self.first) < 3:
            self.first.append(path)

    def __str__(self) -> str:
        names = ", ".join(repr(p) for p in self.first)
        return names if self.count <= len(self.first) else f"{names} and {self.count - len(self.first)} more"


@dataclass(frozen=True)
class Choice:
    """Which of a source's files are taken."""

    #: those whose names, or whose folders' names, begin with a dot
    hidden: bool = False
    #: leave out what cannot be read, instead of refusing the source
    skip_unreadable: bool = False
    #: leave out links that lead out of the source, to folders or nowhere, instead of refusing the source
    skip_links: bool = False


@dataclass
class Scan:
    """What a source holds, found before anything is sent."""

    files: int = 0
    bytes: int = 0
    #: for people: what was left out and what may cause trouble
    notes: list[str] = field(default_factory=list)


class Source(Protocol):
    #: where the files come from, for people
    label: str

    def scan(self, each: Callable[[Entry], None]) -> Scan:
        """Looks at everything once. each: told every file of a folder, in order.

        Raises UsageError for a source that cannot be pushed, naming the first reasons.
        """
        ...

    def entries(self) -> Iterator[Entry]:
        """The files in `rules.datasets.order`; the same again each time it is asked, if the source lies still."""
        ...

    def open(self, entry: Entry) -> int:
        """A file descriptor of the caller's own that has the entry's bytes from `entry.offset` on. Raises OSError."""
        ...


class Faults:
    """Collects why files cannot be pushed, a reason each, so that all are told together."""

    def __init__(self) -> None:
        self._found: dict[str, Skipped] = {}

    def add(self, reason: str, path: str) -> None:
        self._found.setdefault(reason, Skipped()).add(path)

    def refuse(self, label: str, remedies: dict[str, str]) -> None:
        """Raises UsageError if there are any. remedies: what to do, by reason."""
        if not self._found:
            return
        said = [f"{found.count} {reason} ({found})" for reason, found in self._found.items()]
        advice = dict.fromkeys(remedies[reason] for reason in self._found)
        raise UsageError(f"{label} cannot be pushed: {'; '.join(said)}.", " ".join(advice), code="bad_source")


def ignore(entry: Entry) -> None:
    pass


def empty(label: str, hidden: Skipped) -> UsageError:
    """The refusal of a source without files."""
    if hidden.count:
        return UsageError(f"{label} holds no files but {hidden.count} hidden ones.", "Give --hidden to push those.")
    return UsageError(f"{label} holds no files.", "Give the folder, archive or URL with the data.")


def notes_on_hidden(hidden: Skipped) -> list[str]:
    return [f"{hidden.count} hidden left out ({hidden}); --hidden takes them."] if hidden.count else []


def notes_on_case(clashes: Skipped) -> list[str]:
    if not clashes.count:
        return []
    return [
        f"{clashes.count} names differ from another only in case ({clashes}): on macOS or Windows one hides the other."
    ]


def host() -> str:
    return os.uname().nodename
