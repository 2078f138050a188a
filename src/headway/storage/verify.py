"""Checks a file by its kind, without ever running what is in it: the front of `storage.kinds`."""

from __future__ import annotations

from headway.storage.kinds.base import Facts, InvalidError, Rule, inside
from headway.storage.kinds.checks import KINDS, check, kind_of
from headway.storage.kinds.pickles import allowed_pickle, plain_values
from headway.storage.kinds.texts import check_schema
from headway.storage.kinds.torchfiles import LONGEST_HEADER, archive

__all__ = [
    "KINDS",
    "LONGEST_HEADER",
    "Facts",
    "InvalidError",
    "Rule",
    "allowed_pickle",
    "archive",
    "check",
    "check_schema",
    "inside",
    "kind_of",
    "plain_values",
]
