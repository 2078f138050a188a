"""An evaluation in a real browser: its page in the console, and its report as a file, in both languages."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from headway.testing.films import film
from headway.wire.evaluations import EvaluationView

from .conftest import Server, eventually
from .test_console import PATIENCE, MakePage, browser, console, make_page, needs_browser, playwright, sign_in

__all__ = ["browser", "console", "make_page"]

TRAINS = """
import os, sys, zipfile
for step in range(1, 10 * int(sys.argv[1]) + 1):
    print(f"step {step} loss={1 / step:.4f}", flush=True)
    if step % 10 == 0:
        path = os.path.join(os.environ["CHECKPOINT_PATH"], f"step-{step:03}.pt")
        with zipfile.ZipFile(path + ".part", "w") as out:
            parts = (("data.pkl", b"\\x80\\x02}q\\x00."), ("version", b"3"), ("data/0", bytes([step]) * 100))
            for name, content in parts:
                out.writestr("archive/" + name, content)
        os.replace(path + ".part", path)
"""
#: rises, then falls while the loss goes on to fall
SHAPE = [0.3, 0.6, 0.8, 0.9, 0.7, 0.5]


def made(server: Server, folder: Path, count: int = 6, also: Sequence[int] = ()) -> EvaluationView:
    """A held evaluation of six checkpoints; its outputs were made elsewhere and are adopted, all but one cut off.

    also: jobs that it waits for before it runs anything.
    """
    names = [f"prompt-{n}" for n in range(count)]
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "evaluate.py").write_text("class Films: ...\n")
    with server.client() as client:
        job = client.jobs.submit(command=["python", "-c", TRAINS, str(len(SHAPE))], name="films")
        client.runs.wait(job.id, timeout=60)
        cases = [{"id": n, "inputs": {"prompt": f"a <b>{n}</b>"}, "tags": [n[-1]]} for n in names]
        code = client.snapshots.push(folder / "code")
        evaluation = client.evaluations.create(
            name="films", jobs=[job.id, *also], worker="evaluate.py:Films", snapshot=code.digest, cases=cases,
            outputs=[{"name": "out.mp4", "kind": "video"}, {"name": "score.json", "kind": "json"}],
            held=True, policy="after_training",
        )  # fmt: skip
        for row, checkpoint in enumerate(sorted({c.checkpoint for c in client.evaluations.cells(evaluation.id)})):
            (folder / "old" / checkpoint).mkdir(parents=True)
            for column, name in enumerate(names):
                file = folder / "old" / checkpoint / name
                file.with_suffix(".mp4").write_bytes(film(row, column))
                score = SHAPE[row] + 0.02 * ((row * 7 + column * 3) % 5 - 2)
                file.with_suffix(".json").write_text(json.dumps({"score": score, "words": "</script><b>"}))
        last = folder / "old" / checkpoint / f"{names[-1]}.mp4"
        last.write_bytes(last.read_bytes()[:-200])
        layout = {"out.mp4": "{checkpoint}/{case}.mp4", "score.json": "{checkpoint}/{case}.json"}
        adopted = client.evaluations.adopt(evaluation.id, str(folder / "old"), layout)
        assert (adopted.adopted, len(adopted.faults)) == (len(SHAPE) * count - 1, 1)
        return client.evaluations.get(evaluation.id)


@pytest.fixture(scope="module")
def evaluation(server: Server, tmp_path_factory: pytest.TempPathFactory) -> EvaluationView:
    return made(server, tmp_path_factory.mktemp("films"))


def address(server: Server, evaluation: EvaluationView) -> str:
    return f"{server.url}/projects/default/evaluations/{evaluation.id}"


def opened(make_page: MakePage, server: Server, evaluation: EvaluationView, **options: object) -> playwright.Page:
    """The evaluation's page, reached from the first page as people do."""
    page = make_page(**options)
    sign_in(page, server)
    page.click(f"[data-evaluation='{evaluation.id}'] h3 a")
    playwright.expect(page.locator(".ev[data-ready]")).to_be_visible()
    return page


def english(page: playwright.Page) -> None:
    """Whatever another test chose for this user."""
    if page.locator(".hw-language").text_content() == "English":
        page.click(".hw-language")
    playwright.expect(page.locator(".ev[data-ready]")).to_be_visible()
    playwright.expect(page.locator(".hw-language")).to_have_text("中文")


