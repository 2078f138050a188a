"""/e/<endpoint>: tokens, choice of replica, what reaches it, what does not."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from headway.protocol import hints


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_request_reaches_the_replica_and_its_answer_comes_back(town: Any) -> None:
    _, address = town.replica("r1")
    town.api_app.add("digits", address)
    answer = town.ask("/e/digits/predict?a=1%202", json={"inputs": [1]})
    assert answer.status_code == 200
    said = answer.json()
    assert (said["by"], said["method"], said["path"], said["query"]) == ("r1", "POST", "/predict", "a=1%202")
    assert said["bytes"] == len(b'{"inputs":[1]}')
    assert town.ask("/e/digits", method="GET").json()["path"] == "/"
    assert town.ask("/e/digits/a%20b/", method="GET").json()["path"] == "/a%20b/"


@pytest.mark.parametrize(
    ("token", "wanted"),
    [
        (None, "token_missing"),
        ("nonsense", "token_wrong"),
        ("old", "token_expired"),
        ("gone", "token_revoked"),
    ],
)
def test_each_bad_token_has_its_own_code(town: Any, token: str | None, wanted: str) -> None:
    replica, address = town.replica("r1")
    tokens = {"right": {}, "old": {"expires_at": time.time() - 1}, "gone": {"revoked": True}}
    town.api_app.add("digits", address, tokens=tokens)
    town.api_app.add("other", address, tokens={"theirs": {}})
    answer = town.ask("/e/digits/predict", token)
    assert (answer.status_code, town.code(answer)) == (401, wanted)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert replica.seen == []
    assert town.code(town.ask("/e/digits/predict", "theirs")) == "token_wrong"
    assert town.ask("/e/digits/predict", "right").status_code == 200


def test_a_token_that_is_still_good_passes_until_it_expires(town: Any) -> None:
    _, address = town.replica("r1")
    town.api_app.add("digits", address, tokens={"soon": {"expires_at": time.time() + 3600}})
    assert town.ask("/e/digits/predict", "soon").status_code == 200


def test_an_unknown_endpoint_names_the_nearest(town: Any) -> None:
    _, address = town.replica("r1")
    town.api_app.add("digits", address)
    answer = town.ask("/e/digit/predict")
    assert (answer.status_code, town.code(answer)) == (404, "unknown_endpoint")
    assert "digits" in answer.json()["error"]["remedy"]


def test_no_replica_is_503_with_a_time_to_retry(town: Any) -> None:
    town.api_app.add("digits")
    answer = town.ask("/e/digits/predict")
    assert (answer.status_code, town.code(answer)) == (503, "no_replica")
    assert int(answer.headers["retry-after"]) > 0


def test_a_refused_connection_goes_to_the_other_replica(town: Any) -> None:
    _, address = town.replica("r2")
    town.api_app.add("digits", f"127.0.0.1:{free_port()}", address)
    for _ in range(4):
        answer = town.ask("/e/digits/predict", content=b"abc")
        assert (answer.status_code, answer.json()["by"], answer.json()["bytes"]) == (200, "r2", 3)


def test_all_refused_is_503(town: Any) -> None:
    town.api_app.add("digits", f"127.0.0.1:{free_port()}")
    answer = town.ask("/e/digits/predict")
    assert (answer.status_code, town.code(answer)) == (503, "no_replica")
    assert "retry-after" in answer.headers


def test_a_replica_that_breaks_off_is_502_and_not_tried_elsewhere(town: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def take_and_drop() -> None:
            taken, _ = listener.accept()
            taken.recv(1 << 16)
            taken.close()

        thread = threading.Thread(target=take_and_drop)
        thread.start()
        town.api_app.add("digits", f"127.0.0.1:{listener.getsockname()[1]}")
        answer = town.ask("/e/digits/predict", content=b"x")
        thread.join(10)
    assert (answer.status_code, town.code(answer)) == (502, "upstream_lost")


def test_a_silent_replica_is_504(town: Any) -> None:
    replica, address = town.replica("r1")
    town.api_app.add("digits", address)
    town.timeout = 0.2
    answer = town.ask("/e/digits/forever?mute")
    assert (answer.status_code, town.code(answer)) == (504, "too_slow")
    assert replica.left.wait(10)


def test_the_least_busy_replica_gets_the_request(town: Any) -> None:
    first, address1 = town.replica("r1")
    second, address2 = town.replica("r2")
    town.api_app.add("digits", address1, address2)
    with town.client.stream("POST", "/e/digits/forever", headers={"Authorization": "Bearer right"}) as busy:
        assert busy.status_code == 200
        free = "r2" if first.seen else "r1"
        held = {address1 if free == "r2" else address2: 1}
        for _ in range(6):
            # the gateway may still be putting the last answer away when we have it already
            town.until(lambda: town.gateway.app.balance.busy == held)
            assert town.ask("/e/digits/predict").json()["by"] == free
    assert (first if free == "r2" else second).left.wait(10)


def test_idle_replicas_take_turns(town: Any) -> None:
    town.api_app.add("digits", town.replica("r1")[1], town.replica("r2")[1])
    assert {town.ask("/e/digits/predict").json()["by"] for _ in range(4)} == {"r1", "r2"}


def test_credentials_stay_here_and_the_secret_is_the_replicas_own(town: Any) -> None:
    replica, address = town.replica("r1")
    town.api_app.add("digits", address)
    answer = town.ask(
        "/e/digits/hops",
        headers={
            "Cookie": "session=1",
            "X-Headway-Replica": "forged",
            "X-Forwarded-For": "6.6.6.6",
            "Connection": "x-mine",
            "X-Mine": "1",
            "TE": "trailers",
            "X-Request-Id": "abc-1",
        },
    )
    seen = replica.headers()
    assert seen["x-headway-replica"] == "s1"
    assert len([k for k, _ in replica.seen[-1]["headers"] if k == b"x-headway-replica"]) == 1
    assert not {"authorization", "cookie", "x-mine", "te"} & set(seen)
    assert len([k for k, _ in replica.seen[-1]["headers"] if k == b"x-forwarded-for"]) == 1
    assert seen["x-forwarded-prefix"] == "/e/digits"
    assert seen["x-request-id"] == answer.headers["x-request-id"] == "abc-1"
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-kept"] == "1"


def test_a_new_endpoint_and_a_new_token_are_found_without_a_hint(town: Any) -> None:
    _, address = town.replica("r1")
    town.api_app.add("digits", address)
    assert town.ask("/e/digits/predict").status_code == 200
    town.api_app.add("letters", address, tokens={"fresh": {}})
    town.until(lambda: town.ask("/e/letters/predict", "fresh").status_code == 200)


def test_a_hint_brings_new_routes_at_once(town: Any) -> None:
    town.api_app.add("digits", town.replica("r1")[1])
    assert town.ask("/e/digits/predict").json()["by"] == "r1"
    town.api_app.routes.clear()
    town.api_app.add("digits", town.replica("r2")[1])
    before = town.api_app.fetched
    hints.send(town.hints, "routes")
    town.until(lambda: town.api_app.fetched > before)
    town.until(lambda: town.ask("/e/digits/predict").json()["by"] == "r2")


def test_endpoints_go_on_with_the_last_routes_while_the_api_is_away(town: Any) -> None:
    town.api_app.add("digits", town.replica("r1")[1])
    assert town.ask("/e/digits/predict").status_code == 200
    port = town.api.port
    town.api.stop()
    away = town.ask("/api/v1/health", method="GET")
    assert (away.status_code, town.code(away)) == (503, "unreachable")
    assert "retry-after" in away.headers
    assert town.ask("/e/digits/predict").status_code == 200
    assert town.code(town.ask("/e/digits/predict", "nonsense")) == "token_wrong"
    assert town.code(town.ask("/e/digit/predict")) == "unknown_endpoint"
    # and it is found again
    town.serve(town.api_app, port)
    assert town.ask("/api/v1/health", method="GET").status_code == 200


def test_before_any_routes_an_endpoint_is_503(town: Any) -> None:
    town.api.stop()
    answer = town.ask("/e/digits/predict")
    assert (answer.status_code, town.code(answer)) == (503, "unreachable")
