"""Sizes, durations, ranges; nearest words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import UsageError
from headway.rules.nearest import nearest, unknown
from headway.rules.units import parse_duration, parse_range, parse_size, render_duration, render_size


@pytest.mark.parametrize(
    ("text", "count"),
    [("24GiB", 24 << 30), ("1.5 KiB", 1536), ("500MB", 500_000_000), ("12", 12), (12, 12), ("2g", 2 << 30)],
)
def test_sizes(text: str | int, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("1h30m", 5400), ("45s", 45), ("2d", 172800), ("250ms", 0.25), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "90", 90, "m", "90x", "1h30", "-5m", "0s", "five"])
def test_a_duration_without_a_known_unit_is_refused(text: str | int) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "GiB", "24GiX", "-1", True, None])
def test_wrong_sizes(text: object) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)  # type: ignore[arg-type]


def test_ranges() -> None:
    assert parse_range("1..4") == (1, 4)
    assert parse_range(3) == (3, 3)
    for wrong in ("4..1", "..", "a..b", ""):
        with pytest.raises(UsageError, match="is not a range"):
            parse_range(wrong)


@given(st.integers(min_value=1, max_value=10**6))
def test_whole_seconds_survive_rendering_to_two_units(seconds: int) -> None:
    assert parse_duration(render_duration(seconds)) == pytest.approx(seconds, rel=0.05, abs=0.1)


def test_render_size() -> None:
    assert render_size(512) == "512 B"
    assert render_size(1536) == "1.5 KiB"
    assert render_size(24 << 30) == "24.0 GiB"


def test_nearest() -> None:
    assert nearest("comand", ["command", "parameters"]) == "command"
    assert nearest("LARGE", ["small", "large"]) == "large"
    assert nearest("zzz", ["small", "large"]) is None
    assert str(unknown("spec", "zzz", ["small", "large"])) == "unknown spec 'zzz'. Known: large, small."
