"""What may be wrong with the source of a push: refused with a sentence before anything is seen, or told.

Subclass BadInputSuite as `headway.testing.datasets` says.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.client.pushing import archives, reading
from headway.errors import UsageError
from headway.storage.manifests import open_manifest
from headway.testing.dataset_project import LARGE, PART, Project, in_order, write
from headway.testing.datasets import DatasetGround

#: names that a Linux folder can hold
STRANGE = ["中文/图片 1.png", "line\nend", "tab\t'quote\" \\", "é", "-rf", "x" * 255, "a.b/c", "a/b", "a-b"]


class BadInputSuite(DatasetGround):
    # refused

    @pytest.mark.parametrize("kind", ["folder", "hidden", "tar"])
    def test_a_source_that_is_empty(self, project: Project, tmp_path: Path, kind: str) -> None:
        source = tmp_path / "source"
        source.mkdir()
        if kind == "hidden":
            (source / ".hidden").touch()
        if kind == "tar":
            source = tmp_path / "source.tar"
            tarfile.open(source, "w").close()
        refused(project, source, "holds no files")

    def test_a_source_that_is_none(self, project: Project, tmp_path: Path) -> None:
        refused(project, tmp_path / "nothing", "There is no")
        os.mkfifo(tmp_path / "pipe")
        refused(project, tmp_path / "pipe", "is no file")
        write(tmp_path, {"data/a": b"x"})
        os.mkfifo(tmp_path / "data/pipe")
        refused(project, tmp_path / "data", r"1 are no files .*'pipe'")

    def test_files_that_cannot_be_read(self, project: Project, tmp_path: Path) -> None:
        folder = write(tmp_path / "data", {"a": b"x", "b": b"y", "c/d": b"z"})
        for path in ("a", "c"):
            (folder / path).chmod(0)
        with _nobody(tmp_path):
            said = refusal(project, folder, r"2 cannot be read \('a', 'c'\)")
        assert "--skip-unreadable" in said.remedy
        assert_nothing(project)

    def test_links_that_lead_out(self, project: Project, tmp_path: Path) -> None:
        folder = write(tmp_path / "data", {"a/file": b"x"})
        (tmp_path / "secret").write_text("secret")
        for name, target in (("out", "../secret"), ("nowhere", "gone"), ("up", "a"), ("inside", "a/file")):
            (folder / name).symlink_to(target)
        assert "--skip-links" in refused(project, folder, r"3 are links that lead out .*'nowhere', 'out', 'up'").remedy
        view = project.push(folder, skip_links=True)
        assert "left out: 3 are links" in project.notes[0]
        assert project.contents(view.digest) == {"a/file": b"x", "inside": b"x"}

    @pytest.mark.parametrize("size", [5000, LARGE + 1])
    def test_a_file_that_changes_while_it_is_read(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        folder = write(tmp_path / "data", {"a": b"x", "busy": bytes(size)})
        read: Callable[..., bool] = reading.fill

        def fill(fd: int, *where: object) -> bool:
            with open(folder / "busy", "ab") as file:
                file.write(b"x")
            return read(fd, *where)

        monkeypatch.setattr(reading, "fill", fill)
        assert refusal(project, folder, "busy changes while it is read").code == "changing"
        assert_unpublished(project)
        monkeypatch.undo()
        assert project.push(folder).version == 1

    @pytest.mark.parametrize(
        ("name", "kind", "said"),
        [
            ("../up", tarfile.REGTYPE, "lead out of it"),
            ("a/../../up", tarfile.REGTYPE, "lead out of it"),
            ("/etc/passwd", tarfile.REGTYPE, "lead out of it"),
            ("device", tarfile.CHRTYPE, "are devices or pipes"),
            ("pipe", tarfile.FIFOTYPE, "are devices or pipes"),
            ("link", tarfile.SYMTYPE, "are links that lead out"),
            ("hard", tarfile.LNKTYPE, "are links that lead out"),
            ("good/below", tarfile.REGTYPE, "are in a folder that is a file as well"),
            ("x" * 256, tarfile.REGTYPE, "is too long"),
        ],
    )
    def test_members_of_a_tar(self, project: Project, tmp_path: Path, name: str, kind: bytes, said: str) -> None:
        with tarfile.open(tmp_path / "x.tar", "w") as tar:
            tar.addfile(tarfile.TarInfo("good"))
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "../../etc/passwd"
            tar.addfile(member)
        refused(project, tmp_path / "x.tar", said)

    @pytest.mark.parametrize("ending", ["zip", "tar.gz"])
    def test_bombs(self, project: Project, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archives, "_HARMLESS", 1 << 20)
        path, zeros = tmp_path / f"x.{ending}", bytes(4 << 20)
        if ending == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("zeros", zeros)
        else:
            _tar(path, {"zeros": zeros}, "w:gz")
        refused(project, path, "may be a bomb")

    def test_an_archive_that_is_cut_off(self, project: Project, tmp_path: Path) -> None:
        path = _tar(tmp_path / "x.tar", {"a": b"x" * 600})
        path.write_bytes(path.read_bytes()[:800])
        refused(project, path, "is damaged")

    def test_a_name_that_is_no_utf8(self, project: Project, tmp_path: Path) -> None:
        folder = write(tmp_path / "data", {"a": b"x"})
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()
        refused(project, folder, r"1 have a name that is not UTF-8 .*\\xff")

    def test_a_name_that_no_dataset_may_have(self, project: Project, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="'No Name' is no name"):
            project.push(write(tmp_path / "data", {"a": b"x"}), "No Name")
        assert_nothing(project)

    # pushed

    def test_strange_names(self, project: Project, tmp_path: Path) -> None:
        files = {name: name.encode() for name in STRANGE}
        view = project.push(write(tmp_path / "data", files))
        assert [row[0] for row in project.client.datasets.files("digits")] == in_order(files)
        assert project.contents(view.digest) == files
        project.client.datasets.pull("digits", tmp_path / "into")
        assert {os.path.relpath(p, tmp_path / "into") for p in _files(tmp_path / "into")} == set(files)
        assert project.notes == []

    def test_names_that_are_one_on_other_disks(self, project: Project, tmp_path: Path) -> None:
        names = ("Cat.jpg", "cat.jpg", "\u00e9", "e\u0301")
        view = project.push(write(tmp_path / "data", {name: name.encode() for name in names}))
        assert view.files == len(names)
        assert len(project.notes) == 1
        assert project.notes[0].startswith("2 names differ from another only in case ('cat.jpg', 'é')")

    def test_a_file_of_no_bytes(self, project: Project, tmp_path: Path) -> None:
        view = project.push(write(tmp_path / "data", {"empty": b""}))
        assert (view.files, view.bytes) == (1, 0)
        assert project.contents(view.digest) == {"empty": b""}
        assert b"".join(project.client.datasets.cat("digits", "empty")) == b""
        assert project.verify(1).faulty == 0

    def test_a_large_sparse_file(self, project: Project, tmp_path: Path) -> None:
        size = 9 * PART + 5
        (tmp_path / "data").mkdir()
        with open(tmp_path / "data/sparse", "wb") as file:
            file.truncate(size)
        view = project.push(tmp_path / "data")
        row = open_manifest(project.store, project.name, view.digest).find("sparse")
        assert row is not None
        assert (row.bytes, row.sha256) == (size, hashlib.sha256(bytes(size)).hexdigest())
        # its parts are one content
        assert project.arrived() == PART + 5
        assert project.verify(1).faulty == 0


def refusal(project: Project, source: Path, said: str) -> UsageError:
    with pytest.raises(UsageError, match=said) as caught:
        project.push(source)
    assert caught.value.message.endswith(".")
    assert caught.value.remedy
    return caught.value


def refused(project: Project, source: Path, said: str) -> UsageError:
    """The refusal, after which nothing is there."""
    found = refusal(project, source, said)
    assert_nothing(project)
    return found


def assert_unpublished(project: Project) -> None:
    assert project.numbers() == []
    assert project.keys("manifests") == project.keys("datasets") == []


def assert_nothing(project: Project) -> None:
    """Neither a version nor an object."""
    assert project.numbers() == []
    assert project.keys() == []


def _tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def _files(folder: Path) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


class _nobody:
    """A user who may not read everything, for as long as the block lasts: root may."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._user = os.geteuid()
        if self._user == 0:
            for above in (self._folder, *self._folder.parents):
                above.chmod(above.stat().st_mode | 0o011)
            os.chown(self._folder, 65534, -1)
            os.seteuid(65534)

    def __exit__(self, *about: object) -> None:
        os.seteuid(self._user)
