"""The checksums of records: CRC-32 of messages (magic 0 and 1), CRC-32C of batches (magic 2).

In: bytes. Out: numbers of 32 bits.

CRC-32C is the crc32c package's, which uses the processor's instruction where there is one and
takes a view without copying it. Only commands that read or check records load it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from crc32c import crc32c as _crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["crc32", "crc32c", "running_checksum"]

_AT_ONCE = 64
"""How many segments are joined: mostly fewer than 100 kB."""


def crc32(data: bytes, start: int, end: int) -> int:
    """Return the CRC-32 (IEEE 802.3, as in gzip) of ``data[start:end]``."""
    return zlib.crc32(memoryview(data)[start:end])


def crc32c(data: bytes, start: int, end: int) -> int:
    """Return the CRC-32C (Castagnoli, RFC 3720) of ``data[start:end]``."""
    return int(_crc32c(memoryview(data)[start:end]))


def running_checksum(magic: int, views: Sequence[memoryview], value: int) -> int:
    """Continue the checksum of a batch or message of a magic with more of its bytes.

    Segments are joined first, some of them at a time: both checksums are slow for short pieces.
    """
    checksum = _crc32c if magic == 2 else zlib.crc32
    for first in range(0, len(views), _AT_ONCE):
        some = views[first : first + _AT_ONCE]
        value = checksum(b"".join(some) if len(some) > 1 else some[0], value)
    return value
