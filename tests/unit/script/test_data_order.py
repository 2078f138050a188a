"""Order and shares of an epoch: every item once, whatever the numbers of ranks and workers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.script.data import order


def chunks_of(sizes: list[int]) -> list[range]:
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


sizes = st.lists(st.integers(1, 20), min_size=1, max_size=12)


def of_rank(chunks: list[range], rank: int, world: int, epoch: int = 0, window: int = 8, even: str = "") -> list[int]:
    count = sum(map(len, chunks))
    read = order.share(order.epoch_order(chunks, 7, epoch, True), count, rank, world, even)
    return [read[place] for place in order.shuffled(range(len(read)), window, 7, epoch, rank)]


@given(sizes, st.integers(1, 9), st.integers(1, 5), st.integers(1, 30), st.integers(0, 3))
def test_over_ranks_and_workers_each_item_comes_once(
    sizes: list[int], world: int, workers: int, window: int, epoch: int
) -> None:
    chunks = chunks_of(sizes)
    seen: Counter[int] = Counter()
    for rank in range(world):
        mine = of_rank(chunks, rank, world, epoch, window)
        for worker in range(workers):
            seen.update(order.split(mine, workers, worker))
    assert seen == Counter(range(sum(sizes)))


@given(sizes, st.integers(1, 9), st.sampled_from(["pad", "drop"]))
def test_even_gives_all_ranks_as_many(sizes: list[int], world: int, even: str) -> None:
    count = sum(sizes)
    shares = [of_rank(chunks_of(sizes), rank, world, even=even) for rank in range(world)]
    most = Counter(item for share in shares for item in share)
    if even == "drop":
        assert {len(share) for share in shares} == {count // world}
        assert max(most.values(), default=1) == 1
    else:
        assert {len(share) for share in shares} == {-(-count // world)}
        assert set(most) == set(range(count))


@given(sizes, st.integers(1, 6), st.data())
def test_passes_that_are_cut_short_add_up_to_one(sizes: list[int], workers: int, data: st.DataObject) -> None:
    places = of_rank(chunks_of(sizes), 0, 1)
    seen: list[int] = []
    history: list[list[int]] = []
    for _ in range(3):
        left = order.remaining(places, history)
        workers = data.draw(st.integers(1, 6))
        consumed = []
        for worker in range(workers):
            piece = order.split(left, workers, worker)
            consumed.append(data.draw(st.integers(0, len(piece))))
            seen.extend(piece[: consumed[-1]])
        history.append(consumed)
    seen.extend(order.remaining(places, history))
    assert Counter(seen) == Counter(places)


def test_an_epoch_has_its_own_order_and_has_it_again() -> None:
    chunks = chunks_of([20] * 10)
    assert of_rank(chunks, 0, 2, epoch=1) == of_rank(chunks, 0, 2, epoch=1)
    assert of_rank(chunks, 0, 2, epoch=1) != of_rank(chunks, 0, 2, epoch=2)
    assert of_rank(chunks, 0, 2, epoch=1) != sorted(of_rank(chunks, 0, 2, epoch=1))


@given(st.integers(1, 300), st.integers(1, 50))
def test_a_shuffle_holds_no_more_than_its_window(count: int, window: int) -> None:
    found = order.shuffled(range(count), window, 1, 2, 3)
    assert sorted(found) == list(range(count))
    # the item that comes at n was read by n + window
    assert all(place <= n + window for n, place in enumerate(found))


def test_a_state_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="6 of 5 items"):
        order.remaining(range(5), [[6]])
