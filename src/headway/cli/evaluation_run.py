"""`headway eval run`: an evaluation out of flags, or of a file."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import common, dataset_stats
from headway.cli.options import Several, Text
from headway.errors import FailedError, UsageError

if TYPE_CHECKING:
    from headway.client import Client
    from headway.wire.evaluations import EvaluationPlan, EvaluationView

_WHAT, _HOW, _WORKERS, _OTHER = "Checkpoints and cases", "How a cell is run and judged", "Workers", "Other"


def _option(panel: str, help: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)


def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Program and arguments of a cell, after --; see --worker.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, _option(_OTHER, "YAML with the evaluation, or a flow; flags take the place of what it says.")
    ] = None,
    name: Annotated[
        Text, _option(_OTHER, "A name to find it by [the worker's or program's, and that of the cases' file].")
    ] = None,
    jobs: Annotated[
        list[int] | None, _option(_WHAT, "Job whose checkpoints it is of; may be repeated.", "--job", metavar="JOB")
    ] = None,
    checkpoints: Annotated[
        Several,
        _option(_WHAT, "Name or pattern of some [all]; may be repeated.", "--checkpoint", metavar="NAME"),
    ] = None,
    every: Annotated[int | None, _option(_WHAT, "Only every k-th of them, by their order.", metavar="K")] = None,
    best: Annotated[Text, _option(_WHAT, "Only the best by their own metric.", metavar="N:METRIC[:max]")] = None,
    follow: Annotated[
        bool, _option(_WHAT, "Take each new checkpoint of the jobs too, until they end.", "--follow")
    ] = False,
    cases: Annotated[Text, _option(_WHAT, "YAML, JSON, JSONL or CSV file, or folder.", metavar="FILE")] = None,
    repeats: Annotated[int | None, _option(_WHAT, "Run each case so often, each with the next seed [1].")] = None,
    seed: Annotated[int | None, _option(_WHAT, "The first seed [0].")] = None,
    param: Annotated[
        Several, _option(_WHAT, "Parameter of each case that says no other; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    worker: Annotated[
        Text, _option(_HOW, "Class with load(checkpoint) and run(case, out); else a command.", metavar="FILE.py:CLASS")
    ] = None,
    output: Annotated[
        Several,
        _option(
            _HOW, "File that a cell writes; KEYs such as frames=24; may be repeated.", metavar="NAME=KIND[,KEY=VALUE]"
        ),
    ] = None,
    check: Annotated[Text, _option(_HOW, "What else must hold of its outputs.", metavar="FILE.py:FUNCTION")] = None,
    scorer: Annotated[Text, _option(_HOW, "Scores a cell's outputs.", metavar="FILE.py:FUNCTION")] = None,
    scores: Annotated[Text, _option(_HOW, "Where scores come from: file, stdout or lm_eval [file].")] = None,
    score_file: Annotated[Text, _option(_HOW, "The file [score.json].")] = None,
    score: Annotated[Text, _option(_HOW, "Key of the main score [score]; none: there is none.")] = None,
    better: Annotated[Text, _option(_HOW, "higher or lower [higher].")] = None,
    cell_timeout: Annotated[Text, _option(_HOW, "Time limit of a cell, such as 10m.")] = None,
    tries: Annotated[int | None, _option(_HOW, "How often a cell is tried before it is invalid [2].")] = None,
    code: Annotated[Path | None, _option(_HOW, "Folder with the code [the file's, or this one].")] = None,
    data: Annotated[Several, _option(_HOW, "Dataset, such as digits@1; may be repeated.")] = None,
    env: Annotated[Several, _option(_HOW, "For its environment; may be repeated.", metavar="NAME=VALUE")] = None,
    workers: Annotated[Text, _option(_WORKERS, "Worker runs, such as 4 or 1..4 [1].")] = None,
    spec: Annotated[Text, _option(_WORKERS, "Amount of resources of each [small].")] = None,
    policy: Annotated[Text, _option(_WORKERS, "side_by_side, spare or after_training [side_by_side].")] = None,
    spot: Annotated[
        bool, _option(_WORKERS, "At spot prices; a worker that is reclaimed loses no cell.", "--spot")
    ] = False,
    max_duration: Annotated[Text, _option(_WORKERS, "Ends a worker run after so long, such as 90m.")] = None,
    retries: Annotated[int | None, _option(_WORKERS, "How often one is placed again after a loss [3].")] = None,
    target: Annotated[Text, _option(_OTHER, "Absolute folder of the server for the outputs.", metavar="DIR")] = None,
    held: Annotated[bool, _option(_OTHER, "Start nothing until it is retried.", "--held")] = False,
    dry_run: Annotated[bool, _option(_OTHER, "Say what there would be to do, and do nothing.", "--dry-run")] = False,
    wait: Annotated[bool, _option(_OTHER, "Show how far it is until it has ended.", "--wait", "-w")] = False,
    as_json: common.AsJson = False,
) -> None:
    """Evaluate every checkpoint on every case; what is done already is not run again."""
    given = {k: v for k, v in locals().items() if k not in _NO_FIELDS and v is not None and v is not False and v != []}
    form = _request(given, file, code)
    with common.client() as client:
        request = {**form.fields, **_code(client, form)}
        if held:
            request["held"] = True
        dataset_stats.print_warnings(client, request.get("datasets") or [])
        if dry_run:
            _print_plan(client.evaluations.plan(**request), as_json)
            return
        view = client.evaluations.create(**request)
        if wait:
            view = watch(client, view.id, quiet=as_json)
    told(view, as_json)
    if wait:
        ended(view)


#: fields that name something in the code
_ENTRIES = ("worker", "check", "scorer")
_NO_FIELDS = frozenset({"file", "code", "held", "dry_run", "wait", "as_json"})


@dataclass(frozen=True)
class _Form:
    fields: dict[str, Any]
    #: with the code
    folder: Path
    #: what in it is none
    no_code: tuple[str, ...]
    #: files in it that cells do not depend on
    later: tuple[str, ...]


def _request(given: dict[str, Any], file: Path | None, code: Path | None) -> _Form:
    """Raises UsageError."""
    from headway.rules import evalform

    flags = evalform.fields(_form(given), _flag)
    said = _from_file(file) if file else _Form({}, Path.cwd(), (), ())
    other = {"worker": "command", "command": "worker"}
    found = {**{k: v for k, v in said.fields.items() if other.get(k) not in flags}, **flags}
    evalform.check(found, lambda key: _flag(key) if key else "The evaluation")
    for needed, flag in (("jobs", "--job"), ("cases", "--cases")):
        if needed not in found:
            raise UsageError(f"The evaluation has no {needed}.", f"Give {flag}.", code="missing_key")
    found.setdefault("name", evalform.default_name(found))
    folder = code.absolute() if code else said.folder
    _check_entries(folder, found, {key: _flag(key) if key in flags else f"{file}: {key}" for key in _ENTRIES})
    cases, where = _cases(found.pop("cases"), Path.cwd() if "cases" in flags else said.folder)
    later = tuple(os.path.relpath(path, folder) for path in where)
    return _Form(
        {**found, "cases": cases}, folder, said.no_code if folder == said.folder else (), (*said.later, *later)
    )


def _check_entries(folder: Path, found: dict[str, Any], where: dict[str, str]) -> None:
    from headway.client.preflight import check_entries

    check_entries(folder, {where[key]: str(found[key]) for key in _ENTRIES if key in found})


def _cases(given: Any, beside: Path) -> tuple[list[dict[str, Any]], list[Path]]:
    """The cases, and the file or folder that they are from."""
    from headway.client import casefiles
    from headway.rules.casefile import parse_cases

    if isinstance(given, str):
        return casefiles.read(beside / given, given), [beside / given]
    return parse_cases(given, "cases"), []


def _from_file(file: Path) -> _Form:
    """Of a file that is an evaluation, or of a flow that has one."""
    from headway.client.casefiles import load_yaml
    from headway.client.codeparts import no_code
    from headway.client.flowfile import load
    from headway.rules import evalform

    raw, folder = load_yaml(file), file.absolute().parent
    if not isinstance(raw, dict):
        raise UsageError(f"{file} is no evaluation.", "Write lines like `worker: evaluate.py:Digits`.")
    if "cases" in raw or "evaluate" not in raw:
        found = evalform.fields(raw, lambda key: f"{file.name}: {key}" if key else file.name)
        return _Form(found, folder, (file.name,), ())
    flow = load(file)
    assert flow.evaluate is not None
    later = (flow.model.predictor,) if flow.model else ()
    return _Form({**flow.evaluate.fields, "cases": flow.evaluate.cases}, folder, no_code(file, flow), later)


def _code(client: Client, form: _Form) -> dict[str, Any]:
    """The snapshot, and the digest of the part of it that cells depend on."""
    from headway.client import snapshot
    from headway.client.codeparts import depends_on

    what = str(form.fields.get("worker") or " ".join(form.fields.get("command", [])))
    code = depends_on(form.folder, form.no_code, what, *form.later)
    return {"snapshot": client.snapshots.upload(snapshot.take(form.folder, form.no_code)).digest, "code": code}


def _form(given: dict[str, Any]) -> dict[str, Any]:
    """The flags as the keys of an evaluation."""
    form = {k: v for k, v in given.items() if k not in ("param", "env", "output", "best")}
    if "param" in given:
        form["parameters"] = {k: common.scalar(v) for k, v in common.pairs(given["param"], "--param").items()}
    if "env" in given:
        form["environment"] = common.pairs(given["env"], "--env")
    if "output" in given:
        form["outputs"] = {k: _rule(v) for k, v in common.pairs(given["output"], "--output").items()}
    if "best" in given:
        form |= _best(str(given["best"]))
    return form


def _best(text: str) -> dict[str, Any]:
    count, _, rest = text.partition(":")
    by, _, mode = rest.partition(":")
    if not count.isdecimal() or int(count) < 1 or not by or mode not in ("", "min", "max"):
        raise UsageError(f"--best is {text!r}.", "It should be N:METRIC, such as 3:loss or 3:accuracy:max.")
    return {"best": int(count), "by": by, **({"mode": mode} if mode else {})}


def _rule(text: str) -> dict[str, Any]:
    kind, *more = text.split(",")
    return {"kind": kind, **{k: common.scalar(v) for k, v in common.pairs(more, "--output").items()}}


def _flag(key: str) -> str:
    words = {
        "jobs": "job",
        "checkpoints": "checkpoint",
        "outputs": "output",
        "parameters": "param",
        "environment": "env",
    }
    return f"--{words.get(key, key).replace('_', '-')}"


def _print_plan(plan: EvaluationPlan, as_json: bool) -> None:
    if as_json:
        common.print_json(plan)
        return
    rows = f"{len(plan.rows)} checkpoint{'s' if len(plan.rows) != 1 else ''}"
    print(f"{rows} x {plan.columns} = {plan.cells} cells: {plan.done} done already, {plan.to_run} to run")
    common.print_fields(
        {
            "checkpoints": ", ".join(plan.rows[:6]) + (f" and {len(plan.rows) - 6} more" if len(plan.rows) > 6 else ""),
            "workers": plan.workers,
            "the same as": f"evaluation {plan.same}" if plan.same is not None else "",
            **{f"example {key}": common.plain(value) for key, value in plan.example.items()},
        }
    )


def told(view: EvaluationView, as_json: bool) -> None:
    """Prints how far it is and what to do next."""
    if as_json:
        common.print_json(view)
        return
    print(
        f"evaluation {view.id} is {view.state}: {view.valid} of {view.cells} cells valid, {view.reused} of them before"
    )
    if view.reason:
        print(f"{view.reason} {view.remedy}".strip())
    again = [f"headway eval retry {view.id}"] if view.state in ("failed", "stopped") else []
    common.next_step(*again, f"headway eval show {view.id}", f"headway eval report {view.id}")


def watch(client: Client, evaluation: int, *, quiet: bool) -> EvaluationView:
    """Shows how far it is until it has ended, and each pause."""
    from headway.cli.progress import count_shown
    from headway.client.evaluations import ENDED

    reason = ""
    with count_shown("cells", quiet=quiet) as progress:
        while True:
            view = client.evaluations.get(evaluation)
            progress(view.valid + view.invalid, view.cells)
            if view.state == "paused" and view.reason != reason and not quiet:
                reason = view.reason
                print(f"paused: {view.reason} {view.remedy}".strip(), flush=True)
            if view.state in ENDED:
                return view
            time.sleep(0.5)


def ended(view: EvaluationView) -> None:
    """Raises FailedError unless it succeeded."""
    if view.state != "succeeded":
        from headway.client.flow import why

        raise FailedError(
            f"Evaluation {view.id} {view.state} with {view.valid} of {view.cells} cells valid: {view.reason}",
            f"`{why(view)}` shows why.",
        )
