"""How attempts end: gangs, lost nodes, pauses, reclaims; what is told while they run; runs that come after others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.controller import ends
from headway.controller.asks import Asks
from headway.controller.reap import Reap
from headway.engines.base import NodeObservation, Presence
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, read_json, write_json
from headway.rules.records import Attempt, Run
from headway.rules.states import AttemptState, RunState
from headway.store.base import LeaseLostError
from headway.testing.stores import attempt_values

from .conftest import House

ALIVE, ENDED, LOST = Presence.ALIVE, Presence.ENDED, Presence.LOST


class Gang:
    """A run that was placed on nodes n1, n2, ... and started; its nodes look as the test says."""

    def __init__(self, house: House, nodes: int = 2, **changes: Any) -> None:
        self.house = house
        self.run = house.add_run(nodes=nodes, state=RunState.RUNNING, attempts=1, **changes)
        places = [{"node": f"n{i + 1}", "address": "127.0.0.1", "accelerators": []} for i in range(nodes)]
        values = {"placement": places, "cursors": [0] * nodes, "state": AttemptState.RUNNING}
        times = {"created_at": house.clock(), "started_at": house.clock(), "launched_at": house.clock()}
        with house.ctx.store.begin() as tx:
            self.id = tx.runs.add_attempt(**attempt_values(self.run, 1, **values, **times)).id
        self.folder = AttemptFolder.of(house.ctx.root, self.id)
        for index in range(nodes):
            self.folder.node(index).path.mkdir(parents=True)
        self.beat = 0
        self.look(*[ALIVE] * nodes)

    def look(self, *presences: Presence, silent: tuple[int, ...] = ()) -> None:
        """What the engine sees from now on; the nodes that are not silent have beaten once more."""
        self.beat += 1
        self.house.engine.nodes_of[self.id] = [
            NodeObservation(presence, 1.0 if index in silent else 1.0 + self.beat)
            for index, presence in enumerate(presences)
        ]

    def exit(self, index: int, cause: Cause, **changes: Any) -> None:
        now = self.house.clock()
        values = {"code": None, "signal": None, "rank": None, "message": "It ended.", **changes}
        write_json(self.folder.node(index).exit, Exit(cause, started=now, launched=now, ended=now, **values).to_json())

    def now(self) -> tuple[Run, Attempt]:
        return self.house.run(self.run.id), self.house.attempt(self.id)


# -- gangs


def test_a_gang_goes_on_until_its_last_node_has_ended(house: House) -> None:
    gang, loop = Gang(house), Reap(house.desk)
    gang.exit(1, Cause.DONE, code=0)
    gang.look(ALIVE, ENDED)
    loop.step()
    assert gang.now()[0].state == RunState.RUNNING
    gang.exit(0, Cause.DONE, code=0)
    gang.look(ENDED, ENDED)
    loop.step()
    assert gang.now()[0].state == RunState.SUCCEEDED


def test_the_node_and_rank_that_failed_first_are_named(house: House) -> None:
    gang = Gang(house)
    gang.exit(0, Cause.PEER_FAILED, message="n2: rank 3 returned 7.")
    gang.exit(1, Cause.EXIT, code=7, rank=3, message="rank 3 returned 7: no such file.")
    gang.look(ENDED, ENDED)
    Reap(house.desk).step()
    run, attempt = gang.now()
    assert (run.state, run.reason) == (RunState.FAILED, "On n2: rank 3 returned 7: no such file.")
    assert (run.exit_code, attempt.cause) == (7, Cause.EXIT)


def test_events_of_every_node_are_taken_in_by_time_and_once(house: House) -> None:
    gang, loop = Gang(house), Reap(house.desk)
    for index, name in ((1, "b.pt"), (0, "a.pt")):
        event = {"at": 5.0 - index, "event": "checkpoint", "name": name, "valid": False, "reason": "cut off"}
        gang.folder.node(index).events.write_text(json.dumps(event) + "\n")
    loop.step()
    loop.step()
    with house.ctx.store.read() as tx:
        assert [c.name for c in tx.products.checkpoints(gang.run.id)] == ["b.pt", "a.pt"]
    assert gang.now()[1].cursors == [gang.folder.node(i).events.stat().st_size for i in range(2)]


def test_one_bill_a_gang_from_its_first_node_on(house: House) -> None:
    run = house.add_run(nodes=2, state=RunState.STARTING, attempts=1)
    places = [{"node": n, "address": "", "accelerators": []} for n in "ab"]
    with house.ctx.store.begin() as tx:
        tx.runs.add_attempt(**attempt_values(run, 1, placement=places, cursors=[0, 0], state=AttemptState.STARTING))
    for index, at in ((0, 20.0), (1, 10.0)):
        node = AttemptFolder.of(house.ctx.root, f"{run.id}-1").node(index)
        node.path.mkdir(parents=True)
        lines = [{"at": at, "event": "started"}, {"at": at + 5, "event": "launched", "pids": [1]}]
        node.events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    house.engine.presence[f"{run.id}-1"] = ALIVE
    Reap(house.desk).step()
    attempt = house.attempt(f"{run.id}-1")
    assert (attempt.started_at, attempt.launched_at, attempt.state) == (10.0, 15.0, AttemptState.RUNNING)
    with house.ctx.store.read() as tx:
        entry = tx.ledger.of_attempt(attempt.id)
    assert entry is not None
    assert entry.started_at == 10.0


def test_a_gang_that_lost_a_runner_ends_the_others_and_is_swept_before_it_has_ended(house: House) -> None:
    gang, loop = Gang(house), Reap(house.desk)
    gang.look(ALIVE, LOST)
    loop.step()
    loop.step()
    assert house.engine.calls == [("stop", gang.id)]
    assert house.engine.causes == ["peer_failed"]
    abort = read_json(gang.folder.abort)
    assert (abort["node"], abort["cause"]) == (1, "runner_lost")
    assert gang.now()[1].state == AttemptState.RUNNING
    gang.exit(0, Cause.PEER_FAILED)
    gang.look(ENDED, LOST)
    loop.step()
    assert house.engine.calls == [("stop", gang.id), ("sweep", gang.id)]
    run, attempt = gang.now()
    assert (run.state, run.losses, attempt.cause) == (RunState.QUEUED, 1, Cause.RUNNER_LOST)
    assert attempt.message == "On n2: its runner is gone without a word."
    # another node may take it again: nothing is wrong with this one
    assert run.avoid == []


def test_a_runner_that_the_others_heard_of_first_keeps_its_word(house: House) -> None:
    gang = Gang(house)
    write_json(gang.folder.abort, {"node": 1, "rank": 2, "code": 137, "signal": 9, "cause": "killed", "message": "x."})
    gang.look(ALIVE, LOST)
    loop = Reap(house.desk)
    loop.step()
    gang.exit(0, Cause.PEER_FAILED)
    gang.look(ENDED, LOST)
    loop.step()
    assert (gang.now()[1].cause, gang.now()[1].signal) == (Cause.KILLED, 9)


# -- lost nodes


@pytest.fixture
def patient(house: House) -> Reap:
    """A loop that gives a node up at once."""
    return Reap(house.desk, node_patience=0.0)


def test_a_node_without_a_heartbeat_is_fenced_and_the_run_placed_elsewhere(house: House, patient: Reap) -> None:
    gang = Gang(house, nodes=1)
    shape = gang.run.shape
    gang.look(ALIVE, silent=(0,))
    patient.step()
    assert gang.now()[0].state == RunState.RUNNING  # seen for the first time
    patient.step()
    run, attempt = gang.now()
    assert gang.folder.fence.read_text() == "2"
    assert house.engine.calls == [("sweep", gang.id)]
    assert (attempt.state, attempt.cause) == (AttemptState.ENDED, Cause.NODE_LOST)
    assert (run.state, run.losses, run.avoid) == (RunState.QUEUED, 1, ["n1"])
    assert run.shape != shape
    assert "Node n1 is lost: no heartbeat" in run.reason


def test_a_runner_that_comes_back_changes_nothing(house: House, patient: Reap) -> None:
    gang = Gang(house, nodes=1)
    gang.look(ALIVE, silent=(0,))
    patient.step()
    patient.step()
    before = house.record()
    gang.exit(0, Cause.DONE, code=0)
    gang.look(ENDED)
    patient.step()
    assert house.record() == before


def test_a_heartbeat_that_changes_keeps_a_node(house: House, patient: Reap) -> None:
    gang = Gang(house)
    for _ in range(5):
        gang.look(ALIVE, ALIVE)
        patient.step()
    assert not gang.folder.fence.exists()


def test_our_own_sleep_is_not_its_silence(house: House, patient: Reap, monkeypatch: pytest.MonkeyPatch) -> None:
    gang = Gang(house)
    monkeypatch.setattr(ends, "GAP_SECONDS", 0.0)
    for _ in range(5):
        gang.look(ALIVE, ALIVE, silent=(0, 1))
        patient.step()
    assert not gang.folder.fence.exists()


def test_of_a_gang_with_a_lost_node_the_others_are_ended_first(house: House, patient: Reap) -> None:
    gang = Gang(house)
    for _ in range(3):
        gang.look(ALIVE, ALIVE, silent=(1,))
        patient.step()
    assert gang.folder.fence.read_text() == "2"
    assert house.engine.calls == [("stop", gang.id)]
    assert gang.now()[0].state == RunState.RUNNING
    gang.exit(0, Cause.FENCED)
    gang.look(ENDED, ALIVE, silent=(1,))
    patient.step()
    run, attempt = gang.now()
    assert (attempt.cause, run.state, run.avoid) == (Cause.NODE_LOST, RunState.QUEUED, ["n2"])
    assert attempt.message.startswith("node n2 is lost")


def test_where_no_fence_can_be_written_nobody_is_given_up(house: House, patient: Reap) -> None:
    gang = Gang(house, nodes=1)
    gang.folder.fence.mkdir()  # nothing can be renamed over it
    gang.look(ALIVE, silent=(0,))
    for _ in range(3):
        patient.step()
    assert gang.now()[0].state == RunState.RUNNING
    assert house.engine.calls == []


def test_a_lead_in_doubt_gives_nobody_up(house: House, patient: Reap) -> None:
    gang = Gang(house, nodes=1)
    gang.look(ALIVE, silent=(0,))
    patient.step()
    house.new_desk("second")
    with pytest.raises(LeaseLostError):
        patient.step()
    assert not gang.folder.fence.exists()


# -- what it was about to end for


def _stopping(gang: Gang, cause: str) -> None:
    event = {"at": 3.0, "event": "stopping", "cause": cause, "grace": 5.0}
    gang.folder.node(0).events.write_text(json.dumps(event) + "\n")


@pytest.mark.parametrize(
    ("said", "cause", "state"),
    [
        ("time_limit", Cause.TIME_LIMIT, RunState.FAILED),
        ("reclaimed", Cause.RECLAIMED, RunState.QUEUED),
        ("paused", Cause.PAUSED, RunState.HELD),
        ("fenced", Cause.RUNNER_LOST, RunState.QUEUED),
        ("nonsense", Cause.RUNNER_LOST, RunState.QUEUED),
    ],
)
def test_a_runner_killed_while_it_ended_its_attempt(house: House, said: str, cause: Cause, state: RunState) -> None:
    gang = Gang(house, nodes=1)
    _stopping(gang, said)
    loop = Reap(house.desk)
    loop.step()
    assert gang.now()[0].state == RunState.STOPPING
    gang.look(LOST)
    loop.step()
    assert (gang.now()[1].cause, gang.now()[0].state) == (cause, state)


def test_a_machine_that_goes_before_its_run_has_left_is_a_reclaim_and_no_loss(house: House) -> None:
    gang = Gang(house, nodes=1)
    with house.ctx.store.begin() as tx:
        tx.runs.change_attempt(gang.id, reclaim_at=house.clock(), reclaim_reason="The price is above its bid.")
    gang.look(LOST)
    Reap(house.desk).step()
    run, attempt = gang.now()
    assert (attempt.cause, run.state, run.losses, run.reclaims) == (Cause.RECLAIMED, RunState.QUEUED, 0, 1)
    assert run.reason.startswith("The price is above its bid.")


def test_a_reclaimed_run_keeps_its_place_in_the_queue(house: House) -> None:
    gang = Gang(house, nodes=1, position=7.0)
    _stopping(gang, "reclaimed")
    house.clock.now += 100
    gang.exit(0, Cause.RECLAIMED, code=0, message="a job needs its place.")
    gang.look(ENDED)
    Reap(house.desk).step()
    run = gang.now()[0]
    assert (run.state, run.position, run.queued_at, run.reclaims) == (RunState.QUEUED, 7.0, house.clock(), 1)


# -- asked while it runs


def test_a_pause_is_told_once_and_holds_the_run(house: House) -> None:
    gang, loop = Gang(house), Reap(house.desk)
    with house.ctx.store.begin() as tx:
        tx.runs.change(gang.run.id, pause_at=house.clock(), reason="Paused by eve.")
    loop.step()
    loop.step()
    assert (house.engine.calls, house.engine.causes) == ([("stop", gang.id)], ["paused"])
    assert gang.now()[0].state == RunState.STOPPING
    for index in range(2):
        gang.exit(index, Cause.PAUSED, message="Paused by eve.")
    gang.look(ENDED, ENDED)
    loop.step()
    run = gang.now()[0]
    assert (run.state, run.reason, run.pause_at) == (RunState.HELD, "Paused by eve: resume it to go on.", None)
    assert (run.ended_at, run.cause) == (None, None)


def test_a_stop_after_a_pause_is_told_too_and_ends_it(house: House) -> None:
    gang, loop = Gang(house, nodes=1), Reap(house.desk)
    for changes in ({"pause_at": 1.0}, {"stop_at": 2.0, "stop_reason": "Enough."}):
        with house.ctx.store.begin() as tx:
            tx.runs.change(gang.run.id, **changes)
        loop.step()
    assert house.engine.causes == ["paused", "stopped"]
    gang.exit(0, Cause.PAUSED)
    gang.look(ENDED)
    loop.step()
    assert (gang.now()[0].state, gang.now()[0].reason) == (RunState.STOPPED, "Enough.")


def test_changed_limits_are_told_once_by_each_controller(house: House) -> None:
    gang, loop = Gang(house, nodes=1, max_duration=60.0, limits={"hang": 0}), Reap(house.desk)
    told = {"max_duration": 60.0, "grace": gang.run.grace, "limits": {}}
    write_json(gang.folder.launch, told)
    loop.step()
    assert house.engine.amended == []
    with house.ctx.store.begin() as tx:
        tx.runs.change(gang.run.id, max_duration=90.0, limits={"nan": True, "hang": 5.0})
    loop.step()
    loop.step()
    changed = {"max_duration": 90.0, "grace": gang.run.grace, "limits": {"nan": True, "hang": 5.0}}
    assert house.engine.amended == [(gang.id, changed)]
    write_json(gang.folder.amended, changed)
    Asks(house.desk).step([gang.now()[1]], {gang.run.id: gang.now()[0]})
    assert len(house.engine.amended) == 1


def test_a_run_that_used_up_its_waiting_says_so(house: House) -> None:
    gang = Gang(house, nodes=1, max_wait=house.clock() + 50.0, asked_at=0.0, created_at=0.0, max_duration=1e9)
    gang.exit(0, Cause.TIME_LIMIT, message="ran for 50 s.")
    gang.look(ENDED)
    Reap(house.desk).step()
    run = gang.now()[0]
    assert (run.state, run.cause) == (RunState.FAILED, Cause.WAIT_LIMIT)
    assert "max_wait" in run.reason


def test_an_own_rule_counts_what_it_is_for(house: House) -> None:
    gang = Gang(house, nodes=1, retry_rules={"exit": {"action": "elsewhere", "times": 1}}, retries=0)
    gang.exit(0, Cause.EXIT, code=1)
    gang.look(ENDED)
    loop = Reap(house.desk)
    loop.step()
    run = gang.now()[0]
    assert (run.state, run.avoid, run.losses) == (RunState.QUEUED, ["n1"], 1)
    with house.ctx.store.begin() as tx:
        tx.runs.change(run.id, state=RunState.RUNNING, attempts=2)
        tx.runs.add_attempt(**attempt_values(run, 2, state=AttemptState.RUNNING))
    folder = AttemptFolder.of(house.ctx.root, f"{run.id}-2").node(0)
    folder.path.mkdir(parents=True)
    write_json(folder.exit, Exit(Cause.EXIT, 1, None, 0, "again.", 1.0, 1.0, 2.0).to_json())
    house.engine.presence[f"{run.id}-2"] = ENDED
    loop.step()
    assert gang.now()[0].state == RunState.FAILED


# -- runs that come after others


def test_a_run_that_comes_after_others_is_free_when_they_have_succeeded(house: House) -> None:
    first = house.add_run(state=RunState.SUCCEEDED)
    second = Gang(house, nodes=1)
    last = house.add_run(after=[first.id, second.run.id], blocked=True)
    loop = Reap(house.desk)
    loop.step()
    assert house.run(last.id).blocked
    second.exit(0, Cause.DONE, code=0)
    second.look(ENDED)
    house.clock.now += 50
    loop.step()
    freed = house.run(last.id)
    assert (freed.state, freed.blocked, freed.queued_at) == (RunState.QUEUED, False, house.clock())


def test_what_comes_after_a_run_that_failed_fails_with_its_sentence_held_or_not(house: House) -> None:
    first = house.add_run(state=RunState.STOPPED)
    second = house.add_run(after=[first.id], blocked=True, state=RunState.HELD)
    third = house.add_run(after=[second.id], blocked=True)
    Reap(house.desk).step()
    assert (house.run(second.id).state, house.run(second.id).cause) == (RunState.FAILED, Cause.DEPENDENCY)
    assert house.run(second.id).reason == f"Job {first.id}, which it was to come after, was stopped."
    assert house.run(third.id).reason == f"Job {second.id}, which it was to come after, failed."
