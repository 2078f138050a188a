"""Uploads by a real browser: a large file through cut connections, many small files, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from headway.testing.proxies import Proxy, proxy

from .conftest import Server, eventually
from .test_console import MakePage, browser, console, make_page, member, needs_browser, playwright, sign_in

__all__ = ["browser", "console", "make_page"]

#: milliseconds that a large upload with its push may take on a busy machine
LONG = 300_000
GIB = 1 << 30
MIB = 1 << 20


def large(path: Path, size: int) -> str:
    """Makes a file whose every MiB differs; returns its SHA-256."""
    block = os.urandom(MIB)
    digest = hashlib.sha256()
    with open(path, "wb") as out:
        for number in range(size // MIB):
            piece = number.to_bytes(8, "big") + block[8:]
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def upload_page(page: playwright.Page, url: str, name: str = "") -> None:
    page.goto(f"{url}/projects/default/upload" + (f"?name={name}" if name else ""))
    playwright.expect(page.locator(".hw-drop")).to_be_visible()


def choose(page: playwright.Page, path: Path, name: str) -> None:
    page.set_input_files("[data-take=folder]" if path.is_dir() else "[data-take=files]", path)
    page.fill("#upload-name", name)
    page.click(".hw-upload button[type=submit]")


def published(page: playwright.Page, url: str, name: str, version: int = 1, timeout: float = LONG) -> None:
    page.wait_for_url(f"{url}/projects/default/datasets/{name}/{version}", timeout=timeout)
    playwright.expect(page.locator("main h1")).to_have_text(f"{name}@{version}")


def staged(server: Server) -> list[Path]:
    folder = server.home / "uploads"
    return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def open_page(browser: playwright.Browser) -> Iterator[Callable[[], playwright.Page]]:
    """Pages at another address than the server's own."""
    contexts = []

    def make() -> playwright.Page:
        context = browser.new_context(locale="en-US")
        contexts.append(context)
        return context.new_page()

    yield make
    for context in contexts:
        context.close()


def signed_in(page: playwright.Page, server: Server, between: Proxy) -> None:
    page.goto(between.url + "/")
    page.fill("#token", server.token)
    page.press("#token", "Enter")
    playwright.expect(page.locator(".hw-header")).to_be_visible()


@needs_browser
def test_a_gibibyte_through_two_cuts_ends_in_a_version_that_verifies(
    open_page: Callable[[], playwright.Page], console: Server, tmp_path: Path
) -> None:
    sha256 = large(tmp_path / "video.bin", GIB)
    with proxy(console.url, [300 * MIB, 700 * MIB]) as between:
        page = open_page()
        signed_in(page, console, between)
        upload_page(page, between.url)
        choose(page, tmp_path / "video.bin", "video")
        published(page, between.url, "video")
        assert between.done == 2
        # a cut costs what was on its way, and no more
        assert between.sent < GIB + 64 * MIB
    with console.client() as client:
        verified = client.datasets.verify("video", 1)
        assert (verified.files, verified.bytes, verified.faults) == (1, GIB, {})
        files = client.transport.call("GET", "/projects/default/datasets/video/versions/1/files")["files"]
    assert files == [["video.bin", GIB, sha256]]
    assert staged(console) == []


@needs_browser
def test_two_thousand_small_files_travel_in_few_requests(make_page: MakePage, console: Server, tmp_path: Path) -> None:
    folder = tmp_path / "数字 图片"
    for number in range(2000):
        file = folder / f"类别-{number % 10}" / f"图 {number:04}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * (number % 50))
    (folder / ".hidden").write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    page = make_page()
    sign_in(page, console)
    playwright.expect(page.locator(".hw-header")).to_be_visible()
    upload_page(page, console.url)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "/upload/" in request.url else None)
    page.set_input_files("[data-take=folder]", folder)
    playwright.expect(page.locator(".hw-upload")).to_contain_text("2,000 files")
    playwright.expect(page.locator(".hw-upload")).to_contain_text("2 hidden files are left out")
    # nothing of a Chinese name is left that a dataset may be called
    playwright.expect(page.locator("#upload-name")).to_have_value("")
    page.fill("#upload-name", "small")
    page.click(".hw-upload button[type=submit]")
    published(page, console.url, "small")
    playwright.expect(page.locator(".hw-main")).to_contain_text("texts 2,000")
    assert len([url for url in requests if url.endswith("/files")]) <= 4
    with console.client() as client:
        version = client.datasets.find("small")
        assert version.files == 2000
        assert client.datasets.verify("small", 1).faults == {}
        found = client.transport.call(
            "GET", "/projects/default/datasets/small/versions/1/files", params={"prefix": "类别-3/图 0003.txt"}
        )
    content = b"3\n" * 3
    assert found["files"] == [["类别-3/图 0003.txt", len(content), hashlib.sha256(content).hexdigest()]]
    assert staged(console) == []


