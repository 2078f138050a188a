"""`headway.save_checkpoint`: beside training, with what is shared, at the end, and when it fails."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import headway


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CHECKPOINT_PATH", str(tmp_path / "c"))
    return tmp_path / "c"


def load(path: Path) -> Any:
    return torch.load(path, weights_only=True)


def test_training_may_change_everything_once_the_call_is_back(folder: Path) -> None:
    net = torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(4)).sum().backward()
    optimizer.step()
    history, state = [1, 2], {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    state["history"] = history
    state["random"] = torch.get_rng_state()
    expected = {"w": net.weight.detach().clone(), "m": optimizer.state[net.weight]["exp_avg"].clone()}
    path = headway.save_checkpoint(state, "a.pt", step=1, wait=False)
    with torch.no_grad():
        net.weight.fill_(9)
        optimizer.state[net.weight]["exp_avg"].fill_(9)
    history.append(3)
    headway.flush_checkpoints()
    found = load(path)
    assert torch.equal(found["model"]["weight"], expected["w"])
    assert torch.equal(found["optimizer"]["state"][0]["exp_avg"], expected["m"])
    assert found["history"] == [1, 2]
    net.load_state_dict(found["model"])
    assert isinstance(found["model"], collections.OrderedDict)
    note = json.loads((folder / "a.pt.json").read_text())
    assert 0 < note["blocked_seconds"] <= note["save_seconds"]


@pytest.mark.parametrize("inside_first", [False, True])
def test_what_shares_memory_goes_on_sharing_it_and_is_saved_once(folder: Path, inside_first: bool) -> None:
    whole = torch.arange(1_000_000.0)
    state = {"whole": whole, "tied": whole, "view": whole[10:20], "rows": whole.view(1000, 1000).t()}
    state["parameter"] = torch.nn.Parameter(whole)
    inside = {"inside": collections.deque([whole[5:7]])}
    state = {**inside, **state} if inside_first else {**state, **inside}
    path = headway.save_checkpoint(state, "a.pt", wait=False)
    headway.flush_checkpoints()
    found = torch.load(path, weights_only=False)
    assert path.stat().st_size < 1.1 * whole.nbytes
    found["whole"][10] = -1
    found["whole"][5] = -2
    assert found["view"][0] == -1 and found["tied"][10] == -1 and found["rows"][10, 0] == -1
    assert found["parameter"][10] == -1 and isinstance(found["parameter"], torch.nn.Parameter)
    assert found["inside"][0][0] == -2


def test_many_saves_one_after_another_each_have_their_own_values(folder: Path) -> None:
    weights = torch.zeros(200_000)
    for step in range(8):
        weights.fill_(step)
        # another size in between, so that memory is used again, and not
        extra = torch.full((1 + step % 3,), float(step))
        headway.save_checkpoint({"w": weights, "e": extra}, f"step-{step}.pt", step=step, wait=step % 4 == 0)
    headway.flush_checkpoints()
    for step in range(8):
        found = load(folder / f"step-{step}.pt")
        assert found["w"].unique().tolist() == found["e"].unique().tolist() == [step]
    assert sorted(p.suffix for p in folder.iterdir()) == [".json"] * 8 + [".pt"] * 8


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(3, 3).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.empty(0),
        torch.tensor(3, dtype=torch.bfloat16),
        torch.ones(3, requires_grad=True),
        {"a": (1, [2.5, None, "x", b"y", True])},
    ],
)
def test_every_kind_of_value(folder: Path, value: Any) -> None:
    now = headway.save_checkpoint({"v": value}, "now.pt")
    beside = headway.save_checkpoint({"v": value}, "beside.pt", wait=False)
    headway.flush_checkpoints()
    a, b = (torch.load(p, weights_only=False)["v"] for p in (now, beside))
    if isinstance(value, torch.Tensor):
        assert a.dtype == b.dtype and a.requires_grad == b.requires_grad and a.shape == b.shape
        a, b = a.to_dense(), b.to_dense()
        assert torch.equal(a, b)
    else:
        assert a == b


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_tensors_of_any_device_are_saved_as_the_cpus(folder: Path, device: str) -> None:
    whole = torch.arange(1000.0, device=device)
    path = headway.save_checkpoint({"whole": whole, "view": whole[10:20]}, "a.pt", wait=False)
    whole.zero_()
    headway.flush_checkpoints()
    found = load(path)
    assert found["whole"].device.type == "cpu" and found["whole"].sum() == 499_500
    found["whole"][10] = -1
    assert found["view"][0] == -1


def test_state_that_contains_itself(folder: Path) -> None:
    state: dict[str, Any] = {"list": [1]}
    state["list"].append(state)
    path = headway.save_checkpoint(state, "a.pt", wait=False)
    headway.flush_checkpoints()
    found = torch.load(path, weights_only=False)
    assert found["list"][1] is found


def test_safetensors_by_name(folder: Path) -> None:
    from safetensors.torch import load_file

    path = headway.save_checkpoint({"w": torch.ones(3)}, "a.safetensors", wait=False)
    headway.flush_checkpoints()
    assert load_file(path)["w"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["", "a/b.pt", "../a.pt", "a\0.pt"])
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(ValueError, match="not a plain file name"):
        headway.save_checkpoint(b"x", name)


def test_what_fails_in_the_background_is_raised_at_the_next_call_once(folder: Path) -> None:
    unpicklable = {"f": threading.Event}
    headway.save_checkpoint(unpicklable, "good.pt", wait=False)
    headway.flush_checkpoints()
    (folder / "taken.pt").mkdir()
    headway.save_checkpoint({"w": torch.ones(1)}, "taken.pt", wait=False)
    with pytest.raises(OSError, match=r"taken\.pt could not be saved: Is a directory"):
        headway.save_checkpoint({"w": torch.ones(1)}, "next.pt")
    headway.flush_checkpoints()
    assert headway.save_checkpoint({"w": torch.ones(1)}, "next.pt").exists()
    assert not [p for p in folder.iterdir() if "unfinished" in p.name]


def script(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60
    )


def test_the_interpreter_exits_after_it_is_written(folder: Path) -> None:
    code = "import headway, torch; headway.save_checkpoint({'w': torch.ones(5_000_000)}, 'a.pt', wait=False)"
    done = script(code)
    assert done.returncode == 0, done.stderr
    assert load(folder / "a.pt")["w"].sum() == 5_000_000


def test_a_script_does_not_end_well_when_its_last_checkpoint_was_not_saved(folder: Path) -> None:
    (folder / "a.pt").mkdir(parents=True)
    code = "import headway; headway.save_checkpoint(b'x', 'a.pt', wait=False); print('bye')"
    done = script(code)
    assert done.returncode == 1 and done.stdout == "bye\n"
    assert "a.pt could not be saved: Is a directory" in done.stderr and "Traceback" not in done.stderr


def test_a_fork_does_not_wait_for_its_parents_save(folder: Path) -> None:
    code = """
