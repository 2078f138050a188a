"""A push over HTTP, from its opening to a version that is read back."""

from __future__ import annotations

import hashlib
import io
import tarfile

import httpx

from headway.rules.datasets import digest

CONTENT = b"hello" * 100
LARGE = b"part" * 1000


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_push_over_http(admin: httpx.Client) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("a/x")
        member.size = len(CONTENT)
        tar.addfile(member, io.BytesIO(CONTENT))
    pack = out.getvalue()
    push = admin.post("/projects/default/pushes", json={"name": "sent"}).json()
    assert push["direct"] is False
    at = f"/projects/default/pushes/{push['id']}"
    wrong = admin.put(f"{at}/packs/{'0' * 64}", content=pack)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "checksum")
    assert admin.put(f"{at}/packs/{sha(pack)}", content=pack).json() == {"sha256": sha(pack), "bytes": len(pack)}
    assert admin.put(f"{at}/parts/{sha(LARGE)}", content=LARGE).status_code == 200
    large = {"sha256": sha(LARGE), "bytes": len(LARGE), "parts": [sha(LARGE)]}
    assert admin.post(f"{at}/large", json={"files": [large]}).status_code == 204
    asked = {"contents": [sha(b"no"), sha(CONTENT), sha(LARGE)], "parts": [sha(LARGE)]}
    assert admin.post(f"{at}/known", json=asked).json() == {"contents": [1, 2], "parts": [0]}
    rows = [("a/x", len(CONTENT), sha(CONTENT)), ("large", len(LARGE), sha(LARGE))]
    assert admin.post(f"{at}/rows", json={"start": 0, "rows": rows}).status_code == 204
    whole = {"files": 2, "bytes": len(CONTENT) + len(LARGE), "digest": digest(rows)}
    view = admin.post(f"{at}/publish", json=whole).json()
    assert (view["name"], view["version"], view["sent_bytes"]) == ("sent", 1, len(pack) + len(LARGE))
    assert admin.post(f"{at}/publish", json=whole).json() == view
    version = "/projects/default/datasets/sent/versions/1"
    for path, content in (("a/x", CONTENT), ("large", LARGE)):
        answer = admin.get(f"{version}/content", params={"path": path}, headers={"Range": "bytes=3-8"})
        assert (answer.status_code, answer.content) == (206, content[3:9])
    assert admin.get(f"/projects/default/parts/{sha(LARGE)}").content == LARGE
    checked = admin.post(f"{version}/verify", json={}).json()
    assert (checked["read_files"], checked["faulty"]) == (2, 0)
