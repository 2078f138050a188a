"""Statistics of a version as people read them: warnings first, then classes, images, texts and tables.

Those that an older headway made lack keys, or have sentences for warnings: what is not there is not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from headway.console import show
from headway.console.frame import text, typed
from headway.console.texts import Texts
from headway.wire.datasets import DatasetVersionView

#: classes, columns, sizes and warnings that are shown
_CLASSES, _COLUMNS, _SIZES, _WARNINGS = 40, 40, 5, 20


def draw(view: DatasetVersionView, t: Texts) -> None:
    """To be called where it is drawn."""
    found = view.statistics
    if not found:
        typed("p", t("st_none", name=view.name, version=view.version), "hw-quiet")
        return
    _warnings(found.get("warnings") or [], t)
    _facts(found, t)
    _labels(t("st_labels"), found.get("splits") or {}, found.get("classes") or {}, t)
    for column, splits in (found.get("labels") or {}).items():
        _labels(t("st_values", column=column), splits, {}, t)
    for table in found.get("tables") or []:
        _table(table, t)


def _warnings(warnings: Sequence[Any], t: Texts) -> None:
    if not warnings:
        return
    with ui.element("div").classes("hw-warnings"):
        text("strong", t("st_warnings"))
        with ui.element("ul"):
            for warning in warnings[:_WARNINGS]:
                with ui.element("li"):
                    if isinstance(warning, str):
                        text("span", warning)
                        continue
                    if title := t.known("warn", warning.get("code")):
                        text("strong", f"{title}  ")
                    text("span", str(warning.get("text", "")))
        if (more := len(warnings) - _WARNINGS) > 0:
            text("p", t("st_more", n=more), "hw-quiet")


def _facts(found: Mapping[str, Any], t: Texts) -> None:
    kinds = [f"{t.known('st_kind', kind)} {n:,}" for kind, n in (found.get("kinds") or {}).items() if n]
    facts = [("st_kinds", " · ".join(kinds))]
    if duplicates := found.get("duplicates"):
        size = show.size(duplicates.get("bytes", 0))
        facts.append(("st_duplicates", t("st_duplicates_said", n=f"{duplicates.get('files', 0):,}", size=size)))
    _group("", facts, t)
    if images := found.get("images"):
        _group("st_images", _of_images(images, t), t)
    if texts := found.get("texts"):
        _group("st_texts", _of_texts(texts, t), t)


def _of_images(images: Mapping[str, Any], t: Texts) -> list[tuple[str, str]]:
    sizes = list((images.get("sizes") or {}).items())
    said = ", ".join(f"{size} ({n:,})" for size, n in sizes[:_SIZES])
    if (more := images.get("all_sizes", len(sizes)) - _SIZES) > 0:
        said += f", {t('st_more', n=f'{more:,}')}"
    return [
        ("st_read", _read(images, t)),
        ("st_sizes", said),
        ("st_modes", ", ".join(f"{mode} ({n:,})" for mode, n in (images.get("modes") or {}).items())),
        ("st_mean", _rounded(images.get("mean"))),
        ("st_std", _rounded(images.get("std"))),
        ("st_unreadable", _count(images.get("unreadable"))),
    ]


def _of_texts(texts: Mapping[str, Any], t: Texts) -> list[tuple[str, str]]:
    return [
        ("st_read", _read(texts, t)),
        ("st_characters", _span(texts.get("characters"), t)),
        ("st_words", _span(texts.get("words"), t)),
        ("st_tokens", f"{texts['tokens']:,}" if "tokens" in texts else ""),
        ("st_unreadable", _count(texts.get("unreadable"))),
    ]


def _group(title: str, facts: Sequence[tuple[str, str]], t: Texts) -> None:
    if not any(value for _, value in facts):
        return
    if title:
        text("h3", t(title), "hw-part")
    with ui.element("dl").classes("hw-facts"):
        for key, value in facts:
            if value:
                with ui.element("div"):
                    text("dt", t(key))
                    text("dd", value).props["title"] = value


def _labels(title: str, splits: Mapping[str, Mapping[str, int]], classes: Mapping[str, list[str]], t: Texts) -> None:
    """A row for each class, a column for each split."""
    every = next(iter(classes.values()), None) or sorted({label for counts in splits.values() for label in counts})
    if not every:
        return
    text("h3", title, "hw-part")
    with ui.element("div").classes("hw-wide"), ui.element("table").classes("hw-list hw-classes"):
        with ui.element("thead"), ui.element("tr"):
            text("th", t("st_class"), props='scope="col"')
            for split in splits:
                text("th", t("st_split_all") if split == "all" else split, "num", props='scope="col"')
        with ui.element("tbody"):
            for label in every[:_CLASSES]:
                _counts(label, [counts.get(label, 0) for counts in splits.values()])
            if len(every) > _CLASSES:
                with ui.element("tr"):
                    text("td", t("st_more", n=f"{len(every) - _CLASSES:,}"), "hw-quiet")
            _counts(t("st_all"), [sum(counts.values()) for counts in splits.values()], "hw-strong")


def _counts(label: str, counts: Sequence[int], classes: str = "") -> None:
    with ui.element("tr"):
        text("td", label, classes)
        for count in counts:
            text("td", f"{count:,}", f"num {classes if count else 'hw-mark-invalid'}")


def _table(table: Mapping[str, Any], t: Texts) -> None:
    example, files = str(table.get("example", "")), int(table.get("files", 1))
    name = example if files == 1 else t("st_like", n=f"{files:,}", path=example)
    rows = table.get("rows") if table.get("exact", True) else table.get("read_rows")
    said = t("st_rows" if table.get("exact", True) else "st_rows_read", n=f"{rows or 0:,}")
    text("h3", f"{name}: {said}", "hw-part")
    columns = table.get("columns") or []
    with ui.element("div").classes("hw-wide"), ui.element("table").classes("hw-list"):
        with ui.element("thead"), ui.element("tr"):
            for head, kind in (("st_column", ""), ("st_type", ""), ("st_missing", "num"), ("st_range", "")):
                text("th", t(head), kind, props='scope="col"')
        with ui.element("tbody"):
            for column in columns[:_COLUMNS]:
                with ui.element("tr"):
                    text("td", str(column.get("name", "")))
                    text("td", str(column.get("type", "")), "hw-quiet")
                    text("td", f"{column.get('missing', 0):,}", "num")
                    lengths = column.get("characters")
                    said = f"{t('st_characters')}: {_span(lengths, t)}" if lengths else _span(column, t)
                    text("td", said)
    if len(columns) > _COLUMNS:
        text("p", t("st_more", n=f"{len(columns) - _COLUMNS:,}"), "hw-quiet")


def _read(facts: Mapping[str, Any], t: Texts) -> str:
    count = facts.get("count", 0)
    read = facts.get("read", count)
    return t("st_read_all", n=f"{count:,}") if read >= count else t("st_read_some", n=f"{read:,}", all=f"{count:,}")


def _span(values: Mapping[str, Any] | None, t: Texts) -> str:
    if not values or "mean" not in values:
        return ""
    return t("st_span", min=_short(values["min"]), max=_short(values["max"]), mean=_short(values["mean"]))


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _rounded(values: Sequence[float] | None) -> str:
    return ", ".join(f"{value:.1f}" for value in values or [])


def _count(value: object) -> str:
    """A number, or a list of paths, as older statistics have it."""
    count = value if isinstance(value, int) else len(value) if isinstance(value, list) else 0
    return f"{count:,}" if count else ""
