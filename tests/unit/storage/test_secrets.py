from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.storage import secrets


def test_what_is_sealed_comes_back_and_is_not_to_be_read(tmp_path: Path) -> None:
    key = tmp_path / "home" / "secret.key"
    secrets.ensure_key(key)
    sealed = secrets.seal({"secret_access_key": "very-secret", "名": "值"}, key)
    assert "very-secret" not in sealed
    assert secrets.unseal(sealed, key) == {"secret_access_key": "very-secret", "名": "值"}


def test_the_key_is_its_owners_alone_and_made_once(tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: secrets.ensure_key(key), range(16)))
    assert key.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["secret.key"]
    before = key.read_bytes()
    secrets.ensure_key(key)
    assert key.read_bytes() == before


def test_a_changed_text_is_refused_without_being_shown(tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    secrets.ensure_key(key)
    sealed = secrets.seal({"k": "v"}, key)
    with pytest.raises(UsageError) as refused:
        secrets.unseal(sealed[:-4] + "AAAA", key)
    assert sealed[:20] not in str(refused.value)
