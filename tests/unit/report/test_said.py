"""The record's sentences in the reader's language."""

from __future__ import annotations

import pytest

from headway.report import said


def test_sizes_are_as_people_read_them() -> None:
    text = "/data/out has 503808 bytes free; 720896 are needed."
    assert said.sentence(text, "en") == "/data/out has 492.0 KiB free; 704.0 KiB is needed."
    assert said.sentence(text, "zh") == "/data/out 仅剩 492.0 KiB，需要 704.0 KiB。"


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("mia stopped it.", "mia 已停止此评测。"),
        ("It is held until it is retried.", "评测处于保留状态，重试后才会开始。"),
        ("Its jobs have ended and made no checkpoint that it is of.", "训练任务已结束，没有产出符合条件的检查点。"),
        ("3 cells are left after 4 rounds of workers.", "经过 4 轮工作进程，仍有 3 个单元未完成。"),
        (
            "Worker run 7 failed: 8 cells in a row failed alike: no\nGPU; 34 were not tried.",
            "评测进程（运行 7）失败：连续 8 个单元因同样原因失败：no\nGPU；另有 34 个未尝试。",
        ),
        ("Worker run 7 failed: The process died.", "评测进程（运行 7）失败：The process died."),
    ],
)
def test_why_it_ended_is_told_in_both_languages(text: str, chinese: str) -> None:
    assert (said.sentence(text, "en"), said.sentence(text, "zh")) == (text, chinese)


def test_what_is_not_known_stays_as_it_is() -> None:
    for language in ("en", "zh"):
        assert said.sentence("Something {else} happened.", language) == "Something {else} happened."
        assert said.remedy("Ask {someone}.", None, language) == "Ask {someone}."


def test_braces_in_a_path_are_no_fields() -> None:
    assert "/d/{n}{0} " in said.sentence("/d/{n}{0} has 1 bytes free; 2 are needed.", "zh")


def test_a_chinese_remedy_keeps_the_commands_that_the_server_names() -> None:
    text = "Run `chattr -i /data`; work goes on by itself."
    assert said.remedy(text, "no_permission", "en") == text
    assert said.remedy(text, "no_permission", "zh").endswith("（`chattr -i /data`）")
    again = "Mend the cause, then `headway eval retry 2`; when it is in the code, evaluate anew."
    assert "`headway eval retry 2`" in said.remedy(again, None, "zh") and "Mend" not in said.remedy(again, None, "zh")


def test_a_forecast_is_told_only_when_it_does_not_fit() -> None:
    found = {"fits": False, "sentence": "No.", "needed_bytes": 2048, "needed_files": 9}
    assert said.forecast(found, "en") == "No."
    assert "2.0 KiB" in said.forecast(found, "zh") and "9" in said.forecast(found, "zh")
    assert said.forecast({**found, "fits": True}, "zh") == said.forecast({}, "en") == ""
