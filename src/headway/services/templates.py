"""Job templates: saved, versioned, shared in a project; those that headway ships stand beside them."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from typing import Any

from pydantic import ValidationError

from headway import templates as shipped
from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import templates as rules
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.rules.records import Project, Template, TemplateVersion
from headway.services import access, jobs, requests, snapshots
from headway.services.context import Services, moment
from headway.store.base import Transaction
from headway.wire.people import NAME
from headway.wire.runs import JobRequest, RunView
from headway.wire.templates import TemplateRequest, TemplateUse, TemplateView

#: of a job request, what belongs to one submit and to no template
_NOT_IN_TEMPLATES = ("key", "snapshot", "template")


def listing(ctx: Services, caller: Caller, project: str) -> list[TemplateView]:
    """The newest version of each: the project's own by name, then those that headway ships."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        own = [_view(tx, found, tx.templates.versions(found.id)[-1]) for found in tx.templates.listing(home.id)]
    return own + [_shipped_view(name) for name in shipped.NAMES]


def get(ctx: Services, caller: Caller, project: str, reference: str) -> TemplateView:
    """The template that `NAME` (the newest version) or `NAME@VERSION` names. Raises NotFoundError."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = _find(tx, home, reference)
        return _shipped_view(found) if isinstance(found, str) else _view(tx, *found)


def versions(ctx: Services, caller: Caller, project: str, name: str) -> list[TemplateView]:
    """Newest first."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = _find(tx, home, name)
        if isinstance(found, str):
            return [_shipped_view(found)]
        return [_view(tx, found[0], v) for v in reversed(tx.templates.versions(found[0].id))]


def save(ctx: Services, caller: Caller, project: str, name: str, request: TemplateRequest) -> TemplateView:
    """A new version; the same content as the newest makes none.

    Raises UsageError (a gap without a parameter, a field that no job has), RefusedError (a shipped template's name).
    """
    if not re.match(NAME, name):
        raise UsageError(f"{name!r} is no name of a template.", "Use lower-case letters, digits, and . _ - inside.")
    if name in shipped.NAMES:
        raise RefusedError(f"{name} is a template that headway ships.", "Save yours under another name.", code="taken")
    raw = {"description": request.description, "parameters": request.parameters, "job": request.job}
    body = rules.parse(raw, name)
    _check_job(name, body)
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        code = requests.snapshot(tx, home, request.snapshot) if request.snapshot else None
        now = ctx.clock()
        template = tx.templates.get(home.id, name) or tx.templates.add(project_id=home.id, name=name, now=now)
        before = tx.templates.versions(template.id)
        newest = before[-1] if before else None
        content, code_id = body.to_json(), code.id if code else None
        if newest is None or (newest.body, newest.snapshot_id) != (content, code_id):
            newest = tx.templates.add_version(
                template_id=template.id,
                version=newest.version + 1 if newest else 1,
                description=body.description,
                body=content,
                snapshot_id=code_id,
                created_by=caller.user_id,
                created_at=now,
            )
        return _view(tx, template, newest)


def remove(ctx: Services, caller: Caller, project: str, name: str) -> None:
    """With all versions; jobs that were made of it stay. Raises RefusedError for one that headway ships."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        found = _find(tx, home, name)
        if isinstance(found, str):
            raise RefusedError(f"{name} is a template that headway ships.", "It cannot be removed.", code="shipped")
        tx.templates.remove(found[0].id)


def resolve(ctx: Services, caller: Caller, project: str, reference: str, use: TemplateUse) -> JobRequest:
    """The job request that a use makes. Raises UsageError, NotFoundError, RefusedError, ForbiddenError."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        found = _find(tx, home, reference)
        body, name, code = _body(tx, found)
    fields = rules.fill(body, use.parameters, use.job, f"template {reference}")
    request = _request(reference, {**fields, "template": name})
    if request.snapshot is None and code is not None:
        return request.model_copy(update={"snapshot": code})
    if request.snapshot is None and isinstance(found, str) and (digest := _push_script(ctx, caller, project, found)):
        return request.model_copy(update={"snapshot": digest})
    return request


