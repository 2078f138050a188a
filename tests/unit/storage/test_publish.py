from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.storage import publish, writing
from headway.storage.full import TargetFullError
from headway.storage.probe import probe
from headway.storage.publish import publish_bytes, publish_file, publish_folder, sweep_temporaries, verify_folder
from headway.storage.quota import ProjectQuota
from headway.storage.verify import InvalidError

OUTPUTS = [{"name": "score.json", "kind": "json"}, {"name": "log.txt", "kind": "file"}]
Small = Callable[[str], Path]


def staged(folder: Path, size: int = 100) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "score.json").write_text('{"score": 0.5}')
    (folder / "log.txt").write_bytes(b"x" * size)
    (folder / "scratch.bin").write_bytes(b"not declared")
    return folder


def put(tmp_path: Path, target: Path, *, key: str = "k", quota: ProjectQuota | None = None) -> publish.Publication:
    return publish_folder(
        staged(tmp_path / "out"), target, outputs=OUTPUTS, manifest={"key": key, "score": 0.5}, quota=quota
    )


def temporaries(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob(".*.tmp")]


def test_a_folder_holds_the_declared_outputs_and_their_manifest_alone(tmp_path: Path) -> None:
    made = put(tmp_path, tmp_path / "t" / "cell")
    assert sorted(p.name for p in (tmp_path / "t" / "cell").iterdir()) == ["log.txt", "output.json", "score.json"]
    found = verify_folder(tmp_path / "t" / "cell")
    assert (found.id, found.files, found.manifest) == (made.id, made.files, {"key": "k", "score": 0.5})
    assert not made.found and not temporaries(tmp_path)


def test_what_is_there_is_found_and_not_made_again(tmp_path: Path) -> None:
    first, second = put(tmp_path, tmp_path / "t" / "c"), put(tmp_path, tmp_path / "t" / "c")
    assert second.found and second.id == first.id


def test_another_key_takes_the_place(tmp_path: Path) -> None:
    first, second = put(tmp_path, tmp_path / "t" / "c"), put(tmp_path, tmp_path / "t" / "c", key="other")
    assert not second.found and second.id != first.id
    assert verify_folder(tmp_path / "t" / "c").id == second.id


def test_a_flipped_byte_is_found_and_the_output_made_again(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path / "p")
    target = tmp_path / "p" / "c"
    first = put(tmp_path, target, quota=quota)
    used = quota.usage()
    content = bytearray((target / "log.txt").read_bytes())
    content[3] ^= 1
    (target / "log.txt").write_bytes(content)
    with pytest.raises(InvalidError, match=r"log\.txt has other bytes"):
        verify_folder(target)
    again = put(tmp_path, target, quota=quota)
    assert not again.found and again.id != first.id
    assert verify_folder(target).id == again.id
    assert quota.usage()[1] == used[1] == 3


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "output.json", "a//b", ""])
def test_an_output_stays_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidError):
        publish_folder(
            staged(tmp_path / "o"), tmp_path / "t" / "c", outputs=[{"name": name, "kind": "file"}], manifest={}
        )
    assert not (tmp_path / "t" / "c").exists()


def test_an_output_that_is_missing_or_wrong_publishes_nothing(tmp_path: Path) -> None:
    out = staged(tmp_path / "o")
    (out / "score.json").write_text("{")
    with pytest.raises(InvalidError, match=r"score\.json: It is not JSON"):
        publish_folder(out, tmp_path / "t" / "c", outputs=OUTPUTS, manifest={})
    (out / "score.json").unlink()
    with pytest.raises(InvalidError, match=r"score\.json: There is no such file"):
        publish_folder(out, tmp_path / "t" / "c", outputs=OUTPUTS, manifest={})
    assert not (tmp_path / "t" / "c").exists()


def test_two_publishers_of_one_target_make_one_publication(tmp_path: Path) -> None:
    quota, target = ProjectQuota(tmp_path / "p"), tmp_path / "p" / "c"
    made: list[publish.Publication] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        out = staged(tmp_path / f"out-{number}")
        start.wait()
        made.append(publish_folder(out, target, outputs=OUTPUTS, manifest={"key": "k"}, quota=quota))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8 and len({m.id for m in made}) == 1
    assert [m.found for m in made].count(False) == 1
    assert quota.usage() == (sum(p.stat().st_size for p in target.iterdir()), 3)


