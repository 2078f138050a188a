"""For all tests: an environment without headway's variables, and a list of what was skipped and why at the end.

With CI=true a skipped test is a failure: there, everything that tests need is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

#: what a surrounding headway or job would hand to the processes that tests start
_FOREIGN = (
    "DATA_PATH",
    "OUTPUT_PATH",
    "CHECKPOINT_PATH",
    "RESUME_FROM",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "NODE_RANK",
)

for _name in list(os.environ):
    if _name.startswith("HEADWAY_") or _name in _FOREIGN:
        del os.environ[_name]

_skipped: dict[str, str] = {}


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped[report.nodeid] = reason.removeprefix("Skipped: ")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped and os.environ.get("CI") == "true" and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _skipped:
        return
    strict = os.environ.get("CI") == "true"
    terminalreporter.section("skipped, which CI=true does not allow" if strict else "skipped", red=strict, yellow=True)
    for test, reason in _skipped.items():
        terminalreporter.line(f"{test}: {reason}")


@pytest.fixture(autouse=True)
def _clean_environment() -> Iterator[None]:
    """What a test puts into the environment without monkeypatch does not reach the next one."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)
