"""Who may import what: the import linter, and what is loaded after the imports that must be cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import headway

ROOT = Path(__file__).parents[2]
#: each costs tens to hundreds of milliseconds
HEAVY = {
    "PIL",
    "alembic",
    "fastapi",
    "httpx",
    "nicegui",
    "numpy",
    "obstore",
    "pydantic",
    "sqlalchemy",
    "starlette",
    "torch",
    "uvicorn",
    "yaml",
}
PUBLIC = [
    "Client",
    "Estimator",
    "__version__",
    "data",
    "flush_checkpoints",
    "leave",
    "log",
    "resume",
    "save_checkpoint",
    "should_stop",
]


def loaded(code: str) -> set[str]:
    """The modules in a new interpreter after `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def foreign(modules: set[str]) -> set[str]:
    """Those that are neither of the standard library nor ours; what a site's start-up files load does not count."""
    tops = {name.partition(".")[0] for name in modules - loaded("pass")}
    return tops - set(sys.stdlib_module_names) - {"headway", "__main__"}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("headway.")}


def test_import_rules_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_package_itself_loads_nothing() -> None:
    found = loaded("import headway")
    assert ours(found) == set()
    assert foreign(found) == set()


@pytest.mark.parametrize(
    ("code", "rooms"),
    [
        ("import headway.runner.__main__", {"headway.runner", "headway.protocol"}),
        ("import headway.script", {"headway.script", "headway.protocol"}),
        ("import headway.script.worker", {"headway.script", "headway.protocol"}),
        ("import headway; headway.log(step=1, loss=0.5)", {"headway.script", "headway.protocol"}),
        ("from headway.protocol import files, hints, identity, launch", {"headway.protocol"}),
        (
            "from headway.report import media, page, studio, thumbnails, view",
            {"headway.report", "headway.rules", "headway.errors"},
        ),
    ],
)
def test_what_lives_beside_the_user_process_is_standard_library_alone(code: str, rooms: set[str]) -> None:
    found = loaded(code)
    assert foreign(found) == set()
    assert {".".join(name.split(".")[:2]) for name in ours(found)} <= rooms


def test_help_loads_nothing_heavy() -> None:
    found = loaded(
        "import contextlib, sys\nsys.argv = ['headway', '--help']\nfrom headway.cli import main\n"
        "with contextlib.suppress(SystemExit):\n    main()"
    )
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    sides = {name.split(".")[1] for name in ours(found)}
    assert sides & {"store", "storage", "engines", "services", "controller", "api", "gateway", "replica"} == set()


def test_the_supervisor_stays_small() -> None:
    assert foreign(loaded("import headway.supervisor")) == set()


def test_public_names() -> None:
    assert sorted(headway.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(headway, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="klient"):
        headway.klient  # noqa: B018
