"""Evaluations from the outside: the how-to word for word, and a command with every word that there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from .conftest import Server

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "evaluate.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

#: writes a checkpoint as the safetensors format has it, with one number in it
TRAIN = """
import json, os, sys
for epoch in range(1, int(sys.argv[1]) + 1):
    head = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    name = os.path.join(os.environ["CHECKPOINT_PATH"], f"epoch-{epoch}.safetensors")
    with open(f"{name}.part", "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + bytes([epoch]))
    os.rename(f"{name}.part", name)
"""

#: tells all that it was called with, and what the checkpoint holds
TELL = """
import json, sys
names = ["checkpoint", "name", "id", "prompt", "steps", "seed", "repeat", "case", "out", "braces"]
told = dict(zip(names, sys.argv[1:], strict=True))
told["weight"] = open(told["checkpoint"], "rb").read()[-1]
told["whole"] = json.load(open(told["case"]))
json.dump(told, open(told["out"] + "/told.json", "w"))
print("not JSON")
print(json.dumps({"score": told["weight"] / 2, "seed": int(told["seed"])}))
"""

ANSWER = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
for name in ("checkpoint", "prompt", "seed", "out"):
    parser.add_argument(f"--{name}")
asked = parser.parse_args()
pathlib.Path(asked.out, "answer.json").write_text(json.dumps({"answer": asked.prompt}))
print(json.dumps({"score": 1.0}))
"""

#: what lm_eval writes, where it writes it
LM_EVAL = """
import json, pathlib, sys
said = dict(zip(sys.argv[1::2], sys.argv[2::2]))
path = pathlib.Path(said["--output_path"])
path.with_name(path.stem + "_2026-01-01.json").write_text(
    json.dumps({"results": {said["--tasks"]: {"acc,none": 0.25, "acc_norm,none": 0.5}}})
)
"""


@pytest.fixture(scope="module")
def job(server: Server, tmp_path_factory: pytest.TempPathFactory) -> int:
    """One that has made two checkpoints."""
    code = tmp_path_factory.mktemp("training")
    (code / "train.py").write_text(TRAIN)
    done = server.cli("job", "submit", "--json", "--code", str(code), "--", "python", "train.py", "2")
    assert done.returncode == 0, done.stderr
    number = int(json.loads(done.stdout)["id"])
    with server.client() as client:
        ended = client.runs.wait(number, timeout=60)
    assert ended.state == "succeeded", ended.reason
    return number


def test_a_command_gets_every_word(server: Server, job: int, tmp_path: Path) -> None:
    (tmp_path / "tell.py").write_text(TELL)
    case = {"id": "a.1", "inputs": {"prompt": 'a cat; it\'s "1"'}, "parameters": {"steps": {"n": 3}}, "tags": ["t"]}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case))
    words = ["{checkpoint}", "{checkpoint.name}", "{case.id}", "{case.prompt}", "{case.steps}", "{seed}", "{repeat}"]
    flags = "--cases cases.jsonl --scores stdout --output told.json=json --repeats 2 --seed 7 --workers 2 --wait --json"
    command = ["python", "tell.py", *words, "{case}", "{out}", "x{{seed}}"]
    done = server.cli("eval", "run", "--job", str(job), *flags.split(), "--", *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    view = json.loads(done.stdout)
    assert (view["state"], view["cells"], view["valid"], view["ran"]) == ("succeeded", 4, 4, 4)
    cells = json.loads(server.cli("eval", "cells", str(view["id"]), "--json").stdout)
    assert [(cell["row"], cell["repeat"], cell["scores"]) for cell in cells] == [
        (f"epoch-{epoch}", repeat, {"score": epoch / 2, "seed": 7 + repeat}) for epoch in (1, 2) for repeat in (0, 1)
    ]
    for cell in cells:
        told = json.loads(Path(cell["path"], "told.json").read_text())
        epoch, repeat = int(cell["row"][-1]), cell["repeat"]
        assert told["name"] == f"epoch-{epoch}.safetensors" and told["weight"] == epoch
        assert (told["id"], told["prompt"]) == ("a.1", case["inputs"]["prompt"])
        assert json.loads(told["steps"]) == {"n": 3}
        assert (told["seed"], told["repeat"], told["braces"]) == (str(7 + repeat), str(repeat), "x{seed}")
        assert told["whole"] == {**case, "expected": None, "seed": 7 + repeat, "repeat": repeat}


class HowTo:
    """The page's commands, given in a folder with the page's files; its numbers and paths stand for real ones."""

    def __init__(self, server: Server, job: int, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.evaluation = 0
        self.places = {"12": str(job), "/mnt/large": str(folder / "large"), "/data/old": str(folder / "old")}
        text = HOW_TO.read_text()
        self.sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)}
        for language, block in FENCE.findall(text):
            if language == "yaml":
                (folder / block.partition("\n")[0].removeprefix("# ")).write_text(block)
            elif language == "python":
                (folder / "evaluate.py").write_text(block)
        (folder / "answer.py").write_text(ANSWER)
        (folder / "harness.py").write_text(LM_EVAL)

    def lines(self, section: str) -> list[list[str]]:
        blocks = [block for language, block in FENCE.findall(self.sections[section]) if language == "sh"]
        found = [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        assert found and all(words[0] == "headway" for words in found)
        return [words[1:] for words in found]

    def give(self, words: list[str], *, ends: int = 0) -> str:
        """Gives one command. ends: the exit code that is expected."""
        words = [self.places.get(word, word) for word in words]
        words = [str(self.evaluation) if word == "3" and words[0] == "eval" else word for word in words]
        if "lm_eval" in words[words.index("--") if "--" in words else 0 :]:
            at = words.index("lm_eval", words.index("--"))
            words[at : at + 1] = ["python", "harness.py"]
        done = self.server.cli(*words, cwd=self.folder)
        assert done.returncode == ends, (words, done.stdout, done.stderr)
        if made := re.match(r"evaluation (\d+) is ", done.stdout):
            self.evaluation = int(made[1])
        return done.stdout

    def all_of(self, section: str) -> list[str]:
        return [self.give(words) for words in self.lines(section)]


def test_the_how_to_is_so(server: Server, job: int, tmp_path: Path) -> None:
    page = HowTo(server, job, tmp_path)
    planned, ran = page.all_of("Declare")
    assert "2 checkpoints x 2 = 4 cells: 0 done already, 4 to run" in planned
    assert "succeeded: 4 of 4 cells valid" in ran
    first = page.evaluation
    assert "succeeded: 4 of 4 cells valid" in page.all_of("Two ways to run a cell")[0]

    page.evaluation = first
    listing, shown, invalid, _ = page.all_of("Look")
    assert "succeeded" in listing and "1.000" in shown and "No such cells." in invalid
    assert (tmp_path / "report.html").stat().st_size > 10_000
    with server.client() as client:
        found = client.evaluations.get(first)
        assert len(Path(found.path, "index.jsonl").read_text().splitlines()) == 4
        cell = client.evaluations.cells(first)[0]

    # given again it is the same, whatever a report left beside the code
    assert "the same as" in page.give(page.lines("Declare")[0])
    verify, again = page.lines("Check what is there")
    assert "4 cells read: 0 damaged" in page.give(verify)
    Path(cell.path, "answer.json").write_text("{}")
    page.give(verify, ends=1)
    assert str(tmp_path / "large") in page.all_of("When a disk or a quota is full")[0]
    with server.client() as client:
        page.all_of("Run it again")
        assert client.evaluations.wait(first, timeout=60).state == "succeeded"
        moved = Path(client.evaluations.cells(first)[0].path)
        assert moved.is_relative_to(tmp_path / "large")
        (moved / "answer.json").unlink()
        assert "1 damaged" in page.give(again)
        assert client.evaluations.wait(first, timeout=60).state == "succeeded"


def test_the_how_to_takes_over_an_old_folder(server: Server, job: int, tmp_path: Path) -> None:
    page = HowTo(server, job, tmp_path)
    for name, text in (("sum", '{"answer": 2}'), ("product", '{"answer": ')):
        (tmp_path / "old" / "epoch-1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / "epoch-1" / f"{name}.json").write_text(text)
        (tmp_path / "old" / "epoch-1" / f"{name}.score").write_text('{"score": 1.0}')
    held, dry, adopted, retried = page.all_of("Take over an old folder")
    assert "is stopped: 0 of 4 cells valid" in held
    assert "1 of 4 cells would be adopted; 1 not valid, 2 not there" in dry
    assert "1 of 4 cells adopted; 1 not valid, 2 not there" in adopted and "is running" in retried
    with server.client() as client:
        ended = client.evaluations.wait(page.evaluation, timeout=60)
    assert (ended.state, ended.valid, ended.ran, ended.reused) == ("succeeded", 4, 3, 1)


def test_the_how_to_runs_the_harness(server: Server, job: int, tmp_path: Path) -> None:
    page = HowTo(server, job, tmp_path)
    written, ran = page.all_of("lm-evaluation-harness")
    assert "tasks.yaml: 2 cases" in written and "succeeded: 4 of 4 cells valid" in ran
    with server.client() as client:
        cells = client.evaluations.cells(page.evaluation)
        assert {cell.score for cell in cells} == {0.25}
        assert cells[0].scores == {"score": 0.5, "acc": 0.25, "acc_norm": 0.5}
        assert [output["name"] for output in cells[0].outputs] == ["results_2026-01-01.json"]


CODE = """
import json, pathlib

class Sums:
    def load(self, checkpoint):
        self.path = pathlib.Path(checkpoint)

    def run(self, case, out):
        pathlib.Path(out, "sum.json").write_text(json.dumps(case["inputs"]["a"] + case["inputs"]["b"]))

def check(case, out):
    if json.loads(pathlib.Path(out, "sum.json").read_text()) > 10:
        return "the sum is above 10"

def score(case, out):
    return {"right": float(json.loads(pathlib.Path(out, "sum.json").read_text()) == case["expected"])}
"""


def test_a_check_and_a_scorer_say_what_counts(server: Server, job: int, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(CODE)
    (tmp_path / "cases.csv").write_text("id,a,b,expected\nsmall,1,2,3\nwrong,1,2,4\nlarge,9,2,11\n")
    (tmp_path / "sums.yaml").write_text(
        "cases: cases.csv\nworker: sums.py:Sums\noutputs: {sum.json: {kind: json, schema: {type: integer}}}\n"
        "check: sums.py:check\nscorer: sums.py:score\nscore: right\ntries: 1\n"
    )
    done = server.cli("eval", "run", "--job", str(job), "--file", "sums.yaml", "--wait", cwd=tmp_path)
    assert done.returncode == 1
    assert "failed with 4 of 6 cells valid" in done.stderr and "--state invalid" in done.stderr
    number = done.stdout.split()[1]
    cells = json.loads(server.cli("eval", "cells", number, "--json").stdout)
    assert {(cell["case"], cell["state"], cell["score"]) for cell in cells} == {
        ("small", "valid", 1.0), ("wrong", "valid", 0.0), ("large", "invalid", None),
    }  # fmt: skip
    invalid = [cell for cell in cells if cell["state"] == "invalid"]
    assert {(cell["cause"], cell["tries"]) for cell in invalid} == {("check", 1)}
    assert "the sum is above 10" in invalid[0]["reason"]
    assert "the sum is above 10" in server.cli("eval", "show", number).stdout


def test_one_that_follows_ends_after_its_job(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "tell.py").write_text("import sys, shutil\nshutil.copy(sys.argv[1], sys.argv[2] + '/copy')\n")
    with server.client() as client:
        code = client.snapshots.push(tmp_path).digest
        number = str(client.jobs.submit(["python", "train.py", "3"], snapshot=code, held=True).id)
    flags = "--follow --policy after_training --output copy=safetensors --score none --json"
    command = ["python", "tell.py", "{checkpoint}", "{out}"]
    (tmp_path / "cases.json").write_text('["only"]')
    done = server.cli(
        "eval", "run", "--job", number, "--cases", "cases.json", *flags.split(), "--", *command, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    view = json.loads(done.stdout)
    assert (view["state"], view["cells"], view["follow"]) == ("running", 0, True)
    assert server.cli("job", "release", number).returncode == 0
    with server.client() as client:
        ended = client.evaluations.wait(view["id"], timeout=90)
    assert (ended.state, ended.valid, ended.rows) == ("succeeded", 3, 3)