@needs_browser
def test_the_page_shows_scores_outputs_and_what_the_curves_say(
    make_page: MakePage, console: Server, evaluation: EvaluationView
) -> None:
    page = opened(make_page, console, evaluation)
    english(page)
    assert page.url == address(console, evaluation)
    playwright.expect(page).to_have_title("films · headway")
    playwright.expect(page.locator(".ev-figures-part")).to_contain_text("35 of 36 cells")
    playwright.expect(page.locator(".ev-figures-part")).to_contain_text("step-040")
    playwright.expect(page.locator(".ev-curves-part .ev-says-worse")).to_contain_text(
        "After step-040 the training went on"
    )
    playwright.expect(page.locator("td.ev-tile")).to_have_count(36)
    # it is held, so the cell that is left has not been tried
    playwright.expect(page.locator("td.ev-tile.ev-untried")).to_have_count(1)
    playwright.expect(page.locator(".ev-legend")).to_contain_text("not tried (1)")
    made_of = page.locator(".ev-provenance-part")
    for words in ("Asked for by", "admin", "6 of job", "evaluate.py:Films", "USD"):
        playwright.expect(made_of).to_contain_text(words)
    made_of.locator("summary").click()
    playwright.expect(made_of.locator("li code").first).to_have_text(re.compile(r"^[0-9a-f]{64}$"))
    # the best row is the brightest; in the ranking it comes first
    playwright.expect(page.locator(".ev-ranking-part tbody tr").first).to_contain_text("step-040")
    page.get_by_role("button", name="Outputs", exact=True).click()
    loaded = "all => all.length === 35 && all.every(i => i.complete && i.naturalWidth === 64)"
    page.wait_for_function(f"({loaded})([...document.querySelectorAll('.ev-tile img')])", timeout=PATIENCE)
    page.get_by_text("Play all").click()
    plays = "[...document.querySelectorAll('.ev-tile video')].some(v => v.currentTime > 0 && v.videoWidth === 64)"
    page.wait_for_function(plays, timeout=PATIENCE)


@needs_browser
def test_a_cell_a_case_and_a_checkpoint_open_and_keys_walk_between_them(
    make_page: MakePage, console: Server, evaluation: EvaluationView
) -> None:
    page = opened(make_page, console, evaluation)
    english(page)
    dialog = page.locator("dialog")
    tile = page.locator("td.ev-tile").first
    tile.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    playwright.expect(dialog.locator("h2")).to_have_text("step-010 · prompt-1")
    # what a case or an output says is text, and nothing of it is run
    playwright.expect(dialog).to_contain_text("a <b>prompt-1</b>")
    playwright.expect(dialog.locator("pre")).to_contain_text("</script><b>")
    page.wait_for_function("document.querySelector('dialog video')?.videoWidth === 64", timeout=PATIENCE)
    page.keyboard.press("ArrowDown")
    playwright.expect(dialog.locator("h2")).to_have_text("step-020 · prompt-1")
    page.get_by_role("button", name="Compare checkpoints").click()
    playwright.expect(dialog.locator("h2")).to_contain_text("prompt-1: every checkpoint side by side")
    playwright.expect(dialog.locator(".ev-card")).to_have_count(6)
    page.keyboard.press("Escape")
    playwright.expect(dialog).to_be_hidden()
    page.locator(".ev-row button").nth(3).click()
    playwright.expect(dialog.locator("h2")).to_contain_text("step-040: all cases")
    playwright.expect(dialog.locator(".ev-facts").first).to_contain_text("95% interval")


@needs_browser
@pytest.mark.parametrize(("width", "locale"), [(400, "en-US"), (1280, "zh-CN")])
def test_the_page_speaks_both_languages_and_fits(
    make_page: MakePage, console: Server, evaluation: EvaluationView, width: int, locale: str
) -> None:
    page = opened(make_page, console, evaluation, locale=locale, viewport={"width": width, "height": 800})
    if page.locator(".hw-language").text_content() == "中文":
        page.click(".hw-language")
    playwright.expect(page.locator(".ev-matrix-part h2")).to_have_text("全部检查点 × 全部用例")
    playwright.expect(page.locator(".ev-curves-part .ev-says-worse")).to_contain_text("不应选用最后一个检查点")
    assert "ev_" not in page.locator(".ev").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    english(page)


@needs_browser
def test_what_was_damaged_is_seen_without_reloading(make_page: MakePage, console: Server, tmp_path: Path) -> None:
    with console.client() as client:
        # it waits for a job that does not begin, so that it is open and nothing runs
        later = client.jobs.submit(command=["true"], held=True)
        evaluation = made(console, tmp_path, count=2, also=[later.id])
        client.evaluations.retry(evaluation.id)
        page = opened(make_page, console, evaluation)
        english(page)
        playwright.expect(page.locator("td.ev-tile.ev-valid")).to_have_count(11)
        cell = client.evaluations.cells(evaluation.id)[0]
        (Path(cell.path) / "out.mp4").write_bytes(b"not a film")
        client.evaluations.verify(evaluation.id)
        playwright.expect(page.locator("td.ev-tile.ev-invalid")).to_have_count(1)
        failures = page.locator(".ev-failures-part tbody tr")
        playwright.expect(failures).to_have_count(1)
        failures.locator("button").click()
        playwright.expect(page.locator("dialog h2")).to_have_text(f"{cell.row} · {cell.case}")
        client.evaluations.stop(evaluation.id)
        client.runs.stop(later.id)


