"""Takes the console's pictures in docs/pictures from the headway that runs in HEADWAY_HOME (default ./.headway).

`make demo` leaves one with something to show; then: python tests/acceptance/screenshots.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
#: name -> (width, height, language of the browser, dark, signed in); those named metrics show that tab
PICTURES = {
    "console-en": (1280, 800, "en-US", False, True),
    "console-zh": (1280, 800, "zh-CN", False, True),
    "console-dark-en": (1280, 800, "en-US", True, True),
    "console-dark-zh": (1280, 800, "zh-CN", True, True),
    "console-narrow-en": (400, 860, "en-US", False, True),
    "console-narrow-zh": (400, 860, "zh-CN", False, True),
    "metrics-en": (1280, 800, "en-US", False, True),
    "metrics-zh": (1280, 800, "zh-CN", True, True),
    "sign-in-en": (1280, 800, "en-US", False, False),
    "sign-in-zh": (1280, 800, "zh-CN", False, False),
}


def take(browser: Browser, url: str, token: str, folder: Path, name: str) -> None:
    width, height, language, dark, signed_in = PICTURES[name]
    context = browser.new_context(
        viewport={"width": width, "height": height}, locale=language, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.goto(f"{url}/")
    page.wait_for_selector("#token")
    if signed_in:
        page.fill("#token", token)
        page.press("#token", "Enter")
        page.wait_for_selector(".hw-is-live")
        # the newest job says more than whatever lives right now
        jobs = page.locator("tr[data-run]", has=page.locator(".c-kind", has_text=re.compile("job|训练任务")))
        jobs.first.click()
        page.wait_for_selector(f".hw-detail h2:has-text('{jobs.first.locator('.hw-name').text_content()}')")
        page.wait_for_selector(".hw-line")
        if name.startswith("metrics"):
            page.click("[data-log=metrics]")
            page.wait_for_selector(".hw-plot svg path", state="attached")
        page.mouse.move(0, 0)
        # a narrow page scrolls smoothly to the log
        page.wait_for_timeout(600)
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_selector(".hw-figure")
        page.wait_for_load_state("networkidle")
    page.screenshot(path=folder / f"{name}.png", full_page=signed_in)
    context.close()


def main() -> int:
    home = Path(os.environ.get("HEADWAY_HOME", ".headway"))
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not (home / "up.json").exists() or chromium is None:
        print(f"error: no headway runs in {home}, or there is no Chromium. Start them first.", file=sys.stderr)
        return 1
    url = json.loads((home / "up.json").read_text())["url"]
    token = (home / "admin.token").read_text().strip()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as player:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        flags += ["--disable-component-update", "--disable-sync"]
        browser = player.chromium.launch(executable_path=chromium, args=flags)
        for name in PICTURES:
            take(browser, url, token, FOLDER, name)
            print(FOLDER / f"{name}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
