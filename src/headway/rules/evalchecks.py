"""What is wrong with an evaluation's request whatever the record has: told before a server is asked, and by it. Pure.

A request is a `wire.evaluations.EvaluationRequest`, an output one of its `OutputRule`s; rules know them by attributes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from headway.errors import UsageError
from headway.protocol import cellwords
from headway.rules import cells, selection
from headway.rules.entries import is_entry
from headway.rules.nearest import unknown
from headway.rules.outputkinds import MANIFEST, OUTPUT_KEYS, OUTPUT_KINDS

_EVERY_KIND = frozenset({"name", "kind", "count", "min_bytes"})
_MOST_COLUMNS = 100_000


def check(request: Any) -> None:
    """Raises UsageError: one sentence that names the key."""
    _names(request)
    _how(request)
    _counts(request)
    for output in request.outputs:
        _output(output)


def _names(request: Any) -> None:
    for what, names in (("case", [c.id for c in request.cases]), ("output", [o.name for o in request.outputs])):
        if len(set(names)) < len(names):
            name, count = Counter(names).most_common(1)[0]
            raise UsageError(f"{what} {name!r} stands {count} times.", f"Give each {what} a name of its own.")


def _how(request: Any) -> None:
    if (request.worker is None) == (not request.command):
        raise UsageError("An evaluation has either a worker or a command.", "Give one of the two.")
    for name, what in (("worker", "class"), ("check", "function"), ("scorer", "function")):
        if (text := getattr(request, name)) is not None:
            _entry(text, name, what)
    from_file = request.score is not None and request.scorer is None and request.scores == "file"
    if from_file and not request.score_file:
        raise UsageError("score_file: no file holds the score.", "Name it, or give `score: null` to ask for none.")
    if request.score is None and not request.outputs and request.check is None:
        raise UsageError("Nothing makes a cell valid.", "Give outputs, a check or a score.")
    if request.command:
        _words(request)


def _entry(text: str, name: str, what: str) -> None:
    if not is_entry(text):
        example = "evaluate.py:Digits" if what == "class" else f"{name}.py:function"
        raise UsageError(f"{name}: {text!r} names no {what}.", f"Write it like {example}.")


def _words(request: Any) -> None:
    """The template must be able to name each case's values; cases of one shape are alike in that."""
    seen = set()
    for case in request.cases:
        shape = (frozenset(case.inputs), frozenset(case.parameters))
        if shape not in seen:
            seen.add(shape)
            effective = cells.effective_case(case.model_dump(), request.parameters, 0, request.seed)
            try:
                cellwords.fill(request.command, "/checkpoint", "checkpoint", effective, "/out")
            except KeyError as error:
                known = ["checkpoint", "checkpoint.name", "seed", "repeat", "out", "case", "case.id"]
                known += [f"case.{name}" for name in (*effective["inputs"], *effective["parameters"])]
                raise unknown("word", str(error.args[0]), known, f"command, for case {case.id}") from None


def _counts(request: Any) -> None:
    if request.least_workers > request.workers:
        raise UsageError(
            f"workers: at least {request.least_workers} and at most {request.workers} cannot be.", "Swap the two."
        )
    if (request.best is None) != (request.by is None):
        raise UsageError("best and by go together.", "Say how many, and by which metric of the checkpoints.")
    if len(request.cases) * request.repeats > _MOST_COLUMNS:
        raise UsageError(f"{len(request.cases)} cases x {request.repeats} repeats are too many.", "Evaluate in parts.")
    if request.follow:
        selection.check_follow(request.checkpoints, request.best)


def _output(output: Any) -> None:
    if output.kind not in OUTPUT_KINDS:
        raise unknown("kind", output.kind, OUTPUT_KINDS, f"outputs.{output.name}")
    parts = output.name.split("/")
    if any("*" in part for part in parts[:-1]) or ".." in parts:
        raise UsageError(f"outputs: {output.name!r} is no name of a file.", "A `*` may stand in its last part.")
    if output.name == MANIFEST:
        raise UsageError(f"outputs: {MANIFEST} is headway's own.", "Call the file something else.")
    if output.count is not None and "*" not in output.name:
        raise UsageError(f"outputs.{output.name}: count is of a name with `*`.", "Leave it out.")
    known = OUTPUT_KEYS.get(output.kind, frozenset()) | _EVERY_KIND
    for key in output.given():
        if key not in known:
            raise UsageError(
                f"outputs.{output.name}: {key} says nothing of a file of kind {output.kind}.",
                f"Known there: {', '.join(sorted(known))}.",
            )
