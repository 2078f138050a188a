"""The demo's stages over the client. Each finds what is there and goes on from it, so the whole can be cut anywhere."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway import config, supervisor
from headway.cli import up
from headway.client import Client
from headway.client.flow import FlowRunner, Outcome, Reporter
from headway.errors import FailedError, RefusedError, UnreachableError
from headway.protocol.files import read_json, write_json, write_whole
from headway.wire.evaluations import EvaluationView

#: the storage quota runs out when so many cells are published
CELLS_UNTIL_FULL = 96
#: how often the demo starts the platform again before it gives up
RESTARTS = 50
#: seconds that a platform which somebody else starts may take
START_PATIENCE = 60.0
TOKEN_NAME = "demo"


@dataclass
class Result:
    outcomes: list[Outcome] = field(default_factory=list)
    #: over all invocations, seconds
    stage_seconds: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0
    currency: str = ""
    url: str = ""
    predicted: int | None = None
    expected: int | None = None
    wrong_token_status: int | None = None

    @property
    def seconds(self) -> float:
        return sum(self.stage_seconds.values())

    def detail(self, stage: str) -> dict[str, Any]:
        return next((o.detail for o in self.outcomes if o.stage == stage), {})

    @property
    def fault(self) -> str:
        """What is not as it should be; empty when all is."""
        evaluation = self.detail("evaluate")
        cells = evaluation.get("cells")
        for wrong, text in (
            (not self.detail("dataset").get("verified"), "the dataset is not verified"),
            (self.detail("train").get("state") != "succeeded", "the job has not succeeded"),
            (evaluation.get("valid") != cells or not cells, f"{evaluation.get('valid')} of {cells} cells are valid"),
            (evaluation.get("ran") != cells, f"{evaluation.get('ran')} outputs were published for {cells} cells"),
            (evaluation.get("paused") != 1, f"the evaluation paused {evaluation.get('paused')} times"),
            (self.wrong_token_status != 401, f"a wrong token got {self.wrong_token_status}"),
            (self.predicted is None or self.predicted != self.expected, f"{self.expected} became {self.predicted}"),
        ):
            if wrong:
                return text
        return ""

    @property
    def ok(self) -> bool:
        return not self.fault

    def as_json(self) -> dict[str, Any]:
        """The last line of `headway demo --json`."""
        dataset, endpoint = self.detail("dataset"), self.detail("endpoint")
        return {
            "dataset": {k: dataset.get(k) for k in ("name", "version", "files", "bytes", "digest", "verified")},
            "job": self.detail("train"),
            "evaluation": self.detail("evaluate"),
            "model": self.detail("model"),
            "endpoint": {
                **endpoint,
                "wrong_token_status": self.wrong_token_status,
                "predicted": self.predicted,
                "expected": self.expected,
            },
            "cost": round(self.cost, 6),
            "seconds": round(self.seconds, 2),
            "ok": self.ok,
        }


class Demo:
    def __init__(self, settings: config.Settings, file: Path, reporter: Reporter) -> None:
        self.settings = settings
        self.file = file
        self.reporter = reporter
        self.folder = settings.home / "demo"
        self.state_file = self.folder / "state.json"
        self.token_file = self.folder / "endpoint.token"
        self.result = Result()

    def run(self) -> Result:
        """All stages; begins again (finding what is done) whenever the server was lost on the way."""
        lost = 0
        deadline = time.monotonic() + START_PATIENCE
        while lost < RESTARTS:
            try:
                with self._client() as client:
                    self._all(client)
                return self.result
            except UnreachableError as error:
                if error.code == "starting" and time.monotonic() < deadline:
                    continue
                lost += 1
                self.reporter.note("demo", f"{error.message} Going on once it is back.")
                time.sleep(0.2)
        raise FailedError(
            f"The platform was lost {RESTARTS} times.", f"See {self.settings.log_folder}/headway.log for why."
        )

    def _client(self) -> Client:
        """A client for the home's server, which is started when it does not run."""
        running = supervisor.read_up(self.settings)
        if running is None:
            running = self._start()
        elif not running.get("ready"):
            # somebody else is just starting it
            time.sleep(0.1)
            raise UnreachableError("The platform is not ready yet.", code="starting")
        self.result.url = running["url"]
        return Client(running["url"], self.settings.admin_token_file.read_text().strip(), patience=5.0)

    def _start(self) -> dict[str, Any]:
        # the port that it had, so that addresses which were printed stay true; else any free one
        before = self._state().get("port", 0)
        for port in dict.fromkeys((before, 0)):
            flags = {"home": self.settings.home, "port": port}
            try:
                started = up.start(config.load(flags).settings)
            except RefusedError as error:
                if error.code == "home_in_use":
                    time.sleep(0.2)
                    running = supervisor.read_up(self.settings)
                    if running is not None:
                        return running
                if error.code != "port_in_use":
                    raise
                continue
            self._save(port=started["port"])
            return started
        raise UnreachableError("The platform could not be started.", "Try again.")

    def _state(self) -> dict[str, Any]:
        try:
            found = read_json(self.state_file)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def _save(self, **values: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.state_file, {**self._state(), **values})

    def _all(self, client: Client) -> None:
        runner = FlowRunner(client, self.file, self.reporter)
        for stage in runner.flow.stages:
            began = time.monotonic()
            try:
                if stage == "evaluate":
                    self._evaluate(client, runner)
                else:
                    getattr(runner, f"do_{stage}")()
                if stage == "endpoint":
                    self._ask(client, runner)
            finally:
                self._count(stage, time.monotonic() - began)
        self.result.outcomes = runner.outcomes
        bill = client.platform.bill(client.project)
        self.result.cost, self.result.currency = bill.total, bill.currency
        self._save(done=True)

    def _count(self, stage: str, seconds: float) -> None:
        """Adds to what the stage has taken, until the whole was done once."""
        state = self._state()
        taken = dict(state.get("seconds", {}))
        if not state.get("done"):
            taken[stage] = taken.get(stage, 0.0) + seconds
            self._save(seconds=taken)
        self.result.stage_seconds = taken

    # -- the fault in the middle

    def _evaluate(self, client: Client, runner: FlowRunner) -> None:
        began = time.monotonic()
        self.reporter.begin("evaluate", f"headway run {runner.file} --only evaluate")
        self._limit(client, runner)
        view = runner.start_evaluation()
        found = view.state == "succeeded"
        view = runner.watch_evaluation(view.id, lambda v: v.state == "paused" or v.pauses > 0)
        if view.state == "paused":
            view = self._shown_paused(runner, view)
        if view.pauses and client.projects.get(client.project).quota_files is not None:
            self.reporter.note("evaluate", f"$ headway project quota {client.project} --files none")
            client.projects.set_quota(client.project, quota_files=None)
        view = runner.watch_evaluation(view.id, lambda v: False)
        runner.finish_evaluation(view, found, time.monotonic() - began)

    def _limit(self, client: Client, runner: FlowRunner) -> None:
        """Sets the quota that runs out at 96 cells, unless the evaluation is past that or it was set before."""
        project = client.projects.get(client.project)
        earlier = self._earlier(client, runner)
        valid = earlier.valid if earlier else 0
        if project.quota_files is not None or valid >= CELLS_UNTIL_FULL or (earlier and earlier.pauses):
            return
        assert runner.flow.evaluate is not None
        # what a cell publishes: its outputs and their manifest
        files = len(runner.flow.evaluate.outputs) + 1
        limit = project.used.files + project.data.files + (CELLS_UNTIL_FULL - valid) * files
        self.reporter.note("evaluate", f"$ headway project quota {client.project} --files {limit}   (the demo's fault)")
        client.projects.set_quota(client.project, quota_files=limit)

    @staticmethod
    def _earlier(client: Client, runner: FlowRunner) -> EvaluationView | None:
        """The evaluation that an earlier invocation started for this job."""
        assert runner.job is not None and runner.flow.evaluate is not None
        mine = [e for e in client.evaluations.ls() if e.job == runner.job.id and e.name == runner.flow.evaluate.name]
        return max(mine, key=lambda e: e.id, default=None)

    def _shown_paused(self, runner: FlowRunner, view: EvaluationView) -> EvaluationView:
        """Says why it paused, once the worker that was still busy has come to the end of the quota as well."""
        self.reporter.note(
            "evaluate", f"paused at {view.valid} of {view.cells} cells ({view.cause}): {view.reason} {view.remedy}"
        )
        runner.told = view.reason
        deadline = time.monotonic() + 1.0
        return runner.watch_evaluation(view.id, lambda v: v.state != "paused" or time.monotonic() > deadline)

    # -- the answer

    def _ask(self, client: Client, runner: FlowRunner) -> None:
        """Asks with a wrong token and with a right one."""
        assert runner.endpoint is not None and runner.flow.dataset is not None
        picture = next(iter(sorted((runner.folder / runner.flow.dataset.path / "test").glob("*/*.png"))))
        body = {"inputs": {"image": base64.b64encode(picture.read_bytes()).decode()}}
        path = f"{runner.endpoint.path}/predict"
        self.reporter.step("endpoint", f"asking {path}")
        self.result.expected = int(picture.parent.name)
        self.result.wrong_token_status, _ = _answered(client, path, "hw_wrong", body)
        status, answer = _answered(client, path, self._token(client, runner.endpoint.name), body)
        if status == 401:
            # the home's token file is from another record: make a new one
            self.token_file.unlink(missing_ok=True)
            status, answer = _answered(client, path, self._token(client, runner.endpoint.name), body)
        if status != 200:
            raise FailedError(f"{path} answered {status}: {answer}", "`headway endpoint ls` shows how it is.")
        self.result.predicted = int(answer["outputs"]["digit"])
        self.reporter.note(
            "endpoint",
            f"a wrong token got {self.result.wrong_token_status}; {picture.name}, a {self.result.expected}, "
            f"was read as {self.result.predicted}",
        )

    def _token(self, client: Client, endpoint: str) -> str:
        """The endpoint's token: made once, kept readable by the owner alone."""
        try:
            return self.token_file.read_text().strip()
        except FileNotFoundError:
            made = client.endpoints.create_token(endpoint, TOKEN_NAME)
            write_whole(self.token_file, made.token.encode())
            os.chmod(self.token_file, 0o600)
            return made.token


def _answered(client: Client, path: str, token: str, body: Any, patience: float = 30.0) -> tuple[int, Any]:
    """Status and answer, asked again while there is no replica to answer or no gateway.

    A 401 for a token that was just made is asked again for two seconds: the gateway hears of it a little later.
    """
    began = time.monotonic()
    while True:
        try:
            status, answer = client.endpoints.ask(path, token, body)
        except UnreachableError:
            if time.monotonic() - began > 5:
                raise
            time.sleep(0.1)
            continue
        waited = time.monotonic() - began
        late = status == 401 and token != "hw_wrong" and waited < 2
        if (status in (502, 503, 504) and waited < patience) or late:
            time.sleep(0.1)
            continue
        return status, answer