import headway, os, torch
headway.save_checkpoint({'w': torch.ones(5_000_000)}, 'a.pt', wait=False)
if os.fork() == 0:
    headway.flush_checkpoints()
    headway.save_checkpoint(b'child', 'child.bin')
    os._exit(0)
assert os.wait()[1] == 0
"""
    done = script(code)
    assert done.returncode == 0, done.stderr
    assert (folder / "child.bin").read_bytes() == b"child" and load(folder / "a.pt")["w"].shape == (5_000_000,)


def test_a_script_that_asks_whether_to_stop_survives_sigterm_to_save(tmp_path: Path, folder: Path) -> None:
    code = """
import headway, time
assert not headway.should_stop()
print("ready", flush=True)
while not headway.should_stop():
    time.sleep(0.005)
headway.save_checkpoint(b'state', 'last.bin', wait=False)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "HEADWAY_STOP_FILE": str(tmp_path / "stop")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert (folder / "last.bin").read_bytes() == b"state"


def test_a_kill_in_the_middle_leaves_nothing_under_the_name(folder: Path) -> None:
    code = """
import headway, os, signal, threading, torch
headway.save_checkpoint({'w': torch.ones(50_000_000)}, 'a.pt', wait=False)
while not any('unfinished' in n and os.path.getsize(f"{os.environ['CHECKPOINT_PATH']}/{n}") for n in
              os.listdir(os.environ['CHECKPOINT_PATH'])):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert script(code).returncode == -signal.SIGKILL
    assert not (folder / "a.pt").exists()
