"""The report as one file, and what goes into it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections import Counter
from datetime import datetime, timezone

import pytest
from PIL import Image

from headway.report import media, page, studio, view, words
from headway.testing.films import film

from .example import report, videos

AT = datetime(2026, 12, 2, tzinfo=timezone.utc)


def no_picture(content: bytes, kind: str) -> bytes | None:
    return None


def block(text: str, name: str) -> object:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_nothing_that_users_write_ends_a_script_or_is_run() -> None:
    data = report(2, 2, name="</script><script>alert(1)</script>", reason="<img src=x onerror=alert(2)>")
    drawing = view.build(data)
    text = page.render(drawing, {"limit": 1, "files": {}}, at=AT)
    assert block(text, "data") == drawing
    assert "alert(1)</script>" not in text and "<img" not in text
    assert text.count("<script") == 5


def test_names_of_cases_checkpoints_scores_and_outputs_are_data_alone() -> None:
    evil = "</script><script>alert(1)</script><!-- \u2028"
    output = {"name": f"{evil}.json", "bytes": 1, "sha256": "0" * 64, "kind": "json"}
    data = report(2, 2, outputs=lambda row, column: [output])
    for row in data["rows"]:
        row["row"] = row["name"] = evil + row["row"]
    for column in data["columns"]:
        column["case"], column["inputs"], column["tags"] = evil + column["case"], {evil: evil}, [evil]
    for cell in data["cells"]:
        cell["row"], cell["case"], cell["scores"] = evil + cell["row"], evil + cell["case"], {evil: 0.5}
    data["scores"].append(evil)
    drawing = view.build(data)
    text = page.render(drawing, {"limit": 1, "files": {"0" * 64: {"text": evil}}}, at=AT)
    assert block(text, "data") == drawing and drawing["counts"]["valid"] == 4
    assert "alert(1)</script>" not in text and "<!--" not in text and "\u2028" not in text
    assert text.count("<script") == 5


def test_only_its_own_script_may_run_and_it_asks_no_network() -> None:
    text = page.render(view.build(report(2, 2)), {"limit": 1, "files": {}}, at=AT)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text and "default-src 'none'" in text
    assert not re.search(r"(src|href)=[\"']?https?:", text)
    assert not re.search(r"^(import|export) ", script[1], re.MULTILINE)


def test_no_name_of_one_part_hides_one_of_another() -> None:
    names: Counter[str] = Counter()
    for path in page.ASSETS.glob("*.js"):
        found = re.findall(
            r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", path.read_text(), re.MULTILINE
        )
        names.update(found)
    assert [name for name, count in names.items() if count > 1] == []


def test_every_text_that_is_shown_is_there_in_both_languages() -> None:
    used = set()
    for path in page.ASSETS.glob("*.js"):
        used |= set(re.findall(r"\"(ev_\w+)\"", path.read_text()))
    assert used - set(words.TEXTS) == set()
    # and no text is there for nothing: those named by what a cell or a score is are made up in the browser
    made_up = {f"ev_{name}" for name in (*view.STATES, "higher", "lower", "step", "epoch")}
    kept = {key for key in words.TEXTS if key.startswith("ev_") and not key.startswith(("ev_says_", "ev_axis_"))}
    assert kept - used - made_up == set()
    for key, (english, chinese) in words.TEXTS.items():
        assert chinese
        assert english or key.startswith("remedy_")
        assert set(re.findall(r"\{\w+\}", english or chinese)) == set(re.findall(r"\{\w+\}", chinese))


def test_pictures_of_all_come_before_whole_files_and_the_limit_holds() -> None:
    outputs, files = videos(2, 2)
    drawing = view.build(report(2, 2, outputs=outputs))
    found = media.gather(drawing, lambda cell, name: files[cell, name], lambda c, k: b"x" * 300, limit=7000)
    films = [held for held in found["files"].values() if "thumb" in held]
    assert len(films) == 4
    assert any("file" in held for held in films) and any(held.get("missing") == "limit" for held in films)
    taken = sum(len(held.get(key, "")) for held in found["files"].values() for key in ("thumb", "file", "text"))
    assert 4000 < taken <= 7000
    whole = media.gather(drawing, lambda cell, name: files[cell, name], no_picture)
    assert (
        base64.b64decode(whole["files"][hashlib.sha256(files[1, "out.mp4"]).hexdigest()]["file"]) == files[1, "out.mp4"]
    )


def test_what_cannot_be_read_is_said() -> None:
    outputs, _ = videos(1, 1)
    found = media.gather(view.build(report(1, 1, outputs=outputs)), lambda cell, name: None, no_picture)
    assert {held["missing"] for held in found["files"].values()} == {"error"}


def test_a_picture_of_a_film_is_of_its_middle_and_a_broken_one_has_none() -> None:
    made = studio.Studio()
    try:
        still = made.make(film(0, 0), "video")
        assert still is not None and Image.open(io.BytesIO(still)).size == (64, 64)
        large = io.BytesIO()
        Image.new("RGBA", (800, 400), (255, 0, 0, 128)).save(large, "PNG")
        small = made.make(large.getvalue(), "image")
        assert small is not None and Image.open(io.BytesIO(small)).size == (200, 100)
        assert made.make(b"no picture", "image") is None
        assert made.make(b"", "video") is None
    finally:
        made.close()


def test_a_decoder_that_dies_or_hangs_costs_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    made = studio.Studio()
    try:
        assert made.make(b"no picture", "image") is None
        assert made._process is not None
        made._process.kill()
        assert made._process.wait() < 0
        assert made.make(film(0, 0), "video") is not None
        monkeypatch.setattr(studio, "_COMMAND", ["sleep", "100"])
        monkeypatch.setattr(studio, "SECONDS", 0.2)
        made.close()
        assert made.make(b"x", "image") is None
    finally:
        made.close()
