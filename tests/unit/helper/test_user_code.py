"""What the user's code in a worker may do, and must not do harm with."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from .conftest import BEGIN, Home, Work


def test_memory_that_runs_out_costs_its_cell_alone(work: Work) -> None:
    body = (
        "        import resource\n        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "        if n == 1: bytearray(4 << 30)\n        write(out)\n"
    )
    done = work(BEGIN + body, 3, tries=1)
    assert done.code == 0 and done.valid == [1, 3]
    cause, reason = done.invalid[2]
    assert cause == "exception" and reason.startswith("MemoryError")


def test_the_time_limit_ends_all_that_a_cell_started(work: Work, tmp_path: Path) -> None:
    body = (
        "        if n == 1:\n            import subprocess\n"
        '            left = subprocess.Popen(["sleep", "600"])\n'
        '            open("left", "w").write(str(left.pid)); time.sleep(600)\n        write(out)\n'
    )
    done = work(BEGIN + body, 3, tries=1, timeout=2.0)
    assert done.valid == [1, 3] and done.invalid[2][0] == "timeout"
    state = Path(f"/proc/{(tmp_path / 'left').read_text()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_flood_on_stdout_and_words_on_every_descriptor_do_no_harm(work: Work) -> None:
    body = (
        '        os.write(1, b"x" * (8 << 20))\n'
        '        if n == 1:\n            for fd in range(3, 64):\n                try: os.write(fd, b"no JSON\\n")\n'
        "                except OSError: pass\n        write(out, n)\n"
    )
    done = work(BEGIN + body, 6, tries=1)
    assert done.code == 0, done.err[-2000:]
    assert [cell for cell in done.valid if cell not in (2, 5)] == [1, 3, 4, 6]
    assert sorted([*done.valid, *done.invalid]) == [1, 2, 3, 4, 5, 6]
    assert len(done.out) > 6 * (8 << 20)


def test_a_daemon_that_holds_everything_open_hinders_nobody(work: Work, tmp_path: Path) -> None:
    body = (
        "        if n == 0 and os.fork() == 0:\n            os.setsid()\n"
        "            quiet = os.open(os.devnull, os.O_RDWR); os.dup2(quiet, 1); os.dup2(quiet, 2)\n"
        '            open("daemon", "w").write(str(os.getpid())); time.sleep(600); os._exit(0)\n        write(out)\n'
    )
    done = work(BEGIN + body, 3, scores="file")
    try:
        assert done.code == 0 and done.valid == [1, 2, 3]
    finally:
        os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)


STRANGE = {
    "a link out of the folder": 'os.remove(p); os.symlink("/etc/hostname", p)',
    "a link to a device": 'os.remove(p); os.symlink("/dev/zero", p)',
    "a pipe": "os.remove(p); os.mkfifo(p)",
    "a folder": "os.remove(p); os.mkdir(p)",
    "a link to itself": "os.remove(p); os.symlink(p, p)",
}


@pytest.mark.parametrize("what", list(STRANGE))
def test_an_output_that_is_no_file_is_invalid(work: Work, home: Home, what: str) -> None:
    body = f'        write(out); p = os.path.join(out, "out.bin")\n        if n == 1: {STRANGE[what]}\n'
    done = work(BEGIN + body, 3, tries=1)
    assert done.code == 0 and [cell for cell in done.valid if cell != 2] == [1, 3]
    assert done.invalid.get(2, ("",))[0] == "invalid_output"
    assert not (home.target / "epoch-0/case-1").exists()


def test_odd_names_beside_the_outputs_are_left_out(work: Work, home: Home) -> None:
    body = (
        '        write(out); open(os.path.join(out, "a\\nb"), "w").close(); os.mkfifo(os.path.join(out, "pipe"))\n'
        '        open(os.fsencode(out) + b"/\\xff", "w").close(); os.symlink("/", os.path.join(out, "root"))\n'
    )
    done = work(BEGIN + body, 3, tries=1)
    assert done.valid == [1, 2, 3], done.invalid
    names = sorted(p.name for p in (home.target / "epoch-0/case-0").iterdir())
    assert names == ["out.bin", "output.json", "score.json"]


def test_odd_names_are_published_where_a_star_asks_for_them(work: Work, home: Home) -> None:
    body = (
        '        write(out); open(os.path.join(out, "a\\nb.txt"), "w").write("x")\n'
        '        if n == 1: open(os.fsencode(out) + b"/\\xff.txt", "w").write("x")\n'
    )
    rules = [{"name": "*.txt", "kind": "file"}, {"name": "score.json", "kind": "json"}]
    done = work(BEGIN + body, 3, tries=1, outputs=rules)
    assert [cell for cell in done.valid if cell != 2] == [1, 3]
    assert (home.target / "epoch-0/case-0/a\nb.txt").read_text() == "x"
    assert done.invalid[2] == ("invalid_output", r"'\udcff.txt' is no name in UTF-8.")


def test_a_scores_name_that_is_no_text_does_no_harm(work: Work) -> None:
    score = '{"score": 1, "\\ud800": 2}'
    body = f'        write(out)\n        open(os.path.join(out, "score.json"), "w").write({score!r})\n'
    done = work(BEGIN + body, 1, tries=1)
    assert done.valid == [1] and done.scores[1] == {"score": 1, "?": 2}


def test_an_empty_output_is_invalid_where_bytes_are_asked_for(work: Work) -> None:
    body = '        write(out); open(os.path.join(out, "out.bin"), "w").close()\n'
    rules = [{"name": "out.bin", "kind": "file", "min_bytes": 1}, {"name": "score.json", "kind": "json"}]
    done = work(BEGIN + body, 1, tries=1, outputs=rules)
    assert done.invalid[1][0] == "invalid_output"


def test_an_output_that_grows_on_is_what_it_was_when_it_was_checked_or_invalid(work: Work, home: Home) -> None:
    grow = (
        'import time; f = open("out.bin", "ab", buffering=0)\n'
        'for _ in range(3000): f.write(b"y" * 99); time.sleep(0.001)'
    )
    body = (
        "        write(out)\n        import subprocess\n"
        f"        quiet = {{'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL, 'start_new_session': True}}\n"
        f"        if n == 1: subprocess.Popen([sys.executable, '-c', {grow!r}], cwd=out, **quiet)\n"
        '        while n == 1 and os.path.getsize(os.path.join(out, "out.bin")) < 1000: time.sleep(0.01)\n'
    )
    done = work(BEGIN + body, 3, tries=1)
    assert [cell for cell in done.valid if cell != 2] == [1, 3]
    if 2 in done.invalid:
        assert "still being written" in done.invalid[2][1]
    else:
        (size,) = [
            o["bytes"] for t in done.helper.told() if t["cell"] == 2 for o in t["outputs"] if o["kind"] == "file"
        ]
        assert (home.target / "epoch-0/case-1/out.bin").stat().st_size == size


ODD = """
def hang(case, out):
    import time
    if case["id"] == "case-1": time.sleep(600)
    return 1
