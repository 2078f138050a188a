"""What every store must do: a suite to subclass, with a fixture `store` that gives an empty record at this version.

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self): ...
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headway.rules.access import Role
from headway.rules.cells import NewCell
from headway.rules.records import Cell, Checkpoint, Evaluation, Node, Project, Run, Spec, User
from headway.rules.states import AttemptState, CellState, EvaluationState, NodeState, RunState
from headway.store.base import ConflictError, LeaseLostError, Store, Transaction


def run_values(project: Project, user: User, **changes: Any) -> dict[str, Any]:
    """All fields of a plain queued job but its id."""
    values: dict[str, Any] = {
        "project_id": project.id, "owner": "job", "owner_id": None, "name": "", "state": RunState.QUEUED, "reason": "",
        "command": ["true"], "environment": {}, "parameters": {}, "spec": "small", "cpus": 1.0,
        "memory_bytes": 1 << 31, "accelerators": 0, "accelerator_kind": None, "processes": 1, "priority": 5,
        "max_duration": None, "grace": 30.0, "retries": 3, "attempts": 0, "losses": 0, "snapshot_id": None,
        "datasets": [], "work": {}, "key": None, "submitted_by": user.id, "created_at": 1.0, "started_at": None,
        "ended_at": None, "exit_code": None, "cause": None, "stop_at": None, "stop_reason": "",
    }  # fmt: skip
    return values | changes


def attempt_values(run: Run, number: int, **changes: Any) -> dict[str, Any]:
    """All fields of an attempt that was placed."""
    values: dict[str, Any] = {
        "id": f"{run.id}-{number}", "run_id": run.id, "number": number, "state": AttemptState.PLACED,
        "engine": "local", "placement": [{"node": "n", "address": "127.0.0.1", "accelerators": []}], "cursors": [0],
        "address": None, "ready": False, "secret": None, "created_at": 1.0, "started_at": None, "launched_at": None,
        "ended_at": None, "stopping_at": None, "exit_code": None, "signal": None, "cause": None, "message": "",
    }  # fmt: skip
    return values | changes


def people(tx: Transaction) -> tuple[Project, User]:
    """The project and the user that the suite's rows belong to; made at the first call."""
    project = tx.people.project("p") or tx.people.add_project(name="p", now=1.0)
    return project, tx.people.user("u") or tx.people.add_user(name="u", is_admin=False, now=1.0)


def add_run(store: Store, **changes: Any) -> Run:
    with store.begin() as tx:
        project, user = people(tx)
        return tx.runs.add(**run_values(project, user, **changes))


def add_evaluation(store: Store, **changes: Any) -> tuple[Run, Evaluation, Checkpoint]:
    """A job, an evaluation of it that runs, and its one checkpoint."""
    run = add_run(store)
    with store.begin() as tx:
        project, user = people(tx)
        checkpoint = tx.products.put_checkpoint(
            run_id=run.id, name="a", attempt_id="1-1", path="x", step=None, epoch=None, metrics={}, bytes=1,
            sha256="s", format="torch", valid=True, reason="", created_at=1.0,
        )  # fmt: skip
        values: dict[str, Any] = {
            "project_id": project.id, "name": "e", "state": EvaluationState.RUNNING, "reason": "", "remedy": "",
            "cause": None, "job_id": run.id, "jobs": [run.id], "plan": {}, "pauses": 0, "rounds": 0, "key": None,
            "path": "", "submitted_by": user.id, "created_at": 1.0, "ended_at": None,
        }  # fmt: skip
        return run, tx.evaluations.add(**{**values, **changes}), checkpoint


def published(cell: Cell, publication: str, **changes: Any) -> dict[str, Any]:
    """What the helper tells of an output, as `Evaluations.publish` takes it."""
    values: dict[str, Any] = {
        "cell": cell.id, "publication": publication, "score": 1.0, "scores": {"ö": 1.5}, "path": cell.path,
        "outputs": [{"name": "a", "bytes": 3}], "seconds": 2.5, "bytes": 3, "files": 1, "ended_at": 9.0,
    }  # fmt: skip
    return {**values, **changes}


