from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

from headway.storage import snapshots
from headway.storage.objects import FolderStore

from .conftest import Helper, Home
from .versions import make, packed

Start = Callable[..., tuple[Helper, str]]


def test_code_and_data_are_made_ready_before_prepared(home: Home, helpers: Start) -> None:
    store = FolderStore(home.root / "objects")
    code, _ = packed({"train.py": b"print(1)"})
    snapshot = snapshots.receive(store, "p", io.BytesIO(code), hashlib.sha256(code).hexdigest())
    folder = home.root / "attempts/1-1"
    home.plan(
        "1-1",
        snapshot={"key": snapshot.key, "into": str(folder / "code")},
        datasets=[make(store, "p", {"a/b.png": b"pixels"})],
        stores=[{"url": f"file://{store.folder}", "connection": None, "secret": None}],
    )
    (folder / "code").mkdir()
    for _ in range(2):
        helper, _ = helpers(folder)
        helper.prepared()
        assert (folder / "code/train.py").read_text() == "print(1)"
        assert (folder / "data/d/a/b.png").read_bytes() == b"pixels"
        assert helper.end() == 0


def test_what_cannot_be_made_ready_is_told_in_one_sentence(home: Home, helpers: Start) -> None:
    folder = home.plan("1-1", snapshot={"key": "projects/p/snapshots/gone.tar", "into": str(home.path / "x")})
    helper, _ = helpers(folder)
    word = helper.until(lambda w: "error" in w)
    assert word["error"] == "there is no object projects/p/snapshots/gone.tar"
    assert helper.process.wait(10) == 1


def test_the_end_of_stdin_without_a_word_ends_it(home: Home, helpers: Start) -> None:
    helper, _ = helpers(home.plan("1-1"))
    helper.prepared()
    assert helper.end(b"") == 2


def test_it_starts_without_what_is_heavy(home: Home, helpers: Start, tmp_path: Path) -> None:
    seen = tmp_path / "modules"
    extra = f"import atexit, sys; atexit.register(lambda: open({str(seen)!r}, 'w').write(' '.join(sys.modules)))"
    helper, _ = helpers(home.plan("1-1"), extra)
    helper.prepared()
    helper.end()
    loaded = set(seen.read_text().split())
    assert not loaded & {"obstore", "PIL", "torch", "pydantic", "sqlalchemy", "tarfile", "zipfile"}
