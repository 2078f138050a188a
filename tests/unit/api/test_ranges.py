"""Range headers, odd ones too: which bytes they ask for, and what is answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headway.api import ranges

CONTENT = bytes(range(100))


@pytest.mark.parametrize(
    ("header", "size", "found"),
    [
        ("bytes=0-0", 100, [(0, 0)]),
        ("bytes=10-19", 100, [(10, 19)]),
        ("Bytes=10-19", 100, [(10, 19)]),
        ("bytes=90-", 100, [(90, 99)]),
        ("bytes=90-500", 100, [(90, 99)]),
        ("bytes=90-" + "9" * 5000, 100, [(90, 99)]),
        ("bytes=0000000000000000000000000005-6", 100, [(5, 6)]),
        ("bytes=-5", 100, [(95, 99)]),
        ("bytes=-500", 100, [(0, 99)]),
        ("bytes=0-0, 5-6,\t-1", 100, [(0, 0), (5, 6), (99, 99)]),
        ("bytes=,0-0,,", 100, [(0, 0)]),
        # of several, those that can be had
        ("bytes=200-,0-0", 100, [(0, 0)]),
        # understood, and nothing of it is there
        ("bytes=100-", 100, []),
        ("bytes=100-200", 100, []),
        ("bytes=" + "9" * 5000 + "-", 100, []),
        ("bytes=-0", 100, []),
        ("bytes=500-,-0", 100, []),
        ("bytes=0-", 0, []),
        ("bytes=-0", 0, []),
        # all that there is of an empty file: nothing, which no range can say
        ("bytes=-5", 0, None),
        # malformed, or none of ours
        ("", 100, None),
        ("bytes", 100, None),
        ("bytes=", 100, None),
        ("bytes=,", 100, None),
        ("bytes=abc", 100, None),
        ("bytes=-", 100, None),
        ("bytes=5", 100, None),
        ("bytes=5-2", 100, None),
        ("bytes=0-1,5-2", 100, None),
        ("bytes=0-1-2", 100, None),
        ("bytes=--5", 100, None),
        ("bytes=+1-2", 100, None),
        ("bytes=1_0-20", 100, None),
        ("bytes=0x1-0x2", 100, None),
        ("bytes=1.5-2", 100, None),
        ("bytes=\u0661-\u0662", 100, None),
        ("bytes =0-1", 100, None),
        ("bytes=0 - 1", 100, None),
        ("lines=0-1", 100, None),
        ("bytes=" + ",".join("0-0" for _ in range(17)), 100, None),
    ],
)
def test_which_bytes_are_asked_for(header: str, size: int, found: list[tuple[int, int]] | None) -> None:
    assert ranges.wanted(header, size) == found


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "out.bin").write_bytes(CONTENT)
    return TestClient(ranges.RangedFile(tmp_path / "out.bin", headers={"X-Mine": "yes"}))


@pytest.mark.parametrize(
    ("header", "status", "content", "said"),
    [
        ("bytes=10-19", 206, CONTENT[10:20], "bytes 10-19/100"),
        ("bytes=-5", 206, CONTENT[-5:], "bytes 95-99/100"),
        ("bytes=90-500", 206, CONTENT[90:], "bytes 90-99/100"),
        ("bytes=200-,0-0", 206, CONTENT[:1], "bytes 0-0/100"),
        ("bytes=abc", 200, CONTENT, None),
        ("bytes=5-2", 200, CONTENT, None),
        ("lines=1-2", 200, CONTENT, None),
        ("bytes=100-", 416, None, "bytes */100"),
        ("bytes=-0", 416, None, "bytes */100"),
    ],
)
def test_what_is_answered(
    client: TestClient, header: str, status: int, content: bytes | None, said: str | None
) -> None:
    answer = client.get("/", headers={"Range": header})
    assert (answer.status_code, answer.headers.get("content-range")) == (status, said)
    if content is None:
        error = answer.json()["error"]
        assert (error["code"], set(error)) == ("range", {"code", "message", "remedy"})
        assert header in error["message"] and "100 bytes" in error["message"]
    else:
        assert (answer.content, answer.headers["accept-ranges"], answer.headers["x-mine"]) == (content, "bytes", "yes")
        assert answer.headers["content-length"] == str(len(content))


def test_several_come_in_parts(client: TestClient) -> None:
    answer = client.get("/", headers={"Range": "bytes=0-1,98-"})
    assert answer.status_code == 206 and answer.headers["content-type"].startswith("multipart/byteranges; boundary=")
    boundary = answer.headers["content-type"].rpartition("=")[2].encode()
    parts = [part.split(b"\r\n\r\n") for part in answer.content.split(b"--" + boundary)[1:-1]]
    assert [content.removesuffix(b"\r\n") for _, content in parts] == [CONTENT[:2], CONTENT[98:]]
    for (head, _), said in zip(parts, (b"0-1/100", b"98-99/100"), strict=True):
        assert b"Content-Range: bytes " + said in head


@pytest.mark.parametrize(("tag", "status"), [("etag", 206), ("last-modified", 206), ("other", 200), ("weak", 200)])
def test_parts_are_of_the_file_that_if_range_names(client: TestClient, tag: str, status: int) -> None:
    whole = client.get("/").headers
    known = {"other": '"x"', "weak": f"W/{whole['etag']}"}.get(tag) or whole[tag]
    assert client.get("/", headers={"Range": "bytes=0-1", "If-Range": known}).status_code == status
    beyond = client.get("/", headers={"Range": "bytes=500-", "If-Range": known}).status_code
    assert beyond == (416 if status == 206 else 200)
