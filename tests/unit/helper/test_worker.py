"""The worker process beside a real helper: the user's class or command, and whatever that does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import BEGIN, Helper, Home, Start, Work


def test_a_checkpoint_is_loaded_once_and_a_failure_is_its_cells_own(work: Work) -> None:
    body = '        if n == 1: raise ValueError("odd one")\n        write(out, n)\n'
    done = work(BEGIN + body, 6)
    assert done.code == 0, done.err
    assert done.out.count("load") == 2
    assert done.valid == [1, 3, 4, 6]
    assert done.invalid == {2: ("exception", "ValueError: odd one"), 5: ("exception", "ValueError: odd one")}
    assert "Traceback" in done.err and "epoch-0/case-1: ValueError: odd one (tried again)" in done.out


def test_a_child_that_dies_costs_its_cell_alone(work: Work) -> None:
    body = "        if n == 1: ctypes.string_at(0)\n        if n == 2: os._exit(7)\n        write(out)\n"
    done = work(BEGIN + body, 3, tries=1)
    assert done.code == 0 and done.valid == [1]
    assert done.invalid[2] == ("killed", "The worker was killed by SIGSEGV.")
    assert done.invalid[3] == ("killed", "The worker ended with code 7 in the middle of a cell.")
    assert "evaluate.py" in done.err  # where it crashed


def test_a_child_that_dies_with_forked_children_of_its_own_is_noticed(work: Work) -> None:
    body = (
        "        if n == 1:\n            if os.fork() == 0: time.sleep(600)\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n        write(out)\n"
    )
    done = work(BEGIN + body, 3, tries=1)
    assert done.valid == [1, 3] and done.invalid[2] == ("killed", "The worker was killed by SIGKILL.")


def test_the_time_limit_is_a_cells_and_not_its_loads(work: Work) -> None:
    code = BEGIN.replace("def load(self, path): ", "def load(self, path): time.sleep(0.7); ")
    done = work(code + "        if n == 1: time.sleep(600)\n        write(out)\n", 3, tries=1, timeout=0.5)
    assert done.valid == [1, 3]
    assert done.invalid == {2: ("timeout", "It took longer than its time limit of 0.5 s.")}
    assert done.out.count("load") == 2


def test_a_checkpoint_that_does_not_load_costs_its_cells_alone(work: Work) -> None:
    code = BEGIN.replace("def load(self, path): ", 'def load(self, path): 1 / ("epoch-0" not in path); ')
    done = work(code + "        write(out)\n", 6)
    assert done.valid == [4, 5, 6] and sorted(done.invalid) == [1, 2, 3]
    assert done.invalid[1] == ("load", "Checkpoint epoch-0.pt could not be loaded: ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import absent_module", "'evaluate.py:W' could not be imported: ModuleNotFoundError: No module named"),
        ("class Other: pass", "'evaluate.py:W': 'evaluate.py' has no 'W'."),
        ("class W:\n    def __init__(self): raise ValueError('no data')", "could not be made: ValueError: no data"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "by SIGKILL while the code was imported, 3 times."),
        ("raise SystemExit('not here')", "could not be imported: SystemExit: not here"),
    ],
)
def test_a_class_that_cannot_be_had_ends_the_run_with_one_sentence(work: Work, code: str, sentence: str) -> None:
    done = work(code)
    assert done.code == 1 and sentence in done.err.splitlines()[-1]
    assert done.invalid == {} and done.valid == []


def test_a_child_that_is_killed_while_it_imports_is_followed_by_another(work: Work) -> None:
    code = BEGIN + "        write(out)\nif not os.path.exists('again'): open('again', 'w'); os.kill(os.getpid(), 9)\n"
    done = work(code)
    assert done.code == 0 and done.valid == [1, 2, 3], done.err


def test_cells_that_fail_alike_end_the_run_with_one_sentence(work: Work) -> None:
    done = work(BEGIN + '        raise RuntimeError(f"no GPU {n}")\n', 30, tries=1)
    assert done.code == 1
    assert done.err.splitlines()[-1] == ("8 cells in a row failed alike: RuntimeError: no GPU 1; 22 were not tried.")
    assert len(done.invalid) == 8


CHECKS = """
def check(case, out):
    if case["id"] == "case-1": return "It is too dark."
    if case["id"] == "case-2": raise ValueError("cannot look")
def scorer(case, out):
    return {"psnr": case["expected"] + 0.5, "text": "x"}
def number(case, out):
    return case["expected"] * 2
