from __future__ import annotations

import collections
import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from headway.storage.verify import InvalidError, allowed_pickle, check


def state() -> dict[str, object]:
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(4)).sum().backward()
    optimizer.step()
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "p": net.weight}


def test_what_torch_saves_is_valid(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "a.pt")
    assert check(tmp_path / "a.pt", "torch")["format"] == "torch"


@pytest.mark.parametrize("keep", [0, 10, 500, -1])
def test_a_truncated_torch_file_is_unfinished(tmp_path: Path, keep: int) -> None:
    torch.save(state(), tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:keep])
    with pytest.raises(InvalidError) as fault:
        check(tmp_path / "a.pt", "torch")
    assert fault.value.unfinished


def test_a_flipped_byte_in_a_tensor(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(1000)}, tmp_path / "a.pt")
    content = bytearray((tmp_path / "a.pt").read_bytes())
    at = content.index(bytes(torch.arange(500, 510).numpy().tobytes()))
    content[at] ^= 1
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(InvalidError, match="CRC"):
        check(tmp_path / "a.pt", "torch")


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/headway-evil",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("thing", [Evil(), collections.Counter("a"), Path("x")])
def test_foreign_globals_are_refused_and_never_run(tmp_path: Path, thing: object, protocol: int) -> None:
    content = pickle.dumps({"model": thing}, protocol)
    with pytest.raises(InvalidError, match="Its pickle names"):
        allowed_pickle(content)
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", content)
    with pytest.raises(InvalidError):
        check(tmp_path / "a.pt", "torch")
    assert not os.path.exists("/tmp/headway-evil")


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8c\x02os\x8c\x06system\x8c\x0bcollections\x8c\x0bOrderedDict00\x93.",
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93.",
        b"(S'true'\nios\nsystem\n.",
        b"garbage",
        b"",
    ],
)
def test_tricks_with_the_stack(content: bytes) -> None:
    with pytest.raises(InvalidError):
        allowed_pickle(content)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_plain_values_are_allowed(protocol: int) -> None:
    allowed_pickle(pickle.dumps(collections.OrderedDict(a=[1, 2.5, None, True, (1, 2)], b={"x": b"y"}), protocol))


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(3, 4), "b": torch.zeros(2, dtype=torch.int64)}, path)
    assert check(path, "safetensors")["tensors"] == 2
    whole = path.read_bytes()
    for keep in (0, 4, 30, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(InvalidError) as fault:
            check(path, "safetensors")
        assert fault.value.unfinished
    path.write_bytes(whole + b"x")
    with pytest.raises(InvalidError) as fault:
        check(path, "safetensors")
    assert not fault.value.unfinished


def test_images_are_decoded_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.effect_noise((64, 64), 50).save(path)
    assert check(path, "image")["width"] == 64
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InvalidError):
        check(path, "image")
    path.write_bytes(b"no image")
    with pytest.raises(InvalidError, match="not an image"):
        check(path, "image")


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"a": Infinity}', "[" * 100_000])
def test_what_is_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(InvalidError):
        check(tmp_path / "a", "json")


def test_a_tar_has_an_end(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for n in range(3):
            entry = tarfile.TarInfo(f"f{n}")
            entry.size = 1000
            archive.addfile(entry, io.BytesIO(b"x" * 1000))
    path = tmp_path / "a.tar"
    path.write_bytes(buffer.getvalue())
    assert check(path, "tar")["members"] == 3
    for keep in (0, 100, 512, 600, 1536, 3 * 1536):
        path.write_bytes(buffer.getvalue()[:keep])
        with pytest.raises(InvalidError):
            check(path, "tar")


def test_links_and_folders_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("/etc/passwd")
    for name in ("l", ".", "missing"):
        with pytest.raises(InvalidError):
            check(tmp_path / name, "file")
    with pytest.raises(ValueError, match="unknown kind"):
        check(tmp_path, "nonsense")
