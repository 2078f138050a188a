"""Job templates."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import previews, templates
from headway.wire.runs import DryRunView, RunView
from headway.wire.templates import TemplateRequest, TemplateUse, TemplateView

router = APIRouter(prefix="/projects/{project}/templates", tags=["templates"])


@router.get("")
def list_templates(ctx: Ctx, who: Who, project: str) -> list[TemplateView]:
    """The newest version of each template: the project's own, then those that headway ships."""
    return templates.listing(ctx, who, project)


@router.get("/{reference}")
def template(ctx: Ctx, who: Who, project: str, reference: str) -> TemplateView:
    """One template. `reference`: `NAME`, or `NAME@VERSION`."""
    return templates.get(ctx, who, project, reference)


@router.get("/{reference}/versions")
def template_versions(ctx: Ctx, who: Who, project: str, reference: str) -> list[TemplateView]:
    """Every version, newest first."""
    return templates.versions(ctx, who, project, reference)


@router.put("/{reference}")
def save_template(ctx: Ctx, who: Who, project: str, reference: str, request: TemplateRequest) -> TemplateView:
    """Saves a new version; the same content as the newest makes none."""
    return templates.save(ctx, who, project, reference, request)


@router.delete("/{reference}")
def remove_template(ctx: Ctx, who: Who, project: str, reference: str) -> None:
    """Removes a template with all its versions; jobs that were made of it stay."""
    templates.remove(ctx, who, project, reference)


@router.post("/{reference}/jobs")
def submit_template(
    ctx: Ctx, who: Who, project: str, reference: str, request: TemplateUse, dry_run: bool = False
) -> RunView | DryRunView:
    """Submits the job that the template makes. With `dry_run` it only says what that would do."""
    if dry_run:
        return previews.submit(ctx, who, project, templates.resolve(ctx, who, project, reference, request))
    return templates.submit(ctx, who, project, reference, request)
