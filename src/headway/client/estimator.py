"""`headway.Estimator(...).fit({...})`, for those who come from the SDKs of PAI, ModelArts and SageMaker."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.client.main import Client
from headway.client.transport import build
from headway.errors import FailedError, UsageError
from headway.rules.commands import fill
from headway.rules.nearest import unknown
from headway.rules.units import parse_duration
from headway.wire.metrics import MetricSeries
from headway.wire.runs import CheckpointView, JobRequest, JobView, LogLineView, RunView

#: what other SDKs call it -> ours
ALIASES = {
    "instance_type": "spec",
    "train_instance_type": "spec",
    "instance_count": "nodes",
    "train_instance_count": "nodes",
    "hyperparameters": "parameters",
    "environments": "environment",
    "metric_definitions": "metric_patterns",
    "max_run": "max_duration",
    "max_run_time": "max_duration",
    "max_retry_attempts": "retries",
    "base_job_name": "name",
    "job_name": "name",
    "labels": "tags",
    "entry_point": "entry_script",
    "boot_file": "entry_script",
    "code_dir": "source_dir",
}
#: of other SDKs, what has no counterpart here -> why
_WITHOUT = {
    "role": "a run has the rights of the project's member who submits it",
    "sagemaker_session": "give client=headway.Client(...)",
    "session": "give client=headway.Client(...)",
    "image_uri": "a run uses the environment that headway runs in",
    "framework_version": "a run uses the environment that headway runs in",
    "py_version": "a run uses the environment that headway runs in",
    "output_path": "outputs go to OUTPUT_PATH; `latest_job.output_path` says where that is",
    "checkpoint_s3_uri": "checkpoints are taken from CHECKPOINT_PATH; checkpoints= says which files",
    "volume_size": "the disk is the node's; limits={'disk_bytes': ...} bounds what a run writes",
}
_OWN = ("command", "entry_script", "source_dir", "use_spot_instances", "client", "project")
#: platforms that add the parameters to the command themselves
_ADD_ARGUMENTS = ("modelarts", "sagemaker")


class Estimator:
    """A training job to be: `fit` submits it, as often as it is called.

    Give `command` (a text with `{name}` for parameters, or words) or `entry_script`, which gets each parameter as
    `--name value`; `source_dir` is the folder with the code. The other keywords are the fields of a job request
    (`spec`, `nodes`, `parameters`, `max_duration` in seconds or as "2h", ...) under their own names or under those of
    other SDKs (`instance_type`, `instance_count`, `hyperparameters`, `metric_definitions`, `max_run`, ...).
    """

    def __init__(
        self,
        *,
        command: str | Sequence[str] | None = None,
        entry_script: str | None = None,
        source_dir: str | Path | None = None,
        use_spot_instances: bool = False,
        client: Client | None = None,
        project: str = "default",
        **values: Any,
    ) -> None:
        """client: as `headway.Client()` when None, made at the first use.

        Raises UsageError for a keyword that is not known, naming the nearest, or a value that is wrong.
        """
        fields = _ours(values)
        entry_script = entry_script or fields.pop("entry_script", None)
        source_dir = source_dir or fields.pop("source_dir", None)
        if (command is None) == (entry_script is None):
            raise UsageError("An estimator starts one thing.", "Give either command or entry_script.")
        if use_spot_instances:
            fields.setdefault("billing", "spot")
        self.source_dir = Path(source_dir) if source_dir is not None else None
        self.fields = {**fields, "command": _command(command, entry_script, fields)}
        build(JobRequest, self.fields)
        self._client, self._project = client, project
        self._job: int | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(project=self._project)
        return self._client

    def fit(
        self,
        inputs: str | Sequence[str] | Mapping[str, str] | None = None,
        *,
        wait: bool = True,
        logs: bool = True,
        job_name: str | None = None,
    ) -> RunView:
        """Submits the job and returns it, ended when `wait`. logs: print its lines meanwhile.

        inputs: datasets such as "digits@3", or channel -> dataset. Raises UsageError, RefusedError, NotFoundError, and
        FailedError when it was waited for and did not succeed.
        """
        values = dict(self.fields)
        if inputs is not None:
            values["datasets"] = _datasets(inputs)
        if job_name is not None:
            values["name"] = job_name
        if self.source_dir is not None:
            values["snapshot"] = self.client.snapshots.push(self.source_dir).digest
        view = self.client.jobs.submit(values.pop("command"), **values)
        self._job = view.id
        return self.wait(logs=logs) if wait else view

    def wait(self, *, logs: bool = False, timeout: float | None = None) -> RunView:
        """Until the latest job has ended. timeout: seconds, without logs. Raises FailedError unless it succeeded."""
        job = self._number()
        if logs:
            for line in self.client.runs.follow(job):
                _show(line)
        view = self.client.runs.wait(job, timeout=timeout)
        if view.state in ("failed", "stopped"):
            raise FailedError(
                f"Job {job} {view.state}: {view.reason}", view.remedy or f"`headway logs {job}` shows what it printed."
            )
        return view

    @property
    def latest_job(self) -> JobView:
        """As it is now. Raises UsageError before the first `fit`."""
        return self.client.jobs.get(self._number())

    @property
    def model_data(self) -> str | None:
        """Path of its newest valid checkpoint on the shared root; None when it has none."""
        found = self.checkpoints()
        return found[-1].path if found else None

    def checkpoints(self) -> list[CheckpointView]:
        """Those that are valid and there, by step."""
        return [c for c in self.client.runs.checkpoints(self._number()) if c.valid and c.removed_at is None]

    def metrics(self) -> list[MetricSeries]:
        return self.client.runs.metrics(self._number())

    def stop(self) -> RunView:
        """Asks the latest job to end; it gets its grace period to save."""
        return self.client.runs.stop(self._number())

    def _number(self) -> int:
        if self._job is None:
            raise UsageError("This estimator has no job yet.", "Call fit() first.", code="no_job")
        return self._job


def _ours(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a job request by our names. Raises UsageError."""
    known = (*_OWN, *JobRequest.model_fields, *ALIASES)
    found: dict[str, Any] = {}
    for given, value in values.items():
        if given in _WITHOUT:
            raise UsageError(f"Estimator: {given} has no counterpart here: {_WITHOUT[given]}.", "Leave it out.")
        name = ALIASES.get(given, given)
        if name not in JobRequest.model_fields and name not in _OWN:
            raise unknown("keyword", given, known, "Estimator")
        if name in found:
            raise UsageError(f"Estimator: {given} says again what another keyword says.", f"Give {name} once.")
        if value is not None:
            found[name] = value
    for name in ("max_duration", "max_wait", "grace"):
        if isinstance(found.get(name), str):
            found[name] = parse_duration(found[name], f"Estimator: {name}")
    if isinstance(tags := found.get("tags"), Sequence) and not isinstance(tags, str):
        found["tags"] = {str(t["Key"]): str(t["Value"]) for t in tags}
    if "environment" in found:
        found["environment"] = {str(k): str(v) for k, v in found["environment"].items()}
    return found


def _command(command: str | Sequence[str] | None, entry: str | None, fields: Mapping[str, Any]) -> list[str]:
    parameters = fields.get("parameters", {})
    if isinstance(command, str):
        return fill(command, parameters, "Estimator: command")
    if command is not None:
        return list(command)
    assert entry is not None
    words = ["python", entry] if entry.endswith(".py") else [entry]
    if fields.get("compat") in _ADD_ARGUMENTS:
        return words
    return words + [word for name, value in parameters.items() for word in (f"--{name}", str(value))]


def _datasets(inputs: str | Sequence[str] | Mapping[str, str]) -> list[str]:
    if isinstance(inputs, str):
        return [inputs]
    if isinstance(inputs, Mapping):
        return [f"{channel}={reference}" for channel, reference in inputs.items()]
    return list(inputs)


def _show(line: LogLineView) -> None:
    text = f"[{line.rank}] {line.text}" if line.rank else line.text
    print(text, file=sys.stdout, flush=True)
