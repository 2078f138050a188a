"""Checkpoints that are folders. Those of DeepSpeed are fakes by its documented file names; the others are real."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headway.storage.folders import check_folder
from headway.storage.publish import content_digest, publish_tree, published_key, remove, verify_folder
from headway.storage.quota import ProjectQuota
from headway.storage.verify import InvalidError


def indexed(folder: Path) -> None:
    """As `save_pretrained` shards a model."""
    folder.mkdir(parents=True)
    shards = {"model-00001-of-00002.safetensors": "a", "model-00002-of-00002.safetensors": "b"}
    for shard, tensor in shards.items():
        save_file({tensor: torch.ones(64)}, folder / shard)
    index = {"metadata": {"total_size": 512}, "weight_map": {t: s for s, t in shards.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")


def distributed(folder: Path) -> None:
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        state = {"model": {"w": torch.arange(1000.0), "b": torch.ones(3)}, "step": 7, "list": [1, 2]}
        dcp.save(state, checkpoint_id=str(folder))
    finally:
        dist.destroy_process_group()


class Foreign:
    """What only the trainer's own code can read."""


def fake_deepspeed(folder: Path, *, latest: bool = True) -> None:
    """Two data-parallel ranks, one model-parallel one: the files of ZeRO 2 by their documented names."""
    tag = folder / "global_step10" if latest else folder
    tag.mkdir(parents=True)
    states = {"module": {"w": torch.ones(8)}, "dp_world_size": 2, "mp_world_size": 1, "args": Foreign()}
    torch.save(states, tag / "mp_rank_00_model_states.pt")
    for rank in range(2):
        part = {"optimizer_state_dict": {"m": torch.zeros(4)}, "ds_version": "0", "x": Foreign()}
        torch.save(part, tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    if latest:
        (folder / "latest").write_text("global_step10")
        (folder / "zero_to_fp32.py").write_text("print()")


def transformers(folder: Path) -> None:
    """As Transformers' Trainer leaves a checkpoint of a small model."""
    folder.mkdir(parents=True)
    save_file({"a": torch.ones(64)}, folder / "model.safetensors")
    torch.save({"state": {}, "x": Foreign()}, folder / "optimizer.pt")
    (folder / "trainer_state.json").write_text('{"global_step": 1000}')


Make = Callable[[Path], None]
MAKERS: dict[str, Make] = {
    "safetensors_index": indexed,
    "distributed": distributed,
    "deepspeed": fake_deepspeed,
    "folder": transformers,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_whole_folder_is_published_as_what_it_is(tmp_path: Path, kind: str) -> None:
    source, target = tmp_path / "w" / "step-10", tmp_path / "p" / "jobs/1/checkpoints/step-10"
    MAKERS[kind](source)
    (source / ".hidden").write_text("not taken")
    found = check_folder(source)
    assert found.kind == kind
    quota = ProjectQuota(tmp_path / "p")
    made = publish_tree(source, target, outputs=found.outputs, quota=quota)
    files = {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()} - {".hidden"}
    assert {f.name for f in made.files} == files
    assert verify_folder(target).manifest["key"] == content_digest(made.files) == published_key(target)
    assert quota.usage()[1] == len(files) + 1
    again = publish_tree(source, target, outputs=found.outputs, quota=quota)
    assert again.found and quota.usage()[1] == len(files) + 1
    # what was published is a folder of that kind itself, and taken away it gives its bytes back
    assert check_folder(target).kind == kind
    assert remove(target, quota=quota)
    assert quota.usage() == (0, 0) and list(target.parent.iterdir()) == []


@pytest.mark.parametrize("kind", MAKERS)
def test_each_file_that_is_missing_or_cut_is_found(tmp_path: Path, kind: str) -> None:
    MAKERS[kind](tmp_path / "whole")
    for output in check_folder(tmp_path / "whole").outputs:
        name = output["name"]
        required = name.endswith((".distcp", ".index.json")) or name in (".metadata", "latest")
        if output["kind"] in ("any", "json") and not required:
            continue
        path = tmp_path / "whole" / name
        content = path.read_bytes()
        if kind != "folder" and name != "latest":
            path.rename(tmp_path / "aside")
            with pytest.raises(InvalidError) as fault:
                check_folder(tmp_path / "whole")
            assert fault.value.unfinished
            (tmp_path / "aside").rename(path)
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(InvalidError) as fault:
            check_folder(tmp_path / "whole")
        assert fault.value.unfinished, (name, fault.value.reason)
        path.write_bytes(content)
    check_folder(tmp_path / "whole")


def test_a_flipped_byte_in_a_distributed_tensor(tmp_path: Path) -> None:
    distributed(tmp_path / "d")
    (part,) = (tmp_path / "d").glob("*.distcp")
    content = bytearray(part.read_bytes())
    content[content.index(torch.arange(500.0, 504.0).numpy().tobytes())] ^= 1
    part.write_bytes(content)
    with pytest.raises(InvalidError, match=r"__0_0\.distcp.*CRC"):
        check_folder(tmp_path / "d")


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/headway-evil-folder",)


def test_metadata_is_read_and_never_run(tmp_path: Path) -> None:
    distributed(tmp_path / "d")
    (tmp_path / "d" / ".metadata").write_bytes(pickle.dumps({"storage_data": Evil()}))
    check_folder(tmp_path / "d")
    (tmp_path / "d" / ".metadata").write_bytes(pickle.dumps([Evil()]))
    with pytest.raises(InvalidError, match="not the metadata"):
        check_folder(tmp_path / "d")
    outside = {"relative_path": "../../secret", "offset": 0, "length": 5}
    (tmp_path / "d" / ".metadata").write_bytes(pickle.dumps(outside))
    with pytest.raises(InvalidError, match="does not say"):
        check_folder(tmp_path / "d")
    assert not os.path.exists("/tmp/headway-evil-folder")


def test_a_rank_that_has_not_saved_is_named(tmp_path: Path) -> None:
    fake_deepspeed(tmp_path / "s", latest=False)
    (tmp_path / "s" / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    with pytest.raises(InvalidError, match="rank 1 did not save"):
        check_folder(tmp_path / "s")


def test_a_tensor_that_its_shard_lacks(tmp_path: Path) -> None:
    indexed(tmp_path / "s")
    save_file({"other": torch.ones(64)}, tmp_path / "s" / "model-00002-of-00002.safetensors")
    with pytest.raises(InvalidError, match=r"lacks b, which model\.safetensors\.index\.json says"):
        check_folder(tmp_path / "s")


@pytest.mark.parametrize("files", [[], ["events.out.tfevents.1"], ["notes.txt", "sub/data.csv"]])
def test_a_folder_without_weights_is_no_checkpoint(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / name).write_text("x")
    with pytest.raises(InvalidError, match="without any weights"):
        check_folder(tmp_path / "f")


def test_links_lead_nowhere(tmp_path: Path) -> None:
    indexed(tmp_path / "s")
    shard = tmp_path / "s" / "model-00002-of-00002.safetensors"
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidError, match="is missing"):
        check_folder(tmp_path / "s")


def test_what_changed_meanwhile_stays(tmp_path: Path) -> None:
    transformers(tmp_path / "s")
    target = tmp_path / "p" / "jobs/1/checkpoints/s"
    publish_tree(tmp_path / "s", target, outputs=check_folder(tmp_path / "s").outputs)
    assert not remove(target, quota=None, still=lambda: False)
    assert target.is_dir()
    assert not remove(tmp_path / "none", quota=None)