@needs_browser
@pytest.mark.parametrize(
    ("locale", "says"),
    [
        ("en-US", ["No space left", "6.0 KiB free", "needed", "What to do"]),
        ("zh-CN", ["存储空间不足", "仅剩", "处理办法"]),
    ],
)
def test_a_pause_says_cause_folder_figures_and_remedy(
    make_page: MakePage, console: Server, evaluation: EvaluationView, locale: str, says: list[str]
) -> None:
    # real full disks are in test_full_targets; here is what is shown of one, while nobody finds that it is none
    controller = console.up()["parts"]["controller"]["pid"]
    columns = "state, cause, ended_at, reason, remedy"
    reason, remedy = "/data/films has 6144 bytes free; 720896 are needed.", "Free space; work goes on by itself."
    paused = ("paused", "no_space", None, reason, remedy)
    change = f"UPDATE evaluations SET ({columns}) = (?, ?, ?, ?, ?) WHERE id = {evaluation.id}"
    record = sqlite3.connect(console.home / "headway.db", timeout=30, isolation_level=None)
    before = record.execute(f"SELECT {columns} FROM evaluations WHERE id = {evaluation.id}").fetchone()
    # it is stopped while it cannot be writing, so that it leaves no lock behind
    record.execute("BEGIN IMMEDIATE")
    os.kill(controller, signal.SIGSTOP)
    try:
        record.execute(change, paused)
        record.execute("COMMIT")
        page = opened(make_page, console, evaluation, locale=locale)
        if (page.locator(".hw-language").text_content() == "English") != (locale == "zh-CN"):
            page.click(".hw-language")
        for words in ("/data/films", *says):
            playwright.expect(page.locator(".ev-trouble")).to_contain_text(words)
        playwright.expect(page.locator(".ev-trouble")).not_to_contain_text("720896")
        english(page)
    finally:
        record.execute(change, before)
        record.close()
        os.kill(controller, signal.SIGCONT)


def test_outputs_are_for_those_who_may_see_them(console: Server, evaluation: EvaluationView) -> None:
    below = address(console, evaluation)
    with console.client() as client:
        cell = client.evaluations.cells(evaluation.id)[0].id
    with httpx.Client(trust_env=False) as visitor:
        for path in ("", "/drawing", f"/cells/{cell}/files/out.mp4", f"/cells/{cell}/thumbs/out.mp4"):
            answer = visitor.get(below + path)
            assert (answer.status_code, answer.headers["location"][:6]) == (303, "/login")
        visitor.get(f"{console.url}/login")
        visitor.post(f"{console.url}/login", data={"token": console.token})
        part = visitor.get(f"{below}/cells/{cell}/files/out.mp4", headers={"Range": "bytes=4-7"})
        assert (part.status_code, part.content, part.headers["content-range"][:10]) == (206, b"ftyp", "bytes 4-7/")
        assert "sandbox" in part.headers["content-security-policy"]
        size = part.headers["content-range"].rpartition("/")[2]
        beyond = visitor.get(f"{below}/cells/{cell}/files/out.mp4", headers={"Range": f"bytes={size}-"})
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
        odd = visitor.get(f"{below}/cells/{cell}/files/out.mp4", headers={"Range": "bytes=5-2"})
        assert (odd.status_code, str(len(odd.content))) == (200, size)
        assert visitor.get(f"{below}/cells/{cell}/files/../../secret").status_code == 404
        assert visitor.get(f"{below}/cells/{cell}/thumbs/score.json").status_code == 404
        assert "99" in visitor.get(f"{console.url}/projects/default/evaluations/99/drawing").text


@needs_browser
@pytest.mark.parametrize(
    ("locale", "says", "other"), [("en-US", "Succeeded|Stopped", "中文"), ("zh-CN", "已停止", "English")]
)
def test_the_report_is_one_file_that_needs_nothing_else(
    browser: playwright.Browser, server: Server, evaluation: EvaluationView, tmp_path: Path,
    locale: str, says: str, other: str,
) -> None:  # fmt: skip
    done = server.cli("eval", "report", str(evaluation.id), "-o", str(tmp_path / "report.html"))
    assert done.returncode == 0, done.stderr
    context = browser.new_context(locale=locale, offline=True)
    page = context.new_page()
    errors: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{tmp_path}/report.html")
    playwright.expect(page.locator("#root[data-ready]")).to_be_visible()
    playwright.expect(page.locator(".ev-title .hw-state")).to_have_text(re.compile(says))
    page.locator(".ev-toggle button").nth(1).click()
    eventually(
        lambda: page.evaluate("document.querySelectorAll('.ev-tile img').length === 35"), what="pictures of all outputs"
    )
    page.locator("td.ev-tile.ev-valid").first.click()
    eventually(lambda: page.evaluate("document.querySelector('dialog video')?.videoWidth === 64"), what="the film")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("[data-do=language]")).to_have_text(other)
    page.click("[data-do=language]")
    playwright.expect(page.locator("[data-do=language]")).not_to_have_text(other)
    context.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
