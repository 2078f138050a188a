"""What torch.save writes: a zip archive with a pickle and the bytes of each tensor."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

from headway.storage.kinds.base import BLOCK, Facts, InvalidError, Rule
from headway.storage.kinds.pickles import allowed_pickle

#: bytes of a data.pkl or a safetensors header
LONGEST_HEADER = 256 << 20


def torch(path: Path, rule: Rule) -> Facts:
    facts, pickle = archive(path)
    allowed_pickle(pickle)
    return facts


def torch_archive(path: Path, rule: Rule) -> Facts:
    """Whole, whatever its pickle names: what only its own trainer reads again, such as an optimiser's state."""
    return archive(path)[0]


def archive(file: Path | IO[bytes]) -> tuple[Facts, bytes]:
    """Facts about a whole zip archive of torch.save, and its pickle. Raises InvalidError."""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(file) as found:
            entries = found.infolist()
            names = [e.filename for e in entries]
            if len(set(names)) != len(names):
                raise InvalidError("The zip archive names a member twice.")
            if any(e.compress_type != zipfile.ZIP_STORED for e in entries):
                raise InvalidError("The zip archive has compressed members; torch.save writes none.")
            pickles = [e for e in entries if e.filename.endswith("/data.pkl") and e.filename.count("/") == 1]
            if len(pickles) != 1:
                raise InvalidError("The zip archive holds no data.pkl, so torch.save did not write it.")
            if pickles[0].file_size > LONGEST_HEADER:
                raise InvalidError("data.pkl is larger than any state dict's.")
            for entry in entries:
                # reading a member to its end compares its CRC
                with found.open(entry) as member:
                    while member.read(BLOCK):
                        pass
            pickle = found.read(pickles[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, RuntimeError) as error:
        raise InvalidError(f"It is not a whole zip archive of torch.save ({error}).", unfinished=True) from error
    prefix = pickles[0].filename.removesuffix("data.pkl") + "data/"
    return {"format": "torch", "storages": sum(n.startswith(prefix) for n in names)}, pickle
