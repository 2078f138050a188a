"""Identities where nothing can be opened any more."""

from __future__ import annotations

import subprocess
import sys

import pytest

FULL = """
import os, resource, sys
from headway.protocol import identity

parent = identity.of(os.getppid())
me = identity.own()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    open(os.devnull)
except OSError:
    print(identity.own() == me, identity.alive(parent), identity.alive(me))
"""


def test_without_a_free_descriptor_nobody_is_taken_for_dead() -> None:
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]


@pytest.mark.parametrize("pid", [4_000_000, 1 << 22])
def test_a_process_that_is_not_there_is_none(pid: int) -> None:
    from headway.protocol import identity

    assert identity.of(pid) is None
