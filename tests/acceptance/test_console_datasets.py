"""The pages of datasets in a real browser: the list, a version with its statistics, files, both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Server
from .test_console import MakePage, browser, console, make_page, member, needs_browser, playwright, sign_in

__all__ = ["browser", "console", "make_page"]

_STATISTICS = {
    "files": 61, "bytes": 61, "kinds": {"image": 60, "csv": 1},
    "splits": {"train": {"ant": 30, "bee": 0}}, "classes": {"train": ["ant", "bee"]},
    "images": {"count": 60, "read": 50, "sizes": {"8x8": 50}, "modes": {"L": 50}, "mean": [12.34], "std": [3.0]},
    "tables": [{"kind": "csv", "files": 1, "rows": 7, "exact": True, "example": "labels.csv", "columns": [
        {"name": "<b>label</b>", "type": "int", "missing": 2, "min": 0, "max": 9, "mean": 4.5}]}],
    "warnings": [{"code": "empty_class", "text": "train has no samples of bee."}, "A sentence of before."],
}  # fmt: skip


@pytest.fixture(scope="module")
def animals(console: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The console's server with two versions of a dataset of 61 files."""
    folder = tmp_path_factory.mktemp("animals")
    for number in range(60):
        file = folder / ("train" if number < 55 else "验证") / f"{number:03}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{number} of the animals")
    (folder / "labels.csv").write_text("a")
    with console.client() as client:
        client.datasets.push("animals", folder, statistics=_STATISTICS)
        (folder / "labels.csv").write_text("b")
        (folder / "train" / "001.txt").rename(folder / "train" / "<b>一.txt")
        client.datasets.push("animals", folder)
    return console


def version_page(page: playwright.Page, server: Server, version: int) -> None:
    page.goto(f"{server.url}/projects/default/datasets/animals/{version}")
    playwright.expect(page.locator("main h1")).to_have_text(f"animals@{version}")


def opened(make_page: MakePage, server: Server, token: str = "", **options: object) -> playwright.Page:
    page = make_page(**options)
    sign_in(page, server, token)
    playwright.expect(page.locator(".hw-header")).to_be_visible()
    return page


@needs_browser
def test_a_dataset_is_found_from_the_first_page_with_its_files(make_page: MakePage, animals: Server) -> None:
    page = opened(make_page, animals)
    page.click(".hw-nav a[href$='/datasets']")
    row = page.locator("[data-dataset=animals]")
    playwright.expect(row).to_contain_text("61")
    row.locator("a").click()
    playwright.expect(page.locator("main h1")).to_have_text("animals@2")
    rows = page.locator(".hw-files tbody tr")
    playwright.expect(rows).to_have_count(50)
    playwright.expect(page.locator("[data-do=back]")).to_be_disabled()
    page.click("[data-do=next]")
    playwright.expect(rows).to_have_count(11)
    playwright.expect(page.locator("[data-do=next]")).to_be_disabled()
    page.click("[data-do=back]")
    playwright.expect(rows).to_have_count(50)
    page.fill(".hw-filter", "验证")
    playwright.expect(rows).to_have_count(5)
    with page.expect_download() as download:
        rows.first.locator("a").click()
    assert download.value.suggested_filename == "055.txt"
    assert Path(download.value.path()).read_text() == "55 of the animals"
    page.fill(".hw-filter", "nowhere")
    playwright.expect(page.locator(".hw-files")).to_have_count(0)
    page.click(".hw-versions a")
    playwright.expect(page.locator("main h1")).to_have_text("animals@1")


@needs_browser
def test_statistics_show_what_is_wrong_first_in_both_languages(make_page: MakePage, animals: Server) -> None:
    page = opened(make_page, animals)
    version_page(page, animals, 1)
    if page.locator(".hw-language").text_content() == "English":
        page.click(".hw-language")
    warnings = page.locator(".hw-warnings li")
    playwright.expect(warnings).to_have_count(2)
    playwright.expect(warnings.first).to_have_text(re.compile(r"Empty class\.\s+train has no samples of bee\."))
    playwright.expect(warnings.last).to_have_text("A sentence of before.")
    main = page.locator(".hw-main")
    for words in ("images 60", "a sample of 50 of 60", "8x8 (50)", "12.3", "labels.csv: 7 rows", "<b>label</b>"):
        playwright.expect(main).to_contain_text(words)
    playwright.expect(page.locator(".hw-classes tbody tr").nth(1)).to_have_text(re.compile(r"bee\s*0"))
    page.click(".hw-language")
    playwright.expect(page.locator(".hw-warnings")).to_contain_text("有空类别")
    for words in ("图像 60", "抽样 50 / 60", "7 行"):
        playwright.expect(main).to_contain_text(words)
    page.click(".hw-language")


@needs_browser
def test_a_version_is_compared_with_an_older_one(make_page: MakePage, animals: Server) -> None:
    page = opened(make_page, animals)
    version_page(page, animals, 2)
    playwright.expect(page.locator("select option")).to_have_text(["animals@1"])
    page.click("[data-do=diff]")
    main = page.locator(".hw-main")
    playwright.expect(main).to_contain_text("1 changed · 1 moved · 59 as before · 1 B of new content")
    rows = page.locator(".hw-changes tr")
    playwright.expect(rows).to_have_text(
        [re.compile(r"changed\s*labels\.csv\s*1 B"), re.compile(r"moved\s*train/<b>一\.txt\s*was train/001\.txt")]
    )
    page.click(".hw-language")
    page.click("[data-do=diff]")
    playwright.expect(main).to_contain_text("修改 1 · 移动 1 · 不变 59 · 新内容 1 B")
    version_page(page, animals, 1)
    playwright.expect(page.locator(".hw-versions")).to_be_visible()
    playwright.expect(page.locator("[data-do=diff]")).to_have_count(0)


@needs_browser
def test_a_version_that_is_not_there_is_said(make_page: MakePage, animals: Server) -> None:
    page = opened(make_page, animals)
    page.goto(f"{animals.url}/projects/default/datasets/animals/9")
    playwright.expect(page.locator(".hw-main [role=alert]")).to_contain_text("There is no dataset animals@9.")


@needs_browser
def test_who_may_only_look_is_not_offered_an_upload(make_page: MakePage, animals: Server) -> None:
    with animals.client() as client:
        viewer = member(client, "ds-viewer", "viewer")
    page = opened(make_page, animals, viewer)
    version_page(page, animals, 2)
    playwright.expect(page.locator(".hw-versions")).to_be_visible()
    playwright.expect(page.locator("main a[href*='/upload']")).to_have_count(0)


@needs_browser
def test_narrow_pages_do_not_scroll_sideways(make_page: MakePage, animals: Server) -> None:
    page = opened(make_page, animals, viewport={"width": 380, "height": 800})
    for address in ("datasets", "datasets/animals/1", "upload"):
        page.goto(f"{animals.url}/projects/default/{address}")
        playwright.expect(page.locator(".hw-main")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
