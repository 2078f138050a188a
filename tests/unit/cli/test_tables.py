"""What tables show of names that others gave."""

from __future__ import annotations

import pytest

from headway.cli import common


def test_a_name_neither_breaks_a_table_nor_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_table(["run", "name"], [[1, "a\nb"], [2, "\x1b[31mred"], [3, "模型"]])
    shown = capsys.readouterr().out
    assert shown.count("\n") == 4
    assert "\x1b" not in shown
    assert "a\\nb" in shown and "\\x1b[31mred" in shown and "模型" in shown
