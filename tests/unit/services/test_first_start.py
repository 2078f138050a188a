from __future__ import annotations

import json
import stat
from pathlib import Path

from headway.services import access, first_start
from headway.services.context import Services
from headway.testing.services import Clock


def ensure(ctx: Services, home: Path) -> None:
    first_start.ensure(ctx, admin_file=home / "admin.token", gateway_file=home / "gateway.token")


def bearer(file: Path) -> str:
    return f"Bearer {file.read_text().strip()}"


def test_the_tokens_work_and_only_their_owner_may_read_them(ctx: Services, tmp_path: Path) -> None:
    admin, gateway = tmp_path / "admin.token", tmp_path / "gateway.token"
    assert access.authenticate(ctx, bearer(admin)).is_admin
    assert access.authenticate(ctx, bearer(gateway)).is_service
    for file in (admin, gateway):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text().startswith("hw_")


def test_the_record_holds_no_secret(ctx: Services, tmp_path: Path) -> None:
    secret = (tmp_path / "admin.token").read_text().strip()
    with ctx.store.read() as tx:
        user = tx.people.user("admin")
        assert user is not None
        assert [t.hash for t in tx.people.tokens(user.id)] == [access.digest(secret)]
    raw = b"".join(p.read_bytes() for p in tmp_path.glob("headway.db*"))
    assert secret.encode() not in raw


def test_a_second_start_changes_nothing(ctx: Services, tmp_path: Path) -> None:
    before = {f: f.read_bytes() for f in tmp_path.glob("*.token")}
    ensure(ctx, tmp_path)
    assert {f: f.read_bytes() for f in tmp_path.glob("*.token")} == before
    with ctx.store.read() as tx:
        assert [u.name for u in tx.people.users()] == ["admin", "gateway"]
        assert [s.name for s in tx.runs.specs()] == ["small", "medium", "large", "gpu"]
        assert [p.name for p in tx.people.projects()] == ["default"]


def test_a_lost_token_is_made_anew_and_the_old_one_is_worthless(ctx: Services, tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    old = bearer(file)
    file.unlink()
    ensure(ctx, tmp_path)
    assert bearer(file) != old
    assert access.authenticate(ctx, bearer(file)).is_admin
    with ctx.store.read() as tx:
        found = tx.people.by_token(access.digest(old.removeprefix("Bearer ")))
        assert found is not None
        assert found[1].revoked_at is not None


def test_specs_that_were_changed_by_hand_stay(ctx: Services, tmp_path: Path, clock: Clock) -> None:
    with ctx.store.begin() as tx:
        small = tx.runs.spec("small")
        assert small is not None
        tx.runs.put_spec(type(small)(**{**vars(small), "price_hour": 7}))
    ensure(ctx, tmp_path)
    with ctx.store.read() as tx:
        found = tx.runs.spec("small")
        assert found is not None
        assert found.price_hour == 7


def test_a_quota_whose_file_was_lost_is_written_again(ctx: Services, tmp_path: Path) -> None:
    with ctx.store.begin() as tx:
        project = tx.people.project("default")
        assert project is not None
        tx.people.change_project(project.id, quota_files=96)
    ensure(ctx, tmp_path)
    kept = json.loads((ctx.project_folder("default") / "quota.json").read_text())
    assert kept == {"bytes": None, "files": 96}
