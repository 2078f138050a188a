"""What an MLflow client records in a run of ours: experiments, MLflow runs, their parameters and tags, logged models.

Kept under OUTPUT_PATH/mlflow as one JSON file each, written whole; metric values go to the runner instead, as those of
`headway.log` do. Metrics of the first MLflow run of an attempt keep their names, those of a further one are called
`<its name>/<metric>`.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headway.protocol.files import read_json, read_records, write_json

#: seconds between two times that last values of metrics are saved
SAVE_SECONDS = 2.0
DEFAULT = "Default"
_CLAUSE = re.compile(
    r"\s*(?:(\w+)\.)?(`[^`]+`|\"[^\"]+\"|[\w.-]+)\s*(=|!=|>=|<=|>|<)\s*('[^']*'|\"[^\"]*\"|[-+.\w]+)\s*\Z"
)
_STATUS = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")


class RequestError(Exception):
    """Becomes MLflow's error answer."""

    def __init__(self, message: str, code: str = "INVALID_PARAMETER_VALUE", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


def absent(what: str, name: object) -> RequestError:
    return RequestError(f"There is no {what} {name!r} here.", "RESOURCE_DOES_NOT_EXIST", 404)


def now() -> int:
    return time.time_ns() // 1_000_000


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


class Records:
    """Thread-safe. `tell(points)` takes (step, name, value, seconds) to the runner."""

    def __init__(
        self,
        folder: Path,
        attempt: str,
        tell: Callable[[list[tuple[int, str, float, float]]], None],
        points: list[Path],
    ) -> None:
        """folder: OUTPUT_PATH/mlflow. points: the files in which metrics of this attempt are. Raises OSError."""
        self._folder, self._attempt, self._tell, self._points = folder, attempt, tell, points
        self._lock = threading.RLock()
        folder.mkdir(parents=True, exist_ok=True)
        self._experiments: dict[str, dict[str, Any]] = read_json(folder / "experiments.json") or {}
        self._runs = {path.parent.name: read_json(path) for path in folder.glob("*/run.json")}
        self._models = {path.parent.name: read_json(path) for path in folder.glob("*/model.json")}
        #: run -> when its metrics were saved last
        self._saved: dict[str, float] = {}
        if not any(e["name"] == DEFAULT for e in self._experiments.values()):
            self._add_experiment("0", DEFAULT, {})

    # -- experiments

    def _add_experiment(self, experiment: str, name: str, tags: dict[str, Any]) -> None:
        at = now()
        self._experiments[experiment] = {
            "experiment_id": experiment, "name": name, "artifact_location": f"mlflow-artifacts:/{experiment}",
            "lifecycle_stage": "active", "creation_time": at, "last_update_time": at, "tags": tags,
        }  # fmt: skip
        write_json(self._folder / "experiments.json", self._experiments)

    def create_experiment(self, name: str, tags: dict[str, Any]) -> str:
        with self._lock:
            if not name:
                raise RequestError("An experiment needs a name.")
            if any(e["name"] == name for e in self._experiments.values()):
                raise RequestError(f"There is an experiment {name!r} already.", "RESOURCE_ALREADY_EXISTS")
            # the same on every node, as the folder is
            experiment = str(zlib.crc32(name.encode()) + 1)
            self._add_experiment(experiment, name, tags)
            return experiment

    def experiment(self, experiment: str) -> dict[str, Any]:
        with self._lock:
            if (found := self._experiments.get(experiment)) is None:
                raise absent("experiment", experiment)
            return {**found, "tags": pairs(found["tags"])}

    def experiment_named(self, name: str) -> dict[str, Any]:
        with self._lock:
            for key, found in self._experiments.items():
                if found["name"] == name:
                    return self.experiment(key)
        raise absent("experiment", name)

    def experiments(self) -> list[dict[str, Any]]:
        with self._lock:
            return [self.experiment(key) for key in self._experiments]

    def tag_experiment(self, experiment: str, key: str, value: Any) -> None:
        with self._lock:
            self.experiment(experiment)
            self._experiments[experiment]["tags"][key] = value
            write_json(self._folder / "experiments.json", self._experiments)

    # -- runs

    def create_run(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            experiment = str(body.get("experiment_id") or "0")
            self.experiment(experiment)
            run, tags = uuid.uuid4().hex, _tags(body.get("tags"))
            name = body.get("run_name") or tags.get("mlflow.runName") or f"run-{run[:8]}"
            first = not any(r["attempt"] == self._attempt for r in self._runs.values())
            info = {
                "run_id": run, "run_uuid": run, "run_name": name, "experiment_id": experiment,
                "user_id": body.get("user_id") or "", "status": "RUNNING", "lifecycle_stage": "active",
                "start_time": int(body.get("start_time") or now()),
                "artifact_uri": f"mlflow-artifacts:/{experiment}/{run}/artifacts",
            }  # fmt: skip
            self._runs[run] = {
                "attempt": self._attempt, "prefix": "" if first else f"{name}/", "info": info, "params": {},
                "tags": {**tags, "mlflow.runName": name}, "metrics": {},
                "inputs": [], "model_inputs": [], "outputs": [],
            }  # fmt: skip
            (self._folder / run).mkdir(parents=True)
            self._save(run)
            return self.run(run)

    def _run(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] | None = self._runs.get(run)
        if found is None:
            raise absent("run", run)
        return found

    def _save(self, run: str) -> None:
        self._saved[run] = time.monotonic()
        write_json(self._folder / run / "run.json", self._runs[run])

    def run(self, run: str) -> dict[str, Any]:
        with self._lock:
            found = self._run(run)
            data = {"metrics": list(found["metrics"].values()), "params": pairs(found["params"])}
            return {
                "info": dict(found["info"]),
                "data": {**data, "tags": pairs(found["tags"])},
                "inputs": {"dataset_inputs": found["inputs"], "model_inputs": found["model_inputs"]},
                "outputs": {"model_outputs": found["outputs"]},
            }

    def update_run(self, run: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            info = self._run(run)["info"]
            if (status := body.get("status")) is not None:
                # by name, or by the number of protobuf
                info["status"] = _STATUS[int(status) - 1] if str(status).isdigit() else str(status)
            if body.get("end_time") is not None:
                info["end_time"] = int(body["end_time"])
            if body.get("run_name"):
                info["run_name"] = self._runs[run]["tags"]["mlflow.runName"] = body["run_name"]
            self._save(run)
            return dict(info)

    def set_stage(self, run: str, stage: str) -> None:
        with self._lock:
            self._run(run)["info"]["lifecycle_stage"] = stage
            self._save(run)

    def log(self, run: str, metrics: Iterable[Any] = (), params: Iterable[Any] = (), tags: Iterable[Any] = ()) -> None:
        """metrics: {key, value, timestamp (ms), step}; params, tags: {key, value}. Raises RequestError."""
        points = []
        with self._lock:
            found = self._run(run)
            changed = False
            for one in params:
                key, value = str(one["key"]), str(one.get("value", ""))
                if found["params"].setdefault(key, value) != value:
                    was = found["params"][key]
                    raise RequestError(f"Parameter {key!r} of run {run!r} is {was!r} already, and stays so.")
                changed = True
            for one in tags:
                found["tags"][str(one["key"])] = str(one.get("value", ""))
                changed = True
            for one in metrics:
                metric = _metric(one)
                points.append(
                    (
                        metric["step"],
                        found["prefix"] + metric["key"],
                        float(metric["value"]),
                        metric["timestamp"] / 1000,
                    )
                )
                last = found["metrics"].get(metric["key"])
                if last is None or (metric["step"], metric["timestamp"]) >= (last["step"], last["timestamp"]):
                    found["metrics"][metric["key"]] = metric
            if changed or time.monotonic() >= self._saved.get(run, 0.0) + SAVE_SECONDS:
                self._save(run)
        if points:
            self._tell(points)

    def delete_tag(self, run: str, key: str) -> None:
        with self._lock:
            if self._run(run)["tags"].pop(key, None) is None:
                raise absent("tag", key)
            self._save(run)

    def add(self, run: str, what: str, values: list[Any]) -> None:
        """what: "inputs", "model_inputs" or "outputs"."""
        with self._lock:
            self._run(run)[what] += values
            self._save(run)

    def history(self, run: str, key: str) -> list[dict[str, Any]]:
        """Every value of a metric, from what the runner has written; in its order."""
        with self._lock:
            found = self._run(run)
            name = found["prefix"] + key
        points = []
        for path in self._points:
            offset = -1
            after = 0
            while after != offset:
                offset = after
                records, after = read_records(path, offset)
                for one in records:
                    if one.get("name") == name:
                        at = int(one["t"] * 1000 + 0.5)
                        points.append({"key": key, "value": one["value"], "timestamp": at, "step": one["step"]})
        return points

    def search(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        stage = str(body.get("run_view_type") or "ACTIVE_ONLY")
        wanted = {"ACTIVE_ONLY": ("active",), "DELETED_ONLY": ("deleted",)}.get(stage, ("active", "deleted"))
        tests = [_clause(text) for text in re.split(r"(?i)\s+and\s+", str(body.get("filter") or "").strip()) if text]
        with self._lock:
            experiments = [str(e) for e in body.get("experiment_ids") or ()]
            runs = [
                key
                for key, found in self._runs.items()
                if found["info"]["experiment_id"] in experiments
                and found["info"]["lifecycle_stage"] in wanted
                and all(test(found) for test in tests)
            ]
            runs.sort(key=lambda key: self._runs[key]["info"]["start_time"], reverse=True)
            return [self.run(key) for key in runs[: int(body.get("max_results") or 1000)]]

    # -- logged models

    def create_model(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            model, at = f"m-{uuid.uuid4().hex}", now()
            experiment = str(body.get("experiment_id") or "0")
            info = {
                "model_id": model, "experiment_id": experiment, "name": body.get("name") or model,
                "creation_timestamp_ms": at, "last_updated_timestamp_ms": at,
                "artifact_uri": f"mlflow-artifacts:/{experiment}/models/{model}/artifacts",
                "status": "LOGGED_MODEL_PENDING", "model_type": body.get("model_type") or "",
                "source_run_id": body.get("source_run_id") or "", "tags": list(body.get("tags") or ()),
            }  # fmt: skip
            self._models[model] = {"info": info, "data": {"params": list(body.get("params") or ()), "metrics": []}}
            (self._folder / model).mkdir(parents=True)
            return self._saved_model(model)

    def _saved_model(self, model: str) -> dict[str, Any]:
        write_json(self._folder / model / "model.json", self._models[model])
        return self.model(model)

    def model(self, model: str) -> dict[str, Any]:
        with self._lock:
            if (found := self._models.get(model)) is None:
                raise absent("logged model", model)
            copy: dict[str, Any] = json.loads(json.dumps(found))
            return copy

    def change_model(self, model: str, **changes: Any) -> dict[str, Any]:
        """changes: status; tags, params: lists that are added."""
        with self._lock:
            self.model(model)
            found = self._models[model]
            if changes.get("status") is not None:
                status = changes["status"]
                names = ("PENDING", "READY", "UPLOAD_FAILED")
                found["info"]["status"] = f"LOGGED_MODEL_{names[int(status) - 1]}" if str(status).isdigit() else status
            keys = {tag["key"] for tag in changes.get("tags") or ()}
            found["info"]["tags"] = [t for t in found["info"]["tags"] if t["key"] not in keys]
            found["info"]["tags"] += changes.get("tags") or ()
            found["data"]["params"] += changes.get("params") or ()
            found["info"]["last_updated_timestamp_ms"] = now()
            return self._saved_model(model)

    def models(self, experiments: list[str]) -> list[dict[str, Any]]:
        with self._lock:
            return [self.model(key) for key, m in self._models.items() if m["info"]["experiment_id"] in experiments]

    def close(self) -> None:
        """Saves what is not saved yet."""
        with self._lock:
            for run in self._saved:
                self._save(run)


def _tags(raw: Any) -> dict[str, str]:
    return {str(tag["key"]): str(tag.get("value", "")) for tag in raw or ()}


def _metric(raw: Any) -> dict[str, Any]:
    """As the answers have it. Raises RequestError."""
    try:
        value = float(raw["value"])
        at, step = int(raw.get("timestamp") or now()), int(raw.get("step") or 0)
        key = str(raw["key"])
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"This is no metric: {raw!r}.") from error
    # JSON knows no such numbers; protobuf's has them as words
    shown = value if value == value and abs(value) != float("inf") else "NaN" if value != value else str(value).title()
    if shown in ("Inf", "-Inf"):
        shown = f"{shown}inity"
    return {"key": key, "value": shown, "timestamp": at, "step": step}


def _clause(text: str) -> Callable[[dict[str, Any]], bool]:
    """A condition of a search, as a test of a run. Raises RequestError."""
    found = _CLAUSE.match(text)
    if found is None:
        raise RequestError(f"This search is not understood here: {text!r}. Give conditions such as params.lr = '0.1'.")
    kind, key, sign, word = (found[1] or "attributes").lower(), found[2].strip('`"'), found[3], found[4].strip("'\"")

    def value(run: dict[str, Any]) -> Any:
        if kind in ("metric", "metrics"):
            last = run["metrics"].get(key)
            return None if last is None else float(last["value"])
        if kind in ("param", "params", "parameter", "parameters"):
            return run["params"].get(key)
        if kind in ("tag", "tags"):
            return run["tags"].get(key)
        return run["info"].get(key)

    def test(run: dict[str, Any]) -> bool:
        have = value(run)
        if have is None:
            return False
        want: Any = word
        if not isinstance(have, str):
            try:
                want = float(word)
            except ValueError:
                return False
        if sign in ("=", "!="):
            return bool(have == want) == (sign == "=")
        return bool(
            have > want
            if sign == ">"
            else have < want
            if sign == "<"
            else have >= want
            if sign == ">="
            else have <= want
        )

    return test
