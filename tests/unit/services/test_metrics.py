"""Windows of metrics: nothing is lost that a plot would show, and what was indexed before is not read again."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import UsageError
from headway.rules.access import Caller
from headway.services import jobs, metrics, usage
from headway.services.context import Services
from headway.services.metric_index import BLOCK, Column, FileIndex, Indexes, overlay, sample, window
from headway.testing.services import start_attempt
from headway.wire.runs import JobRequest


@pytest.fixture
def run(ctx: Services, member: Caller) -> int:
    return jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id


def column(values: list[float], first: int = 0) -> Column:
    one = Column("loss", 0)
    for n, value in enumerate(values):
        one.add(first + n, float(first + n), value)
    return one


numbers = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf]))


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=20), st.integers(1, 200), st.integers(4, 60), st.data())
def test_a_sample_has_the_extremes_and_the_ends(some: list[float], times: int, most: int, data: st.DataObject) -> None:
    one = column(some * times)
    first = data.draw(st.integers(0, len(one) - 1))
    last = data.draw(st.integers(first, len(one) - 1))
    spans = window(overlay([one]), first, last, "step")
    values = list(one.values[first : last + 1])
    got = [(c.steps[n], c.values[n]) for c, n in sample(spans, most)]
    assert len(got) <= max(most, 4) and [s for s, _ in got] == sorted({s for s, _ in got})
    assert (got[0][0], got[-1][0]) == (first, last)
    shown, real = [v for _, v in got if v == v], [v for v in values if v == v]
    if real:
        assert min(shown) == min(real) and max(shown) == max(real)
    if len(values) <= most:
        assert len(got) == len(values)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 10 * BLOCK), (1, BLOCK), (5, 3 * BLOCK + 7), (BLOCK, 2 * BLOCK), (7, 9)]
)
def test_extremes_come_from_blocks_and_their_edges(start: int, end: int) -> None:
    one = column([math.sin(n) for n in range(10 * BLOCK)])
    part = list(one.values[start:end])
    low, high = one.extremes(start, end)
    assert (one.values[low], one.values[high]) == (min(part), max(part)) and start <= low < end and start <= high < end


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=4))
def test_a_later_attempt_has_the_last_word(attempts: list[tuple[int, int]]) -> None:
    columns = [column([float(n)] * count, first) for n, (first, count) in enumerate(attempts)]
    spans = overlay(columns)
    found = [(s.column.steps[n], s.column.values[n]) for s in spans for n in range(s.start, s.end)]
    steps = [step for step, _ in found]
    assert steps == sorted(set(steps))
    for step, value in found:
        later = [n for n, (first, _) in enumerate(attempts) if n > value and first <= step]
        assert not later
    assert (attempts[-1][0], float(len(attempts) - 1)) in found


def test_a_step_that_came_twice_in_one_attempt_has_the_later_value() -> None:
    one = Column("loss", 0)
    for step, value in ((1, 1.0), (3, 3.0), (2, 2.0), (3, 4.0)):
        one.add(step, 0.0, value)
    (span,) = overlay([one])
    assert list(zip(span.column.steps, span.column.values, strict=True)) == [(1, 1.0), (2, 2.0), (3, 4.0)]


def lines(count: int, start: int = 0) -> str:
    return "".join(
        f'{{"step": {n}, "name": "loss", "value": {n % 97}, "rank": 0, "t": {1000 + n}}}\n'
        for n in range(start, start + count)
    )


def test_an_index_goes_on_where_it_was_and_comes_back_from_its_cache(tmp_path: Path) -> None:
    path, cache = tmp_path / "metrics.jsonl", tmp_path / "i/c"
    path.write_text(lines(120_000) + '{"mark": 1}\nnot json\n{"step": 1, "name": "loss"}\n{"step": 9, "na')
    index = FileIndex(path, cache)
    index.refresh()
    assert index.points == 120_000 and cache.exists()
    with path.open("a") as file:
        file.write('me": "acc", "value": NaN, "rank": 1, "t": 1}\n' + lines(10, 120_000))
    index.refresh()
    assert index.points == 120_011 and list(index.columns["acc", 1].steps) == [9]
    start = time.perf_counter()
    again = FileIndex(path, cache)
    again.refresh()
    assert time.perf_counter() - start < 1
    assert again.points == 120_011 and again.columns["loss", 0].steps == index.columns["loss", 0].steps
    cache.write_bytes(cache.read_bytes()[:-9])
    broken = FileIndex(path, cache)
    broken.refresh()
    assert broken.points == 120_011
    path.unlink()
    path.write_text(lines(5))
    index.refresh()
    assert index.points == 5, "another file of that name"


def test_only_so_much_is_kept_in_memory(tmp_path: Path) -> None:
    indexes = Indexes(room=25)
    for name in "abc":
        (tmp_path / name).write_text(lines(10))
        indexes.of(tmp_path / name, None).refresh()
    kept = indexes.of(tmp_path / "c", None)
    assert kept.points == 10 and indexes.of(tmp_path / "a", None).points == 0


def test_windows_of_a_run(ctx: Services, viewer: Caller, run: int) -> None:
    node = start_attempt(ctx, run).node()
    node.metrics.write_text(lines(50_000) + '{"step": 3, "name": "acc", "value": NaN, "rank": 0, "t": 5}\n')
    acc, loss = metrics.series(ctx, viewer, run)
    assert len(acc.points) == 1 and math.isnan(acc.points[0].value)
    assert 5000 < len(loss.points) <= 10_000 and loss.total == 50_000
    assert '"NaN"' in acc.model_dump_json() and math.isnan(
        type(acc).model_validate_json(acc.model_dump_json()).points[0].value
    )
    (some,) = metrics.series(ctx, viewer, run, names=["loss"], first=100, last=109)
    assert [p.step for p in some.points] == list(range(100, 110)) and some.total == 10
    (some,) = metrics.series(ctx, viewer, run, names=["loss"], first=1100, last=1109.5, by="time")
    assert [p.step for p in some.points] == list(range(100, 110))
    (few,) = metrics.series(ctx, viewer, run, names=["loss"], points=50)
    assert len(few.points) <= 50 and {0.0, 96.0} <= {p.value for p in few.points}
    with pytest.raises(UsageError, match="axis"):
        metrics.series(ctx, viewer, run, by="size")


def test_ranks_of_all_nodes_are_there(ctx: Services, viewer: Caller, run: int) -> None:
    folder = start_attempt(ctx, run)
    for node in range(2):
        folder.node(node).path.mkdir(exist_ok=True)
        text = f'{{"step": 1, "name": "loss", "value": {node}.5, "rank": {node}, "t": 1}}\n'
        folder.node(node).metrics.write_text(text)
    (loss,) = metrics.series(ctx, viewer, run)
    assert [(p.step, p.rank, p.value) for p in loss.points] == [(1, 0, 0.5), (1, 1, 1.5)]


def test_usage_is_put_together(ctx: Services, viewer: Caller, run: int) -> None:
    path = start_attempt(ctx, run).node().usage
    records = [
        {
            "t": 5.0 * n,
            "processes": 2,
            "cpu_seconds": 10.0 * n,
            "rss_bytes": 100 + n % 7,
            "read_bytes": 50 * n,
            "accelerators": [{"index": 1, "busy_percent": n % 2 * 100, "memory_bytes": n}],
        }
        for n in range(100)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    (node,) = usage.series(ctx, viewer, run, points=10)
    assert (node.attempt, node.node, len(node.samples)) == (f"{run}-1", 0, 10)
    second = node.samples[1]
    assert (second.time, second.cpus, second.memory_bytes, second.read_bytes) == (95.0, 2.0, 106, 10.0)
    assert second.accelerators[0].busy_percent == 50 and second.accelerators[0].memory_bytes == 19
    (node,) = usage.series(ctx, viewer, run, first=10, last=20)
    assert [s.time for s in node.samples] == [10.0, 15.0, 20.0]
