"""Evaluations over HTTP, as the client asks for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from headway.client.evaluations import Evaluations
from headway.client.transport import Transport
from headway.errors import NotFoundError, UsageError
from headway.rules.access import Role
from headway.testing.api import Api
from headway.testing.services import CODE, add_checkpoint, add_snapshot

CONTENT = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def transport(api: Api) -> Iterator[Transport]:
    opened = Transport(api.url, api.token("mia", Role.MEMBER))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(transport: Transport) -> Evaluations:
    return Evaluations(transport, "default")


@pytest.fixture(scope="module")
def job(api: Api, admin: httpx.Client) -> int:
    add_snapshot(api.ctx)
    found = int(admin.post("/projects/default/jobs", json={"command": ["true"], "held": True}).json()["id"])
    for name in ("a.pt", "b.pt"):
        add_checkpoint(api.ctx, found, name)
    return found


REQUEST = {
    "name": "e", "worker": "evaluate.py:E", "snapshot": CODE, "score": None,
    "outputs": [{"name": "a page/out.html", "kind": "file"}], "environment": {"HF_TOKEN": "hf_1234"},
}  # fmt: skip


@pytest.fixture(scope="module")
def evaluation(api: Api, client: Evaluations, job: int) -> int:
    """One with the first of its four cells published."""
    outputs = [{"name": "pages/out.html", "kind": "file"}]
    view = client.create(**{**REQUEST, "outputs": outputs}, job=job, cases=[{"id": "x"}, {"id": "y"}])
    with api.ctx.store.begin() as tx:
        cell = tx.evaluations.cells(view.id)[0]
        file = api.ctx.root / cell.path / "pages/out.html"
        file.parent.mkdir(parents=True)
        file.write_bytes(CONTENT)
        digest = hashlib.sha256(CONTENT).hexdigest()
        output = {"name": "pages/out.html", "bytes": len(CONTENT), "sha256": digest, "kind": "file"}
        tx.evaluations.publish(
            [
                {
                    "cell": cell.id, "publication": "p", "score": None, "scores": {}, "outputs": [output],
                    "path": cell.path, "seconds": 1.0, "bytes": len(CONTENT), "files": 1, "ended_at": 5.0,
                }
            ]
        )  # fmt: skip
    return view.id


def test_an_evaluation_is_planned_made_and_found_again(client: Evaluations, job: int, evaluation: int) -> None:
    asked = {**REQUEST, "outputs": [{"name": "pages/out.html"}], "job": job, "cases": [{"id": "x"}, {"id": "z"}]}
    plan = client.plan(**asked)
    assert (plan.cells, plan.done, plan.to_run) == (4, 1, 3)
    view = client.create(**asked)
    assert (view.valid, view.waiting) == (1, 3)
    assert client.create(**asked).id == view.id
    assert [e.id for e in client.ls()] == [view.id, evaluation]
    assert client.plan(**asked).same == view.id
    with pytest.raises(UsageError, match="repeats"):
        client.plan(**asked, repeat=3)


def test_a_schema_arrives_under_its_own_name(api: Api, client: Evaluations, job: int) -> None:
    schema = {"type": "object"}
    outputs = [{"name": "a.json", "kind": "json", "schema": schema}]
    view = client.create(**{**REQUEST, "outputs": outputs}, jobs=[job], cases=[{"id": "x"}])
    with api.ctx.store.read() as tx:
        found = tx.evaluations.get(view.id)
        assert found is not None
        assert found.plan["outputs"] == outputs
    assert client.stop(view.id).state == "stopped"
    assert client.retry(view.id).state == "running"


def test_cells_and_their_files(client: Evaluations, transport: Transport, evaluation: int) -> None:
    (done,) = client.cells(evaluation, states=["valid"])
    assert client.cells(evaluation, states=["valid", "waiting"]) == client.cells(evaluation)
    assert client.file(evaluation, done.id, "pages/out.html") == CONTENT
    for cell, name in ((done.id, "pages/../out.html"), (done.id, "output.json"), (done.id + 1, "pages/out.html")):
        with pytest.raises(NotFoundError):
            client.file(evaluation, cell, name)
    with pytest.raises(NotFoundError):
        client.file(evaluation + 1, done.id, "pages/out.html")


def test_a_range_of_a_file(api: Api, client: Evaluations, evaluation: int) -> None:
    (done,) = client.cells(evaluation, states=["valid"])
    path = f"/projects/default/evaluations/{evaluation}/cells/{done.id}/files/pages/out.html"
    with api.admin() as asker:
        part = asker.get(path, headers={"Range": "bytes=1000-1099"})
        assert (part.status_code, part.content) == (206, CONTENT[1000:1100])
        assert part.headers["content-range"] == f"bytes 1000-1099/{len(CONTENT)}"
        beyond = asker.get(path, headers={"Range": f"bytes={len(CONTENT)}-"})
        assert beyond.status_code == 416
        # nothing of it is run as a page of ours
        assert part.headers["content-security-policy"] == "sandbox"
        assert part.headers["x-content-type-options"] == "nosniff"


def test_the_report_verification_and_target(client: Evaluations, evaluation: int, tmp_path: Path) -> None:
    report = client.report(evaluation)
    assert ([r.row for r in report.rows], [c.case for c in report.columns]) == (["a", "b"], ["x", "y"])
    assert len(report.cells) == 4
    made_of = report.provenance
    assert (made_of.by, made_of.worker, made_of.scorer, made_of.snapshot) == ("mia", "evaluate.py:E", None, CODE)
    assert (made_of.environment, made_of.datasets, made_of.currency) == (["HF_TOKEN"], [], "USD")
    # values may be secrets
    assert len(made_of.cases_sha256) == 64 and "hf_1234" not in report.model_dump_json()
    seen: list[tuple[int, int]] = []
    proof = client.verify(evaluation, progress=lambda done, total: seen.append((done, total)))
    assert (proof.checked, proof.bytes, proof.faults, seen) == (1, len(CONTENT), [], [(1, 1)])
    moved = client.target(evaluation, str(tmp_path / "out"))
    assert moved.target == str(tmp_path / f"out/evaluation-{evaluation}")
    assert client.target(evaluation, None).target == f"{moved.path}/outputs"


def test_outputs_are_adopted(client: Evaluations, job: int, tmp_path: Path) -> None:
    asked = {**REQUEST, "name": "old", "outputs": [{"name": "out.html"}], "job": job, "held": True}
    view = client.create(**asked, cases=[{"id": f"c{n}"} for n in range(20)])
    for n in range(0, 20, 2):
        (tmp_path / f"a-c{n}.html").write_bytes(CONTENT if n % 4 else b"")
    seen: list[int] = []
    layout = {"out.html": "{checkpoint}-{case}.html"}
    told = client.adopt(view.id, str(tmp_path), layout, progress=lambda done, total: seen.append(done))
    assert (told.found, told.adopted, told.missing, len(told.faults)) == (10, 5, 30, 5)
    assert seen[-1] == 40
    assert client.get(view.id).reused == 5


PLAIN = {**REQUEST, "outputs": [{"name": "out.html", "kind": "file"}]}


@pytest.mark.parametrize("hint", [True, False])
def test_an_answer_is_held_back_until_the_state_is_another(
    api: Api, client: Evaluations, job: int, hint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.api.live.FALLBACK", 20.0 if hint else 0.05)
    view = client.create(**{**PLAIN, "name": f"held-{hint:d}"}, job=job, cases=[{"id": f"h-{hint:d}"}])
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(client.wait, view.id, timeout=60)
        # the answer is held back from the moment on that the api listens
        while not list(Path(api.ctx.hints or "").glob("api-*.sock")):
            assert not waits.done()
        client.stop(view.id)
        if hint:
            api.ctx.hint("states")
        assert waits.result(15).state == "stopped"
    assert not list(Path(api.ctx.hints or "").glob("api-*.sock"))


def test_an_answer_is_not_held_back_for_longer_than_is_asked(client: Evaluations, job: int) -> None:
    view = client.create(**{**PLAIN, "name": "brief"}, job=job, cases=[{"id": "brief"}])
    assert client.wait(view.id, timeout=0.1).state == view.state == "running"


@pytest.mark.parametrize(
    ("params", "said"),
    [({"wait": "61"}, "wait"), ({"wait": "-1"}, "wait"), ({"wait": "1", "while": "runing"}, "while")],
)
def test_what_cannot_be_waited_for_is_said(
    transport: Transport, evaluation: int, params: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        transport.call("GET", f"/projects/default/evaluations/{evaluation}", params=params)
