"""Compressed data, decompressed as it is read: gzip, Zstandard, LZ4 frames, bzip2, xz.

In: a raw byte source. Out: a byte source.

The content determines the format, not the name. In all formats, data may be several pieces one
after another (gzip members, frames, streams), with zeros as padding between them. :mod:`gzip` and
similar modules are not used: the reader needs the bytes before a cut or a damage, in bounded steps,
from sources that cannot seek. A step returns no more bytes than the caller has room for. The memory
of a decoder is bounded too, by the format (gzip, bzip2, LZ4: below 8 MiB) or by a limit set here.

Magic numbers, besides those of :mod:`kanalyze.common.decompressors`: RFC 8878 (frames to be
skipped, which LZ4 has too), the .xz File Format description, and bzip2's manual.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from kanalyze.capture.io.source import DamagedDataError
from kanalyze.common.decompressors import GZIP, LZ4, ZSTD, Codec, OpenedCodec

if TYPE_CHECKING:
    from kanalyze.capture.io.source import ByteSource

_MAX_XZ_BYTES: Final = 160 << 20
"""``xz -9`` needs 65 MiB."""
_INPUT_BYTES: Final = 32 << 10
"""Read at once. Decoders copy the rest of their input after each piece, so that many tiny pieces
would cost much if it were larger."""
_MAGIC_BYTES: Final = 4
_SKIPPABLE_HEADER_BYTES: Final = 8


# The modules are imported when they are needed: a plain capture does not wait for them.


def _bzip2() -> OpenedCodec:
    import bz2

    return OpenedCodec(bz2.BZ2Decompressor(), (OSError, ValueError))


def _xz() -> OpenedCodec:
    import lzma

    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_XZ_BYTES)
    return OpenedCodec(decompressor, (lzma.LZMAError,))


_CODECS: Final = (GZIP, ZSTD, LZ4, Codec("bzip2", b"BZh", _bzip2), Codec("xz", b"\xfd7zX", _xz))
_SKIPPABLE_NAME: Final = "zstd or lz4"


def compression_name(start: bytes) -> str | None:
    """Return the compression of a file that begins with ``start`` (4 bytes or more), or None.

    A skippable frame may begin Zstandard or LZ4 data, and has both names.
    """
    if _is_skippable(start):
        return _SKIPPABLE_NAME
    detected = _codec(start)
    return None if detected is None else detected.name


def _codec(start: bytes) -> Codec | None:
    return next((codec for codec in _CODECS if start.startswith(codec.magic)), None)


def _is_skippable(start: bytes) -> bool:
    return start[1:4] == b"\x2a\x4d\x18" and start[0] & 0xF0 == 0x50


class DecompressedSource:
    """Decompresses a source, piece by piece."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._input = bytearray(_INPUT_BYTES)
        self._pending = b""
        self._codec: Codec | None = None
        self._opened: OpenedCodec | None = None
        """What decompresses the current piece; None between two."""
        self._stalled = False
        self._at_end = False

    @property
    def format_name(self) -> str:
        """Name of the compression, for messages."""
        return _SKIPPABLE_NAME if self._codec is None else self._codec.name

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``; return the number of bytes, 0 at the end.

        Raises :class:`DamagedDataError` when the data ends within a piece or is wrong.
        """
        while True:
            if self._opened is None and not self._begin():
                return 0
            data = self._decompress(len(target))
            if data:
                target[: len(data)] = data
                return len(data)

    def _begin(self) -> bool:
        """Make a decoder for the next piece; false at the end of the data."""
        while True:
            self._pending = self._pending.lstrip(b"\0")
            if not self._pending:
                if not self._fill():
                    return False
                continue
            if len(self._pending) < _MAGIC_BYTES:
                self._need(_MAGIC_BYTES)
            if not _is_skippable(self._pending):
                break
            self._need(_SKIPPABLE_HEADER_BYTES)
            size = struct.unpack_from("<I", self._pending, _MAGIC_BYTES)[0]
            self._skip(_SKIPPABLE_HEADER_BYTES + size)
        detected = _codec(self._pending)
        if detected is None or self._codec not in {None, detected}:
            detail = f"what follows the {self.format_name} data is no {self.format_name} data"
            raise DamagedDataError(detail, cut=False)
        self._codec = detected
        self._opened = detected.open()
        return True

    def _decompress(self, max_length: int) -> bytes:
        """Decompress the next bytes of the current piece; maybe none, before its end too."""
        assert self._opened is not None
        decoder, errors = self._opened
        compressed = self._pending
        if not compressed and (decoder.needs_input or self._stalled) and self._fill():
            compressed = self._pending
        self._pending = b""
        try:
            data = decoder.decompress(compressed, max_length)
        except errors as error:
            detail = f"damaged {self.format_name} data ({error})"
            raise DamagedDataError(detail, cut=False) from None
        if decoder.eof:
            self._pending = decoder.unused_data or b""
            self._opened = None
        elif not data and self._at_end:
            raise self._cut()
        self._stalled = not data and not compressed
        return data

    def _need(self, least: int) -> None:
        """Read until ``least`` compressed bytes are pending."""
        while len(self._pending) < least:
            if not self._fill():
                raise self._cut()

    def _skip(self, count: int) -> None:
        """Skip ``count`` compressed bytes."""
        while count > len(self._pending):
            count -= len(self._pending)
            self._pending = b""
            if not self._fill():
                raise self._cut()
        self._pending = self._pending[count:]

    def _fill(self) -> bool:
        """Read more compressed data; false at its end."""
        if not self._at_end:
            count = self._source.readinto(memoryview(self._input))
            self._at_end = not count
            self._pending += bytes(self._input[:count])
        return not self._at_end

    def _cut(self) -> DamagedDataError:
        return DamagedDataError(f"the {self.format_name} data is cut short", cut=True)
