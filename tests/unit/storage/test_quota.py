from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.storage.full import TargetFullError
from headway.storage.publish import publish_bytes, publish_folder
from headway.storage.quota import ProjectQuota, measure


def fill(project: str, name: str, wanted: int) -> int:
    """Publishes cells of three files until the quota refuses; how many it published."""
    quota, out = ProjectQuota(Path(project)), Path(project).parent / f"out-{name}"
    out.mkdir()
    for file in ("a", "b"):
        (out / file).write_text("content")
    outputs = [{"name": "a", "kind": "file"}, {"name": "b", "kind": "file"}]
    made = 0
    while made < wanted:
        target = quota.folder / "evaluations/1/outputs/epoch-1" / f"{name}-{made}"
        try:
            publish_folder(out, target, outputs=outputs, manifest={"key": name}, quota=quota)
            made += 1
        except TargetFullError as full:
            assert full.cause == "over_quota"
            if not full.figures["waiting"]:
                return made
    return made


def test_two_processes_fill_the_quota_exactly(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path / "p")
    quota.set_limits(None, 3 * 25)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made = pool.starmap(fill, [(str(quota.folder), "x", 99), (str(quota.folder), "y", 99)])
    assert sum(made) == 25
    used = quota.usage()
    assert used[1] == 75 and quota.recount() == used
    with pytest.raises(TargetFullError, match="75 are used"):
        quota.check()
    quota.set_limits(None, None)
    quota.check(1 << 40, 1 << 20)


def test_a_lost_usage_file_is_counted_anew(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path / "p")
    fill(str(quota.folder), "x", 3)
    publish_bytes(b"12345", quota.folder / "jobs/1/checkpoints/epoch-1.pt", kind="any", quota=quota)
    before = quota.usage()
    for damage in ("", "{", '{"bytes": 1}'):
        (quota.folder / "usage.json").write_text(damage)
        assert quota.usage() == before
    assert before[1] == 10


def test_what_is_only_reserved_by_others_is_told_apart(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path / "p")
    quota.set_limits(10, None)
    with quota.reserve(quota.folder / "a", 8, 1):
        assert quota.usage() == (0, 0)
        with pytest.raises(TargetFullError) as full:
            quota.check(5)
        assert full.value.figures["waiting"] is True
    quota.check(5)


step = st.tuples(st.sampled_from(["publish", "fail", "remove"]), st.integers(0, 4), st.integers(0, 40))


@settings(max_examples=40, deadline=None)
@given(limit=st.tuples(st.integers(0, 120), st.integers(0, 6)), steps=st.lists(step, max_size=20))
def test_the_count_is_what_is_there_and_never_over_the_limit(
    limit: tuple[int, int], steps: list[tuple[str, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        quota = ProjectQuota(Path(folder, "p"))
        quota.set_limits(*limit)
        for what, number, size in steps:
            target = quota.folder / f"f{number}"
            if what == "publish":
                before = measure(target)
                used = quota.usage()
                fits = used[0] - before[0] + size <= limit[0] and used[1] - before[1] + 1 <= limit[1]
                try:
                    publish_bytes(bytes([size]) * size, target, kind="any", quota=quota)
                    assert fits
                except TargetFullError:
                    assert not fits
            elif what == "fail":
                try:
                    with quota.reserve(target, size, 1):
                        raise KeyError
                except (KeyError, TargetFullError):
                    pass
            elif target.exists():
                quota.release(target)
                target.unlink()
            there = [p.stat().st_size for p in quota.folder.glob("f*")]
            assert quota.usage() == (sum(there), len(there))
            assert sum(there) <= limit[0] and len(there) <= limit[1]


@pytest.mark.parametrize(("jump", "held"), [(0.0, 100), (600.0, 100), (-600.0, 100), (86400.0, 0), (-86400.0, 0)])
def test_another_machines_reservation_outlives_no_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float, held: int
) -> None:
    quota = ProjectQuota(tmp_path)
    quota.set_limits(100, None)
    with quota.reserve(tmp_path / "far", 100, 1):
        state = json.loads((tmp_path / "usage.json").read_text())
    state["pending"]["far"]["owners"][0]["host"] = "another"
    (tmp_path / "usage.json").write_text(json.dumps(state))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    if held:
        with pytest.raises(TargetFullError) as full:
            quota.check(1, 1)
        assert full.value.figures["reserved_bytes"] == held
    else:
        assert quota.check(1, 1) == (0, 0)
