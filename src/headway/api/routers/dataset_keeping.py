"""Dataset versions and bytes that are wanted no more."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import dataset_gc, dataset_removal
from headway.wire.datasets import GcRequest, GcView, RemovedView

router = APIRouter(prefix="/projects/{project}/datasets", tags=["data"])


@router.delete("/{name}/versions/{version}")
def remove_version(ctx: Ctx, who: Who, project: str, name: str, version: int) -> RemovedView:
    """Removes a version that nothing refers to. Its bytes go with the next collection of garbage."""
    return dataset_removal.remove(ctx, who, project, name, version)


@router.post("/gc")
def collect_garbage(ctx: Ctx, who: Who, project: str, request: GcRequest) -> GcView:
    """Says what lies in the store and belongs to no version; removes it unless that is a dry run. Owners only."""
    return dataset_gc.collect(ctx, who, project, request)