def _in_threads(count: int, act: Callable[[int], None]) -> list[BaseException]:
    """Runs `act(n)` in `count` threads that begin together; what they raised."""
    gate = threading.Barrier(count)
    raised: list[BaseException] = []

    def body(number: int) -> None:
        gate.wait()
        try:
            act(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=body, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


class StoreContract:
    # transactions

    def test_what_a_block_wrote_is_there_afterwards(self, store: Store) -> None:
        run = add_run(store, parameters={"lr": 0.1, "deep": {"a": [1, None]}})
        with store.read() as tx:
            assert tx.runs.get(run.id) == run
        assert run.parameters == {"lr": 0.1, "deep": {"a": [1, None]}}
        assert run.state is RunState.QUEUED

    def test_a_block_that_raises_leaves_nothing(self, store: Store) -> None:
        with pytest.raises(RuntimeError, match="on purpose"), store.begin() as tx:
            tx.people.add_project(name="gone", now=1.0)
            raise RuntimeError("on purpose")
        with store.read() as tx:
            assert tx.people.project("gone") is None

    def test_a_store_can_be_used_after_a_failure(self, store: Store) -> None:
        for _ in range(40):
            with pytest.raises(RuntimeError), store.begin():
                raise RuntimeError
        assert add_run(store).id

    def test_readers_see_one_state(self, store: Store) -> None:
        first = add_run(store)
        with store.read() as tx:
            before = tx.runs.get(first.id)
            with store.begin() as writer:
                writer.runs.change(first.id, name="changed")
            assert tx.runs.get(first.id) == before
        with store.read() as tx:
            again = tx.runs.get(first.id)
            assert again is not None
            assert again.name == "changed"

    def test_a_unique_value_twice_is_a_conflict(self, store: Store) -> None:
        with store.begin() as tx:
            tx.people.add_project(name="one", now=1.0)
        with pytest.raises(ConflictError), store.begin() as tx:
            tx.people.add_project(name="two", now=1.0)
            tx.people.add_project(name="one", now=1.0)
        with store.read() as tx:
            assert tx.people.project("two") is None

    def test_a_row_that_refers_to_nothing_is_a_conflict(self, store: Store) -> None:
        run = add_run(store)
        with pytest.raises(ConflictError), store.begin() as tx:
            tx.runs.add_attempt(**attempt_values(run, 1, run_id=run.id + 100))

    # keys

    def test_a_key_names_one_run_of_a_project(self, store: Store) -> None:
        run = add_run(store, key="k")
        with pytest.raises(ConflictError):
            add_run(store, key="k")
        with store.begin() as tx:
            _, user = people(tx)
            other = tx.people.add_project(name="other", now=1.0)
            assert tx.runs.add(**run_values(other, user, key="k")).id != run.id
            assert tx.runs.by_key(run.project_id, "k") == run
            assert tx.runs.by_key(run.project_id, "no") is None

    def test_runs_without_key_are_many(self, store: Store) -> None:
        assert add_run(store).id != add_run(store).id

    def test_of_many_who_submit_one_key_at_once_one_wins(self, store: Store) -> None:
        add_run(store)
        made: list[int] = []
        raised = _in_threads(6, lambda n: made.append(add_run(store, key="race").id))
        assert len(made) == 1
        assert [type(e) for e in raised] == [ConflictError] * 5

    # threads

    def test_threads_lose_no_update(self, store: Store) -> None:
        run = add_run(store)

        def count(number: int) -> None:
            for _ in range(5):
                with store.begin() as tx:
                    # the lease's row is the lock on every store
                    tx.leases.acquire("counter", "all", now=1.0, seconds=1.0)
                    found = tx.runs.get(run.id)
                    assert found is not None
                    tx.runs.change(run.id, losses=found.losses + 1)

        with store.begin() as tx:
            tx.leases.acquire("counter", "all", now=1.0, seconds=1.0)
        assert _in_threads(4, count) == []
        with store.read() as tx:
            found = tx.runs.get(run.id)
            assert found is not None
            assert found.losses == 20

    def test_a_change_on_condition_happens_once(self, store: Store) -> None:
        run = add_run(store)
        won: list[int] = []

        def start(number: int) -> None:
            with store.begin() as tx:
                if tx.runs.change_if(run.id, [RunState.QUEUED], state=RunState.STARTING):
                    won.append(number)

        assert _in_threads(4, start) == []
        assert len(won) == 1

    # leases

    def test_a_lease_has_one_holder(self, store: Store) -> None:
        with store.begin() as tx:
            lease = tx.leases.acquire("l", "a", now=100.0, seconds=10.0)
            assert lease is not None
            assert lease.token == 1
        with store.begin() as tx:
            assert tx.leases.acquire("l", "b", now=109.0, seconds=10.0) is None
            again = tx.leases.acquire("l", "a", now=109.0, seconds=10.0)
            assert again is not None
            assert (again.token, again.expires_at) == (1, 119.0)
            assert tx.leases.current("l") == again
            assert tx.leases.current("none") is None

    def test_a_stale_token_writes_nothing(self, store: Store) -> None:
        run = add_run(store)
        with store.begin() as tx:
            old = tx.leases.acquire("l", "a", now=100.0, seconds=10.0)
        with store.begin() as tx:
            new = tx.leases.acquire("l", "b", now=111.0, seconds=10.0)
        assert old is not None
        assert new is not None
        assert new.token == old.token + 1
        with pytest.raises(LeaseLostError), store.begin() as tx:
            tx.runs.change(run.id, name="stale")
            tx.leases.guard(old)
        with store.begin() as tx:
            tx.leases.guard(new)
            tx.runs.change(run.id, name="fresh")
        with store.read() as tx:
            found = tx.runs.get(run.id)
            assert found is not None
            assert found.name == "fresh"

    def test_a_holder_that_comes_back_has_a_new_token(self, store: Store) -> None:
        with store.begin() as tx:
            first = tx.leases.acquire("l", "a", now=0.0, seconds=1.0)
            tx.leases.acquire("l", "b", now=2.0, seconds=1.0)
            third = tx.leases.acquire("l", "a", now=4.0, seconds=1.0)
            assert first is not None
            assert third is not None
            assert third.token == 3
            with pytest.raises(LeaseLostError):
                tx.leases.guard(first)

    def test_a_released_lease_can_be_taken_at_once(self, store: Store) -> None:
        with store.begin() as tx:
            lease = tx.leases.acquire("l", "a", now=0.0, seconds=100.0)
            assert lease is not None
            tx.leases.release(lease)
            taken = tx.leases.acquire("l", "b", now=1.0, seconds=100.0)
            assert taken is not None
            # the one that was lost cannot release another's
            tx.leases.release(lease)
            tx.leases.guard(taken)
            assert tx.leases.acquire("l", "c", now=2.0, seconds=1.0) is None

    def test_of_many_who_take_a_lease_at_once_one_has_it(self, store: Store) -> None:
        with store.begin() as tx:
            tx.leases.acquire("l", "nobody", now=0.0, seconds=1.0)
        held: list[int] = []

        def take(number: int) -> None:
            with store.begin() as tx:
                if tx.leases.acquire("l", f"h{number}", now=10.0, seconds=10.0):
                    held.append(number)

        assert _in_threads(4, take) == []
        assert len(held) == 1

    # areas

    def test_runs_are_listed_newest_first_and_by_what_is_asked(self, store: Store) -> None:
        ids = [add_run(store, priority=p, owner=o).id for p, o in ((5, "job"), (9, "endpoint"), (5, "job"))]
        with store.begin() as tx:
            tx.runs.change(ids[0], state=RunState.RUNNING)
            held = tx.runs.add(**run_values(*people(tx), state=RunState.HELD))
        with store.read() as tx:
            assert [r.id for r in tx.runs.listing()] == [held.id, *reversed(ids)]
            assert [r.id for r in tx.runs.listing(before=ids[1], limit=5)] == [ids[0]]
            assert [r.id for r in tx.runs.listing(owner="endpoint")] == [ids[1]]
            assert [r.id for r in tx.runs.listing(states=[RunState.RUNNING])] == [ids[0]]
            assert [r.id for r in tx.runs.queued()] == [ids[1], ids[2]]
            assert [r.id for r in tx.runs.live()] == [ids[0]]
            assert {r.id for r in tx.runs.many(ids)} == set(ids)
            assert tx.runs.many([]) == []
            assert tx.runs.counts(held.project_id) == {RunState.RUNNING: 1, RunState.QUEUED: 2, RunState.HELD: 1}

    def test_what_waits_is_read_by_its_groups(self, store: Store) -> None:
        small = [add_run(store, created_at=float(9 - n)).id for n in range(5)]
        large = add_run(store, cpus=4.0).id
        urgent = add_run(store, priority=9).id
        add_run(store, state=RunState.HELD)
        add_run(store, state=RunState.RUNNING)
        blocked = add_run(store, blocked=True, after=[large])
        with store.begin() as tx:
            _, user = people(tx)
            other = tx.people.add_project(name="other", now=1.0)
            foreign = tx.runs.add(**run_values(other, user)).id
        with store.read() as tx:
            heads = tx.runs.queue_heads(2)
            found = sorted(([run.id for run in runs], waiting) for runs, waiting in heads)
            # by position, which is the time of submission
            assert found == sorted([(small[:-3:-1], 5), ([large], 1), ([urgent], 1), ([foreign], 1)])
            assert [[r.id for r in runs] for runs, _ in tx.runs.queue_heads(9, project_id=other.id)] == [[foreign]]
            # few rows in all: two of each nevertheless
            assert sorted(len(runs) for runs, _ in tx.runs.queue_heads(5, rows=1)) == [1, 1, 1, 2]
            assert tx.runs.waiting() == 9
            assert tx.runs.waiting(other.id) == 1
            assert tx.runs.blocked() == [blocked]
            assert tx.runs.blocked(other.id) == []
            last = tx.runs.get(small[0])
            assert last is not None
            assert tx.runs.ahead_of(last) == 4

    def test_a_run_is_put_before_another(self, store: Store) -> None:
        ids = [add_run(store, created_at=1.0).id for _ in range(4)]
        add_run(store, priority=6, created_at=0.5)

        def order() -> list[int]:
            with store.read() as tx:
                return next([r.id for r in runs] for runs, _ in tx.runs.queue_heads(9) if runs[0].priority == 5)

        def put_before(run: int, other: int) -> None:
            with store.begin() as tx:
                found = tx.runs.get(other)
                assert found is not None
                tx.runs.change(run, position=tx.runs.position_before(found))

        # of the same time, so that there is no number between them
        put_before(ids[3], ids[1])
        assert order() == [ids[0], ids[3], ids[1], ids[2]]
        for _ in range(80):
            put_before(ids[2], ids[0])
            put_before(ids[0], ids[2])
        assert order() == [ids[0], ids[2], ids[3], ids[1]]
        with store.read() as tx:
            found = tx.runs.get(ids[0])
            assert found is not None
            low, high = tx.runs.turns(found.project_id, 5) or (0.0, 0.0)
            assert low == found.position < high
            assert tx.runs.turns(found.project_id, 3) is None

    def test_the_shape_of_a_run_follows_what_decides_it(self, store: Store) -> None:
        first, second = add_run(store), add_run(store, name="other", priority=9)
        assert first.shape == second.shape != ""
        with store.begin() as tx:
            tx.runs.change(first.id, max_duration=60.0)
            tx.runs.change(second.id, avoid=["n1"])
        with store.read() as tx:
            shapes = {run.shape for run in tx.runs.many([first.id, second.id])}
        assert len(shapes | {first.shape}) == 3

    def test_runs_that_took_longer_than_they_may(self, store: Store) -> None:
        add_run(store, max_wait=5.0)
        late = add_run(store, max_wait=4.0)
        running = add_run(store, max_wait=1.0, state=RunState.RUNNING)
        for state in (RunState.HELD, RunState.SUCCEEDED):
            add_run(store, max_wait=1.0, state=state)
        add_run(store)
        with store.read() as tx:
            assert tx.runs.overdue(5.5, live=False) == [late]
            assert tx.runs.overdue(5.5, live=True) == [running]

    def test_the_latest_attempt_of_each_run(self, store: Store) -> None:
        runs = [add_run(store) for _ in range(3)]
        with store.begin() as tx:
            for run, number in ((runs[0], 1), (runs[1], 1), (runs[0], 2)):
                tx.runs.add_attempt(**attempt_values(run, number))
            tx.runs.change_attempt(f"{runs[0].id}-1", state=AttemptState.ENDED)
        with store.read() as tx:
            found = tx.runs.latest_attempts([r.id for r in runs])
            assert {k: a.number for k, a in found.items()} == {runs[0].id: 2, runs[1].id: 1}
            assert {a.id for a in tx.runs.live_attempts()} == {f"{runs[0].id}-2", f"{runs[1].id}-1"}
            assert [a.number for a in tx.runs.attempts(runs[0].id)] == [1, 2]

    def test_people_tokens_and_roles(self, store: Store) -> None:
        with store.begin() as tx:
            project, user = people(tx)
            token = tx.people.add_token(user_id=user.id, name="t", hash="abc", now=1.0, expires_at=9.0)
            tx.people.set_role(project.id, user.id, Role.VIEWER)
            tx.people.set_role(project.id, user.id, Role.OWNER)
        with store.begin() as tx:
            assert tx.people.by_token("abc") == (user, token)
            assert tx.people.by_token("abd") is None
            assert tx.people.role(project.id, user.id) is Role.OWNER
            assert tx.people.roles(user.id) == {"p": Role.OWNER}
            assert tx.people.names([user.id]) == {user.id: "u"}
            tx.people.revoke_token(token.id, 5.0)
            tx.people.revoke_token(token.id, 6.0)
            assert [t.revoked_at for t in tx.people.tokens(user.id)] == [5.0]
            tx.people.set_role(project.id, user.id, None)
            assert tx.people.role(project.id, user.id) is None

    def test_a_checkpoint_published_again_keeps_its_id(self, store: Store) -> None:
        run = add_run(store)
        values: dict[str, Any] = {
            "attempt_id": f"{run.id}-1", "path": "x", "step": 2, "epoch": None, "metrics": {}, "bytes": 1,
            "sha256": "s", "format": "torch", "valid": True, "reason": "", "created_at": 1.0,
        }  # fmt: skip
        with store.begin() as tx:
            first = tx.products.put_checkpoint(run_id=run.id, name="b.pt", **values)
            again = tx.products.put_checkpoint(run_id=run.id, name="b.pt", **{**values, "sha256": "t"})
            tx.products.put_checkpoint(run_id=run.id, name="a.pt", **{**values, "step": 1})
            tx.products.put_checkpoint(run_id=run.id, name="bad.pt", **{**values, "step": 3, "valid": False})
            assert (again.id, again.sha256) == (first.id, "t")
            assert [c.name for c in tx.products.checkpoints(run.id)] == ["a.pt", "b.pt", "bad.pt"]
            assert tx.products.checkpoint_counts([run.id, run.id + 1]) == {run.id: 2}

    def test_removed_checkpoints_are_apart_and_changed_only_as_they_were_seen(self, store: Store) -> None:
        values: dict[str, Any] = {
            "attempt_id": "1-1", "path": "p", "step": 2, "epoch": None, "metrics": {}, "bytes": 3, "sha256": "s",
            "format": "torch", "valid": True, "reason": "", "created_at": 1.0,
        }  # fmt: skip
        run = add_run(store)
        with store.begin() as tx:
            first = tx.products.put_checkpoint(run_id=run.id, name="a.pt", **values)
            tx.products.put_checkpoint(run_id=run.id, name="b.pt", **{**values, "created_at": 5.0})
            assert tx.products.checkpoint_marks() == {run.id: (2, 5.0)}
            assert tx.products.change_checkpoint(first, removed_at=9.0)
            assert not tx.products.change_checkpoint(first, path="")
            (removed,) = tx.products.removed_checkpoints()
            assert (removed.name, removed.removed_at) == ("a.pt", 9.0)
            assert tx.products.checkpoint_counts([run.id]) == {run.id: 1}
            assert tx.products.checkpoint_marks() == {}
            assert tx.products.change_checkpoint(removed, path="")
            assert tx.products.removed_checkpoints() == []
            assert tx.products.registered_checkpoints(run.id) == set()
            assert tx.evaluations.evaluated_checkpoints(run.id) == set()
            attempt = tx.runs.add_attempt(**attempt_values(run, 1, created_at=5.0))
            assert tx.runs.attempts_since(run.project_id, 4.0) == [attempt]
            assert tx.runs.attempts_since(run.project_id, 5.0) == []

    def test_cells_are_counted_dealt_and_reset(self, store: Store) -> None:
        run, evaluation, checkpoint = add_evaluation(store)
        with store.begin() as tx:
            row = {
                "evaluation_id": evaluation.id, "checkpoint_id": checkpoint.id, "state": CellState.WAITING,
                "run_id": None, "score": None, "scores": {}, "outputs": [], "path": "", "publication": None, "ran": 0,
                "tries": 0, "reason": "", "seconds": None, "ended_at": None,
            }  # fmt: skip
            tx.evaluations.add_cells([{**row, "case_id": f"c{n}", "key": f"k{n}"} for n in range(3)])
            cells = tx.evaluations.cells(evaluation.id)
            assert [(c.row, c.repeat, c.bytes, c.cause) for c in cells] == [("", 0, 0, None)] * 3
            tx.evaluations.deal([c.id for c in cells], run.id)
            tx.evaluations.change_cell(cells[0].id, state=CellState.VALID, ran=1)
            tx.evaluations.change_cell(cells[1].id, state=CellState.INVALID, tries=2, reason="no", cause="exit")
        with store.begin() as tx:
            counts = {CellState.VALID: 1, CellState.INVALID: 1, CellState.WAITING: 1}
            assert tx.evaluations.counts(evaluation.id) == counts
            assert tx.evaluations.tally(evaluation.id) == {(state, run.id): 1 for state in counts}
            assert tx.evaluations.ran(evaluation.id) == 1
            assert [c.case_id for c in tx.evaluations.dealt(run.id, [CellState.WAITING])] == ["c2"]
            assert tx.evaluations.dealt_elsewhere(evaluation.project_id, evaluation.id + 1) == {"k2"}
            assert tx.evaluations.dealt_elsewhere(evaluation.project_id, evaluation.id) == set()
            assert tx.evaluations.dealt_elsewhere(evaluation.project_id + 1, evaluation.id + 1) == set()
            tx.evaluations.reset_cells(evaluation.id)
            assert [(c.state, c.run_id, c.tries, c.cause) for c in tx.evaluations.cells(evaluation.id)] == [
                (CellState.VALID, run.id, 0, None),
                (CellState.WAITING, None, 0, None),
                (CellState.WAITING, None, 0, None),
            ]
            assert [e.id for e in tx.evaluations.active()] == tx.evaluations.active_ids() == [evaluation.id]
            assert tx.evaluations.state(evaluation.id) is EvaluationState.RUNNING
            assert tx.evaluations.state(evaluation.id + 1) is None
            assert tx.evaluations.evaluated_checkpoints(run.id) == {checkpoint.id}
            assert tx.evaluations.checkpoints(evaluation.id) == {checkpoint.id: checkpoint}

    def test_published_cells_are_valid_and_the_same_publication_counts_once(self, store: Store) -> None:
        _, evaluation, checkpoint = add_evaluation(store)
        with store.begin() as tx:
            new = [NewCell(checkpoint.id, f"c{n}", f"k{n}", f"p{n}", "a", 0) for n in range(3)]
            assert tx.evaluations.add_new(evaluation.project_id, evaluation.id, new) == 0
            cells = tx.evaluations.cells(evaluation.id)
            assert {(c.state, c.run_id, c.publication, c.ran, c.row) for c in cells} == {
                (CellState.WAITING, None, None, 0, "a")
            }
            done = [published(c, f"p{c.id}", score=None if c is cells[0] else 0.5) for c in cells[:2]]
            tx.evaluations.publish(done)
            tx.evaluations.publish(done)
            tx.evaluations.publish([published(cells[1], "another", score=0.7)])
            tx.evaluations.publish([])
        with store.read() as tx:
            first, second, third = tx.evaluations.cells(evaluation.id)
            assert (first.state, first.score, first.scores, first.outputs) == (
                CellState.VALID, None, {"ö": 1.5}, [{"name": "a", "bytes": 3}],
            )  # fmt: skip
            assert (first.ran, first.seconds, first.bytes, first.files, first.ended_at) == (1, 2.5, 3, 1, 9.0)
            assert (second.ran, second.publication, second.score) == (2, "another", 0.7)
            assert third == cells[2]
            totals = tx.evaluations.totals(evaluation.id)
            assert totals.counts == {CellState.VALID: 2, CellState.WAITING: 1}
            assert (totals.ran, totals.bytes, totals.files, totals.reused) == (3, 6, 2, 0)
            assert tx.evaluations.rows(evaluation.id) == {checkpoint.id: "a"}
            assert tx.evaluations.case_seconds(evaluation.id) == {"c0": 2.5, "c1": 2.5}
            coverage = tx.evaluations.coverage(evaluation.id)
            assert coverage.rows == {checkpoint.id: totals.counts}
            assert coverage.columns[("c0", 0)] == {CellState.VALID: 1}
            assert tx.evaluations.cells(evaluation.id, after=first.id, limit=1) == [second]
            assert tx.evaluations.many_cells([third.id, first.id, third.id + 1]) == [first, third]
            rows = tx.evaluations.index(evaluation.id)
        # the index has all that a cell has, but what only this record knows
        for cell, row in zip([first, second, third], rows, strict=True):
            own = {**vars(cell), "cell": cell.id, "case": cell.case_id}
            for name in ("id", "case_id", "evaluation_id", "run_id"):
                del own[name]
            from_checkpoint = {"job": checkpoint.run_id, "checkpoint": checkpoint.name, "sha256": checkpoint.sha256}
            decoded = {"scores": json.loads(row["scores"]), "outputs": json.loads(row["outputs"])}
            assert {**row, **decoded} == {**own, **from_checkpoint, "state": cell.state.value}

    def test_what_is_done_in_the_project_is_valid_at_once(self, store: Store) -> None:
        _, first, checkpoint = add_evaluation(store)
        _, second, _ = add_evaluation(store, digest="d")
        with store.begin() as tx:
            other = tx.people.add_project(name="other", now=1.0)
            new = [NewCell(checkpoint.id, f"c{n}", f"k{n}", f"first/{n}", "a", 0) for n in range(3)]
            tx.evaluations.add_new(first.project_id, first.id, new)
            cells = tx.evaluations.cells(first.id)
            tx.evaluations.publish([published(c, f"p{c.id}", score=float(c.id)) for c in cells[:2]])
            assert tx.evaluations.done_keys(first.project_id, ["k0", "k2", "k9"]) == {"k0": cells[0].id}
            assert tx.evaluations.done_keys(other.id, ["k0"]) == {}
            again = [NewCell(checkpoint.id, f"c{n}", f"k{n}", f"second/{n}", "b", 1) for n in range(3)]
            assert tx.evaluations.add_new(second.project_id, second.id, again) == 2
            found = {c.key: c for c in tx.evaluations.cells(second.id)}
            assert [(found[k].state, found[k].path, found[k].row, found[k].repeat) for k in ("k0", "k2")] == [
                (CellState.VALID, "first/0", "b", 1), (CellState.WAITING, "second/2", "b", 1),
            ]  # fmt: skip
            assert (found["k1"].ran, found["k1"].score, found["k1"].scores) == (0, cells[1].id, {"ö": 1.5})
            assert {c.id for c in tx.evaluations.done(first.project_id, ["k0"])} == {cells[0].id, found["k0"].id}
            assert tx.evaluations.totals(second.id).reused == 2
            tx.evaluations.publish([published(found["k2"], "late", score=0.1)])
            assert tx.evaluations.reuse(first.id, first.project_id) == 1
            late = tx.evaluations.cell(cells[2].id)
            assert late is not None
            assert (late.state, late.path, late.publication, late.ran) == (CellState.VALID, found["k2"].path, "late", 0)
            tx.evaluations.move_cells([(late.id, "/elsewhere")])
            tx.evaluations.change_cells([cells[0].id, late.id], state=CellState.INVALID, reason="damaged")
            assert [c.path for c in tx.evaluations.cells(first.id, [CellState.INVALID])] == ["first/0", "/elsewhere"]

    def test_a_digest_is_of_one_evaluation(self, store: Store) -> None:
        _, evaluation, _ = add_evaluation(store, digest="d")
        with store.begin() as tx:
            assert tx.evaluations.by_digest(evaluation.project_id, "d") == evaluation
            assert tx.evaluations.by_digest(evaluation.project_id, "e") is None
        with pytest.raises(ConflictError):
            add_evaluation(store, digest="d")
        add_evaluation(store)
        add_evaluation(store)

    def test_an_attempt_is_on_the_bill_once(self, store: Store) -> None:
        run = add_run(store)
        values: dict[str, Any] = {
            "attempt_id": f"{run.id}-1", "run_id": run.id, "project_id": run.project_id, "owner": "job",
            "spec": "small", "started_at": 5.0, "ended_at": None, "seconds": 0.0, "price_hour": 40_000, "amount": 0,
            "details": {},
        }  # fmt: skip
        with store.begin() as tx:
            tx.ledger.open(**values)
            tx.ledger.open(**{**values, "started_at": 6.0})
            assert [e.started_at for e in tx.ledger.opened()] == [5.0]
            tx.ledger.change(values["attempt_id"], ended_at=9.0, seconds=4.0, amount=44)
            assert tx.ledger.opened() == []
            assert tx.ledger.amounts([run.id, 99]) == {run.id: 44}
            assert tx.ledger.amounts([]) == {}
            assert tx.ledger.listing(run.project_id, since=5.5) == []

    def test_a_node_keeps_its_state_when_it_is_told_anew(self, store: Store) -> None:
        node = Node(
            name="n", engine="local", address="", cpus=2, memory_bytes=1, accelerators=[], declared=False, seen_at=1.0
        )
        with store.begin() as tx:
            tx.runs.put_nodes("local", [node])
            assert tx.runs.change_node("n", state=NodeState.DRAINED, reason="disk")
            assert not tx.runs.change_node("m", state=NodeState.DRAINED)
            tx.runs.put_nodes("local", [replace(node, cpus=3)])
        with store.read() as tx:
            assert tx.runs.node("n") == replace(node, cpus=3, state=NodeState.DRAINED, reason="disk")
            assert tx.runs.node("m") is None

    def test_nodes_and_specs_are_what_was_put_last(self, store: Store) -> None:
        node = Node(
            name="n", engine="local", address="", cpus=2, memory_bytes=1, accelerators=[{"index": 0}], declared=False,
            seen_at=1.0,
        )  # fmt: skip
        spec = Spec(name="s", cpus=1, memory_bytes=1, accelerators=0, accelerator_kind=None, price_hour=1)
        with store.begin() as tx:
            tx.runs.put_nodes("local", [node])
            tx.runs.put_nodes("local", [node])
            tx.runs.put_nodes("ray", [])
            tx.runs.put_spec(spec)
            tx.runs.put_spec(spec)
        with store.read() as tx:
            assert tx.runs.nodes() == [node]
            assert tx.runs.specs() == [spec]
            assert tx.runs.spec("none") is None
