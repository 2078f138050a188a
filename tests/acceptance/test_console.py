"""The console in a real browser, behind the gateway of a real `headway up`."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator

import httpx
import pytest

from headway.client import Client

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


TRAINS = """
import os, sys, time, zipfile
for step in range(30):
    loss = float("nan") if 10 <= step < 13 else 1 / (step + 1)
    print(f"step {step} loss={loss:.4f}", flush=True)
path = os.path.join(os.environ["CHECKPOINT_PATH"], "step-29.pt")
with zipfile.ZipFile(path + ".part", "w") as out:
    for name, content in (("data.pkl", b"\\x80\\x02}q\\x00."), ("version", b"3"), ("data/0", b"0" * 100)):
        out.writestr("archive/" + name, content)
os.replace(path + ".part", path)
print("Needle in the log", file=sys.stderr, flush=True)
time.sleep(float(sys.argv[1]))
"""


def opened(make_page: MakePage, console: Server, run: int, token: str = "", **options: object) -> playwright.Page:
    """A page that shows this run."""
    page = make_page(**options)
    sign_in(page, console, token)
    row(page, run).click()
    playwright.expect(page.locator(".hw-detail h2")).to_contain_text(f"{run} ")
    return page


def member(client: Client, name: str, role: str) -> str:
    """The token of a new user with this role."""
    client.users.create(name)
    client.projects.set_member("default", name, role)
    return client.users.create_token(name, "browser").token


@needs_browser
def test_a_run_shows_its_metrics_and_checkpoints_while_it_lives(make_page: MakePage, console: Server) -> None:
    with console.client() as client:
        run = client.jobs.submit(
            command=["python", "-c", TRAINS, "100"], name="makes-things", tags={"team": "vision"}, max_duration=5400
        )
        page = opened(make_page, console, run.id)
        playwright.expect(page.locator(".hw-facts")).to_contain_text("1 h 30 min")
        playwright.expect(page.locator(".hw-facts")).to_contain_text("team=vision")
        page.click("[data-log=metrics]")
        plot = page.locator("[data-metric=loss]")
        playwright.expect(plot.locator("figcaption")).to_contain_text("0.0333")
        # what is no number leaves a gap: two pieces of line
        line = plot.locator("svg path[stroke='#2f8f76'][fill=none]").first
        playwright.expect(line).to_have_attribute("d", re.compile(r"M.*L.*M.*L"))
        # the arrow keys go on to the next tab
        page.locator("[data-log=metrics]").press("ArrowRight")
        table = page.locator(".hw-made table")
        playwright.expect(table).to_contain_text("step-29.pt")
        playwright.expect(page.locator("[data-log=checkpoints]")).to_be_focused()
        page.click("[data-log=attempts]")
        playwright.expect(table).to_contain_text("still lives")
        client.runs.stop(run.id, grace=0)
        playwright.expect(table).to_contain_text("stopped")


@needs_browser
def test_a_log_is_searched_filtered_by_rank_and_taken_home(make_page: MakePage, console: Server) -> None:
    code = "import os; [print(f'rank {os.environ[\"RANK\"]} line {i}', flush=True) for i in range(3)]"
    with console.client() as client:
        run = client.jobs.submit(command=["python", "-c", code], name="two-ranks", processes=2, cpus=1)
        client.runs.wait(run.id, timeout=60)
        page = opened(make_page, console, run.id)
        lines = page.locator(".hw-line")
        playwright.expect(lines).to_have_count(6)
        page.fill(".hw-tools [type=search]", "/line [12]/")
        playwright.expect(lines).to_have_count(4)
        page.fill(".hw-tools [type=number]", "1")
        playwright.expect(lines).to_have_count(2)
        playwright.expect(lines.first).to_contain_text("rank 1 line 1")
        with page.expect_download() as found:
            page.click(".hw-download")
        text = found.value.path().read_text()
        assert found.value.suggested_filename == f"run-{run.id}.run.log"
        assert text.count("rank 1 line") == 2
        assert "rank 0" not in text
        page.fill(".hw-tools [type=search]", "nothing says this")
        playwright.expect(page.locator(".hw-lines")).to_contain_text("No line matches")
        page.fill(".hw-tools [type=search]", "/(/")
        playwright.expect(page.locator(".hw-lines")).to_contain_text("cannot be read")
    # without a session the file is nobody's
    answer = httpx.get(f"{console.url}/runs/{run.id}/log", trust_env=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login")


@needs_browser
def test_stopping_is_asked_about_and_only_what_the_state_allows_is_there(make_page: MakePage, console: Server) -> None:
    with console.client() as client:
        run = client.jobs.submit(command=["python", "-c", "import time; time.sleep(100)"], name="acted-on", held=True)
        page = opened(make_page, console, run.id)
        actions = page.locator(".hw-actions button")
        playwright.expect(actions).to_have_text(["Release", "Stop", "Clone"])
        page.click("[data-do=release]")
        playwright.expect(page.locator(".hw-detail .hw-state")).to_have_text("Running")
        playwright.expect(actions).to_have_text(["Pause", "Stop", "Clone"])
        page.locator("[data-do=stop]").press("Enter")
        playwright.expect(page.locator("[role=alertdialog]")).to_contain_text(f"Stop run {run.id}?")
        # the safe answer has the focus, and Escape is the same
        playwright.expect(page.locator("[data-do=cancel]")).to_be_focused()
        page.keyboard.press("Escape")
        playwright.expect(page.locator("[data-do=stop]")).to_be_focused()
        assert client.runs.get(run.id).state == "running"
        page.click("[data-do=stop]")
        page.click("[data-do=stop_yes]")
        playwright.expect(page.locator(".hw-detail .hw-state")).to_have_text("Stopped")
        playwright.expect(actions).to_have_text(["Retry", "Clone"])
        page.click("[data-do=clone]")
        playwright.expect(page.locator(".hw-detail h2")).not_to_contain_text(f"{run.id} ")
        made = client.runs.ls(limit=1)[0]
        assert made.id > run.id
        client.runs.stop(made.id, grace=0)


@needs_browser
def test_who_may_only_look_is_told_so_in_a_sentence(make_page: MakePage, console: Server) -> None:
    with console.client() as client:
        token = member(client, "looker", "viewer")
        run = client.jobs.submit(command=["true"], name="not-yours", held=True)
        page = opened(make_page, console, run.id, token)
        page.click("[data-do=release]")
        playwright.expect(page.locator(".hw-detail [role=alert]")).to_contain_text("Not done: ")
        assert client.runs.get(run.id).state == "held"
        client.runs.stop(run.id)


@needs_browser
def test_the_queue_says_who_is_next_and_why_each_waits(make_page: MakePage, console: Server) -> None:
    with console.client() as client:
        first = client.jobs.submit(command=["true"], name="comes-first", held=True)
        then = client.jobs.submit(command=["true"], name="comes-then", after=[first.id])
        # somebody who has not chosen a language yet
        page = opened(make_page, console, then.id, member(client, "reader", "member"), locale="zh-CN")
        queued = page.locator(f"[data-queued='{then.id}']")
        playwright.expect(queued).to_contain_text(f"waits for job {first.id}")
        playwright.expect(page.locator(".hw-queue h2")).to_have_text("排队")
        playwright.expect(page.locator(".hw-facts")).to_contain_text(f"依赖{first.id}")
        playwright.expect(page.locator(".hw-actions [data-do=stop]")).to_have_text("停止")
        page.click("[data-do=stop]")
        playwright.expect(page.locator("[role=alertdialog]")).to_contain_text(f"停止运行 {then.id}？")
        page.click("[data-do=stop_yes]")
        playwright.expect(queued).to_be_hidden()
        client.runs.stop(first.id)


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


def test_what_can_be_done_follows_the_state() -> None:
    from headway.console.actions import allowed
    from headway.wire.runs import RunView

    def names(state: str, owner: str = "job", **values: object) -> list[str]:
        return [a.name for a in allowed(RunView.model_construct(owner=owner, state=state, **values))]

    assert names("queued") == ["first", "hold", "stop", "clone"]
    assert names("queued", blocked=True) == ["hold", "stop", "clone"]
    assert names("running") == ["pause", "stop", "clone"]
    assert names("stopping") == ["kill", "clone"]
    assert names("failed") == ["retry", "clone"]
    assert names("of_a_newer_server") == []
    # a replica that is stopped by hand would only be replaced
    assert names("running", owner="endpoint") == []
    assert names("running", owner="workspace") == ["stop"]


def test_a_value_that_is_no_number_leaves_a_gap_and_each_rank_has_a_line() -> None:
    from headway.console.plots import of_metric
    from headway.console.show import span
    from headway.console.texts import Texts
    from headway.wire.metrics import MetricPoint, MetricSeries

    values = [(0, 1.0, 0), (1, float("nan"), 0), (2, float("inf"), 0), (0, 3.0, 1), (3, 0.5, 1)]
    points = [MetricPoint(time=0, step=step, value=value, rank=rank) for step, value, rank in values]
    curves = of_metric(MetricSeries(name="loss", points=points), Texts("en"))
    assert curves.lines == {"Rank 0": [(0, 1.0), (1, None), (2, None)], "Rank 1": [(0, 3.0), (3, 0.5)]}
    assert curves.words == "loss: 0.5, 0.5–3"
    assert of_metric(MetricSeries(name="loss", points=points[:2]), Texts("en")).latest == "NaN"
    assert [span(s, Texts("en")) for s in (0.5, 30, 120, 5400, 90000)] == [
        "0.5 s",
        "30 s",
        "2 min",
        "1 h 30 min",
        "1 d 1 h",
    ]
