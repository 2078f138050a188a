"""The flags of a job, in panels, and what they say as a form that `rules.jobform` reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from headway.cli import common
from headway.errors import UsageError

_RESOURCES, _SPOT, _LIMITS, _RETRIES = "Resources", "Spot", "Time and limits", "Retries"
_CHECKPOINTS, _OTHER = "Checkpoints and metrics", "Description and order"


class Grouped(TyperCommand):
    """Help with the options under the headings of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or usual, []).append(record)
        for name, records in sorted(panels.items(), key=lambda p: ("Arguments", "Options").count(p[0]) == 0):
            with formatter.section(name):
                formatter.write_dl(records)


def _option(panel: str, help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel)


Text = str | None
Several = list[str] | None
Number = int | None

Name = Annotated[Text, _option(_OTHER, "A name to find it by.")]
Spec = Annotated[Text, _option(_RESOURCES, "Amount of resources [small]; see `headway spec ls`.")]
Nodes = Annotated[Text, _option(_RESOURCES, "Nodes that it runs on at once, such as 2 or 1..4.")]
Processes = Annotated[Number, _option(_RESOURCES, "Processes (ranks) on each node [1].")]
Cpus = Annotated[Text, _option(_RESOURCES, "CPUs of each node, instead of the spec's, such as 2 or 2..8.")]
Memory = Annotated[Text, _option(_RESOURCES, "Memory of each node, such as 4GiB or 8GiB..16GiB.")]
Gpus = Annotated[Text, _option(_RESOURCES, "Accelerators of each node, such as 2 or 1..4.")]
GpuKind = Annotated[Text, _option(_RESOURCES, "Kind that they must be of, such as A10.")]
Billing = Annotated[Text, _option(_SPOT, "on_demand, spot or subscription [on_demand].")]
Spot = Annotated[bool, _option(_SPOT, "The same as --billing spot: cheaper, may be reclaimed.", "--spot")]
MaxPrice = Annotated[float | None, _option(_SPOT, "Most that a node may cost an hour; above it the place is given up.")]
MaxDiscount = Annotated[float | None, _option(_SPOT, "Least part of the on-demand price that must be saved, 0 to 1.")]
Protection = Annotated[Text, _option(_SPOT, "Time in which headway itself never reclaims it [1h].")]
MaxDuration = Annotated[Text, _option(_LIMITS, "Ends it after so long, such as 90m; none: never.")]
MaxWait = Annotated[Text, _option(_LIMITS, "Ends it after waiting and running for so long; none: never.")]
Grace = Annotated[Text, _option(_LIMITS, "Time to save before it is killed [30s].")]
IdleOutput = Annotated[Text, _option(_LIMITS, "Ends it after so long without a line, such as 30m.")]
Hang = Annotated[Text, _option(_LIMITS, "Ends it after so long without a line and without work [30m]; off: never.")]
NoProgress = Annotated[Text, _option(_LIMITS, "METRIC:DURATION[:max] without getting better, such as loss:2h.")]
FailOnNan = Annotated[bool, _option(_LIMITS, "End it when a metric becomes NaN or infinite.", "--fail-on-nan")]
Disk = Annotated[Text, _option(_LIMITS, "Most that it may write, such as 20GiB.")]
Retries = Annotated[Number, _option(_RETRIES, "How often it is placed again after a loss [3].")]
Retry = Annotated[Several, _option(_RETRIES, "CAUSE=ACTION[:N], such as node_lost=elsewhere:5; may be repeated.")]
Checkpoint = Annotated[
    Several, _option(_CHECKPOINTS, "Pattern under CHECKPOINT_PATH, such as *.pt; may be repeated.", "--checkpoint")
]
KeepLast = Annotated[Number, _option(_CHECKPOINTS, "Keep the last so many checkpoints.")]
KeepBest = Annotated[Text, _option(_CHECKPOINTS, "N:METRIC[:min], such as 3:accuracy: keep the best.")]
KeepEvery = Annotated[Number, _option(_CHECKPOINTS, "Keep one every so many steps.")]
Metric = Annotated[
    Several, _option(_CHECKPOINTS, "NAME=REGEX with one group for the number; may be repeated.", "--metric")
]
Data = Annotated[Several, _option(_RESOURCES, "Dataset, such as digits@1 or train=digits; may be repeated.")]
Code = Annotated[Path | None, _option(_RESOURCES, "Folder with the code, taken along as a snapshot.")]
Env = Annotated[Several, _option(_OTHER, "NAME=VALUE for its environment; may be repeated.")]
Param = Annotated[Several, _option(_OTHER, "NAME=VALUE parameter; may be repeated.")]
Priority = Annotated[Number, _option(_OTHER, "1 (last) to 9 (first) [5].")]
After = Annotated[list[int] | None, _option(_OTHER, "Job that must have succeeded before; may be repeated.", "--after")]
Tag = Annotated[Several, _option(_OTHER, "NAME=VALUE to find it by; may be repeated.", "--tag")]
Compat = Annotated[Text, _option(_OTHER, "pai, modelarts or sagemaker: their names in its environment.")]
View = Annotated[Text, _option(_OTHER, "process or node: what RANK counts; usually told by the command.")]