"""


def test_a_check_of_the_users_own_decides(work: Work) -> None:
    done = work(BEGIN + "        write(out)\n", files={"checks.py": CHECKS}, check="checks.py:check", tries=1)
    assert done.valid == [1]
    assert done.invalid == {
        2: ("check", "It is too dark."),
        3: ("check", "Its check failed: ValueError: cannot look"),
    }


@pytest.mark.parametrize(
    ("scorer", "score", "scores"), [("scorer", "psnr", {"psnr": 2.5}), ("number", "score", {"score": 4})]
)
def test_a_scorer_tells_the_scores(work: Work, scorer: str, score: str, scores: dict[str, float]) -> None:
    outputs = [{"name": "out.bin", "kind": "file"}]
    rule = {"scorer": f"checks.py:{scorer}", "score": score, "outputs": outputs}
    done = work(BEGIN + "        write(out)\n", files={"checks.py": CHECKS}, **rule)
    assert done.valid == [1, 2, 3], done.invalid
    assert done.scores[3] == scores


def test_scores_are_the_last_json_that_was_printed(work: Work) -> None:
    body = (
        '        write(out); print("before"); print(json.dumps({"score": 1}))\n'
        '        print(json.dumps({"score": n}, indent=1))\n'
    )
    done = work(BEGIN + body, scores="stdout", score_file=None)
    assert done.scores == {1: {"score": 0}, 2: {"score": 1}, 3: {"score": 2}}
    assert "before" in done.out


def test_scores_may_be_results_of_lm_evaluation_harness(work: Work) -> None:
    body = (
        '        write(out); os.mkdir(os.path.join(out, "m"))\n'
        '        results = {"results": {"arc": {"alias": "arc", "acc,none": 0.25 * n}}}\n'
        '        if n != 1: json.dump(results, open(os.path.join(out, "m", "results_1.json"), "w"))\n'
    )
    done = work(BEGIN + body, scores="lm_eval", score="acc", tries=1)
    assert done.valid == [1, 3] and done.scores[3]["acc"] == 0.5
    assert done.invalid[2][0] == "no_score"


def test_without_a_score_the_outputs_alone_count(work: Work) -> None:
    body = '        open(os.path.join(out, "out.bin"), "w").write("x")\n'
    done = work(BEGIN + body, score=None, score_file=None, outputs=[{"name": "out.bin", "kind": "file"}])
    assert done.valid == [1, 2, 3] and done.scores[1] == {}


def test_several_files_of_a_name_are_counted(work: Work) -> None:
    body = (
        '        os.mkdir(os.path.join(out, "f")); write(out)\n'
        '        for i in range(n): open(os.path.join(out, "f", f"{i}.bin"), "w").write("x")\n'
    )
    rules = [{"name": "f/*.bin", "kind": "file", "count": "1..4"}, {"name": "score.json", "kind": "json"}]
    done = work(BEGIN + body, outputs=rules, tries=1)
    assert done.valid == [2, 3]
    assert "f/*.bin: 0 such files were written" in done.invalid[1][1]


# commands

INFER = """
import json, os, subprocess, sys
case, name, out = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
n = case["parameters"]["n"]
if n == 1: sys.exit("cannot do this one")
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(os.path.join(out, "score.json"), "w").write(json.dumps({"score": n}))
open(os.path.join(out, "out.bin"), "w").write(name + sys.argv[4])
print("hello", n); print(json.dumps({"score": n + 10}))
"""
COMMAND = [sys.executable, "infer.py", "{case}", "{checkpoint.name}", "{out}", "{seed}"]


def test_a_command_is_started_for_each_cell(work: Work, home: Home) -> None:
    done = work(files={"infer.py": INFER}, worker=None, command=COMMAND, tries=1)
    assert done.code == 0 and done.valid == [1, 3]
    assert done.invalid == {2: ("exit", "It returned 1: cannot do this one")}
    assert (home.target / "epoch-0/case-2/out.bin").read_text() == "epoch-0.pt2"
    assert sorted(p.name for p in (home.target / "epoch-0/case-2").iterdir()) == [
        "out.bin",
        "output.json",
        "score.json",
    ]
    assert "hello 0" in done.out and "cannot do this one" in done.err


def test_a_commands_scores_may_come_from_what_it_prints(work: Work) -> None:
    done = work(files={"infer.py": INFER}, worker=None, command=COMMAND, tries=1, scores="stdout")
    assert done.scores == {1: {"score": 10}, 3: {"score": 12}}


def test_a_command_is_checked_and_scored(work: Work) -> None:
    rule = {"check": "checks.py:check", "scorer": "checks.py:number", "tries": 1}
    done = work(files={"infer.py": INFER, "checks.py": CHECKS}, worker=None, command=COMMAND, **rule)
    assert done.scores == {1: {"score": 0}} and sorted(done.invalid) == [2, 3]


def test_a_command_has_a_time_limit_with_all_that_it_started(work: Work) -> None:
    shell = ["sh", "-c", "sleep 600 & sleep 600"]
    began = time.monotonic()
    done = work(count=1, worker=None, command=shell, tries=1, timeout=0.4)
    assert done.invalid == {1: ("timeout", "It took longer than its time limit of 0.4 s.")}
    assert time.monotonic() - began < 30


def test_a_command_that_is_not_there_is_named(work: Work) -> None:
    done = work(count=1, worker=None, command=["no-such-program-here", "{case.id}"], tries=1)
    assert done.invalid[1][0] == "exit" and "'no-such-program-here' could not be started" in done.invalid[1][1]


def test_a_worker_outlives_a_helper_that_is_killed(home: Home, helpers: Start, tmp_path: Path) -> None:
    folder = home.cells("1-1", 30)
    (tmp_path / "evaluate.py").write_text(BEGIN + "        time.sleep(0.03); write(out, n)\n")
    helper, address = helpers(folder)
    helper.prepared()
    environment = {"HEADWAY_HELPER": address, "PATH": os.environ["PATH"]}
    worker = subprocess.Popen([sys.executable, "-m", "headway.script.worker"], cwd=tmp_path, env=environment)
    told: dict[int, set[str]] = {}
    for _ in range(3):
        helper.event("cells")
        helper.kill()
        for cell in helper.told():
            told.setdefault(cell["cell"], set()).add(cell["publication"])
        helper, address = helpers(folder)
        helper.prepared()
    assert worker.wait(60) == 0
    helper.end()
    for cell in helper.told():
        told.setdefault(cell["cell"], set()).add(cell["publication"])
    assert sorted(told) == list(range(1, 31))
    assert all(len(publications) == 1 for publications in told.values())
    notes = list(home.target.glob("epoch-*/*/output.json"))
    assert {json.loads(n.read_text())["id"] for n in notes} == {p for found in told.values() for p in found}


def test_a_worker_that_is_killed_leaves_its_cells_to_the_next(home: Home, helpers: Start, tmp_path: Path) -> None:
    helper, address = helpers(home.cells("1-1", 9))
    helper.prepared()
    (tmp_path / "evaluate.py").write_text(BEGIN + "        time.sleep(0.05); write(out)\n")
    environment = {"HEADWAY_HELPER": address, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "headway.script.worker"]
    first = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True)
    helper.event("cells")
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    assert subprocess.run(command, cwd=tmp_path, env=environment, timeout=60).returncode == 0
    helper.end()
    assert sorted(t["cell"] for t in helper.told()) == list(range(1, 10))
    assert helper.events("cell_invalid") == []


# what user code may do


def test_a_child_that_is_killed_from_outside_costs_its_cell_alone(home: Home, helpers: Start, tmp_path: Path) -> None:
    body = (
        '        if n == 1:\n            print("child", os.getpid(), flush=True); time.sleep(600)\n        write(out)\n'
    )
    worker, helper = _started(home.cells("1-1", 3, tries=1), helpers, tmp_path, BEGIN + body)
    assert worker.stdout
    child = next(int(line.split()[1]) for line in worker.stdout if line.startswith("child"))
    os.kill(child, signal.SIGKILL)
    assert worker.wait(30) == 0
    helper.end()
    assert sorted(t["cell"] for t in helper.told()) == [1, 3]
    (lost,) = helper.events("cell_invalid")
    assert (lost["cell"], lost["cause"], lost["reason"]) == (2, "killed", "The worker was killed by SIGKILL.")


def test_a_worker_that_is_killed_takes_its_child_along(home: Home, helpers: Start, tmp_path: Path) -> None:
    body = '        print("child", os.getpid(), flush=True); time.sleep(600)\n'
    worker, helper = _started(home.cells("1-1", 1, tries=1), helpers, tmp_path, BEGIN + body)
    assert worker.stdout
    child = next(int(line.split()[1]) for line in worker.stdout if line.startswith("child"))
    watched = os.pidfd_open(child)
    worker.kill()
    worker.wait(10)
    try:
        assert select.select([watched], [], [], 20)[0], "the child outlived its worker"
    finally:
        os.close(watched)
    helper.end()
    assert helper.events("cell_invalid") == []


def _started(folder: Path, helpers: Start, code_at: Path, code: str) -> tuple[subprocess.Popen[str], Helper]:
    helper, address = helpers(folder)
    helper.prepared()
    (code_at / "evaluate.py").write_text(code)
    environment = {"HEADWAY_HELPER": address, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "headway.script.worker"]
    worker = subprocess.Popen(command, cwd=code_at, env=environment, stdout=subprocess.PIPE, text=True)
    return worker, helper
