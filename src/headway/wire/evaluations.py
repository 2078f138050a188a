"""Evaluations: every checkpoint on every case. What is asked, and what is told about cells."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headway.wire.base import Answer, Request
from headway.wire.people import NAME
from headway.wire.runs import Spot

#: a case's name, and one part of an output's
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_COUNT = r"^[0-9]+(\.\.[0-9]*)?$"
Policy = Literal["side_by_side", "spare", "after_training"]


class Case(BaseModel):
    """One case. All of it goes to the worker as it is. Its values are looked through with those of its request."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    # made anew for each: a hundred thousand copies of an empty one take most of a second
    inputs: dict[str, Any] = Field(default_factory=dict)
    parameters: dict[str, Any] = Field(default_factory=dict)
    #: what a scorer compares with
    expected: Any = None
    tags: list[str] = Field(default_factory=list)


class OutputRule(BaseModel):
    """One output file, or several with a `*` in the name, and what makes it valid. Nothing but `name` is needed."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    #: path below the cell's folder; `*` may stand in its last part
    name: str = Field(pattern=rf"^({_PART}/)*[A-Za-z0-9_*][A-Za-z0-9._*-]*$", max_length=200)
    #: file (any that is not empty), image, video, audio, json, csv, tensors, safetensors, torch or tar
    kind: str = "file"
    #: how many files a name with `*` stands for: 3, "1..4" or "1.."
    count: int | str | None = None
    min_bytes: int | None = Field(default=None, ge=0)
    width: int | None = Field(default=None, ge=1)
    height: int | None = Field(default=None, ge=1)
    frames: int | None = Field(default=None, ge=1)
    #: with `tolerance`, which is 0.1 where nothing is said
    seconds: float | None = Field(default=None, gt=0)
    tolerance: float | None = Field(default=None, ge=0)
    #: frames or samples a second
    rate: float | None = Field(default=None, gt=0)
    channels: int | None = Field(default=None, ge=1)
    rows: int | None = Field(default=None, ge=0)
    columns: list[str] | None = None
    #: a JSON schema
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    shape: list[int] | None = None

    @field_validator("count")
    @classmethod
    def _count(cls, given: int | str | None) -> int | str | None:
        if isinstance(given, int):
            if given < 1:
                raise ValueError("a count is at least 1")
        elif given is not None:
            if not re.match(_COUNT, given):
                raise ValueError('write a count like 3, "1..4" or "1.."')
            low, _, high = given.partition("..")
            if high and int(high) < max(1, int(low)):
                raise ValueError("a range begins with its lower end")
        return given

    def given(self) -> dict[str, Any]:
        """Its keys that were given, as records and workers have them."""
        return self.model_dump(by_alias=True, exclude_none=True)


class EvaluationRequest(Request):
    """Evaluates checkpoints on cases. Cells whose key is done in the project already are not run again."""

    name: str = Field(pattern=NAME)
    #: one or several; `job` with one number is the same
    jobs: list[int] = Field(min_length=1, max_length=1000)
    #: "all", or names of checkpoints or globs
    checkpoints: str | Annotated[list[str], Field(min_length=1)] = "all"
    #: only every k-th of a job's checkpoints, by their order
    every: int | None = Field(default=None, ge=1)
    #: only so many, the best by their metric `by`
    best: int | None = Field(default=None, ge=1)
    by: str | None = None
    mode: Literal["min", "max"] = "min"
    #: takes each new checkpoint of the jobs too, and ends after they have
    follow: bool = False
    cases: list[Case] = Field(min_length=1, max_length=100_000)
    #: each case is run so often; `seed`, `seed` + 1, ... tell the repeats apart
    repeats: int = Field(default=1, ge=1, le=10_000)
    seed: int = 0
    #: of every case that does not say otherwise
    parameters: dict[str, Any] = {}
    #: "evaluate.py:Digits": a class with load(checkpoint) and run(case, out), in the snapshot; or else `command`
    worker: str | None = None
    #: started once a cell, with {checkpoint}, {checkpoint.name}, {case.NAME}, {seed}, {repeat}, {case}, {out} filled in
    command: list[str] | None = None
    outputs: list[OutputRule] = []
    #: "checks.py:function": what else must hold; it returns None, or a sentence of what does not
    check: str | None = None
    #: "score.py:function": returns a number, or numbers by name
    scorer: str | None = None
    #: where scores come from when there is no scorer: `score_file`, the last JSON of stdout, or lm-eval's results
    scores: Literal["file", "stdout", "lm_eval"] = "file"
    score_file: str | None = "score.json"
    #: key of the main score; None: none is asked for, and the outputs alone count
    score: str | None = "score"
    better: Literal["higher", "lower"] = "higher"
    snapshot: str
    #: digest of the part of the snapshot that the cells depend on; None: of all of it
    code: str | None = Field(default=None, min_length=1, max_length=128)
    datasets: list[str] = []
    environment: dict[str, str] = {}
    spec: str = "small"
    #: most and least worker runs
    workers: int = Field(default=1, ge=1, le=256)
    least_workers: int = Field(default=1, ge=1, le=256)
    #: beside training, on devices that nothing else waits for, or once the jobs have ended
    policy: Policy = "side_by_side"
    #: how workers bid for spot prices; one that is reclaimed leaves its cells to others. None: workers on demand
    spot: Spot | None = None
    #: seconds
    cell_timeout: float | None = Field(default=None, gt=0)
    #: how often a cell is tried before it is invalid
    tries: int = Field(default=2, ge=1, le=100)
    #: absolute folder for the outputs; None: the evaluation's own
    target: str | None = Field(default=None, max_length=4096)
    #: nothing runs before it is retried; for outputs that are to be adopted first
    held: bool = False
    max_duration: float | None = Field(default=None, gt=0)
    retries: int = Field(default=3, ge=0)
    key: str | None = Field(default=None, max_length=128)

    @model_validator(mode="before")
    @classmethod
    def _one_job(cls, given: Any) -> Any:
        if isinstance(given, dict) and "job" in given and "jobs" not in given:
            given = {**given, "jobs": [given["job"]]}
            del given["job"]
        return given


class EvaluationPlan(Answer):
    """What an evaluation would be; nothing is recorded."""

    #: the evaluation that is the same already
    same: int | None
    rows: list[str]
    columns: int
    cells: int
    #: cells whose key is done in the project
    done: int
    to_run: int
    workers: int
    #: a cell of it, with all that a worker gets
    example: dict[str, Any]


class EvaluationView(Answer):
    id: int
    project: str
    name: str
    state: str
    reason: str
    remedy: str
    cause: str | None
    #: the first of `jobs`
    job: int
    jobs: list[int]
    rows: int
    columns: int
    cells: int
    waiting: int
    running: int
    valid: int
    invalid: int
    #: valid cells that were done elsewhere before, and adopted ones
    reused: int
    #: outputs published, ever: more than `valid` only if something valid was run again
    ran: int
    pauses: int
    #: worker runs
    runs: list[int]
    cost: float
    #: of the valid cells
    bytes: int
    files: int
    #: the main score's name and which way is better
    score: str | None
    better: str
    follow: bool
    policy: str
    workers: int
    path: str
    #: folder of the outputs
    target: str
    #: {} or {"cells", "bytes", "files", "needed_bytes", "needed_files", "fits", "sentence"}
    forecast: dict[str, Any]
    created_at: datetime
    ended_at: datetime | None


class CellView(Answer):
    id: int
    #: its checkpoint's name, and the job that made it
    checkpoint: str
    job: int
    #: folder name of the checkpoint, unique in the evaluation
    row: str
    case: str
    repeat: int
    state: str
    score: float | None
    scores: dict[str, Any]
    #: [{"name", "bytes", "sha256", "kind", ...what its check told}]
    outputs: list[dict[str, Any]]
    path: str
    ran: int
    tries: int
    reason: str
    #: what its failure is grouped by, or "adopted"
    cause: str | None
    seconds: float | None
    bytes: int
    files: int
    #: worker run that it is or was dealt to
    run: int | None
    key: str
    ended_at: datetime | None


class Counts(Answer):
    valid: int = 0
    invalid: int = 0
    running: int = 0
    waiting: int = 0


class RowView(Answer):
    #: id of the checkpoint
    checkpoint: int
    name: str
    row: str
    job: int
    step: int | None
    epoch: int | None
    metrics: dict[str, Any]
    sha256: str
    created_at: datetime
    counts: Counts


class ColumnView(Answer):
    case: str
    repeat: int
    inputs: dict[str, Any]
    #: with the evaluation's own
    parameters: dict[str, Any]
    expected: Any
    tags: list[str]
    counts: Counts


class Provenance(Answer):
    """What an evaluation was made of, beside its checkpoints."""

    #: name of whoever asked for it
    by: str
    #: over all cases with their parameters, seeds and repeats, in whatever order
    cases_sha256: str
    #: worker, or else the command's words; check and scorer where there are some
    worker: str | None
    command: list[str] | None
    check: str | None
    scorer: str | None
    #: digest of the code snapshot, and the commit that it was taken from
    snapshot: str
    commit: str | None
    dirty: bool
    #: name@version
    datasets: list[str]
    #: names of the variables that the workers were given; values may be secrets
    environment: list[str]
    spec: str
    #: of `EvaluationView.cost`
    currency: str


class EvaluationReport(Answer):
    """All that a report shows, from one moment."""

    evaluation: EvaluationView
    provenance: Provenance
    rows: list[RowView]
    columns: list[ColumnView]
    cells: list[CellView]
    #: names of all scores, the main one first
    scores: list[str]
    score: str | None
    better: str
    #: training curves of the first job: name -> [[step, value], ...]
    curves: dict[str, list[list[float]]]


class TargetRequest(Request):
    """Where the outputs that are still to come go; those that are there stay."""

    #: absolute; None: the evaluation's own folder
    folder: str | None = Field(default=None, max_length=4096)


class VerifyRequest(Request):
    """Reads outputs again, from the cell behind `after` on, for about `seconds`; the answer says how to go on."""

    after: int = 0
    limit: int | None = Field(default=None, ge=1)
    seconds: float = Field(default=2.0, gt=0, le=60)
    #: what is damaged is run again
    again: bool = False


class CellFault(Answer):
    cell: int
    row: str
    case: str
    repeat: int
    reason: str


class EvaluationProof(Answer):
    """What one call has read."""

    #: cells read, and the bytes of those that are what was recorded
    checked: int
    bytes: int
    faults: list[CellFault]
    #: `after` of the next call; None: all is read
    next: int | None
    #: cells that there were to read, in all calls
    total: int


class AdoptRequest(Request):
    """Registers outputs from before, from the cell behind `after` on, for about `seconds`."""

    #: absolute, on the server
    folder: str = Field(min_length=1, max_length=4096)
    #: output -> where it lies below the folder: {"out.mp4": "{checkpoint}/{case}.mp4"}; {repeat} where there are
    #: several. Empty: `folder` has the index.jsonl of an evaluation, and what it names is registered where it lies
    layout: dict[str, str] = {}
    #: removes each file once its copy is registered
    move: bool = False
    dry_run: bool = False
    after: int = 0
    seconds: float = Field(default=2.0, gt=0, le=60)


class Adopted(Answer):
    """What one call has registered."""

    #: cells that there is something of
    found: int
    adopted: int
    #: cells that there is nothing of
    missing: int
    #: what there is something of and is not valid; it is left to run
    faults: list[CellFault]
    next: int | None
    total: int
