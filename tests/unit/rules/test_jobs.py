"""What a job request may say; what a command becomes when a parameter changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError, RefusedError, UsageError
from headway.rules import jobs


@pytest.mark.parametrize(
    ("most", "wait", "limits", "words"),
    [
        (7200, 3600, {}, "max_wait is 1h, less than max_duration (2h)"),
        (3600, None, {"idle_output": 3600}, "limits.idle_output is 1h, but the run ends after 1h anyway."),
        (3600, None, {"hang": 7200}, "limits.hang is 2h"),
        (None, 3600, {"no_progress": {"metric": "loss", "seconds": 7200}}, "limits.no_progress.seconds is 2h"),
        (None, None, {"idle_output": 0.5}, "limits.idle_output is 0.5 s"),
        (None, None, {"nan": ["loss", " "]}, "limits.nan"),
    ],
)
def test_maxima_that_contradict(most: float | None, wait: float | None, limits: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        jobs.check_durations(most, wait, limits)
    assert words in raised.value.message


def test_maxima_that_agree() -> None:
    jobs.check_durations(3600, 3600, {"idle_output": 60, "hang": 0, "nan": True})
    jobs.check_durations(None, None, {"idle_output": 10**6})


@pytest.mark.parametrize(
    ("billing", "given", "chosen", "words"),
    [
        ("on_demand", {"max_price": 2.0}, (), "spot is given, but billing is on_demand."),
        ("subscription", {}, (), "billing is subscription"),
        ("spot", {"bid": "cap"}, ("bid",), "there is no cap"),
        ("spot", {"bid": "market", "max_price": 2.0}, ("bid",), "spot.max_price is 2"),
    ],
)
def test_bids_that_make_no_sense(billing: str, given: dict[str, Any], chosen: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        jobs.spot(billing, given, chosen)
    assert words in raised.value.message


def test_bids() -> None:
    assert jobs.spot("on_demand", None) == {}
    assert jobs.spot("spot", None)["bid"] == "market"
    cap = jobs.spot("spot", {"bid": "market", "max_price": 0.25}, ("max_price",))
    assert (cap["bid"], cap["max_price"], cap["protection"], cap["grace"]) == ("cap", 250_000, 3600, 120)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("/data/*.pt", "leads out of CHECKPOINT_PATH"),
        ("../data/*.pt", "leads out"),
        ("a/../../b.pt", "leads out"),
        ("$DATA_PATH/*.pt", "would match the dataset"),
        ("{DATA_PATH}/*", "would match the dataset"),
        ("digits/*.pt", "would match the dataset"),
        ("data/*.pt", "would match the dataset"),
        ("*", "matches everything"),
        ("**", "matches everything"),
        ("*.*", "matches everything"),
        ("", "is no pattern"),
        ("/", "is no pattern"),
    ],
)
def test_patterns_that_are_refused(pattern: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        jobs.check_patterns([pattern], {"digits"})
    assert words in raised.value.message


def test_patterns_that_are_taken() -> None:
    jobs.check_patterns(["*.pt", "*/", "step-*", "epoch-??.pt", "nested/*.safetensors", "digits.pt"], {"digits"})
    # without data there is nothing that it could match
    jobs.check_patterns(["data/*.pt"], set())


@pytest.mark.parametrize(
    ("command", "entry"),
    [
        (["python", "train.py", "--data", "x.py"], "train.py"),
        (["python", "-u", "src/train.py"], "src/train.py"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train.py"),
        (["accelerate", "launch", "train.py"], "train.py"),
        (["./train.py"], "./train.py"),
        (["python", "-m", "train"], None),
        (["python", "-c", "import a.py"], None),
        (["sh", "-c", "cd x && python train.py"], None),
        (["python", "/opt/train.py"], None),
        (["python", "$CODE/train.py"], None),
        (["true"], None),
    ],
)
def test_the_entry(command: list[str], entry: str | None) -> None:
    assert jobs.entry_of(command) == entry


@pytest.mark.parametrize(
    ("entry", "files", "words"),
    [
        ("trian.py", {"train.py", "net.py"}, "Did you mean train.py?"),
        ("train.py", {"src/train.py"}, "Did you mean src/train.py?"),
        ("train.py", {"README.md"}, "none like it"),
        ("../train.py", {"train.py"}, "outside the code"),
        ("train.py", None, "takes no code along"),
    ],
)
def test_an_entry_that_is_not_in_the_code(entry: str, files: set[str] | None, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        jobs.check_entry(["python", entry], files)
    assert words in str(raised.value)
    assert raised.value.code == "entry_outside"


def test_an_entry_that_is_in_the_code() -> None:
    jobs.check_entry(["python", "./a/../train.py"], {"train.py"})
    jobs.check_entry(["true"], None)


@pytest.mark.parametrize(
    ("cause", "words"),
    [("node_lst", "Did you mean node_lost?"), ("done", "is fixed"), ("reclaimed", "is fixed"), ("", "unknown cause")],
)
def test_rules_for_causes_that_have_none(cause: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        jobs.check_retry_rules([cause])
    assert words in str(raised.value)


def test_rules_for_every_other_cause() -> None:
    jobs.check_retry_rules(jobs.RETRIABLE)
    assert {"exit", "killed", "node_lost", "hang", "oom_kill", "time_limit"} <= set(jobs.RETRIABLE)


def test_tags() -> None:
    jobs.check_tags({"team": "vision", "empty": ""})
    for tags in ({"": "x"}, {"a=b": "x"}, {"a": "x" * 300}, {str(n): "" for n in range(51)}):
        with pytest.raises(UsageError):
            jobs.check_tags(tags)


def test_ranges() -> None:
    most = {"nodes": 4, "cpus": 2.0}
    assert jobs.least({"nodes": 1, "cpus": 2.0, "memory_bytes": None}, most) == {"nodes": 1}
    with pytest.raises(UsageError, match=r"least.nodes is 5, more than nodes \(4\)"):
        jobs.least({"nodes": 5}, most)


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        (["t", "--lr", "0.3"], ["t", "--lr", "0.1"]),
        (["t", "--lr=0.3"], ["t", "--lr=0.1"]),
        (["t", "lr=0.3"], ["t", "lr=0.1"]),
        # another value than the parameter has is not the parameter's
        (["t", "--lr", "0.7"], ["t", "--lr", "0.7"]),
        (["t", "--lr"], ["t", "--lr"]),
        (["t", "0.3", "--other", "0.3"], ["t", "0.3", "--other", "0.3"]),
    ],
)
def test_a_command_follows_its_parameter(command: list[str], changed: list[str]) -> None:
    assert jobs.with_parameters(command, {"lr": 0.3}, {"lr": 0.1}) == changed


def test_a_parameter_that_stands_in_the_command_alone() -> None:
    assert jobs.with_parameters(["t", "--batch-size", "8", "--x"], {}, {"batch_size": 16}) == [
        "t", "--batch-size", "16", "--x"
    ]  # fmt: skip
    assert jobs.with_parameters(["t", "--x", "--y"], {}, {"x": True}) == ["t", "--x", "--y"]


@given(st.lists(st.text(max_size=6), max_size=6), st.dictionaries(st.text(min_size=1, max_size=3), st.integers()))
def test_a_change_to_the_same_value_changes_no_word(words: list[str], parameters: dict[str, int]) -> None:
    command = [*words, *(w for k, v in parameters.items() for w in (f"--{k}", str(v)))]
    found = jobs.with_parameters(command, parameters, {})
    assert found == command
    assert len(jobs.with_parameters(command, parameters, parameters)) == len(command)


def test_mappings_change_key_by_key() -> None:
    base = {"tags": {"a": "1", "b": "2"}, "command": ["x"], "limits": {"hang": 5}}
    assert jobs.merged(base, {"tags": {"a": None, "c": "3"}, "command": ["y"], "name": "n"}) == {
        "tags": {"b": "2", "c": "3"}, "command": ["y"], "limits": {"hang": 5}, "name": "n"
    }  # fmt: skip


def test_cycles() -> None:
    depends = {2: [3], 3: [4], 4: []}
    jobs.check_after(None, [2], depends)
    jobs.check_after(5, [2], depends)
    with pytest.raises(UsageError, match="cannot come after itself"):
        jobs.check_after(5, [5], depends)
    with pytest.raises(RefusedError, match="Job 2 waits for job 4 already"):
        jobs.check_after(4, [2], depends)


@given(st.dictionaries(st.integers(1, 8), st.lists(st.integers(1, 8), max_size=3), max_size=8))
def test_whatever_depends_on_whatever_it_ends(depends: dict[int, list[int]]) -> None:
    try:
        jobs.check_after(9, list(depends), depends)
        jobs.check_after(1, [n for n in depends if n != 1], depends)
    except HeadwayError as error:
        assert error.code == "cycle"
