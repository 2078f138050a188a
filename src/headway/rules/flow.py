"""`flow.yaml` as values: stages in order, every error one sentence that names file and key path."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.errors import UsageError
from headway.rules import evalform, jobform
from headway.rules.casefile import parse_cases as parse_cases
from headway.rules.commands import fill as fill
from headway.rules.commands import split
from headway.rules.jobs import check_durations
from headway.rules.section import Section as _Section

#: in the order in which they are carried out
STAGES = ("dataset", "train", "evaluate", "model", "endpoint")
DEFAULT_CHECKPOINTS = ("*.pt", "*.pth", "*.safetensors", "*/")


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
    #: file or folder below the flow's folder, or the cases themselves
    cases: str | list[dict[str, Any]]
    #: fields of the evaluation request that the file names, and its name (see `evalform.default_name`) and spec
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.fields["name"])

    @property
    def spec(self) -> str:
        return str(self.fields["spec"])

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return list(self.fields.get("outputs", []))

    @property
    def entries(self) -> dict[str, str]:
        """What it names in the code, FILE.py:NAME by key."""
        return {key: str(self.fields[key]) for key in ("worker", "check", "scorer") if key in self.fields}

    @property
    def follow(self) -> bool:
        return bool(self.fields.get("follow"))

    @property
    def what(self) -> str:
        """The worker, or the command."""
        return str(self.fields.get("worker") or shlex.join(self.fields.get("command", [])))


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
    section = _Section(raw, file, "evaluate", evalform.KEYS, required=("cases",))
    # `score:` without a value says that there is none
    given = {**section.raw, **({"score": None} if "score" in raw and raw["score"] is None else {})}
    found = evalform.fields(given, section.where)
    evalform.check(found, lambda key: section.where(key) if key else f"{file}: evaluate")
    name = evalform.default_name(found)
    cases = found.pop("cases")
    return Evaluate(
        cases=cases if isinstance(cases, str) else parse_cases(cases, section.where("cases")),
        fields={"name": name, "spec": "small", **found},
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


def key(stage: str, inputs: Mapping[str, Any]) -> str:
    """The idempotency key of a stage: a digest of all that its result depends on."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return f"{stage}-{hashlib.sha256(text.encode()).hexdigest()[:40]}"