def die(case, out):
    import os
    if case["id"] == "case-1": os._exit(3)
    return 1
def boom(case, out):
    if case["id"] == "case-1": raise KeyError("x")
    return 1
def nan(case, out): return float("nan") if case["id"] == "case-1" else 1
def inf(case, out): return {"score": float("-inf")} if case["id"] == "case-1" else 1
def word(case, out): return "good" if case["id"] == "case-1" else 1
def nothing(case, out): return None if case["id"] == "case-1" else 1
def deep(case, out):
    found = {}
    found["x"] = found
    return found if case["id"] == "case-1" else 1
"""


@pytest.mark.parametrize(
    ("scorer", "cause"),
    [
        ("hang", "timeout"),
        ("die", "killed"),
        ("boom", "scorer"),
        ("nan", "no_score"),
        ("inf", "no_score"),
        ("word", "no_score"),
        ("nothing", "no_score"),
        ("deep", "scorer"),
    ],
)
@pytest.mark.parametrize("command", [False, True])
def test_a_scorer_that_goes_wrong_costs_its_cell_alone(work: Work, scorer: str, cause: str, command: bool) -> None:
    rule: dict[str, Any] = {"scorer": f"odd.py:{scorer}", "tries": 1, "timeout": 3.0}
    rule["outputs"] = [{"name": "out.bin", "kind": "file"}]
    if command:
        rule |= {"worker": None, "command": ["sh", "-c", "echo x > $0/out.bin", "{out}"]}
    done = work(BEGIN + "        write(out)\n", files={"odd.py": ODD}, **rule)
    assert done.code == 0, done.err[-2000:]
    assert done.valid == [1, 3], done.invalid
    assert done.invalid[2][0] == cause, done.invalid


@pytest.mark.parametrize(("check", "cause"), [("hang", "timeout"), ("die", "killed"), ("boom", "check")])
def test_a_check_that_goes_wrong_costs_its_cell_alone(work: Work, check: str, cause: str) -> None:
    odd = ODD.replace("return 1", "return None")
    rule: dict[str, Any] = {"check": f"odd.py:{check}", "tries": 1, "timeout": 3.0}
    done = work(BEGIN + "        write(out)\n", files={"odd.py": odd}, **rule)
    assert done.valid == [1, 3] and done.invalid[2][0] == cause
