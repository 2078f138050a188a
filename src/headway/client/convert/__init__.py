"""A dataset's version as WebDataset, TFRecord or Parquet, and the reverse."""

from headway.client.convert.formats import FORMATS, format_of
from headway.client.convert.packing import SHARD_BYTES, Packed, pack
from headway.client.convert.unpacking import Unpacked, unpack

__all__ = ["FORMATS", "Packed", "SHARD_BYTES", "Unpacked", "format_of", "pack", "unpack"]
