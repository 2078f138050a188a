"""`headway eval cases`: a file of cases, out of lm-evaluation-harness' tasks or of another file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import common
from headway.errors import RefusedError, UsageError

_LM_EVAL = "lm-eval"


def cases(
    names: Annotated[
        list[str], typer.Argument(help="Tasks, or the file or folder to read.", metavar="NAME...", show_default=False)
    ],
    source: Annotated[
        str | None, typer.Option("--from", help="lm-eval: NAMEs are its tasks or groups.", show_default=False)
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE parameter of each, such as num_fewshot=5; may be repeated.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write [standard output].", show_default=False)
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Write cases as YAML: one for each task of lm-evaluation-harness, or those of a file, as they are understood."""
    parameters = {k: common.scalar(v) for k, v in common.pairs(param or [], "--param").items()}
    if source not in (None, _LM_EVAL):
        raise UsageError(f"--from {source!r} is none that is known.", f"Take {_LM_EVAL}, or leave it out for a file.")
    found = _tasks(names, parameters) if source else _read(names, parameters)
    if as_json:
        common.print_json(found)
        return
    text = _yaml(found)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RefusedError(f"{output} cannot be written: {error.strerror}.", "Name another file with -o.") from error
    print(f"{output}: {len(found)} cases")
    if source:
        words = "--tasks {case.task} --output_path {out}/results.json"
        common.next_step(
            f"headway eval run --job JOB --cases {output} --scores lm_eval --output 'results*.json=json' -- "
            f"lm_eval --model hf --model_args pretrained={{checkpoint}} {words}"
        )


def _tasks(names: list[str], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    from headway.rules.casefile import parse_cases

    raw = [{"id": name.replace("/", "-"), "inputs": {"task": name}, "parameters": parameters} for name in names]
    return parse_cases([{**case, "tags": [_LM_EVAL]} for case in raw], "--from")


def _read(names: list[str], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    from headway.client import casefiles
    from headway.rules.casefile import distinct

    read = [found for name in names for found in casefiles.placed(Path(name), name)]
    return distinct([(place, {**c, "parameters": {**parameters, **c["parameters"]}}) for place, c in read])


def _yaml(found: list[dict[str, Any]]) -> str:
    import yaml

    plain = [{k: v for k, v in case.items() if v not in ({}, [])} for case in found]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=None, width=118)
