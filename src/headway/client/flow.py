"""Carries out the stages of a flow that are not yet done for these exact inputs.

Every stage is idempotent: its request carries a key that digests all its inputs, so that carrying out a flow again,
after an end or an interruption at any moment, finds what is there and goes on from it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from headway.client import snapshot, statistics
from headway.client.codeparts import depends_on, no_code
from headway.client.flowfile import check, load, prepare
from headway.client.main import Client
from headway.errors import FailedError, HeadwayError, NotFoundError
from headway.rules import flow as rules
from headway.rules.capacity import require_room
from headway.rules.datasets import parse_reference
from headway.rules.nearest import unknown
from headway.rules.records import Node, Spec
from headway.rules.units import render_duration
from headway.wire.datasets import DatasetVersionView
from headway.wire.evaluations import EvaluationView
from headway.wire.products import EndpointView, ModelVersionView
from headway.wire.runs import JobView

#: seconds between looks at a stage that runs
LOOK = 0.25
#: stands for the job that is still to come
_NO_JOB = 2**53
#: warnings of a dataset that are told while it is pushed; the end shows all
_WARNINGS = 5
#: by the stage of `client.pushing.progress`
_PUSHING = {"fetch": "fetching", "scan": "looking", "send": "pushing", "publish": "publishing"}
_ENDED = ("succeeded", "failed", "stopped")
_AMOUNTS = ("cpus", "memory_bytes", "accelerators", "accelerator_kind")
_OF_NODE = {"name", "engine", "cpus", "memory_bytes", "accelerators", "declared"}


def why(view: EvaluationView) -> str:
    """The command that shows why an evaluation did not succeed: its invalid cells, or its newest worker's log."""
    if view.invalid:
        return f"headway eval cells {view.id} --state invalid"
    return f"headway logs {view.runs[-1]}" if view.runs and view.state == "failed" else f"headway eval show {view.id}"


class Reporter(Protocol):
    """Where progress is told. Every call returns at once."""

    def begin(self, stage: str, command: str) -> None:
        """command: what the user could have typed for this stage."""

    def step(self, stage: str, text: str, done: int = 0, total: int = 0) -> None:
        """Where the stage is now; `done` of `total` when total is not 0."""

    def note(self, stage: str, text: str) -> None:
        """Something to keep on the screen."""

    def end(self, stage: str, outcome: Outcome) -> None:
        """The stage is done."""


@dataclass(frozen=True)
class Outcome:
    stage: str
    #: whether it had been done before
    found: bool
    #: one sentence
    text: str
    seconds: float
    cost: float = 0.0
    #: where its outputs lie
    path: str = ""
    #: ids and figures, for programs
    detail: dict[str, Any] = field(default_factory=dict)


