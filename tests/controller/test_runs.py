"""Placing, starting, taking in: each loop stepped by hand."""

from __future__ import annotations

from headway.controller.reap import Reap
from headway.controller.schedule import FIRST, Schedule
from headway.engines.base import Presence
from headway.protocol.exits import Cause
from headway.rules.states import AttemptState, RunState
from headway.services import views

from .conftest import House


def _place(schedule: Schedule) -> int:
    """As far as a controller comes that dies before it starts anything."""
    with schedule.desk.services.store.read() as tx:
        decision, waits = schedule._decide(tx, tx.runs.live_attempts())
    return schedule._place(decision, waits)


def test_a_run_from_queue_to_bill(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    assert house.engine.calls == [("start", f"{run.id}-1")]
    assert house.run(run.id).state == RunState.STARTING
    house.report(f"{run.id}-1", {"event": "started"}, {"event": "launched", "pids": [1]})
    Reap(house.desk).step()
    assert house.run(run.id).state == RunState.RUNNING
    house.clock.now += 3600
    house.end(f"{run.id}-1")
    Reap(house.desk).step()
    assert house.run(run.id).state == RunState.SUCCEEDED
    with house.ctx.store.read() as tx:
        entry = tx.ledger.of_attempt(f"{run.id}-1")
    assert entry is not None
    assert (entry.seconds, entry.amount) == (3600.0, 40_000)


def test_what_does_not_fit_waits_with_a_sentence_that_is_written_once(house: House) -> None:
    runs = [house.add_run() for _ in range(3)]
    Schedule(house.desk).step()
    states = [house.run(r.id).state for r in runs]
    assert states == [RunState.STARTING, RunState.STARTING, RunState.QUEUED]
    assert "1 CPU" in house.run(runs[2].id).reason
    before = house.record()
    Schedule(house.desk).step()
    assert house.record() == before


def test_an_attempt_that_a_dead_controller_had_only_placed_is_started(house: House) -> None:
    run = house.add_run()
    schedule = Schedule(house.desk)
    _place(schedule)
    assert house.engine.calls == []
    Schedule(house.new_desk("second")).step()
    assert house.engine.calls == [("start", f"{run.id}-1")]
    assert house.run(run.id).attempts == 1


def test_events_are_taken_in_once_also_by_two_controllers(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.report(f"{run.id}-1", {"event": "started"})
    stale = Reap(house.desk)
    with house.ctx.store.read() as tx:
        seen = stale._observe(tx.runs.live_attempts(), set())
    Reap(house.desk).step()
    before = house.record()
    with house.desk.apply() as tx:
        stale._take_in(tx, seen[0])
    assert house.record() == before


def test_a_lost_attempt_is_swept_before_the_next_is_placed(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.engine.presence[f"{run.id}-1"] = Presence.LOST
    Reap(house.desk).step()
    Schedule(house.desk).step()
    assert house.engine.calls == [("start", f"{run.id}-1"), ("sweep", f"{run.id}-1"), ("start", f"{run.id}-2")]
    assert (house.run(run.id).losses, house.run(run.id).attempts) == (1, 2)
    assert house.attempt(f"{run.id}-1").cause == Cause.RUNNER_LOST


def test_no_second_attempt_while_the_first_is_not_known_to_have_ended(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.clock.now += 1e6
    for _ in range(3):
        Reap(house.desk).step()
        Schedule(house.desk).step()
    assert house.run(run.id).attempts == 1
    assert house.attempt(f"{run.id}-1").state != AttemptState.ENDED


def test_a_run_that_is_asked_to_stop(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, stop_at=house.clock(), stop_reason="Enough.")
    Reap(house.desk).step()
    assert ("stop", f"{run.id}-1") in house.engine.calls
    assert house.run(run.id).state == RunState.STOPPING
    house.end(f"{run.id}-1", Cause.STOPPED, None)
    Reap(house.desk).step()
    assert (house.run(run.id).state, house.run(run.id).reason) == (RunState.STOPPED, "Enough.")


def test_what_is_held_while_it_is_being_placed_stays_held(house: House) -> None:
    run = house.add_run()
    schedule = Schedule(house.desk)
    with house.ctx.store.read() as tx:
        decision, waits = schedule._decide(tx, [])
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, state=RunState.HELD)
    assert schedule._place(decision, waits) == 0
    assert house.run(run.id).state == RunState.HELD
    with house.ctx.store.read() as tx:
        assert tx.runs.live_attempts() == []


def test_small_runs_behind_many_that_do_not_fit_are_found_after_a_hint_too(house: House) -> None:
    for _ in range(2 * FIRST[0]):
        house.add_run(accelerators=1)  # no node has any: they keep nothing from others
    schedule = Schedule(house.desk)
    schedule.step()
    last = house.add_run()
    schedule.step()
    assert house.engine.calls == [("start", f"{last.id}-1")]


def test_the_first_of_those_alike_hears_why_it_waits_and_the_others_behind_which(house: House) -> None:
    runs = [house.add_run() for _ in range(5)]
    Schedule(house.desk).step()
    assert "1 CPU" in house.run(runs[2].id).reason
    assert [house.run(r.id).reason for r in runs[3:]] == ["", ""]
    with house.ctx.store.read() as tx:
        shown = views.runs(house.ctx, tx, tx.runs.many([r.id for r in runs[3:]]))
    assert [v.reason for v in shown] == [f"waits behind job {runs[2].id}"] * 2