_IN_SPOT = ("max_price", "max_discount", "protection")
_IN_LIMITS = ("idle_output", "hang", "no_progress")
_IN_RETENTION = ("keep_last", "keep_best", "keep_every")
_PLAIN = (
    *("name", "spec", "nodes", "processes", "cpus", "memory", "gpus", "gpu_kind", "billing", "max_duration"),
    *("max_wait", "grace", "retries", "data", "priority", "after", "compat", "view"),
)
#: what takes a limit away
_NONE = "none"


def form(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job request that the flags name; a null is one that is taken away. Raises UsageError."""
    from headway.rules import jobform

    raw = _raw({k: v for k, v in given.items() if v is not None and v is not False and v != []})
    gone = {k: None for k, v in raw.get("limits", {}).items() if v == _NONE}
    if gone:
        raw["limits"] = {k: v for k, v in raw["limits"].items() if k not in gone}
    nulls = {k: None for k in ("max_duration", "max_wait") if raw.get(k) == _NONE}
    try:
        found = {**jobform.fields({k: v for k, v in raw.items() if k not in nulls}, _flag), **nulls}
        return {**found, "limits": {**found.get("limits", {}), **gone}} if gone else found
    except UsageError as error:
        # the flags of a group stand for keys below one
        message = re.sub(r"--(?:limits|spot|retention)\.(\w+)", lambda m: _flag(m[1]), error.message)
        raise UsageError(message, error.remedy, code=error.code) from None


def _raw(given: dict[str, Any]) -> dict[str, Any]:
    """The form that the flags fill in."""
    raw = {k: given[k] for k in _PLAIN if k in given}
    if given.get("spot") and raw.setdefault("billing", "spot") != "spot":
        raise UsageError(f"--spot is given, but --billing is {raw['billing']}.", "Leave one of them out.")
    for name, flags in (("spot", _IN_SPOT), ("limits", _IN_LIMITS), ("retention", _IN_RETENTION)):
        if parts := {k: given[k] for k in flags if k in given}:
            raw[name] = parts
    more = {"nan": True} if given.get("fail_on_nan") else {}
    if more := {**more, **({"disk": given["disk"]} if "disk" in given else {})}:
        raw["limits"] = {**raw.get("limits", {}), **more}
    if "checkpoint" in given:
        raw["checkpoints"] = given["checkpoint"]
    for key, flag in (("environment", "env"), ("tags", "tag"), ("retry_rules", "retry"), ("metrics", "metric")):
        if flag in given:
            raw[key] = common.pairs(given[flag], f"--{flag}")
    if "param" in given:
        raw["parameters"] = {k: common.scalar(v) for k, v in common.pairs(given["param"], "--param").items()}
    return raw


_FLAGS = {"environment": "env", "tags": "tag", "retry_rules": "retry", "metrics": "metric", "parameters": "param"}
_FLAGS.update(checkpoints="checkpoint", disk_bytes="disk")


def _flag(key: str) -> str:
    return f"--{_FLAGS.get(key, key).replace('_', '-')}" if key else ""


def file(path: Path) -> dict[str, Any]:
    """The fields of a job request in a YAML file, and `code` with the folder that it names. Raises UsageError."""
    import yaml

    from headway.rules import jobform

    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", "Give a file that is there.", code="missing_file"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no YAML: {' '.join(str(error).split())}.", "Correct it.") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path} holds no job.", "Write lines like `command: python train.py`.")
    code = raw.pop("code", None)
    if code is not None and not isinstance(code, str):
        raise UsageError(f"{path}: code is {code!r}.", "It should be a folder.")
    found = jobform.fields(raw, lambda key: f"{path.name}: {key}")
    return {**found, "code": path.parent / code} if code is not None else found