@needs_browser
def test_a_folder_that_is_dropped_is_the_dataset_and_the_same_again_is_no_new_version(
    make_page: MakePage, console: Server, tmp_path: Path
) -> None:
    folder = tmp_path / "Dropped Folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "one.txt").write_text("one")
    (folder / "empty.txt").touch()
    page = make_page()
    sign_in(page, console)
    playwright.expect(page.locator(".hw-header")).to_be_visible()
    for _ in range(2):
        upload_page(page, console.url)
        drop(page, folder)
        playwright.expect(page.locator("#upload-name")).to_have_value("dropped-folder")
        page.click(".hw-upload button[type=submit]")
        published(page, console.url, "dropped-folder")
    with console.client() as client:
        found = client.transport.call("GET", "/projects/default/datasets/dropped-folder/versions/1/files")
    assert [row[:2] for row in found["files"]] == [["empty.txt", 0], ["inner/one.txt", 3]]


def drop(page: playwright.Page, path: Path) -> None:
    """As a person drops it from a file manager."""
    box = page.locator(".hw-drop").bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        at = {"x": box["x"] + 20, "y": box["y"] + 20}
        session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **at})


@needs_browser
def test_an_upload_goes_on_after_the_page_was_loaded_again(
    open_page: Callable[[], playwright.Page], console: Server, tmp_path: Path
) -> None:
    size = 96 * MIB
    large(tmp_path / "again.bin", size)
    with proxy(console.url, []) as between:
        page = open_page()
        signed_in(page, console, between)
        upload_page(page, between.url)
        page.on("dialog", lambda dialog: dialog.accept())
        choose(page, tmp_path / "again.bin", "again")
        eventually(lambda: between.sent > size // 3, what="a third of it")
        page.reload()
        upload_page(page, between.url)
        choose(page, tmp_path / "again.bin", "again")
        published(page, between.url, "again")
        assert between.sent < size + 32 * MIB
    with console.client() as client:
        assert client.datasets.verify("again", 1).faults == {}


@needs_browser
def test_two_tabs_with_the_same_files_end_in_one_version(make_page: MakePage, console: Server, tmp_path: Path) -> None:
    large(tmp_path / "both.bin", 48 * MIB)
    first = make_page()
    sign_in(first, console)
    playwright.expect(first.locator(".hw-header")).to_be_visible()
    second = first.context.new_page()
    for page in (first, second):
        upload_page(page, console.url)
    for page in (first, second):
        choose(page, tmp_path / "both.bin", "both")
    for page in (first, second):
        published(page, console.url, "both")
    with console.client() as client:
        assert [v.version for v in client.datasets.versions("both")] == [1]
        assert client.datasets.verify("both", 1).faults == {}


@needs_browser
def test_an_upload_that_is_cancelled_leaves_nothing(
    open_page: Callable[[], playwright.Page], console: Server, tmp_path: Path
) -> None:
    large(tmp_path / "gone.bin", 256 * MIB)
    with proxy(console.url, []) as between:
        page = open_page()
        signed_in(page, console, between)
        upload_page(page, between.url)
        choose(page, tmp_path / "gone.bin", "gone")
        playwright.expect(page.locator(".hw-progress")).to_be_visible()
        eventually(lambda: between.sent > 20 * MIB, what="some of it")
        page.click("[data-do=cancel]")
        playwright.expect(page.locator(".hw-drop")).to_be_visible()
        eventually(lambda: not staged(console), what="the end of the staging")
    with console.client() as client:
        assert "gone" not in {dataset.name for dataset in client.datasets.ls()}


@needs_browser
def test_what_cannot_be_uploaded_is_said_in_both_languages(
    make_page: MakePage, console: Server, tmp_path: Path
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / ".only").write_text("x")
    (tmp_path / "a.txt").write_text("x")
    huge = tmp_path / "huge.bin"
    with open(huge, "wb") as out:
        # it takes no room, and no disk here has so much
        out.truncate(7 << 40)
    said = {
        "en-US": ("only hidden files", "lower-case letters", "to spare"),
        "zh-CN": ("只有隐藏文件", "小写字母", "空间不足"),
    }
    page = make_page()
    sign_in(page, console)
    playwright.expect(page.locator(".hw-header")).to_be_visible()
    for language, (only_hidden, wrong_name, no_space) in said.items():
        upload_page(page, console.url)
        if (page.locator(".hw-language").text_content() == "English") != (language == "zh-CN"):
            page.click(".hw-language")
            playwright.expect(page.locator("html")).to_have_attribute("lang", "zh-CN" if "zh" in language else "en")
            playwright.expect(page.locator(".hw-drop")).to_be_visible()
        page.set_input_files("[data-take=folder]", hidden)
        playwright.expect(page.locator(".hw-upload [role=alert]")).to_contain_text(only_hidden)
        page.set_input_files("[data-take=files]", tmp_path / "a.txt")
        page.fill("#upload-name", "Wrong Name")
        playwright.expect(page.locator("#upload-hint.hw-error")).to_contain_text(wrong_name)
        playwright.expect(page.locator(".hw-upload button[type=submit]")).to_be_disabled()
        page.click(".hw-upload button[type=button]")
        choose(page, huge, "huge")
        playwright.expect(page.locator(".hw-upload [role=alert]")).to_contain_text(no_space)
    page.click(".hw-language")
    assert staged(console) == []


class Visitor:
    """The console's own addresses, as a program with somebody's session asks for them."""

    def __init__(self, server: Server, token: str) -> None:
        self.http = httpx.Client(base_url=server.url, trust_env=False, follow_redirects=False)
        self.http.post("/login", data={"token": token})

    def open(self, **changes: object) -> httpx.Response:
        plan = {"project": "default", "name": "asked", "key": "k", "files": 1, "bytes": 3, **changes}
        return self.http.post("/upload", json=plan)


@needs_browser
def test_only_who_may_push_uploads_and_nobody_touches_anothers(console: Server) -> None:
    with console.client() as client:
        viewer, other = member(client, "up-viewer", "viewer"), member(client, "up-member", "member")
    mine, theirs = Visitor(console, console.token), Visitor(console, other)
    refused = Visitor(console, viewer).open()
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert mine.open(project="no-such").status_code == 404
    assert httpx.post(f"{console.url}/upload", json={}, trust_env=False).status_code == 401
    upload = mine.open().json()["id"]
    for asked in ("held", "files", "publish"):
        assert theirs.http.post(f"/upload/{upload}/{asked}", json=["a"]).status_code == 404
    assert theirs.http.delete(f"/upload/{upload}").status_code == 404
    foreign = mine.http.post(f"/upload/{upload}/publish", headers={"Origin": "http://elsewhere.example"})
    assert foreign.status_code == 403
    head = json.dumps([["../../secret", 0, 3, 3]]).encode()
    outside = mine.http.post(f"/upload/{upload}/files", content=head + b"\nabc")
    assert (outside.status_code, outside.json()["error"]["code"]) == (422, "bad_path")
    early = mine.http.post(f"/upload/{upload}/publish")
    assert (early.status_code, early.json()["error"]["code"]) == (409, "incomplete")
    assert mine.http.delete(f"/upload/{upload}").status_code == 200
    assert mine.http.get(f"/upload/{upload}").status_code == 404
    assert staged(console) == []
