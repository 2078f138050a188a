"""Which failures are alike."""

from __future__ import annotations

import pytest

from headway.rules.alike import alike


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out.mp4 has 8 frames, not 12.", "out.mp4 has 9 frames, not 12"),
        ("killed after 20.5 s", "killed after 3 s"),
        ("CUDA error at 0x7f3a9c: no memory", "CUDA error at 0xFF: no memory"),
        ("/data/a/out.mp4 is cut off", "/scratch/evaluations/3/step-040/b c.mp4 is cut off".replace("b c", "b-c")),
        ("open('/data/1/x.bin') failed", "open('./y.bin') failed"),
        ("step-010/prompt-1/out.mp4: empty", "step-020/prompt-7/out.mp4: empty"),
        ("2026-12-02T09:00:01.5Z: no answer", "2026-12-03 10:11:12+02:00: no answer"),
        ("at 09:00:01 the worker 3 was lost", "at 23:59:59 the worker 12 was lost"),
        ("request 9b2f0c1e-0a1b-4c2d-8e3f-001122334455 failed", "request 00000000-0a1b-4c2d-8e3f-aabbccddeeff failed"),
        ("digest 4f1c09ab77de is none", "digest 99f1c09ab77d is none"),
        ("it wants 3.2 GiB, 12,000 files", "it wants 900 MiB, 7 files"),
        ("loss is 1.5e-3", "loss is -2"),
        ("shape (3, 64, 64)", "shape (1, 8)"),
        ("64x64, not 128x128", "64 × 48, not 128x128"),
        ("http://10.0.0.3:8400/a did not answer", "https://node-7/b did not answer"),
        ("two  lines\nof it", "two lines of it"),
        ("worker3 said no", "worker14 said no"),
    ],
)
def test_ids_paths_numbers_hex_and_times_make_no_other_cause(one: str, other: str) -> None:
    assert alike(one) == alike(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("killed by SIGSEGV", "killed by SIGKILL"),
        ("out.mp4 is empty", "score.json is empty"),
        ("input/output error", "read/write error"),
        ("the prompt is empty", "the prompt is too long"),
        ("deadbeef", "facade"),
        ("", "no"),
    ],
)
def test_words_do(one: str, other: str) -> None:
    assert alike(one) != alike(other)


def test_names_of_checkpoint_and_case_are_none_of_the_cause_unless_they_are_plain_words() -> None:
    one = alike("a-cat: epoch-last draws no a-cat", ("epoch-last", "a-cat"))
    assert one == alike("two_dogs: best.pt draws no two_dogs", ("best.pt", "two_dogs"))
    assert alike("no video", ("video",)) == alike("no video", ("film",))
