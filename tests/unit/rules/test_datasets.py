"""References, paths, order and digest of dataset versions."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import UsageError
from headway.rules import datasets
from headway.rules.datasets import Mode, Reference

PATHS = st.lists(st.text("ab.-/é0 ", min_size=1, max_size=12), min_size=1, max_size=30, unique=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("digits", Reference("digits")),
        ("digits@3", Reference("digits", 3)),
        ("train=digits@3:stream", Reference("digits", 3, "train", Mode.STREAM)),
        ("digits:link", Reference("digits", mode=Mode.LINK)),
        ("a", Reference("a")),
        ("x.y-z_1@10:cache", Reference("x.y-z_1", 10)),
    ],
)
def test_references(text: str, found: Reference) -> None:
    assert datasets.parse_reference(text) == found
    assert datasets.parse_reference(str(found)) == found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "''"),
        ("Digits", "'Digits'"),
        ("digits\n", "names no dataset"),
        ("digits@0", "'0'"),
        ("digits@one", "'one'"),
        ("digits@", "''"),
        ("digits:fast", "'fast'"),
        ("digits@1:", "''"),
        ("Train=digits", "'Train'"),
        ("=digits", "channel"),
    ],
)
def test_what_is_no_reference(text: str, fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        datasets.parse_reference(text)
    assert fault in caught.value.message and caught.value.remedy


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("a/b.png", None),
        ("图片/猫\n1.png", None),
        ("a" * 255, None),
        ("", "inside"),
        ("/a", "inside"),
        ("a/../b", "inside"),
        ("a//b", "inside"),
        ("./a", "inside"),
        ("a/", "inside"),
        ("a\0b", "NUL"),
        ("a\udcff", "UTF-8"),
        ("é" * 128, "too long"),
        ("/".join(["a" * 200] * 16), "too long"),
        ("a/" * 201 + "b", "folders"),
    ],
)
def test_paths_that_a_version_can_hold(path: str, fault: str | None) -> None:
    found = datasets.path_fault(path)
    assert (found is None) if fault is None else (found is not None and fault in found)


@given(PATHS)
def test_the_order_is_that_of_a_sorted_walk(paths: list[str]) -> None:
    """What lies in one folder stands together."""
    found = sorted(paths, key=datasets.order)
    for depth in range(1, 4):
        folders = ["/".join(p.split("/")[:depth]) for p in found if p.count("/") >= depth]
        seen = list(dict.fromkeys(folders))
        assert folders == sorted(folders, key=seen.index)


@given(st.sets(st.sampled_from(["a.jpg", "a.json", "a.cls.txt", "a-b.jpg", "a-b.json", "a b.jpg", "ab.jpg", "b.c"])))
def test_the_files_of_one_sample_stand_together(names: set[str]) -> None:
    groups = [datasets.group("train/" + name) for name in sorted(names)]
    seen = list(dict.fromkeys(groups))
    assert groups == sorted(groups, key=seen.index)


def test_the_digest_is_that_of_the_rows_as_lines() -> None:
    rows = [("a/b.png", 3, "0" * 64), ("图\n", 0, "f" * 64)]
    text = f'["a/b.png",3,"{"0" * 64}"]\n["图\\n",0,"{"f" * 64}"]\n'
    assert datasets.digest(rows) == hashlib.sha256(text.encode()).hexdigest()


def test_names_that_one_disk_takes_for_another() -> None:
    assert datasets.folded("A/É.png") == datasets.folded("a/é.PNG")
    assert datasets.folded("a") != datasets.folded("b")