class FlowRunner:
    """One flow on one server. Use `run`; the stages one by one are for those who need something in between."""

    def __init__(self, client: Client, file: Path, reporter: Reporter) -> None:
        """Reads and checks the file. Raises UsageError; nothing is started then."""
        self.client = client
        self.file = file.absolute()
        self.folder = self.file.parent
        self.reporter = reporter
        self.flow = load(file)
        self.cases = check(self.flow, self.file)
        self.dataset_version: DatasetVersionView | None = None
        self.job: JobView | None = None
        self.evaluation: EvaluationView | None = None
        self.model: ModelVersionView | None = None
        self.endpoint: EndpointView | None = None
        #: the reason for a pause that was told last
        self.told = ""
        #: whether the evaluation begins with the training
        self.follows = False
        self.outcomes: list[Outcome] = []

    @cached_property
    def code(self) -> snapshot.Snapshot:
        """The flow's folder without the flow itself and without its dataset, which runs find in DATA_PATH."""
        return snapshot.take(self.folder, leave_out=no_code(self.file, self.flow))

    def _depends_on(self, command: str, *later: str | None) -> str:
        """Digest of the code that a stage's outcome depends on: without the files that only later stages name."""
        return depends_on(self.folder, no_code(self.file, self.flow), command, *later)

    @cached_property
    def _uploaded(self) -> str:
        return self.client.snapshots.upload(self.code).digest

    def run(self, only: str | None = None) -> list[Outcome]:
        """Carries out the stages in order (or just one, on what the earlier ones have made).

        Raises UsageError for a stage that the file has not, FailedError when a stage fails.
        """
        if only is not None and only not in self.flow.stages:
            raise unknown("stage", only, self.flow.stages, self.file.name)
        self.check_room()
        self.check_evaluation()
        self.follows = self.flow.evaluate is not None and self.flow.evaluate.follow and only != "train"
        for stage in self.flow.stages:
            getattr(self, f"do_{stage}")()
            if stage == only:
                break
        return self.outcomes

    def check_room(self) -> None:
        """That the specs of all stages are there and fit a node, before the first stage is begun.

        Raises UsageError naming the nearest spec, or RefusedError when no node could ever hold one.
        """
        specs = {s.name: Spec(**{**s.model_dump(), "price_hour": 0}) for s in self.client.platform.specs()}
        nodes = [Node(address="", seen_at=0.0, **n.model_dump(include=_OF_NODE)) for n in self.client.platform.nodes()]
        for name in ("train", "evaluate", "endpoint"):
            stage = getattr(self.flow, name)
            if stage is None:
                continue
            found = specs.get(stage.spec)
            if found is None:
                raise unknown("spec", stage.spec, specs, f"{self.file.name}: {name}.spec")
            more = getattr(stage, "more", {})
            given = {k: more.get(k, getattr(stage, k, None)) for k in _AMOUNTS}
            asked = replace(found, **{k: v for k, v in given.items() if v is not None})
            require_room(asked, nodes, count=more.get("nodes", 1), least=more.get("least"))

    def check_evaluation(self) -> None:
        """That the server takes the evaluation, before the training that it is of is begun: its target, its data.

        Raises what `client.evaluations.create` would, but for the job, which is not there yet.
        """
        stage = self.flow.evaluate
        if stage is None:
            return
        own = self.flow.dataset.name if self.flow.dataset else ""
        datasets = [d for d in stage.fields.get("datasets", ()) if d.rpartition("=")[2].partition("@")[0] != own]
        request = {**stage.fields, "cases": self.cases, "datasets": datasets, "snapshot": self._uploaded}
        try:
            for job in stage.fields.get("jobs", ()):
                self.client.jobs.get(job)
            self.client.evaluations.plan(**{**request, "jobs": [_NO_JOB]})
        except HeadwayError as error:
            if error.code != "job_unknown":
                message = f"{self.file.name}: evaluate: {error.message}"
                raise type(error)(message, error.remedy, code=error.code) from None

    def _finish(self, outcome: Outcome) -> Outcome:
        self.outcomes.append(outcome)
        self.reporter.end(outcome.stage, outcome)
        return outcome

    # -- dataset

    def do_dataset(self) -> Outcome:
        """Makes the folder if need be, pushes it, has the server verify it."""
        stage = self.flow.dataset
        assert stage is not None
        began = time.monotonic()
        folder = self.folder / stage.path
        self.reporter.begin("dataset", f"headway dataset push {_short(folder)} {stage.name}")
        if not folder.exists() and stage.prepare:
            self.reporter.step("dataset", f"{stage.prepare}")
            prepare(stage.prepare, self.folder)
        versions = self._versions(stage.name)
        view = self.client.datasets.push(
            stage.name,
            folder,
            progress=lambda p: self.reporter.step("dataset", _PUSHING[p.stage], p.bytes, p.of_bytes),
            notes=lambda text: self.reporter.note("dataset", text),
        )
        if not view.statistics:
            view = self.client.datasets.measure(
                view, folder, progress=lambda what, done, total: self.reporter.step("dataset", "counting", done, total)
            )
        self.dataset_version = view
        found = any(v.version == view.version for v in versions)
        for text in statistics.warning_texts(view.statistics)[:_WARNINGS]:
            self.reporter.note("dataset", f"warning: {text}")
        self.reporter.step("dataset", "verifying on the server")
        checked = self.client.datasets.verify(view.name, view.version)
        if checked.faults:
            path, reason = next(iter(checked.faults.items()))
            raise FailedError(
                f"{len(checked.faults)} files of {view.name}@{view.version} are not as pushed ({path}: {reason}).",
                "Push the folder again.",
            )
        detail = {
            "name": view.name,
            "version": view.version,
            "files": view.files,
            "bytes": view.bytes,
            "digest": view.digest,
            "verified": (checked.read_files, checked.read_bytes) == (view.files, view.bytes),
            "statistics": view.statistics,
        }
        text = f"{view.name}@{view.version}: {view.files} files, {view.bytes} bytes, checksums verified"
        return self._finish(Outcome("dataset", found, text, time.monotonic() - began, 0.0, view.digest, detail))

    def _versions(self, name: str) -> list[DatasetVersionView]:
        try:
            return self.client.datasets.versions(name)
        except NotFoundError:
            return []

    def _references(self, names: tuple[str, ...]) -> list[str]:
        """Pinned to the version that is used, so that the same inputs stay the same."""
        pinned = []
        for text in names:
            asked = parse_reference(text)
            version = self.dataset_version
            if version is None or asked.version is not None or version.name != asked.name:
                version = self.client.datasets.find(f"{asked.name}@{asked.version}" if asked.version else asked.name)
            pinned.append(str(replace(asked, version=version.version)))
        return pinned

    # -- train

    def train_request(self) -> dict[str, Any]:
        """The fields of the job request, key and all."""
        stage = self.flow.train
        assert stage is not None
        request: dict[str, Any] = {
            "command": rules.fill(stage.command, stage.parameters, f"{self.file.name}: train.command"),
            "name": stage.name,
            "parameters": stage.parameters,
            "environment": stage.environment,
            "processes": stage.processes,
            "spec": stage.spec,
            "cpus": stage.cpus,
            "memory_bytes": stage.memory_bytes,
            "accelerators": stage.accelerators,
            "datasets": self._references(stage.data),
            "checkpoints": list(stage.checkpoints),
            "metric_patterns": list(stage.metrics),
            "max_duration": stage.max_duration,
            "grace": stage.grace,
            "priority": stage.priority,
            "retries": stage.retries,
            "snapshot": self.code.digest,
            # only what the file names, so that a flow without it keeps its key
            **stage.more,
        }
        evaluate, model = self.flow.evaluate, self.flow.model
        later = (*evaluate.entries.values(), *self._case_files) if evaluate else ()
        later = (*later, model.predictor) if model else later
        inputs = {**request, "snapshot": self._depends_on(str(request["command"]), *later)}
        return {**request, "key": rules.key("train", inputs)}

    def do_train(self) -> Outcome:
        stage = self.flow.train
        assert stage is not None
        began = time.monotonic()
        request = self.train_request()
        self.reporter.begin("train", f"headway run {_short(self.file)} --only train")
        self._uploaded  # noqa: B018 - the job names it
        run = self.client.jobs.submit(**request)
        found = run.state == "succeeded"
        if run.state in ("failed", "stopped"):
            self.reporter.note("train", f"job {run.id} {run.state} before ({run.reason}); trying it again")
            run = self.client.runs.retry(run.id)
        if not found:
            if self.follows:
                self.job = self.client.jobs.get(run.id)
                self.reporter.note("train", f"evaluation {self.start_evaluation().id} follows its checkpoints")
            self._watch_job(run.id, _total_epochs(stage.parameters))
        job = self.job = self.client.jobs.get(run.id)
        if job.state != "succeeded":
            raise FailedError(
                f"Job {job.id} {job.state}: {job.reason}", f"`headway logs {job.id}` shows what it printed."
            )
        metrics = {k: round(v, 4) for k, v in job.metrics.items()}
        detail = {"id": job.id, "state": job.state, "checkpoints": job.checkpoints, "metrics": metrics}
        text = f"job {job.id}: {job.checkpoints} checkpoints, " + ", ".join(f"{k} {v}" for k, v in metrics.items())
        seconds = _between(job) if found else time.monotonic() - began
        return self._finish(Outcome("train", found, text, seconds, job.cost, job.output_path, detail))

    def _watch_job(self, run: int, total: int) -> None:
        """Tells state, metrics and checkpoints until the job has ended."""
        while True:
            job = self.client.jobs.get(run)
            if job.state in _ENDED:
                return
            if job.state in ("queued", "held"):
                text = f"job {run} {job.state}" + (f": {job.reason}" if job.reason else "")
            else:
                shown = " ".join(f"{k} {v:.4g}" for k, v in list(job.metrics.items())[:4])
                text = f"job {run} {job.state} {shown}".strip()
            self.reporter.step("train", text, job.checkpoints, total)
            time.sleep(LOOK)

    # -- evaluate

    def evaluate_request(self) -> dict[str, Any]:
        stage = self.flow.evaluate
        assert stage is not None and self.job is not None
        predictor = self.flow.model.predictor if self.flow.model else None
        request: dict[str, Any] = {
            **stage.fields,
            "jobs": list(dict.fromkeys([self.job.id, *stage.fields.get("jobs", [])])),
            "cases": self.cases,
            "datasets": self._references(tuple(stage.fields.get("datasets", ()))),
            "snapshot": self.code.digest,
            # what the cells' keys have of it: each case is in its own, so that a changed one is its column's alone
            "code": self._depends_on(stage.what, predictor, *self._case_files),
        }
        inputs = {name: value for name, value in request.items() if name != "snapshot"}
        return {**request, "key": rules.key("evaluate", inputs)}

    @property
    def _case_files(self) -> tuple[str, ...]:
        """The file or folder with the cases, unless the flow has them itself."""
        cases = self.flow.evaluate.cases if self.flow.evaluate else None
        return (cases,) if isinstance(cases, str) else ()

    def start_evaluation(self) -> EvaluationView:
        """The evaluation of these inputs, which runs now or has succeeded."""
        self._uploaded  # noqa: B018
        view = self.client.evaluations.create(**self.evaluate_request())
        if view.state in ("failed", "stopped"):
            self.reporter.note("evaluate", f"evaluation {view.id} {view.state} before ({view.reason}); trying it again")
            view = self.client.evaluations.retry(view.id)
        self.evaluation = view
        return view

    def watch_evaluation(self, evaluation: int, until: Callable[[EvaluationView], bool]) -> EvaluationView:
        """Tells how far it is until `until` holds or it has ended."""
        while True:
            view = self.evaluation = self.client.evaluations.get(evaluation)
            if view.state in _ENDED or until(view):
                return view
            if view.state == "paused" and view.reason != self.told:
                self.told = view.reason
                self.reporter.note("evaluate", f"paused: {view.reason} {view.remedy}".strip())
            self.reporter.step("evaluate", f"evaluation {view.id} {view.state}", view.valid, view.cells)
            time.sleep(LOOK)

    def do_evaluate(self) -> Outcome:
        began = time.monotonic()
        self.reporter.begin("evaluate", f"headway run {_short(self.file)} --only evaluate")
        view = self.start_evaluation()
        found = view.state == "succeeded"
        view = self.watch_evaluation(view.id, lambda view: False)
        return self.finish_evaluation(view, found, time.monotonic() - began)

    def finish_evaluation(self, view: EvaluationView, found: bool, seconds: float) -> Outcome:
        """Raises FailedError unless every cell is valid."""
        if view.state != "succeeded":
            raise FailedError(
                f"Evaluation {view.id} {view.state} with {view.valid} of {view.cells} cells valid: {view.reason}",
                f"`{why(view)}` shows why.",
            )
        detail = {
            "id": view.id,
            "cells": view.cells,
            "valid": view.valid,
            "ran": view.ran,
            "paused": view.pauses,
        }
        text = f"evaluation {view.id}: {view.valid} of {view.cells} cells valid, {view.ran} run"
        if found and view.ended_at:
            seconds = (view.ended_at - view.created_at).total_seconds()
        return self._finish(Outcome("evaluate", found, text, seconds, view.cost, view.path, detail))

    # -- model

    def do_model(self) -> Outcome:
        stage = self.flow.model
        assert stage is not None and self.job is not None
        began = time.monotonic()
        evaluation = self.evaluation.id if self.evaluation else None
        case = f" --eval {evaluation} --case {stage.case}" if stage.checkpoint == "best" else ""
        self.reporter.begin(
            "model",
            f"headway model register {stage.name} --job {self.job.id} --checkpoint {stage.checkpoint}{case} "
            f"--predictor {stage.predictor} --code {_short(self.folder)}",
        )
        request: dict[str, Any] = {
            "job": self.job.id,
            "checkpoint": stage.checkpoint,
            "evaluation": evaluation,
            "case": stage.case,
            "predictor": stage.predictor,
            "snapshot": self._uploaded,
        }
        view = self.client.models.register(stage.name, **request, key=rules.key("model", {**request, "n": stage.name}))
        found = view.state == "ready"
        if not found:
            self.reporter.step("model", "checking the weights")
            view = self.client.models.wait(stage.name, view.version)
        if view.state != "ready":
            raise FailedError(
                f"{view.name}@{view.version} is {view.state}: {view.reason}", "Register another checkpoint."
            )
        self.model = view
        source = view.source
        score = source.get("score")
        text = f"{view.name}@{view.version} from {source.get('checkpoint')}"
        text += f" ({stage.case} {score:.4f})" if isinstance(score, float) else ""
        detail = {"name": view.name, "version": view.version, "checkpoint": source.get("checkpoint"), "score": score}
        return self._finish(Outcome("model", found, text, time.monotonic() - began, 0.0, view.path, detail))

    # -- endpoint

    def do_endpoint(self) -> Outcome:
        stage = self.flow.endpoint
        assert stage is not None and self.model is not None
        began = time.monotonic()
        model = f"{self.model.name}@{self.model.version}"
        limit = f" --max-duration {render_duration(stage.max_duration)}" if stage.max_duration else ""
        words = f"{stage.name} --model {model} --replicas {stage.replicas} --spec {stage.spec}{limit}"
        self.reporter.begin("endpoint", f"headway endpoint deploy {words}")
        before = self._endpoint(stage.name)
        if before is not None and before.state == "failed":
            self.reporter.note("endpoint", f"{stage.name} failed before ({before.reason}); starting it anew")
            self.client.endpoints.stop(stage.name)
        # asking for what is served already changes nothing
        asked = self.client.endpoints.deploy(
            stage.name, model=model, replicas=stage.replicas, spec=stage.spec, max_duration=stage.max_duration
        )
        found = before is not None and before.state == "ready" and before.revision == asked.revision
        view = self._watch_endpoint(stage.name)
        self.endpoint = view
        if view.state != "ready":
            raise FailedError(
                f"Endpoint {view.name} is {view.state}: {view.reason or 'no replica has answered yet.'}",
                "`headway ls --owner endpoint` and `headway logs RUN` show its replicas.",
            )
        url = f"{self.client.url}{view.path}"
        detail = {"name": view.name, "state": view.state, "model": view.model, "url": f"{url}/predict"}
        text = f"{view.name} serves {view.model} at {url}/predict"
        return self._finish(Outcome("endpoint", found, text, time.monotonic() - began, view.cost, url, detail))

    def _endpoint(self, name: str) -> EndpointView | None:
        try:
            return self.client.endpoints.get(name)
        except NotFoundError:
            return None

    def _watch_endpoint(self, name: str, patience: float = 120.0) -> EndpointView:
        deadline = time.monotonic() + patience
        while True:
            view = self.client.endpoints.get(name)
            if view.state != "starting" or time.monotonic() > deadline:
                return view
            self.reporter.step("endpoint", f"{name} {view.state} {view.reason}".strip())
            time.sleep(LOOK)


def _short(path: Path) -> str:
    """Relative to where the user is, when that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def _total_epochs(parameters: dict[str, Any]) -> int:
    epochs = parameters.get("epochs", 0)
    return epochs if isinstance(epochs, int) else 0


def _between(job: JobView) -> float:
    return (job.ended_at - job.started_at).total_seconds() if job.ended_at and job.started_at else 0.0
