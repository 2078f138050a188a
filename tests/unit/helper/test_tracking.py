"""MLflow's own client against the endpoint of a real runner, and the endpoint's refusals."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.engines.local import LocalEngine
from headway.helper import tracking
from headway.protocol.files import read_records
from headway.testing.engines import Attempt, python

AUTOLOG = """
import mlflow
mlflow.autolog(silent=True)
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
data = load_iris()
with mlflow.start_run(run_name="fit") as run:
    LogisticRegression(max_iter=200).fit(data.data, data.target)
    for step in range(3):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_text("hello", "notes/a.txt")
client = mlflow.MlflowClient()
got = client.get_run(run.info.run_id)
assert got.info.status == "FINISHED" and got.data.params["max_iter"] == "200", got
assert got.data.metrics["training_accuracy_score"] > 0.9, got
assert mlflow.artifacts.load_text(run.info.artifact_uri + "/notes/a.txt") == "hello"
assert "notes" in [a.path for a in client.list_artifacts(run.info.run_id)]
(found,) = client.search_runs(["0"], "params.max_iter = '200' and metrics.loss < 0.5")
import time
for _ in range(200):
    history = client.get_metric_history(run.info.run_id, "loss")
    if len(history) == 3: break
    time.sleep(0.05)
assert [(m.step, m.value) for m in history] == [(0, 1.0), (1, 0.5), (2, 1 / 3)], history
mlflow.set_experiment("second")
with mlflow.start_run(run_name="again"):
    mlflow.log_metric("loss", 7, step=1)
try:
    client.create_registered_model("x")
except mlflow.exceptions.MlflowException as error:
    assert "no model registry" in str(error)
else:
    raise SystemExit("no refusal")
print("good")
"""


def test_autolog_of_the_real_client_works_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the client imports the model in a process of its own, to see what that needs
    monkeypatch.setattr("headway.testing.engines.PATIENCE", 240.0)
    output = tmp_path / "output"
    attempt = Attempt(
        LocalEngine(tmp_path),
        tmp_path,
        python(AUTOLOG),
        tracking=[sys.executable, "-I", "-m", "headway.helper.tracking"],
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OUTPUT_PATH": str(output)},
    )
    try:
        ended = attempt.start().exit()
        assert ended.code == 0, attempt.lines()
        assert "good" in attempt.lines()
    finally:
        attempt.clean()
    points = [(p["step"], p["name"], p["value"]) for p in read_records(attempt.node.metrics)[0]]
    assert [p for p in points if p[1] == "loss"] == [(0, "loss", 1.0), (1, "loss", 0.5), (2, "loss", 1 / 3)]
    assert (1, "again/loss", 7.0) in points, "of a second MLflow run, by its name"
    assert any(p[1] == "training_accuracy_score" for p in points)
    runs = [json.loads(path.read_text()) for path in output.glob("mlflow/*/run.json")]
    assert sorted(run["info"]["run_name"] for run in runs) == ["again", "fit"]
    assert any(path.name == "MLmodel" for path in output.rglob("*")), "the model that autolog saved"


Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """ask(method, path, body, token=...) gives status and answer."""
    os.mkfifo(tmp_path / "c.points")
    listening = socket.create_server(("127.0.0.1", 0))
    server, _ = tracking.serve(listening, "secret", tmp_path / "mlflow", tmp_path / "1-1", str(tmp_path / "c"))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def one(method: str, path: str, body: Any = None, token: str = "secret") -> tuple[int, Any]:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api/2.0/{path}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    yield one
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "mlflow/runs/create", b"{", 400, "INVALID_PARAMETER_VALUE"),
        ("POST", "mlflow/runs/create", b"[]", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", "mlflow/runs/get?run_id=no", None, 404, "RESOURCE_DOES_NOT_EXIST"),
        ("POST", "mlflow/runs/create", {"experiment_id": "7"}, 404, "RESOURCE_DOES_NOT_EXIST"),
        ("POST", "mlflow/runs/log-metric", {"key": "a"}, 400, "INVALID_PARAMETER_VALUE"),
        ("GET", "mlflow/what/is/this", None, 404, "ENDPOINT_NOT_FOUND"),
        ("POST", "mlflow/registered-models/create", {"name": "x"}, 400, "FEATURE_DISABLED"),
        ("PUT", "mlflow-artifacts/artifacts/0/../../x", b"x", 400, "INVALID_PARAMETER_VALUE"),
        ("PUT", "mlflow-artifacts/artifacts/%2Fetc/x", b"x", 400, "INVALID_PARAMETER_VALUE"),
        ("GET", "mlflow-artifacts/artifacts/no", None, 404, "RESOURCE_DOES_NOT_EXIST"),
        ("POST", "mlflow/runs/search", {"filter": "a b c"}, 400, "INVALID_PARAMETER_VALUE"),
    ],
)
def test_refusals_are_mlflows_own(ask: Ask, method: str, path: str, body: Any, status: int, code: str) -> None:
    got, answer = ask(method, path, body)
    assert (got, answer["error_code"]) == (status, code)


def test_nobody_else_gets_in(ask: Ask) -> None:
    assert ask("GET", "mlflow/experiments/get?experiment_id=0", token="guess")[0] == 401
    assert ask("GET", "mlflow/experiments/get?experiment_id=0")[1]["experiment"]["name"] == "Default"


def test_a_parameter_stays_what_it_was(ask: Ask) -> None:
    run = ask("POST", "mlflow/runs/create", {})[1]["run"]["info"]["run_id"]
    assert ask("POST", "mlflow/runs/log-parameter", {"run_id": run, "key": "lr", "value": "1"})[0] == 200
    assert ask("POST", "mlflow/runs/log-parameter", {"run_id": run, "key": "lr", "value": "1"})[0] == 200
    status, answer = ask("POST", "mlflow/runs/log-parameter", {"run_id": run, "key": "lr", "value": "2"})
    assert status == 400 and "'1' already" in answer["message"]


def test_values_that_json_does_not_know(ask: Ask) -> None:
    run = ask("POST", "mlflow/runs/create", {})[1]["run"]["info"]["run_id"]
    for step, value in enumerate(("NaN", "Infinity", "-Infinity")):
        body = {"run_id": run, "key": f"m{step}", "value": value, "step": step}
        assert ask("POST", "mlflow/runs/log-metric", body)[0] == 200
    metrics = ask("GET", f"mlflow/runs/get?run_id={run}")[1]["run"]["data"]["metrics"]
    assert [m["value"] for m in metrics] == ["NaN", "Infinity", "-Infinity"]
