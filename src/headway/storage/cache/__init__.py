"""The node's cache of data: contents of packs and large files on local disk, shared by all runs and projects.

    units/<sha256>/<sha256>   what is held of a pack or a large file: contents by their SHA-256, read-only
    units/<sha256>/note.json  what it takes, when it was verified; its modification time is the last use
    pins/<attempt>.<node>     what a live run uses; locked while its helper lives
    places/<attempt>/         the folders that runs see: hard links or reflinks of contents
    locks/                    one filler a unit
    counts.json               hits, misses, evictions

A content has its name only once its SHA-256 was checked, and then a modification time that nothing else has; what was
written to since does not, and is fetched again. After a boot, and after a week, contents are read and checked anew: so
nothing has to be flushed to disk before it is used.
"""

from headway.storage.cache.limits import Limits
from headway.storage.cache.pins import Pin
from headway.storage.cache.room import Cache
from headway.storage.cache.units import Content, Unit

__all__ = ["Cache", "Content", "Limits", "Pin", "Unit"]