def test_a_file_is_replaced_whole_and_found_when_it_is_the_same(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path / "p")
    target = tmp_path / "p" / "last.bin"
    assert not publish_bytes(b"one", target, kind="file", quota=quota).found
    assert publish_bytes(b"one", target, kind="file", quota=quota).found
    (tmp_path / "s").write_bytes(b"seven..")
    publish_file(tmp_path / "s", target, kind="file", quota=quota)
    assert target.read_bytes() == b"seven.." and quota.usage() == (7, 1)
    with pytest.raises(InvalidError, match="SHA-256"):
        publish_file(tmp_path / "s", target, kind="file", sha256="0" * 64)


def test_no_space_is_a_pause_and_leaves_nothing(tmp_path: Path, small: Small) -> None:
    disk = small("size=64k")
    with pytest.raises(TargetFullError) as full:
        publish_bytes(b"x" * 200_000, disk / "f", kind="any")
    assert full.value.cause == "no_space" and full.value.figures["needed_bytes"] == 200_000
    assert list(disk.iterdir()) == []
    publish_bytes(b"x" * 4000, disk / "f", kind="any")


def test_no_space_that_only_the_write_meets(tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = small("size=64k")
    monkeypatch.setattr(publish, "probe", lambda *a, **k: None)
    with pytest.raises(TargetFullError) as full:
        publish_bytes(b"x" * 200_000, disk / "f", kind="any")
    assert full.value.cause == "no_space" and list(disk.iterdir()) == []


def test_no_inodes(tmp_path: Path, small: Small) -> None:
    disk = small("size=1m,nr_inodes=8")
    with pytest.raises(TargetFullError) as full:
        for n in range(8):
            put(tmp_path, disk / f"cell-{n}")
    assert full.value.cause == "no_inodes"
    assert temporaries(disk) == [] and all(verify_folder(p) for p in disk.iterdir())


def test_read_only(tmp_path: Path, small: Small) -> None:
    disk = small("size=1m")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for attempt in (lambda: publish_bytes(b"x", disk / "f", kind="any"), lambda: probe(disk)):
        with pytest.raises(TargetFullError) as full:
            attempt()
        assert full.value.cause == "read_only"
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    probe(disk)


def test_no_permission(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    code = (
        "import os, sys; from pathlib import Path; from headway.storage.probe import probe\n"
        "from headway.storage.full import TargetFullError\n"
        # this Python may be one that nobody else can read: what it needs is loaded before
        "probe(Path(sys.argv[1]))\n"
        "os.setuid(65534)\n"
        "try: probe(Path(sys.argv[1]))\n"
        "except TargetFullError as full: print(full.cause)"
    )
    os.chmod(tmp_path, 0o755)
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert done.stdout.strip() == "no_permission", done.stderr


KILLED = """
import os, signal, sys
from pathlib import Path
from headway.storage import publish
from headway.storage.quota import ProjectQuota
out, project, target, when = (Path(a) for a in sys.argv[1:])
def die(*a, **k): os.kill(os.getpid(), signal.SIGKILL)
real_rename = os.rename
if str(when) == "before": os.rename = lambda a, b: die() if Path(b) == target else real_rename(a, b)
else: publish.sync_folder = lambda folder, real=publish.sync_folder: (
    die() if (target / "output.json").exists() else real(folder))
publish.publish_folder(out, target, outputs=[{"name": "log.txt", "kind": "file"}], manifest={"key": "k"},
                       quota=ProjectQuota(project))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_the_rename(tmp_path: Path, when: str) -> None:
    quota, target = ProjectQuota(tmp_path / "p"), tmp_path / "p" / "e" / "c"
    out = staged(tmp_path / "o")
    done = subprocess.run([sys.executable, "-c", KILLED, out, tmp_path / "p", target, when])
    assert done.returncode == -signal.SIGKILL
    assert quota.usage()[1] == (2 if when == "after" else 0)
    sweep_temporaries(tmp_path / "p")
    assert temporaries(tmp_path / "p") == []
    made = publish_folder(
        out, target, outputs=[{"name": "log.txt", "kind": "file"}], manifest={"key": "k"}, quota=quota
    )
    assert made.found is (when == "after")
    assert quota.usage()[1] == 2
    assert json.loads((tmp_path / "p" / "usage.json").read_text())["pending"] == {}


def test_what_a_killed_probe_leaves_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from headway.storage.probe import probe\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        "probe(Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path])
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == sweep_temporaries(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_sweep_leaves_what_a_living_publisher_is_writing(tmp_path: Path) -> None:
    with writing.temporary(tmp_path / "x") as mine:
        mine.write_bytes(b"half")
        (tmp_path / "ordinary.tmp").touch()
        assert sweep_temporaries(tmp_path, 0) == 0 and mine.exists()
