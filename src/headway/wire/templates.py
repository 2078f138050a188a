"""Job templates."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from headway.wire.base import Answer, Request


class TemplateRequest(Request):
    """A new version of a template."""

    description: str = Field(default="", max_length=1000)
    #: name -> {"default", "help", "choices", "least", "most"}; without a default it must be given at each use
    parameters: dict[str, Any] = {}
    #: fields of a job request; `{name}` in their texts is filled in
    job: dict[str, Any]
    #: digest of an uploaded snapshot that comes along; a use may bring another
    snapshot: str | None = None


class TemplateUse(Request):
    """What fills a template, and what of the job is to be otherwise."""

    parameters: dict[str, Any] = {}
    #: fields of a job request that take the place of the template's
    job: dict[str, Any] = {}


class TemplateView(Answer):
    name: str
    #: 0 for one that headway ships
    version: int
    shipped: bool
    description: str
    parameters: dict[str, Any]
    job: dict[str, Any]
    #: whether a use without code of its own has some
    has_code: bool
    created_by: str
    created_at: datetime | None
