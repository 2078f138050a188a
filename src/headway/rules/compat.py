"""What scripts written for other platforms find around them: variables, arguments, `$NAME` in a command.

Names and meanings are those platforms' own; paths are ours, so a script that takes them from its variables or arguments
runs unchanged. No folder is made at the file system's root.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.protocol.names import parameter_variable

PLATFORMS = ("modelarts", "pai", "sagemaker")
#: a script for PAI counts nodes with RANK and WORLD_SIZE, and starts its ranks itself
VIEWS = {"pai": "node"}
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@dataclass(frozen=True)
class Facts:
    """What the variables are made of. Paths are absolute."""

    job: str
    #: channel (the dataset's name unless the job gave another) -> folder
    inputs: dict[str, str]
    output: str
    #: "" where the job has no checkpoints
    checkpoints: str
    code: str
    parameters: dict[str, Any] = field(default_factory=dict)
    #: names or addresses of the nodes, first one first
    nodes: tuple[str, ...] = ("127.0.0.1",)
    #: index of the node that the variables are for
    node: int = 0
    processes: int = 1
    accelerators: int = 0
    cpus: float = 1.0


def variables(platform: str | None, facts: Facts) -> dict[str, str]:
    """What `platform` (None: no other) sets in a training process. Raises ValueError for an unknown one."""
    if platform is None:
        return {}
    if platform not in PLATFORMS:
        raise ValueError(f"compat: {platform!r} is none of {', '.join(PLATFORMS)}")
    return {"pai": _pai, "modelarts": _modelarts, "sagemaker": _sagemaker}[platform](facts)


def command(platform: str | None, words: Sequence[str], facts: Facts) -> list[str]:
    """`words` as `platform` would run them: with its `$NAME` filled in, and the arguments that it adds at the end."""
    if platform is None:
        return list(words)
    known = variables(platform, facts)
    found: list[str] = []
    for word in words:
        whole = _VARIABLE.fullmatch(word)
        if whole and (name := whole[1] or whole[2]) in ("PAI_USER_ARGS", "SM_USER_ARGS") and name in known:
            found += shlex.split(_user_arguments(facts))
        else:
            found.append(_VARIABLE.sub(lambda m: known.get(m[1] or m[2], m[0]), word))
    given = {word.partition("=")[0] for word in found if word.startswith("--")}
    return found + [word for name, pair in _arguments(platform, facts) if f"--{name}" not in given for word in pair]


def _arguments(platform: str, facts: Facts) -> list[tuple[str, list[str]]]:
    """(name, words) of each argument that the platform adds to the command that starts a script."""
    if platform == "sagemaker":
        return [(name, [f"--{name}", _text(value)]) for name, value in facts.parameters.items()]
    if platform == "modelarts":
        paths = {"data_url": _first(facts), "train_url": facts.output}
        return [(name, [f"--{name}={_text(value)}"]) for name, value in {**paths, **facts.parameters}.items() if value]
    return []  # PAI's users write $PAI_USER_ARGS where they want them


def _pai(facts: Facts) -> dict[str, str]:
    output = facts.output
    outputs = {"model": f"{output}/model", "checkpoints": facts.checkpoints or f"{output}/checkpoints"}
    outputs["tensorboard"] = f"{output}/tensorboard"
    return {
        **{f"PAI_INPUT_{parameter_variable(name)}": path for name, path in facts.inputs.items()},
        **{f"PAI_OUTPUT_{name.upper()}": path for name, path in outputs.items()},
        "PAI_HPS": json.dumps(_texts(facts.parameters), ensure_ascii=False),
        **{f"PAI_HPS_{parameter_variable(name)}": _text(value) for name, value in facts.parameters.items()},
        "PAI_USER_ARGS": _user_arguments(facts),
        "PAI_WORKING_DIR": facts.code,
        "NPROC_PER_NODE": str(facts.processes),
    }


def _modelarts(facts: Facts) -> dict[str, str]:
    hosts = ",".join(facts.nodes)
    found = {
        "train_url": facts.output,
        "MA_JOB_DIR": facts.code,
        "MA_MOUNT_PATH": facts.output,
        "MA_NUM_HOSTS": str(len(facts.nodes)),
        "MA_NUM_GPUS": str(facts.accelerators),
        "MA_TASK_NAME": "worker",
        "VC_TASK_INDEX": str(facts.node),
        "VC_WORKER_NUM": str(len(facts.nodes)),
        "VC_WORKER_HOSTS": hosts,
        "MA_JOB_NAME": facts.job,
    }
    if first := _first(facts):
        found["data_url"] = first
    return found


def _sagemaker(facts: Facts) -> dict[str, str]:
    hosts = [f"algo-{i + 1}" for i in range(len(facts.nodes))]
    texts = _texts(facts.parameters)
    inputs = dict(facts.inputs)
    if len(inputs) == 1:
        # the name of a channel that was given none
        inputs.setdefault("training", next(iter(inputs.values())))
    return {
        **{f"SM_CHANNEL_{parameter_variable(name)}": path for name, path in inputs.items()},
        "SM_CHANNELS": json.dumps(sorted(inputs)),
        "SM_MODEL_DIR": f"{facts.output}/model",
        "SM_OUTPUT_DIR": facts.output,
        "SM_OUTPUT_DATA_DIR": f"{facts.output}/data",
        "SM_CHECKPOINT_DIR": facts.checkpoints,
        "SM_MODULE_DIR": facts.code,
        "SM_HPS": json.dumps(facts.parameters, ensure_ascii=False, default=str),
        **{f"SM_HP_{parameter_variable(name)}": value for name, value in texts.items()},
        "SM_USER_ARGS": json.dumps(shlex.split(_user_arguments(facts))),
        "SM_HOSTS": json.dumps(hosts),
        "SM_CURRENT_HOST": hosts[facts.node],
        "SM_MASTER_ADDR": facts.nodes[0],
        "SM_NUM_GPUS": str(facts.accelerators),
        "SM_NUM_CPUS": str(max(1, int(facts.cpus))),
        "TRAINING_JOB_NAME": facts.job,
    }


def folders(platform: str | None, facts: Facts) -> list[str]:
    """Those among the variables' paths that the platform has made before a script starts: all below the output."""
    known = variables(platform, facts)
    return sorted({value for value in known.values() if value.startswith(f"{facts.output}/")})


def _first(facts: Facts) -> str:
    """The folder of the first input; "" without any."""
    return next(iter(facts.inputs.values()), "")


def _user_arguments(facts: Facts) -> str:
    return shlex.join([w for name, value in facts.parameters.items() for w in (f"--{name}", _text(value))])


def _texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in parameters.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
