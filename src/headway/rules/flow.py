"""`flow.yaml` as values: stages in order, every error one sentence that names file and key path."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.errors import UsageError
from headway.rules import jobform
from headway.rules.commands import fill as fill
from headway.rules.commands import split
from headway.rules.jobs import check_durations
from headway.rules.nearest import unknown
from headway.rules.units import parse_duration, parse_size

#: in the order in which they are carried out
STAGES = ("dataset", "train", "evaluate", "model", "endpoint")
OUTPUT_KINDS = ("file", "image", "json", "safetensors", "tar", "torch")
DEFAULT_CHECKPOINTS = ("*.pt", "*.pth", "*.safetensors", "*/")

_NAME = re.compile(r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")
_ENTRY = re.compile(r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True)
class Dataset:
    name: str
    #: folder, below the flow's
    path: str
    #: command that makes the folder when it is missing; run in the flow's folder
    prepare: str | None = None


@dataclass(frozen=True)
class Train:
    name: str
    #: placeholders like {epochs} are filled in from `parameters`
    command: str
    parameters: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    processes: int = 1
    spec: str = "small"
    cpus: float | None = None
    memory_bytes: int | None = None
    accelerators: int | None = None
    data: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = DEFAULT_CHECKPOINTS
    metrics: tuple[dict[str, str], ...] = ()
    #: seconds
    max_duration: float | None = None
    grace: float = 30.0
    priority: int = 5
    retries: int = 3
    #: fields of the job request that the file names besides: nodes, billing, limits, ...
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluate:
    name: str
    worker: str
    #: file below the flow's folder, or the cases themselves
    cases: str | list[dict[str, Any]]
    #: name -> kind
    outputs: dict[str, str]
    #: key of the main score in `score_file`
    score: str = "score"
    score_file: str = "score.json"
    checkpoints: str | tuple[str, ...] = "all"
    data: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    workers: int = 1
    spec: str = "small"
    max_duration: float | None = None
    retries: int = 3


@dataclass(frozen=True)
class Model:
    name: str
    predictor: str
    #: name of a checkpoint, or "best": by the evaluation's score on `case`
    checkpoint: str = "best"
    case: str | None = None


@dataclass(frozen=True)
class Endpoint:
    name: str
    replicas: int = 1
    spec: str = "small"
    max_duration: float | None = None


@dataclass(frozen=True)
class Flow:
    dataset: Dataset | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    model: Model | None = None
    endpoint: Endpoint | None = None

    @property
    def stages(self) -> list[str]:
        """Those that the file has, in order."""
        return [s for s in STAGES if getattr(self, s) is not None]


class _Section:
    """One mapping of the file, read key by key; every error names the file and the key's path."""

    def __init__(self, raw: Any, file: str, path: str, keys: Iterable[str], required: Iterable[str] = ()) -> None:
        """Raises UsageError when `raw` is no mapping, has a key that is not among `keys`, or lacks a required one."""
        self.file, self.path = file, path
        if not isinstance(raw, dict):
            raise UsageError(f"{file}: {path or 'the file'} is {_kind(raw)}, not keys with values.", _like(path))
        self.raw: dict[str, Any] = {k: v for k, v in raw.items() if v is not None}
        known = list(keys)
        for key in raw:
            if key not in known:
                raise unknown("key", f"{path}.{key}" if path else str(key), _with(path, known), file)
        for key in required:
            if key not in self.raw:
                raise UsageError(f"{file}: {path} has no {key}.", f"Add {path}.{key}.", code="missing_key")

    def where(self, key: str) -> str:
        return f"{self.file}: {self.path}.{key}" if self.path else f"{self.file}: {key}"

    def wrong(self, key: str, should: str) -> UsageError:
        return UsageError(f"{self.where(key)} is {self.raw[key]!r}.", f"It should be {should}.")

    def text(self, key: str, default: str = "") -> str:
        value = self.raw.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "text")
        return value

    def name(self, key: str, default: str = "") -> str:
        value = self.text(key, default)
        if not _NAME.match(value):
            raise self.wrong(key, "a name of small letters, digits, '.', '_' and '-'")
        return value

    def entry(self, key: str) -> str:
        value = self.text(key)
        if not _ENTRY.match(value):
            raise self.wrong(key, "FILE.py:CLASS")
        return value

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"a whole number from {low} to {high}")
        return value

    def number(self, key: str) -> float | None:
        value = self.raw.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise self.wrong(key, "a number above 0")
        return value

    def duration(self, key: str, default: float | None = None) -> float | None:
        return parse_duration(self.raw[key], self.where(key)) if key in self.raw else default

    def size(self, key: str) -> int | None:
        return parse_size(self.raw[key], self.where(key)) if key in self.raw else None

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """One text or a list of them."""
        value = self.raw.get(key, default)
        value = (value,) if isinstance(value, str) else value
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.wrong(key, "text, or a list of texts")
        return tuple(value)

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.raw.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise self.wrong(key, "keys with values")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Keys with plain values, as text: for an environment."""
        found = self.mapping(key)
        for value in found.values():
            if not isinstance(value, str | int | float):
                raise self.wrong(key, "keys with plain values")
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in found.items()}


def _kind(raw: object) -> str:
    return "empty" if raw is None else f"a {type(raw).__name__}"


def _like(path: str) -> str:
    return (
        f"Write it like `{path.rsplit('.', 1)[-1]}: {{name: digits}}`." if path else "Write lines like `train: {...}`."
    )


def _with(path: str, keys: list[str]) -> list[str]:
    return [f"{path}.{k}" for k in keys] if path else keys


def parse(raw: Any, file: str = "flow.yaml") -> Flow:
    """The flow in `raw`, a loaded YAML file. file: its name, for errors. Raises UsageError: one sentence."""
    top = _Section(raw, file, "", STAGES)
    if not top.raw:
        raise UsageError(f"{file} has no stages.", f"Add one of {', '.join(STAGES)}.")
    found = top.raw
    flow = Flow(
        dataset=_dataset(found["dataset"], file) if "dataset" in found else None,
        train=_train(found["train"], file) if "train" in found else None,
        evaluate=_evaluate(found["evaluate"], file) if "evaluate" in found else None,
        model=_model(found["model"], file) if "model" in found else None,
        endpoint=_endpoint(found["endpoint"], file) if "endpoint" in found else None,
    )
    _check_order(flow, file)
    return flow


def _check_order(flow: Flow, file: str) -> None:
    for stage, needed in (("evaluate", "train"), ("model", "train"), ("endpoint", "model")):
        if getattr(flow, stage) is not None and getattr(flow, needed) is None:
            raise UsageError(f"{file} has {stage} but no {needed}, whose result it takes.", f"Add {needed}.")
    if flow.model and flow.model.checkpoint == "best":
        if flow.evaluate is None:
            raise UsageError(
                f"{file}: model.checkpoint is best, but there is no evaluate whose scores say which.",
                "Add evaluate, or name a checkpoint.",
            )
        if flow.model.case is None:
            raise UsageError(f"{file}: model has no case.", "Add model.case: the case whose score decides.")


def _dataset(raw: Any, file: str) -> Dataset:
    section = _Section(raw, file, "dataset", ("name", "path", "prepare"), required=("name", "path"))
    prepare = section.text("prepare") or None
    if prepare:
        split(prepare, section.where("prepare"))
    return Dataset(section.name("name"), section.text("path"), prepare)


_TRAIN_KEYS = (
    "name",
    "command",
    "parameters",
    "environment",
    "processes",
    "spec",
    "cpus",
    "memory",
    "accelerators",
    "data",
    "checkpoints",
    "metrics",
    "max_duration",
    "grace",
    "priority",
    "retries",
)
#: read as `rules.jobform` reads a job; `keep` is its `retention`
_MORE_TRAIN_KEYS = (
    "nodes",
    "accelerator_kind",
    "billing",
    "spot",
    "max_wait",
    "retry_rules",
    "limits",
    "keep",
    "after",
    "tags",
    "compat",
    "view",
)


def _train(raw: Any, file: str) -> Train:
    section = _Section(raw, file, "train", (*_TRAIN_KEYS, *_MORE_TRAIN_KEYS), required=("command",))
    metrics = section.raw.get("metrics", [])
    if not isinstance(metrics, list) or not all(isinstance(m, dict) for m in metrics):
        raise section.wrong("metrics", "a list of {Name, Regex}")
    ranges = {k: section.raw[k] for k in ("cpus", "memory", "accelerators") if ".." in str(section.raw.get(k, ""))}
    section.raw = {k: v for k, v in section.raw.items() if k not in ranges}
    train = Train(
        name=section.text("name", "train"),
        command=section.text("command"),
        parameters=section.mapping("parameters"),
        environment=section.texts("environment"),
        processes=section.integer("processes", 1, 1, 1024),
        spec=section.name("spec", "small"),
        cpus=section.number("cpus"),
        memory_bytes=section.size("memory"),
        accelerators=section.integer("accelerators", 0, 0, 1024) if "accelerators" in section.raw else None,
        data=section.words("data"),
        checkpoints=section.words("checkpoints", DEFAULT_CHECKPOINTS),
        metrics=tuple(metrics),
        max_duration=section.duration("max_duration"),
        grace=section.duration("grace", 30.0) or 30.0,
        priority=section.integer("priority", 5, 1, 9),
        retries=section.integer("retries", 3, 0, 100),
        more=jobform.fields(
            {**ranges, **{k: v for k, v in section.raw.items() if k in _MORE_TRAIN_KEYS}}, section.where
        ),
    )
    fill(train.command, train.parameters, section.where("command"))
    check_durations(train.max_duration, train.more.get("max_wait"), train.more.get("limits", {}))
    return train


def _evaluate(raw: Any, file: str) -> Evaluate:
    keys = (
        "name",
        "worker",
        "cases",
        "outputs",
        "score",
        "score_file",
        "checkpoints",
        "data",
        "environment",
        "workers",
        "spec",
        "max_duration",
        "retries",
    )
    section = _Section(raw, file, "evaluate", keys, required=("worker", "cases", "outputs"))
    outputs = section.mapping("outputs")
    for name, kind in outputs.items():
        if kind not in OUTPUT_KINDS:
            raise unknown("kind", str(kind), OUTPUT_KINDS, f"{section.where('outputs')}.{name}")
    cases = section.raw["cases"]
    if not isinstance(cases, str | list):
        raise section.wrong("cases", "a file, or a list of cases")
    score_file = section.text("score_file", "score.json")
    if outputs.get(score_file) != "json":
        raise UsageError(
            f"{section.where('outputs')} has no {score_file} of kind json, from which the score is read.",
            "Add it, or name another with evaluate.score_file.",
        )
    checkpoints = section.raw.get("checkpoints", "all")
    return Evaluate(
        name=section.name("name", "evaluation"),
        worker=section.entry("worker"),
        cases=cases if isinstance(cases, str) else parse_cases(cases, section.where("cases")),
        outputs=outputs,
        score=section.text("score", "score"),
        score_file=score_file,
        checkpoints="all" if checkpoints == "all" else section.words("checkpoints"),
        data=section.words("data"),
        environment=section.texts("environment"),
        workers=section.integer("workers", 1, 1, 256),
        spec=section.name("spec", "small"),
        max_duration=section.duration("max_duration"),
        retries=section.integer("retries", 3, 0, 100),
    )


def _model(raw: Any, file: str) -> Model:
    keys = ("name", "checkpoint", "case", "predictor")
    section = _Section(raw, file, "model", keys, required=("name", "predictor"))
    return Model(
        name=section.name("name"),
        predictor=section.entry("predictor"),
        checkpoint=section.text("checkpoint", "best"),
        case=section.text("case") or None,
    )


def _endpoint(raw: Any, file: str) -> Endpoint:
    section = _Section(raw, file, "endpoint", ("name", "replicas", "spec", "max_duration"), required=("name",))
    return Endpoint(
        name=section.name("name"),
        replicas=section.integer("replicas", 1, 1, 64),
        spec=section.name("spec", "small"),
        max_duration=section.duration("max_duration"),
    )


def parse_cases(raw: Any, file: str) -> list[dict[str, Any]]:
    """Cases of a loaded cases.yaml: a list, or `{cases: [...]}`; each `{id, parameters?, tags?}` or just an id.

    Raises UsageError for a case without an id, an id twice, or an unknown key.
    """
    if isinstance(raw, dict):
        raw = _Section(raw, file, "", ("cases",), required=("cases",)).raw["cases"]
    if not isinstance(raw, list) or not raw:
        raise UsageError(f"{file} holds no cases.", "Write a list of {id: NAME, parameters: {...}}.")
    found: list[dict[str, Any]] = []
    for number, item in enumerate(raw):
        path = f"cases[{number}]"
        section = _Section(
            {"id": item} if isinstance(item, str) else item, file, path, ("id", "parameters", "tags"), ("id",)
        )
        # an id of digits alone is a number in YAML
        case = {
            "id": str(section.raw["id"]),
            "parameters": section.mapping("parameters"),
            "tags": list(section.words("tags")),
        }
        if any(case["id"] == other["id"] for other in found):
            raise UsageError(f"{file}: {path}.id is {case['id']!r}, as an earlier case's.", "Give each its own id.")
        found.append(case)
    return found


def key(stage: str, inputs: Mapping[str, Any]) -> str:
    """The idempotency key of a stage: a digest of all that its result depends on."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return f"{stage}-{hashlib.sha256(text.encode()).hexdigest()[:40]}"
