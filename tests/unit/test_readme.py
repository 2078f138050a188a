"""Both READMEs say the same: section by section the same commands, files, links and pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    language: (ROOT / name).read_text("utf-8") for language, name in (("en", "README.md"), ("zh", "README.zh-CN.md"))
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sections(text: str) -> list[str]:
    return text.split("\n## ")


def commands(section: str) -> list[str]:
    """Of its blocks, without what is said beside them."""
    lines = [line for _, block in FENCE.findall(section) for line in block.splitlines()]
    return [re.sub(r"\s+#\s.*", "", line) for line in lines]


def links(section: str) -> list[str]:
    """In the order of the page; the picture in the other language is the same picture."""
    found = re.findall(r"\]\(([^)]+)\)", section)
    return [re.sub(r"-(en|zh)\.png", ".png", link) for link in found if not link.startswith("README")]


def test_they_have_the_same_sections() -> None:
    assert len(sections(PAGES["en"])) == len(sections(PAGES["zh"])) > 4


@pytest.mark.parametrize("at", range(len(sections(PAGES["en"]))))
def test_a_section_has_the_same_commands_and_links(at: int) -> None:
    english, chinese = (sections(PAGES[language])[at] for language in ("en", "zh"))
    assert commands(english) == commands(chinese)
    assert links(english) == links(chinese)
    # figures, versions, ports and names in code are the same too
    for known in (r"\d+(?:[.,]\d+)*", r"`[^`\n]+`"):
        assert sorted(set(re.findall(known, FENCE.sub("", english)))) == sorted(
            set(re.findall(known, FENCE.sub("", chinese)))
        )