def submit(ctx: Services, caller: Caller, project: str, reference: str, use: TemplateUse) -> RunView:
    """Submits the job that a use makes. Raises as `resolve` and `jobs.submit` do."""
    return jobs.submit(ctx, caller, project, resolve(ctx, caller, project, reference, use))


def _find(tx: Transaction, home: Project, reference: str) -> str | tuple[Template, TemplateVersion]:
    """A shipped template's name, or the project's template and the version that is meant."""
    name, at, number = reference.partition("@")
    own = tx.templates.get(home.id, name)
    if own is None and name in shipped.NAMES and (not at or number == "0"):
        return name
    if own is None:
        known = [t.name for t in tx.templates.listing(home.id)] + list(shipped.NAMES)
        raise NotFoundError(f"Project {home.name} has no template {reference!r}.", advice(name, known))
    found = tx.templates.versions(own.id)
    for version in reversed(found):
        if not at or str(version.version) == number:
            return own, version
    raise NotFoundError(
        f"Template {name} has no version {number!r}.", f"Its versions: {', '.join(str(v.version) for v in found)}."
    )


def _body(tx: Transaction, found: str | tuple[Template, TemplateVersion]) -> tuple[rules.Body, str, str | None]:
    """(body, "name@version", digest of its code)."""
    if isinstance(found, str):
        body = shipped.shipped(found)
        assert body is not None
        return body, f"{found}@0", None
    template, version = found
    code = tx.runs.snapshot_by_id(version.snapshot_id) if version.snapshot_id is not None else None
    return rules.parse(version.body, template.name), f"{template.name}@{version.version}", code.digest if code else None


def _check_job(name: str, body: rules.Body) -> None:
    """Raises UsageError when what the template makes could be no job, as far as its defaults tell."""
    for key in _NOT_IN_TEMPLATES:
        if key in body.job:
            raise UsageError(f"{name}: job.{key} belongs to one submit, not to a template.", "Leave it out.")
    stand_ins = {n: 1 for n, p in body.parameters.items() if p.required}
    bare = rules.Body(body.description, {n: p for n, p in body.parameters.items() if not p.required}, body.job)
    known = {n: rules.Parameter(required=False, default=v) for n, v in stand_ins.items()}
    filled = rules.fill(rules.Body(bare.description, {**bare.parameters, **known}, bare.job), {}, {}, name)
    _request(name, filled)


def _request(where: str, fields: dict[str, Any]) -> JobRequest:
    try:
        return JobRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise UsageError(
                f"{where}: a job has no {path!r}.", advice(path, list(JobRequest.model_fields)), code="unknown_key"
            ) from error
        raise UsageError(f"{where}: {path}: {first['msg']}.", "Correct it.") from error


def _push_script(ctx: Services, caller: Caller, project: str, name: str) -> str | None:
    """Digest of a snapshot of the shipped template's script, put into the project; None where it has none."""
    script = shipped.script(name)
    if script is None:
        return None
    content = script.read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo(script.name)
        entry.size, entry.mode = len(content), 0o644
        tar.addfile(entry, io.BytesIO(content))
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    buffer.seek(0)
    snapshots.put(ctx, caller, project, digest, buffer, commit=None, dirty=False)
    return digest


def _view(tx: Transaction, template: Template, version: TemplateVersion) -> TemplateView:
    author = tx.people.user_by_id(version.created_by)
    return TemplateView(
        name=template.name,
        version=version.version,
        shipped=False,
        description=version.description,
        parameters=version.body.get("parameters", {}),
        job=version.body.get("job", {}),
        has_code=version.snapshot_id is not None,
        created_by=author.name if author else "",
        created_at=moment(version.created_at),
    )


def _shipped_view(name: str) -> TemplateView:
    body = shipped.shipped(name)
    assert body is not None
    raw = body.to_json()
    return TemplateView(
        name=name,
        version=0,
        shipped=True,
        description=body.description,
        parameters=raw["parameters"],
        job=raw["job"],
        has_code=shipped.script(name) is not None,
        created_by="headway",
        created_at=None,
    )
