"""Takes a snapshot of a code folder: the files Git would carry, as one deterministic tar."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import re
import stat
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from headway.errors import UsageError

#: a snapshot is code; data belongs in a dataset
LIMIT_BYTES = 256 << 20
#: never code, whatever .gitignore says
_ALWAYS_IGNORED = (".git", ".headway", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache")
#: how a report of ours begins; one that is left beside the code must not train it again
_REPORT = b'<meta name="generator" content="headway">'


@dataclass(frozen=True)
class Snapshot:
    #: SHA-256 of the tar, which depends on paths, contents and executable bits alone
    digest: str
    content: bytes
    files: int
    commit: str | None
    #: whether anything tracked or untracked differed from the commit; False outside Git
    dirty: bool


def take(folder: Path, leave_out: tuple[str, ...] = ()) -> Snapshot:
    """The snapshot of `folder` as it is now, without the files and folders in `leave_out`.

    Raises UsageError when it is no folder or holds too much.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", "Give the folder with the code.")
    paths = [p for p in files_of(folder) if not any(p == out or p.startswith(f"{out}/") for out in leave_out)]
    total = sum((folder / p).lstat().st_size for p in paths)
    if total > LIMIT_BYTES:
        biggest = max(paths, key=lambda p: (folder / p).lstat().st_size)
        raise UsageError(
            f"{folder} holds {total >> 20} MiB (the largest file is {biggest}); a code snapshot may hold "
            f"{LIMIT_BYTES >> 20} MiB.",
            "Name what is no code in .gitignore, and push data with `headway dataset push`.",
            code="snapshot_too_large",
        )
    content = _tar(folder, paths)
    commit, dirty = _git_state(folder)
    return Snapshot(hashlib.sha256(content).hexdigest(), content, len(paths), commit, dirty)


def files_of(folder: Path) -> list[str]:
    """Paths under `folder` that belong to its code, sorted: what Git tracks or would add, else all but .gitignore's."""
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    # no checkout (or one that ignores this whole folder) lists nothing; a tracked file may have been removed
    found = [p for p in set(listed.split("\0")) if p and os.path.lexists(folder / p)] if listed else _walk(folder)
    return sorted(p for p in found if not _never(p) and _is_file(folder, p) and not _is_report(folder / p))


def imported_by_none(folder: Path, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `paths` whose module no other Python file under `folder` imports, as far as its text tells."""
    others = [p for p in files_of(folder) if p.endswith(".py") and p not in paths]
    text = "\n".join((folder / p).read_text(encoding="utf-8", errors="replace") for p in others)
    return tuple(
        p for p in paths if not re.search(rf"(?m)^\s*(?:from|import)\s[^\n#]*\b{re.escape(Path(p).stem)}\b", text)
    )


def _never(path: str) -> bool:
    return any(part in _ALWAYS_IGNORED for part in path.split("/"))


def _is_report(path: Path) -> bool:
    if path.suffix != ".html":
        return False
    with open(path, "rb") as file:
        return _REPORT in file.read(500)


def _is_file(folder: Path, path: str) -> bool:
    """A regular file, or a link that stays inside the folder."""
    target = folder / path
    mode = target.lstat().st_mode
    if stat.S_ISLNK(mode):
        return target.is_file() and target.resolve().is_relative_to(folder.resolve())
    return stat.S_ISREG(mode)


def _tar(folder: Path, paths: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in paths:
            # links are followed: what the tar holds is plain files
            body = (folder / path).read_bytes()
            entry = tarfile.TarInfo(path)
            entry.size = len(body)
            entry.mode = 0o755 if os.access(folder / path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(body))
    return buffer.getvalue()


def _git(folder: Path, *words: str) -> str | None:
    """What `git words` prints in `folder`; None when there is no Git or no checkout."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def _git_state(folder: Path) -> tuple[str | None, bool]:
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, False
    status = _git(folder, "status", "--porcelain", "--", ".")
    return commit.strip(), bool(status and status.strip())


def _walk(folder: Path) -> list[str]:
    """All files but those that .gitignore files name (plain patterns, folders, `!`); for folders outside Git."""
    found: list[str] = []
    rules: list[tuple[str, str]] = []
    for at, folders, files in os.walk(folder):
        here = os.path.relpath(at, folder)
        here = "" if here == "." else here
        if ".gitignore" in files:
            for line in (Path(at) / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines():
                if line.strip() and not line.startswith("#"):
                    rules.append((here, line.strip()))
        folders[:] = sorted(
            f for f in folders if f not in _ALWAYS_IGNORED and not ignored(_join(here, f), rules, is_folder=True)
        )
        found += [_join(here, f) for f in files if not ignored(_join(here, f), rules, is_folder=False)]
    return found


def _join(here: str, name: str) -> str:
    return f"{here}/{name}" if here else name


def ignored(path: str, rules: list[tuple[str, str]], *, is_folder: bool) -> bool:
    """Whether `path` is ignored by `rules`: (folder of the .gitignore, line) in order, the last match decides."""
    verdict = False
    for base, line in rules:
        if base and not path.startswith(base + "/"):
            continue
        below = path[len(base) + 1 :] if base else path
        keep = line.startswith("!")
        pattern = line[1:] if keep else line
        if pattern.endswith("/") and not is_folder:
            continue
        pattern = pattern.rstrip("/")
        if "/" in pattern:
            hit = fnmatch.fnmatchcase(below, pattern.lstrip("/").replace("**/", "*"))
        else:
            hit = fnmatch.fnmatchcase(below.rsplit("/", 1)[-1], pattern)
        if hit:
            verdict = not keep
    return verdict
