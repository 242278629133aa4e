"""gzip data, decompressed as it is read.

In: a raw byte source. Out: a byte source. Must not know: what the bytes mean.

Not :mod:`gzip`: the reader needs what could be decompressed before a cut or a damage, in bounded
steps, from sources that cannot seek.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kanalyze.capture.source import ByteSource

__all__ = ["GZIP_MAGIC", "GzipDamagedError", "GzipSource"]

GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""zlib's way to say: a gzip header and trailer around a window of 32 KiB."""
_INPUT_BYTES: Final = 32 << 10
"""zlib copies what is left of its input after each member: many tiny ones must not cost much."""


class GzipDamagedError(Exception):
    """The compressed data is cut or wrong; what came before it has been delivered."""

    def __init__(self, detail: str, *, cut: bool) -> None:
        super().__init__(detail)
        self.cut = cut


class GzipSource:
    """Decompresses a source of gzip members, one after another (RFC 1952)."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._input = bytearray(_INPUT_BYTES)
        self._pending = b""
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._within_member = False

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``; return the number of bytes, 0 at the end.

        Raises :class:`GzipDamagedError` when the data ends within a member or is wrong.
        """
        while True:
            if not self._pending and not self._fill():
                return 0
            try:
                data = self._member.decompress(self._pending, len(target))
            except zlib.error as error:
                raise GzipDamagedError(f"damaged gzip data ({error})", cut=False) from None
            self._within_member = True
            if self._member.eof:
                self._pending = self._member.unused_data.lstrip(b"\0")
                self._member = zlib.decompressobj(_GZIP_WINDOW)
                self._within_member = False
            else:
                self._pending = self._member.unconsumed_tail
            if data:
                target[: len(data)] = data
                return len(data)

    def _fill(self) -> bool:
        """Read more compressed data; false at its end. Zeros between members are padding."""
        while not self._pending:
            count = self._source.readinto(memoryview(self._input))
            if not count:
                if self._within_member:
                    raise GzipDamagedError("the gzip data is cut short", cut=True)
                return False
            self._pending = bytes(self._input[:count])
            if not self._within_member:
                self._pending = self._pending.lstrip(b"\0")
        return True
