"""Jobs: what is refused at the door, and what can be done with them afterwards."""

from __future__ import annotations

import hashlib
import io
import sqlite3
import tarfile
import threading
from typing import Any

import pytest
from pydantic import ValidationError

from headway.errors import ForbiddenError, HeadwayError, NotFoundError, RefusedError, UsageError
from headway.protocol.exits import Cause
from headway.rules.access import Caller
from headway.rules.records import Node, Run
from headway.rules.scheduling import shape_of
from headway.rules.states import RunState
from headway.services import jobs, previews, runs, snapshots
from headway.services.context import Services
from headway.testing.services import Clock, end_run, start_attempt
from headway.wire.runs import ChangeRequest, CloneRequest, JobRequest, RunView, StopRequest

GIB = 1 << 30


def submit(ctx: Services, who: Caller, **values: Any) -> RunView:
    return jobs.submit(ctx, who, "default", JobRequest.model_validate({"command": ["true"], **values}))


def record(ctx: Services, number: int) -> Run:
    with ctx.store.read() as tx:
        run = tx.runs.get(number)
    assert run is not None
    return run


def put_nodes(ctx: Services, count: int = 2, gpus: int = 2) -> None:
    devices = [{"index": n, "kind": "A10", "memory_bytes": 1, "uuid": ""} for n in range(gpus)]
    nodes = [
        Node(name=f"n{n + 1}", engine="local", address="", cpus=8, memory_bytes=32 * GIB, accelerators=devices,
             declared=True, seen_at=1.0)
        for n in range(count)
    ]  # fmt: skip
    with ctx.store.begin() as tx:
        tx.runs.put_nodes("local", nodes)


