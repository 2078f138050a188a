"""`headway eval` against a real api: flags, files and flows; what is wrong; plans, listings and changes."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headway.cli.app import app
from headway.errors import FailedError, HeadwayError, NotFoundError, RefusedError, UsageError
from headway.rules.records import Evaluation
from headway.services.context import Services
from headway.testing.services import add_checkpoint, open_services

Headway = Callable[..., str]

CONTENT = b"what a cell has written"


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    yield opened
    opened.store.close()


@pytest.fixture
def headway(
    address: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Headway:
    """Calls it in a folder with code and cases of its own."""
    monkeypatch.setenv("HEADWAY_URL", address[0])
    monkeypatch.setenv("HEADWAY_TOKEN", address[1])
    monkeypatch.setenv("COLUMNS", "200")
    code = tmp_path_factory.mktemp("code")
    (code / "evaluate.py").write_text("class Clips:\n    pass\n\ndef check(): ...\n\ndef score(): ...\n")
    (code / "cases.yaml").write_text("- {id: cat, inputs: {prompt: a cat}}\n- {id: dog, inputs: {prompt: a dog}}\n")
    monkeypatch.chdir(code)

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    return call


@pytest.fixture(scope="module")
def job(ctx: Services, address: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> int:
    """One with two checkpoints."""
    from headway.client import Client

    with Client(*address) as client:
        made = client.jobs.submit(["true"], held=True).id
    for epoch, loss in ((1, 0.5), (2, 0.25)):
        add_checkpoint(ctx, made, f"epoch-{epoch}.pt", epoch=epoch, metrics={"loss": loss})
    return made


USUAL = "--cases cases.yaml --worker evaluate.py:Clips --output out.txt=file --score none"


def run(headway: Headway, job: int, flags: str = USUAL, *command: str) -> dict[str, Any]:
    """An evaluation that is held, for nothing here would run it."""
    words = ("eval", "run", "--held", "--json", *(("--job", str(job)) if job else ()), *shlex.split(flags))
    found = json.loads(headway(*words, *(("--", *command) if command else ())))
    assert isinstance(found, dict)
    return found


def record(ctx: Services, number: int) -> Evaluation:
    with ctx.store.read() as tx:
        found = tx.evaluations.get(number)
    assert found is not None
    return found


def publish(ctx: Services, evaluation: int, *, cells: int = 1) -> list[Path]:
    """The first cells of the evaluation, made valid as a worker would have; their files."""
    files = []
    with ctx.store.begin() as tx:
        for cell in tx.evaluations.cells(evaluation)[:cells]:
            files.append(ctx.root / cell.path / "out.txt")
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            files[-1].write_bytes(CONTENT)
            digest = hashlib.sha256(CONTENT).hexdigest()
            output = {"name": "out.txt", "bytes": len(CONTENT), "sha256": digest, "kind": "file"}
            row = {"cell": cell.id, "publication": f"p{cell.id}", "score": None, "scores": {}, "outputs": [output]}
            row |= {"path": cell.path, "seconds": 1.0, "bytes": len(CONTENT), "files": 1, "ended_at": 5.0}
            tx.evaluations.publish([row])
    return files


# -- what is asked for


def test_every_flag_reaches_the_record(headway: Headway, ctx: Services, job: int, tmp_path: Path) -> None:
    flags = (
        "--name big --checkpoint 'epoch-*' --every 1 --best 2:loss:max --cases cases.yaml --repeats 2 --seed 5 "
        "--param side=64 --param word=x --worker evaluate.py:Clips --output clip.mp4=video,frames=24,rate=12 "
        "--output 'frames/*.png=image,width=64,count=1..4' --check evaluate.py:check --scorer evaluate.py:score "
        "--scores stdout --score fid --better lower --cell-timeout 2m --tries 3 --env A=1 --workers 2..4 "
        f"--spec medium --policy spare --spot --max-duration 1h --retries 5 --target {tmp_path}"
    )
    view = run(headway, job, flags)
    found = record(ctx, view["id"])
    assert (found.name, found.jobs, found.target, found.policy, found.follow) == (
        "big", [job], str(tmp_path), "spare", False,
    )  # fmt: skip
    expected = {
        "checkpoints": ["epoch-*"], "every": 1, "best": 2, "by": "loss", "mode": "max", "repeats": 2, "seed": 5,
        "parameters": {"side": 64, "word": "x"}, "worker": "evaluate.py:Clips", "command": None,
        "outputs": [
            {"name": "clip.mp4", "kind": "video", "frames": 24, "rate": 12.0},
            {"name": "frames/*.png", "kind": "image", "width": 64, "count": "1..4"},
        ],
        "check": "evaluate.py:check", "scorer": "evaluate.py:score", "scores": "stdout", "score": "fid",
        "better": "lower", "cell_timeout": 120.0, "tries": 3, "environment": {"A": "1"}, "workers": 4,
        "least_workers": 2, "spec": "medium", "max_duration": 3600.0, "retries": 5,
        "spot": {"bid": "market", "max_price": None, "max_discount": None, "protection": 3600.0, "grace": 120.0},
    }  # fmt: skip
    assert {key: found.plan[key] for key in expected} == expected
    assert [case["id"] for case in found.plan["cases"]] == ["cat", "dog"]
    assert (view["rows"], view["columns"], view["cells"], view["state"]) == (2, 4, 8, "stopped")


def test_a_command_is_taken_word_for_word(headway: Headway, ctx: Services, job: int) -> None:
    words = ("python", "infer.py", "--at={checkpoint}", "{case.prompt}", "{seed}", "{repeat}", "{case}", "{out}/a b")
    view = run(headway, job, "--cases cases.yaml --score none --output 'a*=file'", *words)
    assert record(ctx, view["id"]).plan["command"] == list(words)


def test_several_jobs_and_one_that_is_followed(headway: Headway, ctx: Services, job: int) -> None:
    assert run(headway, 0, f"{USUAL} --job {job} --follow --every 2")["follow"]
    other = json.loads(headway("job", "submit", "--json", "--", "true"))["id"]
    add_checkpoint(ctx, other, "epoch-1.pt", epoch=1)
    view = run(headway, 0, f"{USUAL} --job {job} --job {other}")
    assert (view["jobs"], view["rows"]) == ([job, other], 3)
    rows = {line["row"] for line in json.loads(headway("eval", "cells", str(view["id"]), "--json"))}
    assert rows == {f"job-{job}/epoch-1", f"job-{job}/epoch-2", f"job-{other}/epoch-1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("some.jsonl", '{"id": "a", "inputs": {"n": 1}}\n{"id": "b"}\n'),
        ("some.csv", "id,n\na,1\nb,\n"),
        ("some.json", '{"cases": [{"id": "a", "inputs": {"n": 1}}, "b"]}'),
        ("some", None),
    ],
)
def test_cases_come_from_any_file_or_a_folder(
    headway: Headway, ctx: Services, job: int, name: str, text: str | None
) -> None:
    if text is None:
        Path(name).mkdir()
        Path(name, "a.yaml").write_text("inputs: {n: 1}\n")
        Path(name, "b.json").write_text("{}")
    else:
        Path(name).write_text(text)
    view = run(headway, job, f"--cases {name} --worker evaluate.py:Clips --output out.txt=file --score none")
    cases = record(ctx, view["id"]).plan["cases"]
    assert [(case["id"], case["inputs"]) for case in cases] == [("a", {"n": 1}), ("b", {})]


def test_a_file_is_the_same_form_and_flags_go_over_it(headway: Headway, ctx: Services, job: int) -> None:
    asked = {
        "job": job, "cases": "cases.yaml", "worker": "evaluate.py:Clips", "workers": "1..2", "seed": 3,
        "outputs": {"table.csv": {"kind": "csv", "columns": ["a", "b"]}, "out.json": "json"}, "score": None,
    }  # fmt: skip
    Path("prompts.yaml").write_text(yaml.safe_dump(asked, sort_keys=False))
    plan = record(ctx, run(headway, 0, "--file prompts.yaml --seed 7")["id"]).plan
    assert (plan["worker"], plan["workers"], plan["least_workers"], plan["seed"]) == ("evaluate.py:Clips", 2, 1, 7)
    assert plan["outputs"] == [
        {"name": "table.csv", "kind": "csv", "columns": ["a", "b"]}, {"name": "out.json", "kind": "json"},
    ]  # fmt: skip
    # a command takes the worker's place
    plan = record(ctx, run(headway, 0, "--file prompts.yaml", "true", "{out}")["id"]).plan
    assert (plan["worker"], plan["command"]) == (None, ["true", "{out}"])


def test_a_flow_has_an_evaluation_too(headway: Headway, ctx: Services, job: int) -> None:
    stage = {"cases": ["a"], "worker": "evaluate.py:Clips", "outputs": {"out.json": "json"}, "score": None}
    Path("flow.yaml").write_text(yaml.safe_dump({"train": {"command": "true"}, "evaluate": stage}))
    plan = record(ctx, run(headway, job, "--file flow.yaml --tries 4")["id"]).plan
    assert (plan["cases"][0]["id"], plan["score"], plan["tries"]) == ("a", None, 4)


@pytest.mark.parametrize(
    ("flags", "command", "name"),
    [
        (USUAL, (), "clips"),
        (USUAL.replace("cases.yaml", "prompts.yaml"), (), "clips-prompts"),
        (f"{USUAL} --name mine", (), "mine"),
        ("--cases cases.yaml --score none --output a=file", ("python", "infer.py", "{out}"), "infer"),
        ("--cases cases.yaml --score none --output a=file", ("python", "-m", "my.tool"), "my"),
        ("--cases cases.yaml --score none --output a=file", ("/opt/bin/Tool X", "{out}"), "tool-x"),
    ],
)
def test_one_without_a_name_is_called_after_what_it_runs(
    headway: Headway, job: int, flags: str, command: tuple[str, ...], name: str
) -> None:
    shutil.copy("cases.yaml", "prompts.yaml")
    assert run(headway, job, flags, *command)["name"] == name


# -- what is wrong


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--cases cases.yaml --score none", "The evaluation has neither a worker nor a command. Give one of the two."),
        (f"{USUAL} --workers 4..1", "--workers: '4..1' is not a range."),
        (f"{USUAL} --workers 300", "--workers is '300'."),
        (f"{USUAL} --cell-timeout 30", "--cell-timeout: '30' is not a duration."),
        (f"{USUAL} --policy sometimes", "--policy: unknown value 'sometimes'."),
        (f"{USUAL} --scores csv", "--scores: unknown value 'csv'."),
        (f"{USUAL} --best 3", "--best is '3'. It should be N:METRIC, such as 3:loss or 3:accuracy:max."),
        (f"{USUAL} --best three:loss", "--best is 'three:loss'."),
        (f"{USUAL} --best 3:loss:most", "--best is '3:loss:most'."),
        (f"{USUAL} --target out", "--target is 'out'. It should be an absolute folder of the server."),
        (f"{USUAL} --param side", "--param 'side' is no NAME=VALUE."),
        (f"{USUAL} --output clip.mp4", "--output 'clip.mp4' is no NAME=VALUE."),
        (f"{USUAL} --output clip.mp4=vidio", "--output.clip.mp4: unknown kind 'vidio'. Did you mean video?"),
        (f"{USUAL} --output clip.mp4=video,frame=2", "--output.clip.mp4: unknown key 'frame'. Did you mean frames?"),
        (f"{USUAL} --output a.csv=csv,frames=2", "outputs.a.csv: frames says nothing of a file of kind csv."),
        (f"{USUAL} --output a.mp4=video,frames=two", "outputs.1.frames: Input should be a valid integer"),
        (f"{USUAL} --worker evaluate.Clips", "--worker is 'evaluate.Clips'. It should be FILE.py:CLASS."),
        (
            f"{USUAL} --worker evaluate.py:Clip",
            "--worker 'evaluate.py:Clip': evaluate.py has no Clip. Did you mean Clips?",
        ),
        (f"{USUAL} --scorer judge.py:score", "--scorer 'judge.py:score' names no file in"),
        (f"{USUAL} --check broken.py:check", "--check 'broken.py:check': broken.py, line 2 is not Python"),
        (f"{USUAL} --best 1:los", "best: no checkpoint has a metric 'los'; they have loss. Did you mean loss?"),
        (f"{USUAL} --best 1:fvd", "best: no checkpoint has a metric 'fvd'; they have loss. Take one of these."),
        (f"{USUAL} --target /proc/foo", "target: /proc/foo cannot be made: /proc is on a file system of the kernel's"),
        (f"{USUAL} --target $PWD/cases.yaml/below", "cases.yaml is no folder. Give another folder"),
        (f"{USUAL} --cases none.yaml", "none.yaml does not exist."),
        (f"{USUAL} --cases bad.jsonl", "bad.jsonl, line 2 is not JSON"),
        (f"{USUAL} --checkpoint epoch-3.pt", "epoch-3.pt"),
        (f"{USUAL} --spec smal", "smal"),
        (f"{USUAL} --file none.yaml", "none.yaml does not exist."),
        (f"{USUAL} --file wrong.yaml", "wrong.yaml: unknown key 'worke'. Did you mean worker?"),
        (f"{USUAL} --file schema.yaml", "outputs.a.json: schema is no JSON schema: type: 'objct' is not valid"),
    ],
)
def test_a_wrong_flag_or_file_is_one_sentence(headway: Headway, job: int, flags: str, message: str) -> None:
    Path("bad.jsonl").write_text('{"id": "a"}\n{"id": \n')
    Path("broken.py").write_text("def check():\nreturn\n")
    Path("wrong.yaml").write_text("worke: x\ncases: cases.yaml\n")
    Path("schema.yaml").write_text("cases: cases.yaml\noutputs: {a.json: {kind: json, schema: {type: objct}}}\n")
    before = headway("eval", "ls", "--json")
    words = shlex.split(flags.replace("$PWD", str(Path.cwd())))
    if "schema.yaml" in words:
        words = ["--file", "schema.yaml", "--worker", "evaluate.py:Clips"]
    with pytest.raises(HeadwayError) as caught:
        headway("eval", "run", "--job", str(job), *words)
    assert message in str(caught.value)
    assert caught.value.exit_code == (
        4 if isinstance(caught.value, NotFoundError) else 3 if "--target /" in flags.replace("$PWD", "/") else 2
    )
    assert "\n" not in str(caught.value)
    assert headway("eval", "ls", "--json") == before


def test_an_unknown_word_of_a_command_is_named_with_the_case(headway: Headway, job: int) -> None:
    with pytest.raises(UsageError, match=r"for case cat: unknown word 'case\.promt'\. Did you mean case\.prompt\?"):
        run(headway, job, "--cases cases.yaml --score none --output a=file", "infer", "{case.promt}")


def test_what_is_not_said_is_asked_for(headway: Headway, job: int) -> None:
    with pytest.raises(UsageError, match=r"The evaluation has no jobs\. Give --job\."):
        run(headway, 0, USUAL)
    with pytest.raises(UsageError, match=r"The evaluation has no cases\. Give --cases\."):
        run(headway, job, "--worker evaluate.py:Clips")


def test_a_flow_is_refused_before_its_training(headway: Headway, tmp_path: Path) -> None:
    Path("train.py").write_text("")
    stage = {"cases": "cases.yaml", "worker": "evaluate.py:Clips", "outputs": {"out.txt": "file"}, "score": None}
    before = headway("job", "ls", "--json")
    for more, kind, message in (
        ({"target": "/proc/foo"}, RefusedError, "flow.yaml: evaluate: target: /proc/foo cannot be made"),
        ({"data": "nix"}, NotFoundError, "flow.yaml: evaluate: Project default has no dataset 'nix'."),
        ({"jobs": 999}, NotFoundError, "flow.yaml: evaluate: Project default has no job 999."),
        ({"worker": "evaluate.py:Clip"}, UsageError, "evaluate.py has no Clip. Did you mean Clips?"),
    ):
        Path("flow.yaml").write_text(
            yaml.safe_dump({"train": {"command": "python train.py"}, "evaluate": {**stage, **more}})
        )
        with pytest.raises(kind) as caught:
            headway("run", "flow.yaml")
        assert message in str(caught.value)
    assert headway("job", "ls", "--json") == before


# -- what is told and changed


def test_a_dry_run_says_all_and_keeps_nothing(headway: Headway, ctx: Services, job: int) -> None:
    flags = [*shlex.split(USUAL), "--output", "own.txt=file", "--workers", "8"]
    before = headway("eval", "ls", "--json")
    told = headway("eval", "run", "--job", str(job), *flags, "--dry-run")
    assert "2 checkpoints x 2 = 4 cells: 0 done already, 4 to run" in told
    assert "epoch-1, epoch-2" in told and "a cat" in told
    assert json.loads(headway("eval", "run", "--job", str(job), *flags, "--dry-run", "--json"))["workers"] == 4
    assert headway("eval", "ls", "--json") == before
    view = run(headway, job, shlex.join(flags))
    assert f"evaluation {view['id']}" in headway("eval", "run", "--job", str(job), *flags, "--dry-run")


def test_cells_are_listed_by_state_case_and_checkpoint(headway: Headway, ctx: Services, job: int) -> None:
    view = run(headway, job, f"{USUAL} --output listed.txt=file")
    publish(ctx, view["id"])

    def cells(*words: str) -> list[tuple[str, str]]:
        found = json.loads(headway("eval", "cells", str(view["id"]), "--json", *words))
        return [(cell["row"], cell["case"]) for cell in found]

    assert cells() == [("epoch-1", "cat"), ("epoch-1", "dog"), ("epoch-2", "cat"), ("epoch-2", "dog")]
    assert cells("--state", "valid") == [("epoch-1", "cat")]
    assert cells("--state", "valid", "--state", "waiting") == cells()
    assert cells("--case", "dog", "--checkpoint", "epoch-2") == [("epoch-2", "dog")]
    assert cells("--checkpoint", "epoch-2.pt") == [("epoch-2", "cat"), ("epoch-2", "dog")]
    assert "No such cells." in headway("eval", "cells", str(view["id"]), "--case", "cat", "--state", "invalid")
    for words, sentence in (
        (("--case", "cta"), f"Evaluation {view['id']} has no case 'cta'. Did you mean cat?"),
        (("--case", "nix", "--state", "valid"), f"Evaluation {view['id']} has no case 'nix'. Known: cat, dog."),
        (("--checkpoint", "epoch1"), f"Evaluation {view['id']} has no checkpoint 'epoch1'. Did you mean epoch-1.pt?"),
    ):
        with pytest.raises(NotFoundError) as missing:
            headway("eval", "cells", str(view["id"]), *words)
        assert str(missing.value) == sentence and missing.value.exit_code == 4
    with pytest.raises(UsageError, match=r"--state: unknown state 'vald'\. Did you mean valid\?"):
        headway("eval", "cells", str(view["id"]), "--state", "vald")


def test_retry_starts_and_stop_ends_it(headway: Headway, job: int) -> None:
    number = str(run(headway, job, f"{USUAL} --output again.txt=file")["id"])
    assert f"evaluation {number} is running: 0 of 4 valid" in headway("eval", "retry", number)
    told = headway("eval", "stop", number)
    assert f"evaluation {number} is stopped" in told and f"next: headway eval retry {number}" in told
    assert f"evaluation {number} had stopped before" in headway("eval", "stop", number)
    assert {line.split()[3:5] == ["not", "tried"] for line in headway("eval", "cells", number).splitlines()[1:]} == {
        True
    }
    assert headway("eval", "cells", number, "--state", "not tried") == headway("eval", "cells", number)
    shown = headway("eval", "show", number)
    assert "0 of 4 valid, 4 not tried" in shown and "waiting" not in shown and "model register" not in shown
    assert "--state invalid" not in shown
    with pytest.raises(NotFoundError, match="no evaluation 999"):
        headway("eval", "stop", "999")


def test_the_target_is_changed_and_given_back(headway: Headway, ctx: Services, job: int, tmp_path: Path) -> None:
    number = run(headway, job, f"{USUAL} --output target.txt=file")["id"]
    assert f"goes to {tmp_path}/evaluation-{number}" in headway("eval", "target", str(number), str(tmp_path))
    assert record(ctx, number).target == str(tmp_path)
    assert record(ctx, number).path in headway("eval", "target", str(number))
    assert record(ctx, number).target is None
    with pytest.raises(UsageError, match="'out' is no absolute folder"):
        headway("eval", "target", str(number), "out")


def test_verify_finds_what_was_damaged(headway: Headway, ctx: Services, job: int) -> None:
    number = run(headway, job, f"{USUAL} --seed 11")["id"]
    first, second = publish(ctx, number, cells=2)
    assert "2 cells read: 0 damaged, 46 bytes as recorded" in headway("eval", "verify", str(number))
    first.write_bytes(CONTENT[:-1])
    with pytest.raises(FailedError, match="1 of 2 cells is not as recorded") as caught:
        headway("eval", "verify", str(number))
    assert caught.value.exit_code == 1
    assert f"`headway eval retry {number}`" in caught.value.remedy
    invalid = json.loads(headway("eval", "cells", str(number), "--state", "invalid", "--json"))
    assert [cell["reason"] for cell in invalid] == ["out.txt has 22 bytes, not 23."]
    second.unlink()
    told = headway("eval", "verify", str(number), "--again")
    assert "1 cell read: 1 damaged" in told and "out.txt is gone." in told
    assert len(json.loads(headway("eval", "cells", str(number), "--state", "waiting", "--json"))) >= 3


def test_an_old_folder_is_adopted(headway: Headway, job: int, tmp_path: Path) -> None:
    number = str(run(headway, job, f"{USUAL} --seed 12 --output more.json=json")["id"])
    for name, text in (("epoch-1/cat", "{}"), ("epoch-1/dog", "{"), ("epoch-2/cat", "[1]")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text("x")
        (tmp_path / f"{name}.json").write_text(text)
    layout = ["--layout", "out.txt={checkpoint}/{case}.txt", "--layout", "more.json={checkpoint}/{case}.json"]
    told = headway("eval", "adopt", number, str(tmp_path), *layout, "--dry-run")
    assert "2 of 4 cells would be adopted; 1 not valid, 1 not there" in told
    assert json.loads(headway("eval", "cells", number, "--state", "valid", "--json")) == []
    told = headway("eval", "adopt", number, str(tmp_path), *layout)
    assert "2 of 4 cells adopted; 1 not valid, 1 not there" in told and "It is not JSON" in told
    assert f"next: headway eval retry {number}" in told
    found = json.loads(headway("eval", "cells", number, "--state", "valid", "--json"))
    assert [(cell["row"], cell["case"], cell["cause"], cell["ran"]) for cell in found] == [
        ("epoch-1", "cat", "adopted", 0), ("epoch-2", "cat", "adopted", 0),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"layout\.out\.txt: unknown word 'chekpoint'"):
        headway("eval", "adopt", number, str(tmp_path), "--layout", "out.txt={chekpoint}/{case}.txt", *layout[2:])
    with pytest.raises(UsageError, match="--move is of files"):
        headway("eval", "adopt", number, str(tmp_path), "--move")
    headway("eval", "retry", number)
    with pytest.raises(RefusedError):
        headway("eval", "adopt", number, str(tmp_path), *layout)


# -- files of cases


def test_tasks_become_cases(headway: Headway, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    told = headway("eval", "cases", "hellaswag", "a/b", "--from", "lm-eval", "--param", "limit=5", "-o", str(file))
    assert f"{file}: 2 cases" in told and f"--cases {file} --scores lm_eval" in told
    assert yaml.safe_load(file.read_text()) == [
        {"id": "hellaswag", "inputs": {"task": "hellaswag"}, "parameters": {"limit": 5}, "tags": ["lm-eval"]},
        {"id": "a-b", "inputs": {"task": "a/b"}, "parameters": {"limit": 5}, "tags": ["lm-eval"]},
    ]
    with pytest.raises(UsageError, match="--from 'hydra' is none that is known"):
        headway("eval", "cases", "x", "--from", "hydra")
    with pytest.raises(RefusedError, match="cannot be written"):
        headway("eval", "cases", "x", "--from", "lm-eval", "-o", str(tmp_path / "no" / "tasks.yaml"))


def test_the_printed_command_of_tasks_is_one_that_runs(headway: Headway, ctx: Services, job: int) -> None:
    told = headway("eval", "cases", "hellaswag", "gsm8k", "--from", "lm-eval", "-o", "tasks.yaml")
    line = next(line for line in told.splitlines() if "headway eval run" in line)
    words = shlex.split(line.partition("headway ")[2].replace("JOB", str(job)))
    view = json.loads(headway(*words[:2], "--held", "--json", *words[2:]))
    plan = record(ctx, view["id"]).plan
    assert plan["scores"] == "lm_eval" and "{case.task}" in plan["command"]
    assert (view["columns"], view["cells"]) == (2, 4)


def test_a_file_of_cases_is_shown_as_it_is_understood(headway: Headway) -> None:
    Path("more.csv").write_text("id,prompt,tags\nfox,a fox,x y\n")
    found = yaml.safe_load(headway("eval", "cases", "cases.yaml", "more.csv", "--param", "steps=4"))
    assert found[0] == {"id": "cat", "inputs": {"prompt": "a cat"}, "parameters": {"steps": 4}}
    assert found[2]["tags"] == ["x", "y"]
    with pytest.raises(UsageError, match=r"cases\.yaml"):
        headway("eval", "cases", "cases.yaml", "cases.yaml")
