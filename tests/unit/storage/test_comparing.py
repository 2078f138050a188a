"""What differs between two versions, against the plain way to find it; and that the memory for it stays small."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headway.rules import datasets as rules
from headway.storage.comparing import Changed, Differences, compare
from headway.storage.manifests import Manifest, Placed

PATHS = st.sampled_from(["a", "a/b", "a-b", "a.b/c", "b", "b/a", "中", "z\n"])
#: few contents, so that some stand under several paths; 0 is empty
FILES = st.dictionaries(PATHS, st.integers(0, 3))


class Rows(Manifest):
    """A manifest of files that hold a number each."""

    def __init__(self, files: dict[str, int]) -> None:
        self._files = files
        self.files = len(files)
        self.digest = repr(sorted(files.items()))

    def rows(self) -> Iterator[Placed]:
        for path in sorted(self._files, key=rules.order):
            number = self._files[path]
            yield Placed(path, number * 10, hashlib.sha256(str(number).encode()).hexdigest(), "pack", 0, ())


@given(older=FILES, newer=FILES)
def test_every_difference_is_told_once(older: dict[str, int], newer: dict[str, int]) -> None:
    found = compare(Rows(older), Rows(newer))
    assert found.same == sum(newer.get(path) == number for path, number in older.items())
    assert found.new_bytes == 10 * sum(set(newer.values()) - set(older.values()))
    assert found.counts == Counter(c.what for c in found.changes)
    assert [c.path for c in found.changes] == sorted((c.path for c in found.changes), key=rules.order)
    rebuilt = dict(older)
    for change in found.changes:
        if change.what in ("removed", "moved"):
            gone = change.path if change.before is None else change.before
            assert rebuilt.pop(gone) == (newer[change.path] if change.what == "moved" else older[gone])
    for change in found.changes:
        if change.what != "removed":
            rebuilt[change.path] = newer[change.path]
    assert rebuilt == newer
    # nothing is told as removed and added that could be told as moved
    gone_contents = {older[c.path] for c in found.changes if c.what == "removed"} - {0}
    assert not gone_contents & {newer[c.path] for c in found.changes if c.what == "added"}


def test_an_empty_file_does_not_move() -> None:
    found = compare(Rows({"a": 0}), Rows({"b": 0}))
    assert found.changes == [Changed("a", "removed", 0), Changed("b", "added", 0)]


def test_the_same_version_is_not_read() -> None:
    class Unread(Rows):
        def rows(self) -> Iterator[Placed]:
            raise AssertionError

    assert compare(Unread({"a": 1}), Unread({"a": 1})) == Differences({}, 1, 0, [])


_LARGE = """
import hashlib, sys
from headway.storage.comparing import compare
from headway.storage.manifests import Manifest, Placed

class Rows(Manifest):
    def __init__(self, folder, first):
        self.digest, self.files, self.first = folder, 100_000, first
    def rows(self):
        for n in range(self.files):
            sha256 = hashlib.sha256(b"%d" % (self.first + n)).hexdigest()
            yield Placed(f"{self.digest}/{n:08}", 1, sha256, "pack", 0, ())

def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024

before = peak()
found = compare(Rows("old", 0), Rows("new", int(sys.argv[1])))
print(found.counts, len(found.changes), peak() - before)
"""


def _large(first: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _LARGE, str(first)]
    return subprocess.run(command, capture_output=True, text=True)


def test_what_it_holds_does_not_grow_with_the_versions() -> None:
    """As much holds for a million: a list of 100,000 rows alone takes over 30 MB."""
    done = _large(50_000)
    assert done.returncode == 0, done.stderr
    counts, listed, grown = done.stdout.rsplit(" ", 2)
    assert counts == "{'added': 50000, 'moved': 50000, 'removed': 50000}"
    assert int(listed) == 1000
    assert int(grown) < 25


def test_no_room_for_what_it_writes_meanwhile_is_said() -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    done = subprocess.run([sys.executable, "-c", limited + _LARGE, "0"], capture_output=True, text=True)
    assert "TargetFullError: There is no room for the temporary files" in done.stderr
