"""A replica as its run starts it: reports, answers, errors, the end."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest


def code(answer: Any) -> str:
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "remedy"}
    return error["code"]


def test_it_answers_and_says_what_is_wrong(start: Any) -> None:
    replica = start().ready()
    client = replica.client
    assert client.get("/health/live").json() == {"live": True}
    assert client.get("/health/ready").json() == {"ready": True}
    assert replica.predict([1, 2]).json() == {"outputs": {"sum": [11, 12]}}

    wrong = {
        "bad_json": client.post("/predict", content=b"{"),
        "no_inputs": client.post("/predict", json={"input": 1}),
        "unknown_key": client.post("/predict", json={"inputs": [1], "parameters": {}}),
        "bad_inputs": replica.predict(["x"]),
    }
    assert {k: (v.status_code, code(v)) for k, v in wrong.items()} == {k: (422, k) for k in wrong}
    assert "ValueError" in wrong["bad_inputs"].json()["error"]["message"]
    unlucky = replica.predict([13])
    assert (unlucky.status_code, code(unlucky)) == (500, "predictor_failed")
    assert "RuntimeError: unlucky" in unlucky.json()["error"]["message"]
    assert [code(replica.predict([n])) for n in (14, 15)] == ["bad_outputs", "bad_outputs"]
    assert (client.get("/predict").status_code, client.get("/nothing").status_code) == (405, 404)
    # and none of that harmed it
    assert replica.predict([1]).status_code == 200

    replica.process.send_signal(signal.SIGTERM)
    exit_code, output = replica.end()
    assert exit_code == 0
    assert "RuntimeError: unlucky" in output  # for the run log, with its traceback
    assert "Traceback" in output


@pytest.mark.parametrize("known_length", [True, False])
def test_a_body_beyond_the_limit_is_413(start: Any, known_length: bool) -> None:
    replica = start().ready()
    piece = b" " * (1 << 20)

    def pieces() -> Any:
        for _ in range(33):
            yield piece

    headers = {"Content-Length": str(33 << 20)} if known_length else {}
    answer = replica.client.post("/predict", content=pieces(), headers=headers)
    assert (answer.status_code, code(answer)) == (413, "too_large")
    # just within it is a question of JSON alone
    whole = json.dumps({"inputs": [1]}).encode()
    answer = replica.client.post("/predict", content=whole + b" " * ((32 << 20) - len(whole)))
    assert answer.json() == {"outputs": {"sum": [11]}}


def test_only_the_gateway_is_answered(start: Any) -> None:
    replica = start(secret="s3").ready()
    assert replica.predict([1]).status_code == 200
    for headers in ({"X-Headway-Replica": "wrong"}, {"X-Headway-Replica": ""}):
        answer = replica.client.post("/predict", json={"inputs": [1]}, headers=headers)
        assert (answer.status_code, code(answer)) == (403, "not_the_gateway")
        assert "s3" not in answer.text


def test_arrays_become_lists(start: Any) -> None:
    replica = start("predictor:Arrays").ready()
    assert replica.predict(None).json() == {"outputs": {"a": [0, 1, 2], "b": 0.5, "c": 7}}


def test_sigterm_finishes_what_was_begun_and_takes_no_more(start: Any) -> None:
    replica = start("predictor.py:Slow").ready()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(replica.predict, [1])
        replica.wait_for("in")
        second = pool.submit(replica.predict, [2])
        replica.process.send_signal(signal.SIGTERM)
        replica.touch("go")
        assert first.result(20).json() == {"outputs": {"sum": [11]}}
        error = second.exception(20)
        # it was queued before the signal, or refused after it; never lost half way
        assert error is not None or second.result().status_code in (200, 503)
    exit_code, _ = replica.end()
    assert exit_code == 0


def test_requests_that_wait_are_predicted_together(start: Any) -> None:
    replica = start("predictor.py:Batched").ready()
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(replica.predict, 0)
        replica.wait_for("in")
        rest = [pool.submit(replica.predict, n) for n in range(1, 6)]
        # all five are waiting once the replica has accepted five more connections' requests
        replica.client.get("/health/ready")
        replica.touch("go")
        answers = [f.result(20).json()["outputs"] for f in [first, *rest]]
    assert [a[0] for a in answers] == [0, 1, 2, 3, 4, 5]
    assert answers[0][1] == 1
    assert all(1 <= a[1] <= 3 for a in answers)


@pytest.mark.parametrize(
    ("predictor", "says"),
    [
        ("predictor.py:Broken", "no such weights"),
        ("predictor.py:Quits", "SystemExit"),
        ("predictor.py:Plsu", "Did you mean Plus?"),
        ("nothing.py:Plus", "nothing.py"),
        ("predictor.py:Empty", "load"),
        ("predictor.py", "FILE:CLASS"),
        ("no_such_module:Plus", "no_such_module"),
    ],
)
def test_a_model_that_cannot_be_loaded_ends_it(start: Any, predictor: str, says: str) -> None:
    replica = start(predictor)
    assert replica.event()["event"] == "listening"
    exit_code, output = replica.end()
    assert exit_code == 1
    assert says in output


def test_sigterm_while_loading_ends_it(start: Any) -> None:
    replica = start("predictor.py:Endless")
    address = replica.event()["address"]
    replica.wait_for("in")
    replica.client.base_url = f"http://{address}"
    assert replica.client.get("/health/live").status_code == 200
    answer = replica.predict([1])
    assert (answer.status_code, code(answer)) == (503, "loading")
    assert replica.client.get("/health/ready").status_code == 503
    replica.process.send_signal(signal.SIGTERM)
    assert replica.end()[0] == 0


def test_a_wrong_environment_is_exit_2(start: Any) -> None:
    replica = start("")
    exit_code, output = replica.end()
    assert exit_code == 2
    assert "HEADWAY_PREDICTOR is not set" in output
