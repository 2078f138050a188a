"""The console in a real browser, behind the gateway of a real `headway up`."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator

import httpx
import pytest

from .conftest import Server, eventually

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("nicegui", reason="the console is not installed")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
#: milliseconds
PATIENCE = 20_000

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
MakePage = Callable[..., "playwright.Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as player:
        playwright.expect.set_options(timeout=PATIENCE)
        chromium = player.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def console(server: Server) -> Server:
    """The server, once its console answers through the gateway."""

    def answers() -> bool:
        return httpx.get(f"{server.url}/login", headers={"Accept": "*/*"}, trust_env=False).status_code == 200

    eventually(answers, what="the console")
    return server


@pytest.fixture
def make_page(browser: playwright.Browser, console: Server) -> Iterator[MakePage]:
    """Opens pages that note errors and every address they ask; checked at the end of the test."""
    contexts, errors, asked = [], [], []

    def make(**options: object) -> playwright.Page:
        context = browser.new_context(**{"locale": "en-US", "viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        return page

    yield make
    for context in contexts:
        context.close()
    assert not errors
    own = (console.url, console.url.replace("http", "ws", 1), "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == [], "the console asked another host"
    assert not any(console.token in url for url in asked), "the token stood in an address"


def sign_in(page: playwright.Page, server: Server, token: str | None = None) -> None:
    page.goto(server.url + "/")
    page.fill("#token", token or server.token)
    page.press("#token", "Enter")


def row(page: playwright.Page, run: int) -> playwright.Locator:
    return page.locator(f"[data-run='{run}']")


@needs_browser
def test_a_wrong_token_is_refused_with_a_sentence(make_page: MakePage, console: Server) -> None:
    page = make_page()
    sign_in(page, console, "hw_wrong")
    playwright.expect(page.locator("[role=alert]")).to_contain_text("not valid")
    assert page.url.endswith("/login?error=token")
    assert "hw_wrong" not in page.content()


@needs_browser
def test_the_page_shows_runs_states_and_logs_as_they_come(make_page: MakePage, console: Server) -> None:
    page = make_page()
    sign_in(page, console)
    playwright.expect(page.locator(".hw-is-live")).to_be_visible()
    gate = console.home / "gate"
    code = (
        f"import os,sys,time\nprint('first line <b>&amp;</b>', flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.05)\nprint('last line', flush=True)"
    )
    with console.client() as client:
        run = client.jobs.submit(command=["python", "-c", code], name="seen-live")
        # nobody reloads the page: it comes by itself
        playwright.expect(row(page, run.id)).to_contain_text("seen-live")
        playwright.expect(row(page, run.id)).to_contain_text("Running")
        row(page, run.id).focus()
        page.keyboard.press("Enter")
        playwright.expect(page.locator(".hw-detail h2")).to_contain_text("seen-live")
        playwright.expect(page.locator(".hw-lines")).to_contain_text("first line <b>&amp;</b>")
        playwright.expect(page.locator(".hw-lines")).not_to_contain_text("last line")
        gate.touch()
        playwright.expect(page.locator(".hw-lines")).to_contain_text("last line")
        playwright.expect(page.locator(".hw-lines")).to_contain_text("End of the log")
        playwright.expect(row(page, run.id)).to_contain_text("Succeeded")
        page.click("[data-log=diag]")
        playwright.expect(page.locator("[data-log=diag]")).to_have_attribute("aria-selected", "true")
        playwright.expect(page.locator(".hw-lines")).not_to_contain_text("last line")
        # the address leads back to this run
        assert page.url == f"{console.url}/?run={run.id}"
        page.reload()
        playwright.expect(page.locator(".hw-detail h2")).to_contain_text("seen-live")
        page.fill("input[type=search]", "nothing is called this")
        playwright.expect(page.locator(".hw-runs")).to_contain_text("No run matches")
        page.fill("input[type=search]", "seen")
        playwright.expect(row(page, run.id)).to_be_visible()
    assert console.token not in page.content()


@needs_browser
def test_the_language_follows_the_browser_and_the_switch_stays(make_page: MakePage, console: Server) -> None:
    page = make_page(locale="zh-CN")
    page.goto(console.url + "/")
    playwright.expect(page.locator("h1")).to_have_text("登录 headway")
    sign_in(page, console)
    playwright.expect(page.locator(".hw-runs h2")).to_have_text("运行")
    page.click(".hw-language")
    playwright.expect(page.locator(".hw-runs h2")).to_have_text("Runs")
    page.reload()
    playwright.expect(page.locator(".hw-runs h2")).to_have_text("Runs")
    # it is the user's choice, so it holds in another browser as well
    other = make_page(locale="zh-CN")
    sign_in(other, console)
    playwright.expect(other.locator(".hw-runs h2")).to_have_text("Runs")


@needs_browser
def test_signing_out_ends_the_session_on_the_server(make_page: MakePage, console: Server) -> None:
    page = make_page()
    sign_in(page, console)
    playwright.expect(page.locator(".hw-runs")).to_be_visible()
    before = page.context.cookies()
    assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in before)
    assert not any(console.token in cookie["value"] for cookie in before)
    page.click("form[action='/logout'] button")
    playwright.expect(page.locator("#token")).to_be_visible()
    # the old cookie opens nothing any more
    page.context.clear_cookies()
    page.context.add_cookies(before)
    page.goto(console.url + "/")
    playwright.expect(page.locator("#token")).to_be_visible()


@needs_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_sticks_out_sideways(make_page: MakePage, console: Server, width: int) -> None:
    page = make_page(viewport={"width": width, "height": 800})
    sign_in(page, console)
    playwright.expect(page.locator(".hw-is-live")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pages_carry_security_headers_and_refuse_other_sites(console: Server) -> None:
    answer = httpx.get(f"{console.url}/login", trust_env=False)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"(?:src|href|url)\W{1,3}https?://", answer.text)
    foreign = httpx.post(
        f"{console.url}/login",
        data={"token": console.token},
        headers={"Origin": "http://elsewhere.example"},
        trust_env=False,
    )
    assert foreign.status_code == 403
    assert httpx.get(f"{console.url}/", trust_env=False).headers["location"] == "/login"


def test_what_the_console_keeps_is_the_owners_alone(console: Server) -> None:
    folder = console.home / "console"
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "secret").stat().st_mode & 0o077 == 0


def test_texts_are_there_in_both_languages_with_the_same_places() -> None:
    from headway.console.texts import _TEXTS, Texts, preferred

    for key, (english, chinese) in _TEXTS.items():
        assert chinese, key
        # a remedy in English is the server's own
        assert english or key.startswith("remedy_"), key
        if english:
            assert sorted(re.findall(r"{\w+}", english)) == sorted(re.findall(r"{\w+}", chinese)), key
    assert Texts("zh").known("state", "running") == "运行中"
    assert Texts("xx")("runs") == "Runs"
    assert Texts("en").known("state", "of_a_newer_server") == "of_a_newer_server"
    assert preferred("zh-TW,zh;q=0.9,en;q=0.8") == "zh"
    assert preferred("fr,en;q=0.3,zh;q=0.2") == "en"
    assert preferred("*;q=x, ,,") == "en"


def test_amounts_and_sizes_say_something_at_every_scale() -> None:
    from headway.console.show import money, size

    assert [money(a, "USD") for a in (0, 0.00001, 0.0178, 1204.5)] == ["$0", "< $0.0001", "$0.0178", "$1,204.50"]
    assert money(2, "XYZ") == "XYZ 2.00"
    assert [size(n) for n in (0, 1023, 9 << 20, 5 << 50)] == ["0 B", "1023 B", "9.0 MiB", "5120.0 TiB"]
