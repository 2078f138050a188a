"""What is wrong with one thing stops nothing else; what passes is waited for; nobody acts on a lease in doubt."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from headway.controller import ends, launches, reap
from headway.controller.loop import LEASE_SECONDS, Quiet
from headway.controller.main import Controller
from headway.controller.reap import Reap
from headway.controller.schedule import Schedule
from headway.engines.base import Presence
from headway.engines.local import LocalEngine
from headway.protocol.exits import Cause
from headway.protocol.files import AttemptFolder
from headway.rules.records import Run
from headway.rules.states import AttemptState, RunState
from headway.store.base import LeaseLostError

from .conftest import House


def _folder(house: House, attempt: str) -> AttemptFolder:
    return AttemptFolder.of(house.ctx.root, attempt)


def _two(house: House) -> tuple[Run, Run]:
    runs = house.add_run(), house.add_run()
    Schedule(house.desk).step()
    return runs


# -- files


@pytest.mark.parametrize("content", ["{}", "[1]", "", "nonsense", '{"cause": "done", "ended": "late"}'])
def test_an_end_that_cannot_be_read_holds_up_no_other_and_is_a_loss(
    house: House, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    bad, good = _two(house)
    house.end(f"{bad.id}-1")
    _folder(house, f"{bad.id}-1").node(0).exit.write_text(content)
    house.end(f"{good.id}-1")
    loop = Reap(house.desk)
    loop.step()
    assert house.run(good.id).state == RunState.SUCCEEDED
    assert house.run(bad.id).state == RunState.STARTING
    monkeypatch.setattr(ends, "READ_PATIENCE", 0.0)
    loop.step()
    assert house.attempt(f"{bad.id}-1").cause == Cause.RUNNER_LOST
    assert "exit.json cannot be read" in house.attempt(f"{bad.id}-1").message
    assert ("sweep", f"{bad.id}-1") in house.engine.calls
    assert house.run(bad.id).state == RunState.QUEUED


@pytest.mark.parametrize(
    "event",
    [
        {"event": "checkpoint"},
        {"event": "started", "at": "noon"},
        {"event": "checkpoint", "name": "a", "valid": True, "metrics": {}, "step": {"no": "number"}},
        {"event": "checkpoint", "name": "a", "valid": True, "step": 1 << 80},
    ],
)
def test_an_event_that_nobody_understands_is_left_out(house: House, event: dict[str, object]) -> None:
    bad, good = _two(house)
    house.report(f"{bad.id}-1", {"event": "started"}, event, {"event": "launched", "pids": [1]})
    house.end(f"{good.id}-1")
    Reap(house.desk).step()
    assert house.run(good.id).state == RunState.SUCCEEDED
    assert house.run(bad.id).state == RunState.RUNNING
    events = _folder(house, f"{bad.id}-1").node(0).events
    assert house.attempt(f"{bad.id}-1").cursors == [events.stat().st_size]


def test_a_runner_that_came_late_is_not_lost(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.engine.presence[f"{run.id}-1"] = Presence.LOST
    # it claims its attempt between the look and the sweep, which then leaves it alone
    monkeypatch.setattr(house.engine, "sweep", lambda a: house.engine.presence.update({a: Presence.ALIVE}))
    Reap(house.desk).step()
    assert house.attempt(f"{run.id}-1").state == AttemptState.STARTING


def test_the_last_words_of_a_lost_attempt_are_read_after_the_sweep(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.engine.presence[f"{run.id}-1"] = Presence.LOST
    monkeypatch.setattr(house.engine, "sweep", lambda a: house.report(a, {"event": "started"}))
    Reap(house.desk).step()
    with house.ctx.store.read() as tx:
        assert tx.ledger.of_attempt(f"{run.id}-1") is not None


# -- starts


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EAGAIN])
def test_a_start_that_finds_the_disk_full_is_tried_again(house: House, number: int) -> None:
    run = house.add_run()
    house.engine.refuses = OSError(number, os.strerror(number), str(house.ctx.root / "attempts/1-1/launch.json"))
    schedule = Schedule(house.desk)
    schedule.step()
    assert (house.run(run.id).state, house.attempt(f"{run.id}-1").state) == (RunState.STARTING, AttemptState.PLACED)
    assert house.run(run.id).reason.startswith("waits: ")
    before = house.record()
    schedule.step()
    assert house.record() == before
    house.engine.refuses = None
    schedule.step()
    assert (house.run(run.id).reason, house.attempt(f"{run.id}-1").state) == ("", AttemptState.STARTING)
    assert house.run(run.id).attempts == 1


def test_a_start_that_would_fail_again_ends_the_run(house: House) -> None:
    run = house.add_run()
    house.engine.refuses = PermissionError(errno.EACCES, "Permission denied", "/usr/bin/python3")
    Schedule(house.desk).step()
    assert (house.run(run.id).state, house.run(run.id).cause) == (RunState.FAILED, Cause.NOT_STARTED)


def test_one_launch_that_cannot_be_put_together_holds_up_no_other(house: House) -> None:
    bad = house.add_run(owner="endpoint", owner_id=77, work={"revision": 1})
    good = house.add_run()
    Schedule(house.desk).step()
    assert house.run(bad.id).state == RunState.FAILED
    assert house.engine.calls == [("start", f"{good.id}-1")]


def test_a_run_that_waits_for_its_start_can_be_stopped(house: House) -> None:
    run = house.add_run()
    house.engine.refuses = OSError(errno.ENOSPC, "No space left on device")
    schedule = Schedule(house.desk)
    schedule.step()
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, stop_at=house.clock(), stop_reason="Enough.")
    schedule.step()
    assert (house.run(run.id).state, house.run(run.id).reason) == (RunState.STOPPED, "Enough.")
    assert house.attempt(f"{run.id}-1").cause == Cause.STOPPED


def test_earlier_attempts_are_fenced_before_the_next_is_started(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.engine.presence[f"{run.id}-1"] = Presence.LOST
    Reap(house.desk).step()
    seen: list[str] = []
    house.engine.at_start = lambda: seen.append(_folder(house, f"{run.id}-1").fence.read_text())
    Schedule(house.desk).step()
    assert seen == ["2"]
    assert not _folder(house, f"{run.id}-2").fence.exists()


def test_a_runner_that_never_came_is_started_again_outside_any_transaction(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.engine.presence[f"{run.id}-1"] = Presence.STARTING
    loop = Reap(house.desk)
    house.clock.now += 1e6  # a clock that jumps is no waiting
    loop.step()
    assert house.engine.calls == [("start", f"{run.id}-1")]

    def write() -> None:
        with house.ctx.store.begin() as tx:
            tx.runs.change(run.id, reason="written meanwhile")

    house.engine.at_start = write
    monkeypatch.setattr(reap, "START_PATIENCE", 0.0)
    loop.step()
    assert house.engine.calls == [("start", f"{run.id}-1")] * 2
    assert house.run(run.id).reason == "written meanwhile"


# -- stops


def test_a_shorter_grace_reaches_the_engine_and_nothing_else_twice(house: House) -> None:
    run = house.add_run(grace=30.0)
    Schedule(house.desk).step()
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, stop_at=house.clock(), stop_reason="Enough.")
    loop = Reap(house.desk)
    loop.step()
    loop.step()
    assert house.engine.graces == [30.0]
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, grace=1.0)
    loop.step()
    loop.step()
    assert house.engine.graces == [30.0, 1.0]
    assert house.run(run.id).state == RunState.STOPPING


def test_the_local_engine_takes_a_shorter_grace_and_no_longer_one(tmp_path: Path) -> None:
    engine, folder = LocalEngine(tmp_path), AttemptFolder.of(tmp_path, "1-1")
    folder.path.mkdir(parents=True)
    for grace, told in ((30.0, 30.0), (1.0, 1.0), (9.0, 1.0)):
        engine.stop("1-1", grace=grace, cause="stopped", message="Enough.")
        assert json.loads(folder.stop.read_text())["grace"] == told


# -- the lease


def _start(house: House) -> None:
    house.add_run()
    schedule = Schedule(house.desk)
    with house.ctx.store.read() as tx:
        decided = schedule._decide(tx, [])
    schedule._place(*decided)


def _stop(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, stop_at=house.clock(), stop_reason="Enough.")


def _sweep(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.engine.presence[f"{run.id}-1"] = Presence.LOST


@pytest.mark.parametrize("given", [_start, _stop, _sweep])
@pytest.mark.parametrize("doubt", ["taken over", "not renewed"])
def test_a_lease_in_doubt_starts_stops_and_sweeps_nothing(house: House, given: object, doubt: str) -> None:
    assert callable(given)
    given(house)
    calls = list(house.engine.calls)
    if doubt == "taken over":
        house.new_desk("second")
    else:
        house.desk.renewed = time.monotonic() - LEASE_SECONDS + 1.0
    act = Schedule(house.desk)._start if given is _start else Reap(house.desk).step
    with pytest.raises(LeaseLostError):
        act()
    assert house.engine.calls == calls


# -- hints and the record


def test_what_runners_say_is_handed_over_once(house: House) -> None:
    house.desk.hear("1-1")
    house.desk.hear("2-1")
    assert house.desk.heard() == {"1-1", "2-1"}
    assert house.desk.heard() == set()


def test_a_hint_does_not_keep_the_others_from_being_looked_at(house: House) -> None:
    silent, loud = _two(house)
    house.end(f"{silent.id}-1")
    house.desk.hear(f"{loud.id}-1")
    Reap(house.desk).step()
    assert house.run(silent.id).state == RunState.SUCCEEDED


def test_a_record_that_is_away_is_said_once_and_work_goes_on_when_it_is_back(
    house: House, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    run = house.add_run()
    controller = Controller(house.ctx, house.engine, objects_url="file:///x", cache=tmp_path)
    controller.desk.lease = house.desk.lease
    seat = controller._seats[0]
    with house.ctx.store.begin() as tx:
        tx.connection.execute(sa.text("ALTER TABLE nodes RENAME TO away"))
    with caplog.at_level(logging.ERROR, "headway.controller"):
        for _ in range(3):
            seat._pass({"run", "attempt"})
    assert len(caplog.records) == 1
    with house.ctx.store.begin() as tx:
        tx.connection.execute(sa.text("ALTER TABLE away RENAME TO nodes"))
    seat._pass({"run", "attempt"})
    assert house.engine.calls == [("start", f"{run.id}-1")]


def test_the_same_trouble_is_due_once_and_another_one_too() -> None:
    quiet = Quiet()
    assert [quiet.due(t) for t in ("a", "a", "b", "a")] == [True, False, True, False]


def test_a_busy_machine_is_waited_for_and_a_wrong_program_is_not() -> None:
    root = Path("/root-of-nothing")
    assert launches.passing(BlockingIOError(errno.EAGAIN, "busy"), root)
    assert launches.passing(FileNotFoundError(errno.ENOENT, "no", "/usr/bin/nothing"), root) is None
    assert launches.passing(ValueError("no"), root) is None
    assert json.dumps(launches.passing(OSError(errno.ENOSPC, "full"), root)) != "null"
