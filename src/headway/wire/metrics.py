"""Metrics and what a run used."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict

from headway.wire.base import Answer


def _number(value: object) -> object:
    return math.nan if value is None else value


class MetricPoint(Answer):
    # JSON has no word for what is no number: it is given as "NaN", "Infinity", "-Infinity"
    model_config = ConfigDict(extra="ignore", from_attributes=True, ser_json_inf_nan="strings")

    time: float
    step: int
    #: NaN where it was not finite
    value: Annotated[float, BeforeValidator(_number)]
    rank: int = 0


class MetricSeries(Answer):
    model_config = ConfigDict(extra="ignore", from_attributes=True, ser_json_inf_nan="strings")

    name: str
    points: list[MetricPoint]
    #: how many there are; more than are given when these are only the lowest and the highest of each stretch
    total: int = 0


class UsageDevice(Answer):
    """Of an accelerator in one stretch of time."""

    index: int
    busy_percent: float
    memory_bytes: int


class UsageSample(Answer):
    """One stretch of time, which ends at `time`: most memory, mean of all else."""

    time: float
    processes: int
    #: CPUs that were busy
    cpus: float
    memory_bytes: int
    #: per second: disk, and the machine's network
    read_bytes: float
    write_bytes: float
    received_bytes: float
    sent_bytes: float
    disk_free_bytes: int | None = None
    accelerators: list[UsageDevice] = []


class UsageSeries(Answer):
    """What one node of one attempt used."""

    attempt: str
    node: int
    samples: list[UsageSample]
