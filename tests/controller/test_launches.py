"""What a runner is told: made of the run, its attempt's placement, and the nodes, and of nothing else."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import Any

import pytest

from headway.controller import launches
from headway.protocol.files import AttemptFolder
from headway.protocol.launch import Launch
from headway.rules.records import Attempt, Node, Run
from headway.rules.states import AttemptState, RunState
from headway.testing.stores import attempt_values

from .conftest import House


def placed(house: House, places: list[dict[str, Any]] | None = None, **changes: Any) -> tuple[Run, Attempt]:
    places = places or [{"node": "n", "address": "10.0.0.1", "accelerators": []}]
    run = house.add_run(state=RunState.STARTING, attempts=1, nodes=len(places), **changes)
    values = {"placement": places, "cursors": [0] * len(places), "created_at": house.clock()}
    with house.ctx.store.begin() as tx:
        return run, tx.runs.add_attempt(**attempt_values(run, 1, state=AttemptState.STARTING, **values))


def built(house: House, places: list[dict[str, Any]] | None = None, **changes: Any) -> Launch:
    run, attempt = placed(house, places, **changes)
    with house.ctx.store.read() as tx:
        return launches.build(house.desk, tx, run, attempt)


TWO: list[dict[str, Any]] = [
    {"node": "a", "address": "10.0.0.1", "accelerators": [0, 1], "cpus": 8.0, "memory_bytes": 4 << 30},
    {"node": "b", "address": "10.0.0.2", "accelerators": [2], "cpus": 4.0, "memory_bytes": 2 << 30},
]


def test_built_twice_it_is_the_same(house: House) -> None:
    run, attempt = placed(house, TWO, work={"compat": "sagemaker"})
    with house.ctx.store.read() as tx:
        assert launches.build(house.desk, tx, run, attempt) == launches.build(house.desk, tx, run, attempt)


def test_each_node_has_its_own_accelerators_and_no_one_those_of_the_first(house: House) -> None:
    launch = built(house, TWO)
    assert [node["accelerators"] for node in launch.nodes] == [[0, 1], [2]]
    assert "CUDA_VISIBLE_DEVICES" not in launch.environment


def test_of_a_range_the_smallest_place_counts(house: House) -> None:
    launch = built(house, TWO, processes=2, cpus=8.0, memory_bytes=4 << 30)
    assert launch.environment["OMP_NUM_THREADS"] == "2"
    assert launch.memory_bytes == 2 << 30
    own = built(house, TWO, environment={"OMP_NUM_THREADS": "7"})
    assert own.environment["OMP_NUM_THREADS"] == "7"


def test_the_machines_notice_and_the_grace_of_a_spot_run(house: House) -> None:
    node = Node(
        name="a", engine="local", address="10.0.0.1", cpus=2.0, memory_bytes=1 << 33, accelerators=[], declared=True,
        seen_at=1.0, notice="/run/taken",
    )  # fmt: skip
    with house.ctx.store.begin() as tx:
        tx.runs.put_nodes("local", [node, replace(node, name="b", notice=None)])
    launch = built(house, TWO, spot={"grace": 9.0})
    assert [(n["notice"], n["notice_grace"]) for n in launch.nodes] == [("/run/taken", 9.0), (None, 9.0)]
    assert built(house).nodes[0]["notice_grace"] == launches.RECLAIM_GRACE


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({}, {"hang": launches.HANG_SECONDS}),
        ({"hang": 0, "nan": True}, {"nan": True}),
        ({"hang": 5.0, "idle_output": None}, {"hang": 5.0}),
    ],
)
def test_a_job_hangs_after_half_an_hour_unless_it_says_otherwise(
    house: House, given: dict[str, Any], limits: dict[str, Any]
) -> None:
    assert built(house, limits=given).limits == limits


@pytest.mark.parametrize(
    ("duration", "wait", "waited", "told"),
    [(100.0, None, 50.0, 100.0), (None, None, 50.0, None), (None, 80.0, 50.0, 30.0), (20.0, 80.0, 50.0, 20.0),
     (100.0, 80.0, 500.0, launches.MOMENT_SECONDS)],
)  # fmt: skip
def test_waiting_counts_against_max_wait(
    house: House, duration: float | None, wait: float | None, waited: float, told: float | None
) -> None:
    asked = house.clock() - waited
    assert built(house, max_duration=duration, max_wait=wait, created_at=asked).max_duration == told


def test_a_launcher_sees_nodes_and_a_job_may_say_what_it_is(house: House) -> None:
    assert built(house, command=["torchrun", "train.py"]).view == "node"
    assert built(house, command=["python", "train.py"]).view == "process"
    assert built(house, command=["python", "train.py"], work={"view": "node"}).view == "node"


def test_the_names_of_another_platform_and_what_differs_between_nodes(house: House) -> None:
    launch = built(
        house, TWO, command=["python", "train.py", "$VC_TASK_INDEX"], work={"compat": "modelarts"},
        environment={"MA_JOB_NAME": "mine"},
    )  # fmt: skip
    assert launch.environment["MA_NUM_HOSTS"] == "2"
    assert launch.environment["MA_JOB_NAME"] == "mine"
    assert launch.nodes[1]["environment"] == {"VC_TASK_INDEX": "1", "MA_NUM_GPUS": "1"}
    assert launch.command[:3] == ["python", "train.py", "0"]
    assert launch.nodes[1]["command"][:3] == ["python", "train.py", "1"]


def test_only_jobs_have_a_tracking_endpoint(house: House) -> None:
    assert built(house).tracking is not None
    evaluation = house.add_evaluation()
    worker = built(house, owner="evaluation", owner_id=evaluation.id)
    assert (worker.tracking, worker.limits) == (None, {"oom": "process"})


def test_a_gang_of_which_one_runner_cannot_be_started_is_shut_out_whole(house: House) -> None:
    launch = built(house, TWO)
    folder = AttemptFolder.of(house.ctx.root, launch.attempt)
    folder.path.mkdir(parents=True)
    house.engine.refuses = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    with pytest.raises(OSError):
        launches.start(house.desk, launch)
    assert not folder.fence.exists()  # it is tried again
    house.engine.refuses = PermissionError(errno.EACCES, "Permission denied", "/usr/bin/python3")
    with pytest.raises(PermissionError):
        launches.start(house.desk, launch)
    assert folder.fence.read_text() == "2"
