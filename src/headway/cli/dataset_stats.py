"""`headway dataset stats`, and the lines about a dataset that other commands print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import common

if TYPE_CHECKING:
    from headway.client import Client
    from headway.client.statistics import Progress

#: classes whose counts are shown side by side, columns of a table, warnings of a version before a job
_LABELS, _COLUMNS, _WARNINGS = 12, 40, 5


def stats(
    reference: Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)],
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Make them again (or at all) out of the files in the store, and keep them."),
    ] = False,
    as_json: common.AsJson = False,
) -> None:
    """Show what a version holds, in numbers, and what is wrong with it."""
    with common.client() as client:
        view = client.datasets.find(reference)
        if refresh:
            with shown(quiet=as_json) as progress:
                view = client.datasets.measure(view, progress=progress)
    if as_json:
        common.print_json(view.statistics)
    elif view.statistics:
        print_statistics(view.statistics)
    else:
        print(f"{view.name}@{view.version} has no statistics.")
        common.next_step(f"headway dataset stats {view.name}@{view.version} --refresh")


@contextmanager
def shown(*, quiet: bool) -> Iterator[Progress]:
    """What `statistics.of` tells how far it is: a bar on a terminal."""
    from headway.cli.progress import count_shown

    with count_shown("statistics", quiet=quiet) as count:
        yield lambda what, done, total: count(done, total)


def print_statistics(statistics: dict[str, Any]) -> None:
    """What there is of labels, images, texts and tables; then the warnings."""
    from headway.client.statistics import warning_texts

    _print_labels(statistics.get("splits") or {})
    if images := statistics.get("images"):
        _print_images(images)
    if texts := statistics.get("texts"):
        _print_texts(texts)
    for table in statistics.get("tables") or []:
        _print_table(table)
    for column, splits in (statistics.get("labels") or {}).items():
        print(f"\nvalues of {common.plain(column)}")
        _print_labels(splits, order=_numeric)
    for text in warning_texts(statistics):
        print(f"warning: {text}")


def _print_labels(splits: dict[str, dict[str, int]], order: Callable[[str], Any] | None = None) -> None:
    """order: of the classes; None: as a folder reader numbers them."""
    labels = sorted({label for counts in splits.values() for label in counts}, key=order)
    shown = [common.plain(label) for label in labels]
    if labels and len(labels) <= _LABELS:
        rows = [[s, *(c.get(label, 0) for label in labels), sum(c.values())] for s, c in splits.items()]
        common.print_table(["split", *shown, "all"], rows, names=True)
    elif labels:
        rows = [
            [s, len(c), min(c.values(), default=0), max(c.values(), default=0), sum(c.values())]
            for s, c in splits.items()
        ]
        common.print_table(["split", "classes", "fewest", "most", "all"], rows)
        print(f"classes: {_few(shown)}")


def _numeric(label: str) -> tuple[int, str]:
    return (int(label) if label.lstrip("-").isdecimal() else sys.maxsize), label


def _few(words: list[str]) -> str:
    return ", ".join(words[:_LABELS]) + (f" and {len(words) - _LABELS:,} more" if len(words) > _LABELS else "")


def _read(facts: dict[str, Any], word: str) -> str:
    """`120 images`, `a sample of 5,000 of 100,000 images`"""
    count, read = facts["count"], facts["read"]
    if read < count:
        return f"a sample of {read:,} of {count:,} {word}s"
    return f"{count:,} {word}" + ("s" if count != 1 else "")


def _print_images(images: dict[str, Any]) -> None:
    sizes = ", ".join(f"{size} ({n:,})" for size, n in list(images["sizes"].items())[:5])
    more = images.get("all_sizes", len(images["sizes"])) - 5
    modes = ", ".join(f"{mode} ({n:,})" for mode, n in images["modes"].items())
    mean = ", ".join(f"{m:.1f}" for m in images["mean"])
    std = ", ".join(f"{s:.1f}" for s in images["std"])
    print(f"images: {_read(images, 'image')}")
    common.print_fields(
        {
            "  sizes": sizes + (f" and {more:,} more" if more > 0 else ""),
            "  modes": modes,
            "  mean": f"{mean} of 255" if mean else "",
            "  deviation": std,
        }
    )


def _print_texts(texts: dict[str, Any]) -> None:
    print(f"texts: {_read(texts, 'file')}, about {texts['tokens']:,} tokens")
    common.print_fields({f"  {key}": _lengths(texts[key]) for key in ("characters", "words")})


def _lengths(lengths: dict[str, float], word: str = "") -> str:
    return f"{lengths['min']:,.0f} to {lengths['max']:,.0f}{word}, mean {lengths['mean']:,.1f}"


def _print_table(table: dict[str, Any]) -> None:
    rows = f"{table['rows']:,} rows" if table["exact"] else f"{table['read_rows']:,} rows read, there are more"
    files = f"{table['files']:,} files like {common.plain(table['example'])}"
    print(f"\n{common.plain(table['example']) if table['files'] == 1 else files}: {rows}")
    columns = table["columns"]
    common.print_table(
        ["column", "type", "missing", "values"],
        [[c["name"], c["type"], c["missing"], _values(c)] for c in columns[:_COLUMNS]],
    )
    if len(columns) > _COLUMNS:
        print(f"and {len(columns) - _COLUMNS} more columns")


def _values(column: dict[str, Any]) -> str:
    if "mean" in column:
        return f"{_short(column['min'])} to {_short(column['max'])}, mean {_short(column['mean'])}"
    if "characters" in column:
        return _lengths(column["characters"], " characters")
    return ""


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def print_warnings(client: Client, references: Iterable[str]) -> None:
    """On standard error: the warnings of the versions that a run is to use, before anything long is done with them.

    One that cannot be looked up is passed over: whoever starts the run hears of that otherwise.
    """
    from headway.client.statistics import warning_texts
    from headway.errors import HeadwayError
    from headway.rules.datasets import parse_reference

    for reference in references:
        try:
            used = parse_reference(reference)
            view = client.datasets.find(used.name if used.version is None else f"{used.name}@{used.version}")
        except HeadwayError:
            continue
        name = f"{view.name}@{view.version}"
        texts = warning_texts(view.statistics)
        for text in texts[:_WARNINGS]:
            print(f"warning: {name}: {text}", file=sys.stderr)
        if len(texts) > _WARNINGS:
            print(f"and more: headway dataset stats {name}", file=sys.stderr)
