"""What browsers send of an upload, on the console's disk."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headway.console.staging import KEPT, Plan, Staging
from headway.errors import HeadwayError, NotFoundError, RefusedError, UsageError

PLAN = Plan(user="ann", project="default", name="digits", key="k", files=2, bytes=8)


def body(*pieces: tuple[str, int, int, bytes]) -> bytes:
    """pieces: path, offset, bytes of the whole file, content."""
    head = [[path, offset, len(content), total] for path, offset, total, content in pieces]
    return json.dumps(head).encode() + b"\n" + b"".join(piece[3] for piece in pieces)


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    made = Staging(tmp_path / "uploads")
    assert not made.open(PLAN)
    return made


def code_of(error: pytest.ExceptionInfo[HeadwayError]) -> str:
    return error.value.code


def test_pieces_become_the_files_they_came_from(staging: Staging) -> None:
    staging.write(PLAN.id, body(("a/中文 \n.txt", 0, 5, b"hel"), ("b", 0, 3, b"abc")))
    assert staging.held(PLAN.id, ["a/中文 \n.txt", "b", "c", "b/d"]) == [3, 3, -1, -1]
    with pytest.raises(RefusedError) as error:
        staging.ready(PLAN.id, PLAN)
    assert code_of(error) == "incomplete"
    staging.write(PLAN.id, body(("a/中文 \n.txt", 3, 5, b"lo")))
    folder = staging.ready(PLAN.id, PLAN)
    assert (folder / "a" / "中文 \n.txt").read_bytes() == b"hello"
    assert (folder / "b").read_bytes() == b"abc"


def test_the_same_files_of_the_same_user_go_on_and_others_do_not(staging: Staging) -> None:
    staging.write(PLAN.id, body(("b", 0, 3, b"ab")))
    assert staging.open(PLAN)
    assert staging.held(PLAN.id, ["b"]) == [2]
    for other in (replace(PLAN, user="bob"), replace(PLAN, key="l"), replace(PLAN, name="else")):
        assert other.id != PLAN.id
        assert not staging.open(other)
    assert staging.plan(PLAN.id, "ann") == PLAN
    for upload, user in ((PLAN.id, "bob"), ("../secret", "ann"), ("0" * 32, "ann")):
        with pytest.raises(NotFoundError):
            staging.plan(upload, user)


def test_a_piece_sent_again_or_by_two_at_once_changes_nothing(staging: Staging) -> None:
    for _ in range(2):
        staging.write(PLAN.id, body(("b", 0, 8, b"abcd")))
    staging.write(PLAN.id, body(("b", 4, 8, b"efgh")))
    staging.write(PLAN.id, body(("b", 0, 8, b"abcd")))
    assert staging.held(PLAN.id, ["b"]) == [8]


def test_a_piece_that_would_leave_a_hole_is_refused(staging: Staging) -> None:
    with pytest.raises(RefusedError) as error:
        staging.write(PLAN.id, body(("b", 4, 8, b"efgh")))
    assert code_of(error) == "behind"


@pytest.mark.parametrize("path", ["../b", "/etc/b", "a/../../b", "a//b", ".", "", "a\0", "\ud800", "x" * 256, 7, None])
def test_no_path_leads_out_of_the_staging(staging: Staging, tmp_path: Path, path: object) -> None:
    with pytest.raises(UsageError) as error:
        staging.write(PLAN.id, json.dumps([[path, 0, 1, 1]]).encode() + b"\nx")
    assert code_of(error) == "bad_path"
    assert [p.name for p in tmp_path.iterdir()] == ["uploads"]


def test_a_link_in_the_staging_is_not_followed(staging: Staging, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    os.symlink(tmp_path / "outside", tmp_path / "uploads" / PLAN.id / "files" / "b")
    with pytest.raises(HeadwayError):
        staging.write(PLAN.id, body(("b", 0, 4, b"evil")))
    assert (tmp_path / "outside").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "sent",
    [b"", b"no json\nx", b"[1]\nx", b'[["b",0,2,2]]\nx', b'[["b",0,1,1]]\nxy', b'[["b",-1,1,1]]\nx',
     b'[["b",0,1,0]]\nx', b'[["b",0,1.0,1]]\nx', b'[["b",0,true,1]]\nx'],
)  # fmt: skip
def test_a_request_that_is_not_whole_is_refused(staging: Staging, sent: bytes) -> None:
    with pytest.raises(UsageError):
        staging.write(PLAN.id, sent)
    assert staging.held(PLAN.id, ["b"]) == [-1]


def test_a_file_that_is_a_folder_too_is_refused(staging: Staging) -> None:
    staging.write(PLAN.id, body(("a", 0, 1, b"x")))
    with pytest.raises(UsageError) as error:
        staging.write(PLAN.id, body(("a/b", 0, 1, b"x")))
    assert code_of(error) == "bad_path"


def test_what_the_disk_cannot_hold_is_refused_before_anything_is_sent(staging: Staging) -> None:
    with pytest.raises(RefusedError) as error:
        staging.open(replace(PLAN, bytes=1 << 60))
    assert code_of(error) == "no_space"
    assert "spare" in error.value.message


def test_uploads_under_way_count_what_they_will_still_need(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    half = replace(PLAN, bytes=int(disk.f_bavail * disk.f_frsize * 0.6))
    staging = Staging(tmp_path / "uploads")
    staging.open(half)
    # again: its own need counts once
    staging.open(half)
    with pytest.raises(RefusedError) as error:
        staging.open(replace(half, key="other"))
    assert code_of(error) == "no_space"


def test_wrong_names_and_nothing_are_refused(staging: Staging) -> None:
    for name in ("Digits", "", "a/b", "..", "x" * 65, "数字"):
        with pytest.raises(UsageError) as error:
            staging.open(replace(PLAN, name=name))
        assert code_of(error) == "bad_name"
    with pytest.raises(UsageError) as error:
        staging.open(replace(PLAN, files=0))
    assert code_of(error) == "empty"


def test_what_nobody_goes_on_with_is_swept(staging: Staging, tmp_path: Path) -> None:
    staging.write(PLAN.id, body(("b", 0, 3, b"abc")))
    now = (tmp_path / "uploads" / PLAN.id / "plan.json").stat().st_mtime
    staging.sweep(now + KEPT - 60)
    assert staging.held(PLAN.id, ["b"]) == [3]
    staging.sweep(now + KEPT + 60)
    assert list((tmp_path / "uploads").iterdir()) == []
    with pytest.raises(NotFoundError) as error:
        staging.write(PLAN.id, body(("b", 0, 3, b"abc")))
    assert code_of(error) == "gone"


def test_only_its_owner_can_look_into_the_staging(staging: Staging, tmp_path: Path) -> None:
    assert (tmp_path / "uploads").stat().st_mode & 0o077 == 0
