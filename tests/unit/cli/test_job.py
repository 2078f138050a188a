"""`headway job` against a real api: flags, files, dry runs, clones, changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.errors import HeadwayError, UsageError
from headway.protocol.causes import Cause
from headway.rules.records import Node
from headway.rules.states import AttemptState, RunState
from headway.services.context import Services
from headway.testing.services import open_services, start_attempt

GIB = 1 << 30
Headway = Callable[..., str]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    nodes = [
        Node(
            name=f"n{n}", engine="local", address="", cpus=8, memory_bytes=32 * GIB,
            accelerators=[{"index": i, "kind": "A10", "memory_bytes": 1, "uuid": ""} for i in range(2)],
            declared=True, seen_at=1.0,
        )
        for n in (1, 2)
    ]  # fmt: skip
    with opened.store.begin() as tx:
        tx.runs.put_nodes("local", nodes)
    yield opened
    opened.store.close()


@pytest.fixture
def headway(address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Headway:
    monkeypatch.setenv("HEADWAY_URL", address[0])
    monkeypatch.setenv("HEADWAY_TOKEN", address[1])

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    return call


def submitted(headway: Headway, *flags: str, command: tuple[str, ...] = ("true",)) -> dict[str, Any]:
    found = json.loads(headway("job", "submit", "--json", *flags, "--", *command))
    assert isinstance(found, dict)
    return found


def test_every_flag_reaches_the_record(headway: Headway, ctx: Services) -> None:
    flags = (
        "--name big --spec gpu --nodes 1..2 --processes 2 --cpus 2..4 --memory 4GiB..8GiB --gpus 1..2 --gpu-kind A10 "
        "--env A=1 --param lr=0.3 --spot --max-price 2.5 --protection 30m --max-duration 2h --max-wait 1d --grace 0s "
        "--idle-output 30m --hang 20m --no-progress loss:1h --fail-on-nan --disk 20GiB --retries 5 "
        "--retry node_lost=elsewhere:7 --retry exit=again --checkpoint step-* --keep-last 2 --keep-best 3:accuracy "
        "--keep-every 100 --metric loss=loss=(.*) --priority 7 --tag team=vision --compat pai --view process --held"
    )
    view = submitted(headway, *flags.split())
    with ctx.store.read() as tx:
        run = tx.runs.get(view["id"])
    assert run is not None
    assert (run.nodes, run.processes, run.cpus, run.memory_bytes, run.accelerators) == (2, 2, 4, 8 * GIB, 2)
    assert run.least == {"nodes": 1, "cpus": 2, "memory_bytes": 4 * GIB, "accelerators": 1}
    assert (run.accelerator_kind, run.billing.value, run.priority, run.grace) == ("A10", "spot", 7, 0)
    assert run.spot == {
        "bid": "cap", "max_price": 2_500_000, "max_discount": None, "protection": 1800, "grace": 120
    }  # fmt: skip
    assert (run.max_duration, run.max_wait, run.retries) == (7200, 86400, 5)
    assert run.limits == {
        "idle_output": 1800, "hang": 1200, "nan": True, "disk_bytes": 20 * GIB,
        "no_progress": {"metric": "loss", "seconds": 3600, "mode": "min"},
    }  # fmt: skip
    assert run.retry_rules == {
        "node_lost": {"action": "elsewhere", "times": 7}, "exit": {"action": "again", "times": 3}
    }  # fmt: skip
    assert run.work == {
        "checkpoints": ["step-*"], "metric_patterns": [{"name": "loss", "regex": "loss=(.*)"}], "compat": "pai",
        "view": "process",
        "retention": {"keep_last": 2, "keep_best": {"n": 3, "metric": "accuracy", "mode": "max"}, "keep_every": 100},
    }  # fmt: skip
    assert (run.environment, run.parameters, run.tags) == ({"A": "1"}, {"lr": 0.3}, {"team": "vision"})
    shown = headway("job", "show", str(view["id"]))
    for words in ("1..2 x gpu", "2..4 CPUs", "spot, at most 2.5 an hour", "best 3 by accuracy", "team=vision"):
        assert words in shown


def test_a_file_is_the_same_form_and_flags_go_over_it(headway: Headway, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: from-file\ncommand: python train.py --epochs {epochs}\ncode: .\nparameters: {epochs: 3}\n"
        "nodes: 1..2\nmax_duration: 2h\nlimits: {idle_output: 30m}\nretention: {keep_best: 2:loss:min}\n"
        "tags: {a: 1}\nmetrics:\n- {Name: loss, Regex: 'loss=(.*)'}\n"
    )
    view = json.loads(headway("job", "submit", "--file", str(file), "--max-duration", "3h", "--json", "--held"))
    assert view["command"] == ["python", "train.py", "--epochs", "3"]
    assert (view["name"], view["max_duration"], view["nodes"], view["least"]) == ("from-file", 10800, 2, {"nodes": 1})
    assert view["snapshot"] and view["tags"] == {"a": "1"}
    assert view["retention"] == {"keep_best": {"n": 2, "metric": "loss", "mode": "min"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("comand: x", "job.yaml: unknown key 'comand'. Did you mean command?"),
        ("command: x\nlimits: {idle_outpt: 3m}", "job.yaml: limits: unknown key 'idle_outpt'. Did you mean idle_out"),
        ("command: x\nmax_wait: 30", "job.yaml: max_wait: 30 is not a duration."),
        ("command: x\nnodes: 4..1", "job.yaml: nodes: '4..1' is not a range."),
        ("command: x\nmemory: 4 lots", "job.yaml: memory: '4 lots' is not a size."),
        ("command: x\ncompat: sagemakr", "job.yaml: compat: unknown value 'sagemakr'. Did you mean sagemaker?"),
        ("command: x {lr}", "job.yaml: command: unknown parameter 'lr'."),
        ("[1]", "holds no job"),
        ("a: [", "is no YAML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_sentence(headway: Headway, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=re.escape(words)):
        headway("job", "submit", "--file", str(file))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--idle-output 30", "--idle-output: '30' is not a duration."),
        ("--keep-best accuracy", "--keep-best is 'accuracy'. It should be N:METRIC"),
        ("--retry node_lst=again", "unknown cause 'node_lst'. Did you mean node_lost?"),
        ("--retry node_lost=agin", "--retry.node_lost: unknown value 'agin'. Did you mean again?"),
        ("--max-price 2", "spot is given, but billing is on_demand."),
        ("--spot --max-price -1", "spot.max_price"),
        ("--nodes 3", "asked 3 nodes; there are 2"),
        ("--spec smal", "unknown spec 'smal'. Did you mean small?"),
        ("--max-duration 2h --max-wait 1h", "max_wait is 1h, less than max_duration (2h)"),
        ("--after 99999", "after: project default has no job 99999."),
    ],
)
def test_a_wrong_flag_is_one_sentence(headway: Headway, flags: str, words: str) -> None:
    with pytest.raises(HeadwayError, match=re.escape(words)):
        headway("job", "submit", *flags.split(), "--", "true")


def test_a_dry_run_says_all_and_keeps_nothing(headway: Headway, ctx: Services) -> None:
    before = headway("job", "ls", "--json", "-n", "1000")
    words = (
        "job",
        "submit",
        "--dry-run",
        "--spec",
        "gpu",
        "--nodes",
        "2",
        "--param",
        "lr=0.1",
        "--compat",
        "sagemaker",
    )
    view = json.loads(headway(*words, "--json", "--", "torchrun", "-m", "train"))
    assert (view["would"], view["nodes"], view["view"]) == ("starts", ["n1", "n2"], "node")
    assert view["sentence"] == "It would start now on n1, n2."
    assert view["request"]["cpus"] > 0 and view["request"]["priority"] == 5
    assert view["environment"]["LR"] == "0.1" and view["environment"]["SM_HP_LR"] == "0.1"
    assert view["environment"]["OUTPUT_PATH"].endswith("/jobs/{run}/output")
    assert view["command"] == ["torchrun", "-m", "train", "--lr", "0.1"]
    text = headway(*words, "--", "torchrun", "-m", "train")
    assert "It would start now" in text and "LR=0.1" in text
    assert headway("job", "ls", "--json", "-n", "1000") == before


def test_a_dry_run_of_a_template(headway: Headway) -> None:
    words = ("job", "submit", "--template", "single", "--param", "epochs=7", "--priority", "8", "--dry-run", "--json")
    view = json.loads(headway(*words))
    assert (view["request"]["template"], view["request"]["priority"]) == ("single@0", 8)
    assert "7" in view["command"] and view["environment"]["EPOCHS"] == "7"


def test_a_clone_is_the_same_job_but_for_its_changes(headway: Headway) -> None:
    first = submitted(
        headway, "--param", "lr=0.3", "--spec", "medium", "--tag", "a=1", "--held", "--max-duration", "10m",
        command=("sh", "train", "--lr", "0.3", "lr=0.3"),
    )  # fmt: skip
    again = json.loads(headway("job", "clone", str(first["id"]), "--param", "lr=0.1", "--tag", "b=2", "--json"))
    assert again["id"] != first["id"]
    assert again["command"] == ["sh", "train", "--lr", "0.1", "lr=0.1"]
    assert (again["parameters"], again["tags"]) == ({"lr": 0.1}, {"a": "1", "b": "2"})
    for key in ("spec", "cpus", "memory_bytes", "max_duration", "limits", "priority", "checkpoint_patterns"):
        assert again[key] == first[key]
    other = json.loads(headway("job", "clone", str(first["id"]), "--spec", "small", "--dry-run", "--json"))
    assert other["request"]["cpus"] < again["cpus"]


def test_changes_pause_and_resume(headway: Headway, ctx: Services) -> None:
    view = submitted(headway, "--max-duration", "1h", "--idle-output", "5m")
    number = str(view["id"])
    words = headway("job", "change", number, "--priority", "7", "--max-duration", "3h", "--idle-output", "none")
    assert "changed: limits, max_duration, priority" in words
    with ctx.store.read() as tx:
        run = tx.runs.get(view["id"])
    assert run is not None
    assert (run.priority, run.max_duration, run.limits) == (7, 10800, {"hang": 1800})
    assert "is held" in headway("job", "pause", number)
    assert "is queued" in headway("job", "resume", number)
    start_attempt(ctx, view["id"])
    assert "asked to pause" in headway("job", "pause", number)
    with pytest.raises(UsageError, match="Nothing is to be changed"):
        headway("job", "change", number)


def test_a_failed_job_says_why_and_what_to_do(headway: Headway, ctx: Services) -> None:
    view = submitted(headway, "--spec", "medium")
    start_attempt(ctx, view["id"])
    with ctx.store.begin() as tx:
        tx.runs.change(
            view["id"], state=RunState.FAILED, cause=Cause.HANG, reason="No output for 30 min.", ended_at=2.0
        )
        tx.runs.change_attempt(
            f"{view['id']}-1", state=AttemptState.ENDED, cause=Cause.HANG, ended_at=2.0,
            placement=[{"node": "n1", "address": "", "accelerators": []}],
        )  # fmt: skip
    shown = headway("job", "show", str(view["id"]))
    assert f"headway logs {view['id']} --kind diag" in shown
    assert re.search(rf"{view['id']}-1 +ended +n1 .* hang +It neither printed", shown)
    assert f"headway job retry {view['id']}" in shown
    assert "hang" in headway("job", "attempts", str(view["id"]))


def test_a_loss_that_is_nan_is_shown(headway: Headway, ctx: Services) -> None:
    view = submitted(headway)
    folder = start_attempt(ctx, view["id"])
    point = {"step": 1, "name": "loss", "value": float("nan"), "rank": 0, "t": 1.0}
    folder.node().metrics.write_text(json.dumps(point) + "\n")
    assert "loss=nan" in headway("job", "show", str(view["id"]))
    assert "loss=nan" in headway("job", "ls")


def test_listings_are_filtered(headway: Headway) -> None:
    one = submitted(headway, "--name", "resnet-a", "--tag", "exp=1", "--held")["id"]
    two = submitted(headway, "--name", "RESNET-b", "--tag", "exp=2")["id"]

    def listed(*flags: str) -> list[int]:
        return [j["id"] for j in json.loads(headway("job", "ls", "--json", *flags))]

    assert listed("--name", "resnet") == [two, one]
    assert listed("--tag", "exp=1") == [one]
    assert listed("--tag", "exp") == [two, one]
    assert listed("--tag", "exp", "--state", "held") == [one]
    assert listed("--tag", "exp=3") == []


def test_gaps_of_a_command_are_filled_once_file_and_flags_are_known() -> None:
    from headway.rules import jobform
    from headway.rules.jobs import merged

    file = jobform.fields({"command": "python t.py --epochs {epochs}", "parameters": {"epochs": 25}}, str)
    flags = jobform.fields({"parameters": {"epochs": 6}}, str)
    assert jobform.filled(merged(file, flags))["command"] == ["python", "t.py", "--epochs", "6"]
    words = {"command": ["python", "-c", "print({1: 2})", "{lr}"], "parameters": {"lr": 0.1}}
    assert jobform.filled(words)["command"] == ["python", "-c", "print({1: 2})", "0.1"]


def test_a_flag_of_none_at_all_is_read_and_not_left_out() -> None:
    from headway.cli import options
    from headway.errors import UsageError

    for given in ({"processes": 0}, {"keep_last": 0}, {"spot": True, "billing": "on_demand"}):
        with pytest.raises(UsageError):
            options.form(given)
