"""What the parser of the command line refuses is said like every other error: one sentence, what to do, exit code 2."""

from __future__ import annotations

import json
import shlex

import pytest
import typer.main

from headway.cli import main
from headway.cli.app import app


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str) -> tuple[int, str]:
    """Exit code and stderr of `headway WORDS`."""
    monkeypatch.setattr("sys.argv", ["headway", *shlex.split(words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("evla ls", "`headway` has no command 'evla'. Did you mean eval?"),
        ("eval shwo 1", "`headway eval` has no command 'shwo'. Did you mean show?"),
        ("ls --ower job", "`headway ls` has no option --ower. Did you mean --owner?"),
        ("--nope", "`headway` has no option --nope. `headway --help` lists them."),
        ("job show", "`headway job show` lacks JOB. Write it like `headway job show JOB`."),
        ("model register x", "`headway model register` lacks --job. Give --job:"),
        ("job show x", "JOB is 'x'. It should be a whole number."),
        ("job submit --priority x -- true", "--priority is 'x'. It should be a whole number."),
        ("job submit --max-price x -- true", "--max-price is 'x'. It should be a number."),
        ("ls more", "`headway ls` does not take 'more'."),
        ("eval run --job", "--job has no value. Write it like --job VALUE."),
        ("eval run --wait=yes", "`headway`: Option '--wait' does not take a value."),
        ("job submit --nope -- true", "`headway job submit` has no option --nope."),
        ("job submit --spce medium -- true", "Did you mean --spec? What is the program's own goes after --."),
        ("job clone 1 --nope", "`headway job clone` has no option --nope."),
        ("job submit python train.py --epochs 3", "What is the program's own goes after --."),
    ],
)
def test_wrong_words_are_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, sentence: str
) -> None:
    code, text = said(capsys, monkeypatch, words)
    assert code == 2
    assert text.startswith("error: ") and text.count("\n") == 1
    assert sentence in text


def test_a_group_without_a_command_lists_them_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = said(capsys, monkeypatch, "eval")
    assert code == 2 and "List evaluations." in text
    assert text.splitlines()[-1].startswith("error: `headway eval` lacks a command.")


def test_with_json_they_are_objects(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = said(capsys, monkeypatch, "ls --nope --json")
    assert code == 2 and json.loads(text)["error"]["code"] == "unknown_option"


def test_no_command_takes_unknown_options_for_words() -> None:
    def all_below(command: object) -> list[object]:
        below = getattr(command, "commands", {})
        return [command, *(found for inner in below.values() for found in all_below(inner))]

    lax = [c.name for c in all_below(typer.main.get_command(app)) if c.context_settings.get("ignore_unknown_options")]  # type: ignore[attr-defined]
    assert lax == []
