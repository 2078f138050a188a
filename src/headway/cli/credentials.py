"""Credentials of connections: asked for without an echo, or read from a file or from variables; never given as words,
which others on the machine could read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from headway.errors import UsageError

#: key -> whether it must be there, and the environment variables that the cloud's own tools read it from
_Keys = Mapping[str, tuple[bool, tuple[str, ...]]]
KINDS: Mapping[str, _Keys] = {
    "s3": {
        "access_key_id": (True, ("AWS_ACCESS_KEY_ID",)),
        "secret_access_key": (True, ("AWS_SECRET_ACCESS_KEY",)),
        "session_token": (False, ("AWS_SESSION_TOKEN",)),
    },
    "oss": {
        "access_key_id": (True, ("OSS_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_ID")),
        "secret_access_key": (True, ("OSS_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_ACCESS_KEY_SECRET")),
        "session_token": (False, ("OSS_SESSION_TOKEN", "ALIBABA_CLOUD_SECURITY_TOKEN")),
    },
    "obs": {
        "access_key_id": (True, ("OBS_ACCESS_KEY_ID", "HUAWEICLOUD_SDK_AK")),
        "secret_access_key": (True, ("OBS_SECRET_ACCESS_KEY", "HUAWEICLOUD_SDK_SK")),
        "session_token": (False, ("OBS_SECURITY_TOKEN", "HUAWEICLOUD_SDK_SECURITY_TOKEN")),
    },
    "gcs": {"service_account_key": (True, ("GOOGLE_SERVICE_ACCOUNT_KEY",))},
    "azure": {
        "account_name": (True, ("AZURE_STORAGE_ACCOUNT_NAME",)),
        "account_key": (False, ("AZURE_STORAGE_ACCOUNT_KEY",)),
        "sas_token": (False, ("AZURE_STORAGE_SAS_TOKEN",)),
    },
}


def given(kind: str, file: Path | None, *, from_env: bool) -> dict[str, str] | None:
    """None: nothing was given. file: JSON; "-" is standard input. Raises UsageError, which repeats no value."""
    keys = KINDS[kind]
    if file is not None:
        return _from_file(keys, file)
    if from_env:
        return _from_variables(keys)
    return _asked(keys) if sys.stdin.isatty() else None


def _from_file(keys: _Keys, file: Path) -> dict[str, str]:
    try:
        found = json.loads(sys.stdin.read() if str(file) == "-" else text(file))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise UsageError(f"{file} holds no JSON object of texts.", f"Its keys are {', '.join(keys)}.")
    return found


def _from_variables(keys: _Keys) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, (must, names) in keys.items():
        value = next((os.environ[name] for name in names if os.environ.get(name)), None)
        if value is not None:
            found[key] = value
        elif must:
            raise UsageError(f"No variable has the {key}: {', '.join(names)}.", "Set it, or give --secret FILE.")
    return found


def _asked(keys: _Keys) -> dict[str, str] | None:
    found = {}
    for key, (must, _) in keys.items():
        words = key if must else f"{key} (may be empty)"
        found[key] = typer.prompt(words, default="", hide_input=True, show_default=False)
    return {key: value for key, value in found.items() if value} or None


def text(path: Path) -> str:
    """Raises UsageError."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}).", "Give a readable text file.") from None