def push(ctx: Services, who: Caller, *names: str) -> str:
    """Digest of a snapshot with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 1
            tar.addfile(entry, io.BytesIO(b"\n"))
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    buffer.seek(0)
    snapshots.put(ctx, who, "default", digest, buffer, commit=None, dirty=False)
    return digest


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nodes": 3}, "asked 3 nodes; there are 2."),
        ({"nodes": 4, "least": {"nodes": 3}}, "asked 3 nodes"),
        ({"accelerators": 4}, "asked 4 GPUs; the largest node has 2"),
        ({"accelerators": 1, "accelerator_kind": "H200"}, "asked 1 H200 GPUs"),
        ({"least": {"cpus": 9}, "cpus": 4}, "least.cpus is 9, more than cpus (4)"),
        ({"spec": "smal"}, "Did you mean small?"),
        ({"max_duration": 7200, "max_wait": 3600}, "less than max_duration"),
        ({"billing": "spot", "spot": {"bid": "cap"}}, "there is no cap"),
        ({"spot": {"max_price": 2}}, "spot is given, but billing is on_demand"),
        ({"checkpoints": ["*"]}, "matches everything"),
        ({"checkpoints": ["../data/*.pt"]}, "leads out of CHECKPOINT_PATH"),
        ({"retry_rules": {"node_lst": {"action": "again"}}}, "Did you mean node_lost?"),
        ({"after": [99]}, "has no job 99"),
        ({"tags": {"": "x"}}, "is no key"),
        ({"limits": {"idle_output": 7200}, "max_duration": 3600}, "the run ends after 1h anyway"),
        ({"command": ["python", "train.py"]}, "takes no code along"),
        ({"metric_patterns": [{"Name": "a", "Regex": "(a+)+b"}]}, "metric_patterns"),
        ({"datasets": ["Train Set=digits@1"]}, "no name of a channel"),
    ],
)
def test_what_cannot_be_is_said_at_once_and_nothing_is_kept(
    ctx: Services, member: Caller, values: dict[str, Any], words: str
) -> None:
    put_nodes(ctx)
    with pytest.raises(HeadwayError) as raised:
        submit(ctx, member, **values)
    assert words in str(raised.value)
    assert raised.value.remedy
    assert runs.listing(ctx, member, "default") == []


@pytest.mark.parametrize(
    "values",
    [
        {"billing": "spot", "spot": {"max_price": -1}},
        {"billing": "spot", "spot": {"max_discount": 1.5}},
        {"priority": 10},
        {"nodes": 0},
        {"processes": 0},
        {"max_duration": 0},
        {"limits": {"idle_outpt": 3}},
        {"retention": {"keep_best": {"n": 0, "metric": "a"}}},
        {"compat": "aws"},
        {"command": []},
    ],
)
def test_values_out_of_range_are_no_request(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        JobRequest.model_validate({"command": ["true"], **values})


def test_the_script_must_be_in_the_code(ctx: Services, member: Caller) -> None:
    code = push(ctx, member, "train.py", "src/net.py")
    assert submit(ctx, member, command=["python", "train.py"], snapshot=code).snapshot == code
    for entry, words in (("trian.py", "Did you mean train.py?"), ("net.py", "Did you mean src/net.py?")):
        with pytest.raises(UsageError) as raised:
            submit(ctx, member, command=["python", entry], snapshot=code)
        assert words in str(raised.value)


def test_a_project_that_may_never_use_so_much(ctx: Services, member: Caller) -> None:
    with ctx.store.begin() as tx:
        home = tx.people.project("default")
        assert home is not None
        tx.people.change_project(home.id, limits={"accelerators": 4})
    with pytest.raises(RefusedError, match="It asks for 8 accelerators; project default may use 4"):
        submit(ctx, member, nodes=4, accelerators=2)
    submit(ctx, member, nodes=2, accelerators=2)


def test_all_fields_reach_the_record_and_come_back(ctx: Services, member: Caller) -> None:
    view = submit(
        ctx, member, nodes=2, least={"nodes": 1, "cpus": 1}, cpus=2, billing="spot", spot={"max_price": 1.5},
        max_wait=7200, max_duration=3600, limits={"nan": True}, retry_rules={"exit": {"action": "again", "times": 2}},
        tags={"a": "b"}, retention={"keep_last": 2}, compat="pai", template="ddp@0", name="all",
    )  # fmt: skip
    run = record(ctx, view.id)
    assert run.spot == {"bid": "cap", "max_price": 1_500_000, "max_discount": None, "protection": 3600, "grace": 120}
    assert (run.nodes, run.least, run.max_wait, run.blocked, run.shape) == (
        2, {"nodes": 1, "cpus": 1}, 7200, False, shape_of(run)
    )  # fmt: skip
    assert view.spot["max_price"] == 1.5
    with ctx.store.read() as tx:
        again = jobs.submissions.request_of(tx, run)
    other = jobs.submit(ctx, member, "default", again)
    names = set(RunView.model_fields) - {"id", "output_path"}
    assert other.model_dump(include=names) == view.model_dump(include=names)


def test_jobs_that_come_after_others(ctx: Services, member: Caller, clock: Clock) -> None:
    first = submit(ctx, member)
    second = submit(ctx, member, after=[first.id, first.id])
    assert (second.after, second.blocked) == ([first.id], True)
    assert runs.get(ctx, member, second.id).waits == f"waits for job {first.id} (queued) to succeed"
    end_run(ctx, first.id)
    assert submit(ctx, member, after=[first.id]).blocked is False
    failed = submit(ctx, member)
    end_run(ctx, failed.id, RunState.FAILED)
    with pytest.raises(RefusedError, match=f"job {failed.id} failed"):
        submit(ctx, member, after=[failed.id])
    third = submit(ctx, member, after=[second.id])
    with pytest.raises(UsageError, match="after itself"):
        runs.change(ctx, member, third.id, ChangeRequest(after=[third.id]))
    with pytest.raises(RefusedError, match=f"Job {third.id} waits for job {second.id} already"):
        runs.change(ctx, member, second.id, ChangeRequest(after=[third.id]))
    assert runs.change(ctx, member, third.id, ChangeRequest(after=[])).blocked is False


def test_those_behind_the_first_say_behind_whom(ctx: Services, member: Caller) -> None:
    first, second, other = submit(ctx, member), submit(ctx, member), submit(ctx, member, priority=9)
    with ctx.store.begin() as tx:
        tx.runs.change(first.id, reason="waits for 1 GPU")
    found = {v.id: v.waits for v in runs.listing(ctx, member, "default")}
    assert found == {first.id: "waits for 1 GPU", second.id: f"waits behind job {first.id}", other.id: ""}
    with ctx.store.begin() as tx:
        tx.runs.change(second.id, position=1.0)
    assert runs.get(ctx, member, second.id).waits == ""


def test_pause_and_resume(ctx: Services, member: Caller, viewer: Caller, clock: Clock) -> None:
    view = submit(ctx, member)
    assert runs.pause(ctx, member, view.id).state == "held"
    assert runs.pause(ctx, member, view.id).state == "held"
    clock.now += 5
    assert runs.release(ctx, member, view.id).state == "queued"
    assert record(ctx, view.id).queued_at == clock.now
    start_attempt(ctx, view.id)
    assert runs.pause(ctx, member, view.id).pause_at is not None
    first = record(ctx, view.id).pause_at
    clock.now += 5
    runs.pause(ctx, member, view.id)
    assert record(ctx, view.id).pause_at == first
    with pytest.raises(RefusedError, match="still leaving"):
        runs.release(ctx, member, view.id)
    with ctx.store.begin() as tx:
        tx.runs.change(view.id, state=RunState.HELD)
    assert runs.release(ctx, member, view.id).pause_at is None
    with pytest.raises(ForbiddenError):
        runs.pause(ctx, viewer, view.id)
    start_attempt(ctx, view.id)
    runs.stop(ctx, member, view.id, StopRequest())
    with pytest.raises(RefusedError, match="asked to stop"):
        runs.pause(ctx, member, view.id)
    end_run(ctx, view.id)
    with pytest.raises(RefusedError, match="succeeded and cannot be paused"):
        runs.pause(ctx, member, view.id)


def test_changes_while_queued_running_and_ended(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member, max_duration=3600, limits={"idle_output": 600})
    before = record(ctx, view.id).shape
    request = ChangeRequest.model_validate(
        {"priority": 7, "max_duration": 7200, "grace": 5, "limits": {"idle_output": None, "nan": True}}
    )
    runs.change(ctx, member, view.id, request)
    run = record(ctx, view.id)
    assert (run.priority, run.max_duration, run.grace, run.limits) == (7, 7200, 5, {"hang": 1800, "nan": True})
    assert run.shape == shape_of(run) != before
    start_attempt(ctx, view.id)
    assert runs.change(ctx, member, view.id, ChangeRequest(max_duration=None)).max_duration is None
    with pytest.raises(RefusedError, match="only one that waits"):
        runs.change(ctx, member, view.id, ChangeRequest(after=[]))
    with pytest.raises(UsageError, match="less than max_duration"):
        runs.change(ctx, member, view.id, ChangeRequest(max_duration=7200, max_wait=3600))
    end_run(ctx, view.id)
    assert runs.change(ctx, member, view.id, ChangeRequest(name="kept", tags={"a": "b"})).tags == {"a": "b"}
    with pytest.raises(RefusedError, match="its priority can no longer change"):
        runs.change(ctx, member, view.id, ChangeRequest(priority=1, name="x"))
    with pytest.raises(UsageError, match="Nothing"):
        runs.change(ctx, member, view.id, ChangeRequest())


def test_clones(ctx: Services, member: Caller) -> None:
    first = submit(
        ctx, member, command=["t", "--lr", "0.3"], parameters={"lr": 0.3, "n": 1}, spec="medium", nodes=4,
        least={"nodes": 2}, billing="spot", spot={"max_price": 2}, tags={"a": "1"}, limits={"nan": True},
    )  # fmt: skip

    def cloned(**job: Any) -> RunView:
        return jobs.clone(ctx, member, first.id, CloneRequest(job=job))

    same = cloned()
    names = set(RunView.model_fields) - {"id", "output_path", "waits", "reason"}
    assert same.model_dump(include=names) == first.model_dump(include=names)
    other = cloned(parameters={"lr": 0.1}, limits={"idle_output": 60})
    assert (other.command, other.parameters) == (["t", "--lr", "0.1"], {"lr": 0.1, "n": 1})
    assert other.limits == {"nan": True, "idle_output": 60, "hang": 1800}
    assert (cloned(nodes=3).nodes, cloned(nodes=3).least) == (3, {})
    assert cloned(spec="small").cpus < first.cpus
    assert (cloned(billing="on_demand").spot, cloned(billing="on_demand").billing) == ({}, "on_demand")
    for job, words in (
        ({"priorty": 3}, "Did you mean priority?"),
        ({"limits": {"idle_outpt": 3}}, "Did you mean limits.idle_output?"),
        ({"priority": 12}, "priority"),
        ({"nodes": 1, "command": ["python", "x.py"]}, "takes no code along"),
    ):
        with pytest.raises(UsageError) as raised:
            cloned(**job)
        assert words in str(raised.value)
    once = CloneRequest(key="k")
    assert jobs.clone(ctx, member, first.id, once).id == jobs.clone(ctx, member, first.id, once).id


def test_a_hurried_stop_is_forgotten_by_a_retry(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member, grace=60)
    start_attempt(ctx, view.id)
    runs.stop(ctx, member, view.id, StopRequest(grace=1))
    runs.stop(ctx, member, view.id, StopRequest(grace=0))
    assert record(ctx, view.id).grace == 0
    end_run(ctx, view.id, RunState.STOPPED)
    with ctx.store.begin() as tx:
        tx.runs.change(view.id, avoid=["n1"])
    assert runs.retry(ctx, member, view.id).grace == 60
    run = record(ctx, view.id)
    assert (run.avoid, run.shape, "grace" in run.work) == ([], shape_of(run), False)


def test_attempts_say_how_they_ended(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member)
    start_attempt(ctx, view.id)
    with ctx.store.begin() as tx:
        tx.runs.change_attempt(f"{view.id}-1", cause=Cause.OOM_KILL, message="", ended_at=5.0)
    (attempt,) = runs.attempts(ctx, member, view.id)
    assert (attempt.cause, attempt.message) == ("oom_kill", "It used more memory than its spec has.")
    assert "smaller batch" in attempt.remedy
    with ctx.store.begin() as tx:
        tx.runs.change(view.id, cause=Cause.EXIT, state=RunState.FAILED)
    assert f"headway logs {view.id}" in runs.get(ctx, member, view.id).remedy


def test_dry_runs(ctx: Services, member: Caller, viewer: Caller) -> None:
    def preview(**values: Any) -> Any:
        return previews.submit(ctx, member, "default", JobRequest.model_validate({"command": ["true"], **values}))

    assert preview().sentence == "It would wait: no node is known yet."
    put_nodes(ctx)
    found = preview(nodes=2, accelerators=2, parameters={"lr": 0.1}, environment={"A": "1"})
    assert (found.would, found.nodes, found.sentence) == ("starts", ["n1", "n2"], "It would start now on n1, n2.")
    assert (found.environment["LR"], found.environment["A"]) == ("0.1", "1")
    assert found.environment["CHECKPOINT_PATH"].endswith("/attempts/{attempt}/checkpoints")
    assert found.request["cpus"] == 1.0 and found.request["limits"] == {
        "idle_output": None, "hang": 1800, "no_progress": None, "nan": None, "disk_bytes": None
    }  # fmt: skip
    assert found.price_hour == pytest.approx(0.08)
    assert preview(held=True).would == "held"
    capped = preview(billing="spot", spot={"max_price": 0.001})
    assert (capped.would, "spot price" in capped.sentence) == ("waits", True)
    busy = submit(ctx, member, accelerators=2, nodes=2)
    start_attempt(
        ctx, busy.id,
        placement=[
            {"node": n, "address": "", "accelerators": [0, 1], "cpus": 1.0, "memory_bytes": GIB} for n in ("n1", "n2")
        ],
    )  # fmt: skip
    waits = preview(accelerators=1)
    assert waits.would == "waits"
    assert waits.sentence.startswith("It would wait for 1 ") and f"job {busy.id}" in waits.sentence
    after = preview(after=[busy.id])
    assert (after.would, after.sentence) == ("blocked", f"It would wait for job {busy.id} (running) to succeed.")
    clone = previews.clone(ctx, member, busy.id, CloneRequest(job={"priority": 9}))
    assert clone.request["priority"] == 9
    with pytest.raises(ForbiddenError):
        previews.submit(ctx, viewer, "default", JobRequest(command=["true"]))
    with pytest.raises(NotFoundError):
        preview(datasets=["none"])
    assert len(runs.listing(ctx, member, "default")) == 1


def test_many_at_once_are_all_there(ctx: Services, member: Caller) -> None:
    """32 threads; each submits some of its own and some under keys that all of them use."""
    gate, found, lock = threading.Barrier(32), list[tuple[str, int]](), threading.Lock()

    def body(number: int) -> None:
        gate.wait()
        for n in range(8):
            for key in (f"own-{number}-{n}", f"common-{n}"):
                made = submit(ctx, member, key=key).id
                with lock:
                    found.append((key, made))

    threads = [threading.Thread(target=body, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 32 * 16
    assert len(set(found)) == len({key for key, _ in found}) == len({i for _, i in found}) == 32 * 8 + 8
    with ctx.store.read() as tx:
        assert len(tx.runs.listing(limit=1000)) == 32 * 8 + 8


def test_submits_wait_for_another_process_that_writes(ctx: Services, member: Caller) -> None:
    url = ctx.store.engine.url.database
    assert url is not None
    other = sqlite3.connect(url, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    made, started = list[int](), threading.Barrier(9)

    def body() -> None:
        started.wait()
        made.append(submit(ctx, member).id)

    threads = [threading.Thread(target=body) for _ in range(8)]
    for thread in threads:
        thread.start()
    started.wait()
    threads[0].join(0.3)
    assert made == []
    other.execute("COMMIT")
    other.close()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8
