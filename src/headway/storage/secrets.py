"""Connections' secrets: encrypted in the record and in launch plans, opened by a key that lies in a file.

The key file is made on the first start, readable by its owner alone. Whoever has record and key has the secrets; a
copy of the record alone gives none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import UsageError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


def ensure_key(file: Path) -> None:
    """Makes the key file when there is none. Several processes may do so at once: one key stays."""
    from cryptography.fernet import Fernet

    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(3).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as out:
            out.write(Fernet.generate_key() + b"\n")
            out.flush()
            os.fsync(out.fileno())
        try:
            # a link, not a rename: it never takes the place of a key that is in use
            os.link(temporary, file)
        except FileExistsError:
            pass
    finally:
        temporary.unlink()


def seal(secret: Mapping[str, str], key: Path) -> str:
    """The encrypted text of `secret`. Raises UsageError for a key file that is none."""
    return _fernet(key).encrypt(json.dumps(dict(secret)).encode()).decode()


def unseal(sealed: str, key: Path) -> dict[str, str]:
    """What was sealed. Raises UsageError when this key does not open it."""
    from cryptography.fernet import InvalidToken

    try:
        found: dict[str, str] = json.loads(_fernet(key).decrypt(sealed.encode()))
    except InvalidToken:
        raise UsageError(
            f"The key in {key} does not open this connection's secret.",
            "Put back the key file of the home that the secret was saved in, or save the connection's secret again.",
        ) from None
    return found


def _fernet(file: Path) -> Fernet:
    from cryptography.fernet import Fernet

    try:
        return Fernet(file.read_bytes().strip())
    except OSError as error:
        raise UsageError(
            f"The key file {file} cannot be read: {error.strerror}.", "Correct the setting secret_key."
        ) from None
    except ValueError:
        raise UsageError(f"{file} holds no key.", "Put back the key file of this home.") from None
