"""The report as one HTML file that asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from headway.report import words

ASSETS = Path(__file__).parent / "assets"
#: in the order in which they need one another
_SCRIPTS = ("base", "media", "matrix", "curves", "panels", "provenance", "viewer", "report")
_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=function|class|const)", re.MULTILINE)

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="headway">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main><div id="root"></div><p class="report-foot" id="foot"></p>
<noscript>This report is drawn by a script that stands in this file. 此报告由文件内的脚本绘制。</noscript></main>
{data}
<script>{script}</script>
</body>
</html>
"""


def render(drawing: Mapping[str, Any], media: Mapping[str, Any], *, at: datetime, language: str | None = None) -> str:
    """The file's text. drawing: of `view.build`; media: of `media.gather`; at: when it is made.

    language: "en" or "zh", with a button for the other; None: what the reader's browser asks for.
    """
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "media-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    blocks = {
        "data": drawing,
        "words": {tag: words.of(tag) for tag in ("en", "zh")},
        "media": media,
        "made": {"at": at.isoformat(), "language": language},
    }
    data = "\n".join(
        f'<script type="application/json" id="{name}">{_json(block)}</script>' for name, block in blocks.items()
    )
    style = "\n".join((ASSETS / name).read_text("utf-8") for name in ("report.css", "viewer.css"))
    title = html.escape(str(drawing["evaluation"].get("name", "")))
    parts = {"policy": policy, "title": title, "style": style, "data": data, "script": script}
    return re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], _PAGE)


def _script() -> str:
    """The browser's modules as one script: what they import from one another stands above them."""
    texts = [(ASSETS / f"{name}.js").read_text("utf-8") for name in _SCRIPTS]
    return '"use strict";\n(() => {\n' + "".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts) + "})();\n"


def _json(value: Any) -> str:
    """JSON that may stand within a script element: nothing in it can end it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
