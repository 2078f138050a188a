"""What people from other SDKs write, against a real api; the controller's part is played by the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.errors import FailedError, HeadwayError, UsageError
from headway.rules.records import Run
from headway.rules.states import RunState
from headway.services.context import Services
from headway.testing.api import serve
from headway.testing.services import add_checkpoint, end_run, open_services, start_attempt, write_lines

HASH = "a" * 64


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    with opened.store.begin() as tx:
        home = tx.people.project("default")
        assert home is not None
        found = tx.products.add_dataset(project_id=home.id, name="digits", now=1.0)
        for number in (1, 2, 3):
            tx.products.add_dataset_version(
                dataset_id=found.id, version=number, digest=HASH, files=1, bytes=1, statistics={}, source="",
                created_by=1, created_at=1.0,
            )  # fmt: skip
    yield opened
    opened.store.close()


@pytest.fixture(scope="module")
def client(ctx: Services) -> Iterator[headway.Client]:
    with serve(ctx) as api:
        yield headway.Client(api.url, (Path(ctx.root).parent / "admin.token").read_text().strip())


def record(ctx: Services, number: int) -> Run:
    with ctx.store.read() as tx:
        run = tx.runs.get(number)
    assert run is not None
    return run


def test_words_of_other_sdks(ctx: Services, client: headway.Client, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    estimator = headway.Estimator(
        entry_point="train.py", source_dir=str(tmp_path), instance_type="medium", instance_count=2,
        hyperparameters={"lr": 0.1, "epochs": 3}, metric_definitions=[{"Name": "loss", "Regex": "loss=(.*)"}],
        use_spot_instances=True, max_run=3600, max_wait="2h", base_job_name="digits", environment={"A": 1},
        tags=[{"Key": "team", "Value": "vision"}], client=client,
    )  # fmt: skip
    run = record(ctx, estimator.fit({"data": "digits@3"}, wait=False).id)
    assert run.command == ["python", "train.py", "--lr", "0.1", "--epochs", "3"]
    assert (run.spec, run.nodes, run.billing.value, run.name) == ("medium", 2, "spot", "digits")
    assert (run.max_duration, run.max_wait, run.environment, run.tags) == (3600, 7200, {"A": "1"}, {"team": "vision"})
    assert [(d["dataset"], d["version"], d["channel"]) for d in run.datasets] == [("digits", 3, "data")]
    assert run.work["metric_patterns"] == [{"name": "loss", "regex": "loss=(.*)"}]
    assert run.snapshot_id is not None


def test_a_command_has_its_parameters_filled_in(ctx: Services, client: headway.Client) -> None:
    made = headway.Estimator(command="sh train --lr {lr}", parameters={"lr": 0.1}, client=client)
    assert record(ctx, made.fit("digits", wait=False).id).command == ["sh", "train", "--lr", "0.1"]
    # there the platform adds them itself
    made = headway.Estimator(entry_script="run", hyperparameters={"lr": 0.1}, compat="sagemaker", client=client)
    assert record(ctx, made.fit(wait=False).id).command == ["run"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"command": "x", "instance_cont": 2}, "unknown keyword 'instance_cont'. Did you mean instance_count?"),
        ({"command": "x", "role": "arn"}, "role has no counterpart here"),
        ({"command": "x", "instance_type": "a", "spec": "b"}, "says again"),
        ({"command": "x", "max_run": "30"}, "'30' is not a duration"),
        ({"command": "x", "priority": 11}, "priority"),
        ({"command": "x {lr}"}, "unknown parameter 'lr'"),
        ({}, "either command or entry_script"),
        ({"command": "x", "entry_script": "y"}, "either command or entry_script"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        headway.Estimator(**values)
    assert words in str(raised.value)


def test_fit_waits_shows_lines_and_says_how_it_ended(
    ctx: Services, client: headway.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    estimator = headway.Estimator(command="true", client=client)
    with pytest.raises(UsageError, match="no job yet"):
        _ = estimator.latest_job
    for state, kind in ((RunState.SUCCEEDED, None), (RunState.FAILED, FailedError)):

        def play(state: RunState = state) -> None:
            with ctx.store.read() as tx:
                number = tx.runs.listing(limit=1)[0].id
            folder = start_attempt(ctx, number)
            write_lines(folder.node().run_log, "epoch 1", "epoch 2")
            add_checkpoint(ctx, number, "a.pt", step=1)
            end_run(ctx, number, state)
            ctx.hint("states")

        failed: HeadwayError | None = None
        known = client.runs.ls(limit=1)[0].id

        def once_there(known: int = known, play: Any = play) -> None:
            while client.runs.ls(limit=1)[0].id == known:
                pass
            play()

        helper = threading.Thread(target=once_there)
        helper.start()
        try:
            estimator.fit()
        except HeadwayError as error:
            failed = error
        helper.join()
        assert isinstance(failed, kind) if kind else failed is None
        assert "epoch 1\nepoch 2\n" in capsys.readouterr().out
        assert estimator.latest_job.state == state.value
        assert [c.name for c in estimator.checkpoints()] == ["a.pt"]
        assert estimator.model_data is not None and estimator.model_data.endswith("checkpoints/a.pt")
    estimator.fit(wait=False)
    assert estimator.stop().state == "stopped"
