"""Object stores: whole objects under keys. A folder, S3 and what else obstore speaks; one contract for all.

`testing.objects` is the suite that every implementation passes.
"""

from __future__ import annotations

from headway.storage.objects.base import MissingObjectError, ObjectStore, Stored, check_key
from headway.storage.objects.cloud import ObstoreStore
from headway.storage.objects.faults import StoreFault
from headway.storage.objects.folder import FolderStore
from headway.storage.objects.opening import open_access, open_objects

__all__ = [
    "FolderStore",
    "MissingObjectError",
    "ObjectStore",
    "ObstoreStore",
    "StoreFault",
    "Stored",
    "check_key",
    "open_access",
    "open_objects",
]
