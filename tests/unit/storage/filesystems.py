"""Small real file systems and what goes wrong on them. All needs root, and leaves nothing mounted."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_TOOLS = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
_SERVER = Path(__file__).with_name("fuse_server.py")


def run(*command: object) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=_TOOLS)
    assert done.returncode == 0, (command, done.stderr)


@contextlib.contextmanager
def mounted(base: Path, *command: object) -> Iterator[Path]:
    folder = base / "mount"
    folder.mkdir()
    run("mount", *command, folder)
    try:
        yield folder
    finally:
        run("umount", "-l", folder)


@contextlib.contextmanager
def tmpfs(base: Path, options: str) -> Iterator[Path]:
    with mounted(base, "-t", "tmpfs", "-o", options, "tmpfs") as folder:
        yield folder


@contextlib.contextmanager
def ext4(base: Path, *options: object, size: int = 16 << 20) -> Iterator[Path]:
    image = base / "image"
    with open(image, "wb") as file:
        file.truncate(size)
    run("mkfs.ext4", "-q", "-F", "-m", "0", *options, image)
    with mounted(base, "-o", "loop", image) as folder:
        yield folder


@contextlib.contextmanager
def btrfs(base: Path) -> Iterator[Path]:
    """A subvolume whose quota can be set with `limit`."""
    image = base / "image"
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    run("mkfs.btrfs", "-q", image)
    with mounted(base, "-o", "loop", image) as folder:
        run("btrfs", "quota", "enable", folder)
        run("btrfs", "subvolume", "create", folder / "sub")
        yield folder / "sub"


def limit(subvolume: Path, size: int | str) -> None:
    """At the file system, not the subvolume: a quota that is used up would refuse even to be raised there."""
    os.sync()
    run("btrfs", "qgroup", "limit", size, "0/256", subvolume.parent)


@contextlib.contextmanager
def over_limit(subvolume: Path) -> Iterator[None]:
    limit(subvolume, 3 << 20)
    try:
        fill(subvolume)
        yield
    finally:
        limit(subvolume, "none")
        (subvolume / "filler").unlink(missing_ok=True)


class Fuse:
    def __init__(self, folder: Path, control: Path) -> None:
        self.folder, self._control = folder, control

    def answers(self, **faults: int) -> None:
        """fuse.answers(write=errno.EIO): from now on; without any, all is well."""
        new = self._control.with_suffix(".new")
        new.write_text(json.dumps(faults))
        new.rename(self._control)


@contextlib.contextmanager
def fuse(base: Path) -> Iterator[Fuse]:
    for name in ("backing", "mount"):
        (base / name).mkdir()
    served = Fuse(base / "mount", base / "control.json")
    served.answers()
    command = [sys.executable, _SERVER, base / "backing", served.folder, base / "control.json"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_TOOLS)
    try:
        until = time.monotonic() + 20
        while not os.path.ismount(served.folder):
            assert server.poll() is None, server.stderr and server.stderr.read()
            assert time.monotonic() < until, "the FUSE server did not mount"
            os.sched_yield()
        yield served
    finally:
        served.answers()
        subprocess.run(["umount", "-l", served.folder], env=_TOOLS, capture_output=True)
        server.terminate()
        server.communicate(timeout=10)


# faults


def fill(folder: Path) -> Path:
    """A file that takes all that is free."""
    path = folder / "filler"
    for size in (1 << 20, 512):
        with contextlib.suppress(OSError), open(path, "ab", buffering=0) as file:
            while True:
                file.write(bytes(size))
    with contextlib.suppress(OSError):
        os.sync()
    return path


def use_inodes(folder: Path) -> list[Path]:
    used: list[Path] = []
    (folder / "many").mkdir()
    try:
        while True:
            path = folder / "many" / f"{len(used)}"
            path.touch()
            used.append(path)
    except OSError as error:
        assert error.errno == errno.ENOSPC
    return used


def crowd(folder: Path) -> list[str]:
    """Names in `folder` until its file system takes no more that are long, though it has space and inodes."""
    made: list[str] = []
    originals = 0
    original = folder.parent / "original-0"
    original.touch()
    for length in (250, 120):
        refused = 0
        # each name has its own place by its hash: some are full sooner than others
        while refused < 300:
            name = f"{len(made) * 1000 + refused:0>{length}}"
            try:
                os.link(original, folder / name)
                made.append(name)
                refused = 0
            except OSError as error:
                if error.errno == errno.EMLINK:
                    originals += 1
                    original = folder.parent / f"original-{originals}"
                    original.touch()
                    continue
                assert error.errno == errno.ENOSPC
                refused += 1
    return made


@contextlib.contextmanager
def few_files() -> Iterator[None]:
    """This process can open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def held_deleted(path: Path) -> Iterator[int]:
    """A process that has the file open while it is deleted; gives its id."""
    script = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin and holder.stdout
    assert holder.stdout.readline() == "open\n"
    path.unlink()
    try:
        yield holder.pid
    finally:
        holder.communicate(timeout=10)
