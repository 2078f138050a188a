"""What a person should hear about before training, out of the numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headway.client.statistics.layout import ALL, role

#: names that a sentence lists
_NAMED = 5
#: a class with less than a share of one in so many of the largest is said
_UNEVEN = 10
#: missing values are said from this share of the rows
_MISSING = 0.05

Counts = Mapping[str, Mapping[str, int]]


def warnings(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the statistics `found`: {"code", "text", and the values that the text is made of}, the worst first."""
    return [
        *_leaks(found),
        *_row_leaks(found),
        *_conflicts(found),
        *_classes(found),
        *_numbers(found.get("labels") or {}, found.get("classes_named")),
        *_label_sets(found.get("labels") or {}),
        *_unreadable(found),
        *_images(found.get("images") or {}),
        *_tables(found.get("tables") or []),
        *_duplicates(found),
    ]


def texts(statistics: Mapping[str, Any]) -> list[str]:
    """The sentences of the warnings, fit for a terminal; those of versions that were pushed long ago are sentences."""
    said = [w if isinstance(w, str) else str(w.get("text", "")) for w in statistics.get("warnings") or []]
    return ["".join(c if c.isprintable() else repr(c)[1:-1] for c in text) for text in said]


def listed(names: list[str]) -> str:
    """`a, b, c and 12 more`"""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def number(count: int, word: str) -> str:
    """`1 file`, `1,200 files`"""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _leaks(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for leak in found.get("leaks") or []:
        one, other = leak["splits"]
        first, second = leak["examples"][0]
        yield {
            "code": "leak",
            "splits": [one, other],
            "count": leak["files"],
            "paths": [first, second],
            "text": f"{number(leak['files'], 'file')} of {other} {'is' if leak['files'] == 1 else 'are'} in {one} too,"
            f" such as {second} ({first}): results on {other} will be too good.",
        }


def _row_leaks(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for leak in found.get("row_leaks") or []:
        one, other = leak["splits"]
        first, line, second, number_there = leak["examples"][0]
        yield {
            "code": "row_leak",
            "splits": [one, other],
            "count": leak["rows"],
            "paths": [first, second],
            "rows": [line, number_there],
            "text": f"{number(leak['rows'], 'row')} of {other} {'is' if leak['rows'] == 1 else 'are'} in {one} too,"
            f" such as row {number_there:,} of {second} (row {line:,} of {first}).",
        }


def _conflicts(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if conflicts := found.get("conflicts"):
        paths = conflicts["examples"][0]
        yield {
            "code": "label_conflict",
            "count": conflicts["contents"],
            "paths": paths,
            "text": f"{number(conflicts['contents'], 'content')} lie{'s' if conflicts['contents'] == 1 else ''} in"
            f" folders of several classes, such as {' and '.join(paths[:2])}.",
        }


def _duplicates(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    leaked = sum(leak["files"] for leak in found.get("leaks") or [])
    duplicates = found.get("duplicates")
    # those that leaks are made of were said
    if duplicates and duplicates["files"] > leaked:
        paths = duplicates["examples"][0]
        yield {
            "code": "duplicates",
            "count": duplicates["files"],
            "paths": paths,
            "text": f"{number(duplicates['files'], 'file')} {'is a copy' if duplicates['files'] == 1 else 'are copies'}"
            f" of others, such as {' and '.join(paths[:2])}.",
        }
    if found.get("empty_files"):
        count = found["empty_files"]
        yield {"code": "empty_files", "count": count, "text": f"{number(count, 'file')} of 0 bytes."}


def _classes(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    splits: Counts = found.get("splits") or {}
    what = f"{found.get('sample_kind') or 'image'}s"
    everything = sorted({label for counts in splits.values() for label in counts})
    for split, counts in splits.items():
        empty = [label for label, count in counts.items() if not count]
        missing = [label for label in everything if label not in counts]
        if empty:
            text = f"{split} has no {what} of {listed(empty)}, though there are files."
            yield {"code": "empty_class", "split": split, "labels": empty[:100], "text": text}
        if missing:
            yield _class_set(split, counts, splits, missing, what)
        filled = {label: count for label, count in counts.items() if count}
        if filled and max(filled.values()) > _UNEVEN * min(filled.values()):
            least, most = min(filled, key=lambda k: filled[k]), max(filled, key=lambda k: filled[k])
            text = f"{split} is uneven: {filled[least]:,} of {least}, {filled[most]:,} of {most}."
            yield {"code": "uneven", "split": split, "labels": [least, most], "text": text}
    if moved := _out_of_order(everything):
        index, label = moved
        yield {
            "code": "class_order",
            "labels": everything[:100],
            "text": f"Class folders are numbered as texts are sorted: index {index} is {label}, not {index}."
            f" Name them with zeros in front ({label.zfill(len(max(everything, key=len)))}).",
        }


def _class_set(split: str, counts: Mapping[str, int], splits: Counts, missing: list[str], what: str) -> dict[str, Any]:
    """A split that lacks classes: a folder reader numbers those after them differently than in the others."""
    other = next(s for s, c in splits.items() if any(label in c for label in missing))
    text = f"{split} has no {what} of {listed(missing)}."
    order, full = sorted(counts), sorted(splits[other])
    shifted = next((label for label in order if label in full and order.index(label) != full.index(label)), None)
    if shifted is not None:
        text += (
            f" A folder reader numbers its classes otherwise than those of {other}:"
            f" {shifted} is {order.index(shifted)} here and {full.index(shifted)} there."
        )
    return {
        "code": "class_set",
        "split": split,
        "other": other,
        "labels": missing[:100],
        "shifted": shifted,
        "text": text,
    }


def _out_of_order(labels: list[str]) -> tuple[int, str] | None:
    """The first index at which classes that are numbers from 0 are not where their number says."""
    if not all(label.isascii() and label.isdecimal() and str(int(label)) == label for label in labels):
        return None
    if sorted(map(int, labels)) != list(range(len(labels))):
        return None
    return next(((index, label) for index, label in enumerate(labels) if str(index) != label), None)


def _numbers(labels: Mapping[str, Counts], named: int | None) -> Iterator[dict[str, Any]]:
    """Of columns whose values are classes by number. named: how many names of classes a list in the dataset has."""
    for column, splits in labels.items():
        values = {split: _integers(counts) for split, counts in splits.items()}
        if not all(values.values()):
            continue
        for split, own in values.items():
            if own[0] < 0:
                count = sum(n for value, n in splits[split].items() if int(value) < 0)
                text = (
                    f"{column} is {own[0]} in {number(count, 'row')} of {_of(split)}: no loss takes a negative class."
                )
                yield _about("label_range", column, split, text, value=own[0], count=count)
            if named is not None and own[-1] >= named:
                text = (
                    f"{column} goes up to {own[-1]} in {_of(split)}, and {named} classes are named: 0 to {named - 1}."
                )
                yield _about("label_range", column, split, text, value=own[-1], classes=named)
        yield from _gaps(column, values)


def _gaps(column: str, values: Mapping[str, list[int]]) -> Iterator[dict[str, Any]]:
    training = next((s for s in values if role(s) == "train"), None)
    every = sorted({value for own in values.values() for value in own if value >= 0})
    if not every:
        return
    absent = [value for value in range(every[0], every[-1]) if value not in set(every)] if every[-1] < 100_000 else []
    if every[0] == 1 and not absent and len(every) > 1:
        text = (
            f"{column} goes from 1 to {every[-1]}: losses count classes from 0, so this needs {every[-1] + 1} of them."
        )
        yield _about("label_start", column, training or ALL, text, value=1)
    # where most are absent these are no classes but quantities
    if absent and len(absent) < len(every):
        never = f"{listed([str(v) for v in absent])} never {'occurs' if len(absent) == 1 else 'occur'}"
        text = f"{column} goes from {every[0]} to {every[-1]}, and {never}."
        yield _about("label_gap", column, training or ALL, text, labels=[str(v) for v in absent[:100]])


def _label_sets(labels: Mapping[str, Counts]) -> Iterator[dict[str, Any]]:
    """Splits that have classes which training has not."""
    for column, splits in labels.items():
        training = next((s for s in splits if role(s) == "train"), None)
        for split, counts in splits.items():
            new = sorted(set(counts) - set(splits[training])) if training and split != training else []
            if new and training:
                rows = sum(counts[value] for value in new)
                text = f"{column} in {split} is {listed(new)} in {number(rows, 'row')}, which {training} never has."
                yield _about("label_set", column, split, text, labels=new[:100], count=rows)


def _about(code: str, column: str, split: str, text: str, **values: Any) -> dict[str, Any]:
    return {"code": code, "column": column, "split": split, **values, "text": text}


def _of(split: str) -> str:
    return "the table" if split == ALL else split


def _integers(counts: Mapping[str, int]) -> list[int]:
    """The values in order; none where they are not all whole numbers."""
    try:
        return sorted(int(value) for value in counts)
    except ValueError:
        return []


def _unreadable(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for part, word in (("images", "image"), ("texts", "text"), ("unread_tables", "table")):
        facts = found.get(part) or {}
        if count := facts.get("unreadable"):
            paths = facts["unreadable_paths"]
            text = f"{number(count, word)} cannot be read, the first is {paths[0]}."
            yield {"code": "unreadable", "what": word, "count": count, "paths": paths, "text": text}


def _images(images: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if count := images.get("too_large"):
        paths = images["too_large_paths"]
        text = f"{number(count, 'image')} of over 100 megapixels not decoded here, such as {paths[0]}."
        yield {"code": "too_large", "count": count, "paths": paths, "text": text}
    channels = images.get("channels") or {}
    if len(channels) > 1:
        shown = ", ".join(f"{count:,} with {bands}" for bands, count in channels.items())
        text = f"Images have different numbers of channels: {shown}."
        yield {"code": "mixed_channels", "channels": dict(channels), "text": text}
    if (sizes := images.get("all_sizes", 0)) > 1:
        yield {"code": "mixed_sizes", "count": sizes, "text": f"Images have {sizes:,} different sizes."}


def _tables(tables: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for table in tables:
        where = {"split": table["split"], "example": table["example"]}
        if table["bad_rows"]:
            text = f"{number(table['bad_rows'], 'damaged row')}, the first at {table['bad_at']}."
            yield {"code": "bad_rows", **where, "count": table["bad_rows"], "text": text}
        for column in table["columns"]:
            about = {**where, "column": column["name"]}
            missing = column["missing"]
            if missing and missing >= _MISSING * table["read_rows"]:
                share = missing / table["read_rows"]
                text = f"{column['name']} is missing in {share:.0%} of the rows of {table['example']}."
                yield {"code": "missing_values", **about, "count": missing, "text": text}
            if column["type"] == "mixed":
                shown = ", ".join(f"{count:,} {kind}" for kind, count in column["types"].items())
                text = f"{column['name']} of {table['example']} holds values of several types: {shown}."
                yield {"code": "mixed_types", **about, "types": column["types"], "text": text}
    yield from _other_columns(tables)


def _other_columns(tables: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Splits whose tables lack a column that those of the same kind in training have, or have them in another order."""
    for kind in sorted({t["kind"] for t in tables}):
        alike = [t for t in tables if t["kind"] == kind]
        training = [t for t in alike if role(t["split"]) == "train"]
        if len(training) != 1:
            continue
        names = [c["name"] for c in training[0]["columns"]]
        for table in alike:
            own = [c["name"] for c in table["columns"]]
            lacks = [name for name in names if name not in own]
            where = {"code": "columns", "split": table["split"], "example": table["example"]}
            if lacks and len(lacks) < len(names):
                yield {**where, "labels": lacks[:100], "text": f"{table['example']} has no {listed(lacks)}."}
            elif kind == "csv" and own != names and sorted(own) == sorted(names):
                text = f"{table['example']} has its columns in another order than {training[0]['example']}."
                yield {**where, "labels": [], "text": text}
