"""What all wire models share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Request(BaseModel):
    """Asked of the API: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """Given by the API: a client ignores keys that a newer server has added."""

    model_config = ConfigDict(extra="ignore", from_attributes=True)


class ErrorBody(Answer):
    code: str
    message: str
    remedy: str = ""


class Problem(Answer):
    """The one shape of an error."""

    error: ErrorBody
