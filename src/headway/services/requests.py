"""What jobs, evaluations and endpoints ask for alike, resolved against the record: specs, room, code, data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.errors import NotFoundError, UsageError
from headway.rules import capacity, regions
from headway.rules.datasets import Mode, Reference, parse_reference
from headway.rules.entries import is_entry
from headway.rules.nearest import advice, unknown
from headway.rules.records import Dataset, DatasetVersion, Project, Snapshot, Spec
from headway.services import datastores
from headway.services.context import Services
from headway.store.base import Transaction


def asked(
    tx: Transaction,
    name: str,
    *,
    cpus: float | None = None,
    memory_bytes: int | None = None,
    accelerators: int | None = None,
    accelerator_kind: str | None = None,
) -> Spec:
    """The named spec with what was given instead of its own values. Raises UsageError (unknown_spec): the nearest."""
    found = tx.runs.spec(name)
    if found is None:
        raise unknown("spec", name, [s.name for s in tx.runs.specs()])
    return replace(
        found,
        cpus=found.cpus if cpus is None else cpus,
        memory_bytes=found.memory_bytes if memory_bytes is None else memory_bytes,
        accelerators=found.accelerators if accelerators is None else accelerators,
        accelerator_kind=found.accelerator_kind if accelerator_kind is None else accelerator_kind,
    )


def require_room(tx: Transaction, found: Spec, *, count: int = 1, least: Mapping[str, Any] | None = None) -> None:
    """Raises RefusedError (too_large) when the nodes could never hold `count` of it, or what `least` says."""
    capacity.require_room(found, tx.runs.nodes(), count=count, least=least)


def spec(tx: Transaction, name: str) -> Spec:
    """The named spec, which some node could hold. Raises UsageError (unknown_spec), RefusedError (too_large)."""
    found = asked(tx, name)
    require_room(tx, found)
    return found


def snapshot(tx: Transaction, project: Project, digest: str) -> Snapshot:
    """Raises NotFoundError when the project has no such code snapshot."""
    found = tx.runs.snapshot(project.id, digest)
    if found is None:
        raise NotFoundError(
            f"Project {project.name} has no code snapshot {digest[:12]}.", "Upload it first.", code="snapshot_unknown"
        )
    return found


def dataset(tx: Transaction, project: Project, reference: str) -> tuple[Dataset, DatasetVersion]:
    """The version that `digits@1`, or `digits` (the newest), names.

    Raises UsageError for what is no reference, NotFoundError naming the nearest.
    """
    return _version(tx, project, parse_reference(reference))


def _version(tx: Transaction, project: Project, asked: Reference) -> tuple[Dataset, DatasetVersion]:
    found = tx.products.dataset(project.id, asked.name)
    if found is None:
        known = [d.name for d in tx.products.datasets(project.id)]
        raise NotFoundError(f"Project {project.name} has no dataset {asked.name!r}.", advice(asked.name, known))
    versions = tx.products.dataset_versions(found.id)
    for version in reversed(versions):
        if asked.version in (None, version.version):
            return found, version
    raise NotFoundError(
        f"Dataset {asked.name} has no version {asked.version}.",
        f"Its versions: {', '.join(str(v.version) for v in versions)}." if versions else "It has none yet.",
    )


def datasets(ctx: Services, tx: Transaction, project: Project, references: Sequence[str]) -> list[dict[str, Any]]:
    """The pinned versions as `Run.datasets` holds them.

    `train=digits@1:stream` has it in a folder named train, read by `headway.data`. Raises UsageError, NotFoundError,
    RefusedError (region) where the project's data may not come to lie.
    """
    pinned: list[dict[str, Any]] = []
    for reference in references:
        asked = parse_reference(reference)
        found, version = _version(tx, project, asked)
        use: dict[str, Any] = {"dataset": found.name, "version": version.version, "version_id": version.id}
        if asked.channel not in ("", found.name):
            use["channel"] = asked.channel
        if asked.mode is not Mode.CACHE:
            use["mode"] = asked.mode.value
        pinned.append(use)
    folders = [str(p.get("channel") or p["dataset"]) for p in pinned]
    for name in folders:
        if folders.count(name) > 1:
            raise UsageError(f"Dataset {name} is asked for more than once.", "Name each dataset, or channel, once.")
    if pinned:
        datastores.check_region(ctx, tx, project)
    # what is streamed or read in place comes to lie nowhere
    if any("mode" not in use for use in pinned):
        check_cache_region(ctx, project)
    return pinned


def hold(tx: Transaction, pinned: Sequence[Mapping[str, Any]]) -> None:
    """Nobody removes these versions before the commit. Raises NotFoundError for one that was removed meanwhile."""
    wanted = {int(use["version_id"]): use for use in pinned}
    if not wanted:
        return
    found = {number: tx.products.dataset_version_by_id(number) for number in wanted}
    tx.datasets.share({version.dataset_id for version in found.values() if version is not None})
    for number, use in wanted.items():
        if tx.products.dataset_version_by_id(number) is None:
            raise NotFoundError(f"Dataset {use['dataset']}@{use['version']} was just removed.", "Name another version.")


def check_cache_region(ctx: Services, project: Project) -> None:
    """Raises RefusedError (region) when the project's data may not lie in the nodes' caches."""
    regions.require(project.name, project.regions, ctx.region, "the cache of this platform's nodes")


def check_words(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises UsageError for what no process can be started with."""
    if command and not command[0]:
        raise UsageError("The command begins with an empty word.", "Begin it with a program.")
    for word in (*command, *environment.values()):
        if "\0" in word:
            raise UsageError(f"{word!r} holds a zero byte.", "Take it out.")
    for name in environment:
        if not name or "=" in name or "\0" in name:
            raise UsageError(f"{name!r} is no name of an environment variable.", "Use letters, digits and _.")


def entry(text: str, what: str) -> str:
    """`file.py:Class` as it is. Raises UsageError for any other shape."""
    if not is_entry(text):
        raise UsageError(f"{what}: {text!r} names no class.", f"Write it like {what}.py:Digits.")
    return text
