"""Compressed data, decompressed as it is read: gzip, Zstandard, LZ4 frames, bzip2, xz.

In: a raw byte source. Out: a byte source.

The content determines the format, not the name. In all formats, data may be several pieces one
after another (gzip members, frames, streams), with zeros as padding between them. :mod:`gzip` and
similar modules are not used: the reader needs the bytes before a cut or a damage, in bounded steps,
from sources that cannot seek. A step returns no more bytes than the caller has room for. The memory
of a decoder is bounded too, by the format (gzip, bzip2, LZ4: below 8 MiB) or by a limit set here.

Magic numbers: RFC 1952 (gzip), RFC 8878 (Zstandard, and the frames to be skipped, which LZ4 has
too), the LZ4 Frame Format and the .xz File Format descriptions, and bzip2's manual.
"""

from __future__ import annotations

import struct
import sys
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from kanalyze.capture.io.source import DamagedDataError
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.capture.io.source import ByteSource

__all__ = ["DecompressedSource", "compression_name"]

_GZIP_WINDOW: Final = 31
"""``wbits`` of zlib for a gzip header and trailer, with a window of 32 KiB."""
_MAX_ZSTD_WINDOW_LOG: Final = 27
"""128 MiB: the limit of ``zstd`` itself, without options."""
_MAX_XZ_BYTES: Final = 160 << 20
"""``xz -9`` needs 65 MiB."""
_INPUT_BYTES: Final = 32 << 10
"""Read at once. Decoders copy the rest of their input after each piece, so that many tiny pieces
would cost much if it were larger."""
_MAGIC_BYTES: Final = 4
_SKIPPABLE_HEADER_BYTES: Final = 8


class _Decoder(Protocol):
    """Decodes one piece, as the classes of :mod:`bz2`, :mod:`lzma` and others do."""

    @property
    def eof(self) -> bool:
        """The piece has ended."""

    @property
    def needs_input(self) -> bool:
        """More output needs more input."""

    @property
    def unused_data(self) -> bytes | None:
        """Input after the end of the piece."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Take ``data`` and return at most ``max_length`` decompressed bytes."""


class _GzipDecoder:
    """:mod:`zlib`'s decoder, with the interface of the others."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._member.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


class _Format(NamedTuple):
    name: str
    decoder: Callable[[], tuple[_Decoder, tuple[type[Exception], ...]]]
    """Makes a decoder; returns it and the exceptions that it raises for wrong data."""


# The packages are imported when they are needed: a plain capture does not wait for them.


def _gzip() -> tuple[_Decoder, tuple[type[Exception], ...]]:
    return _GzipDecoder(), (zlib.error,)


def _zstd() -> tuple[_Decoder, tuple[type[Exception], ...]]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    options = {int(zstd.DecompressionParameter.window_log_max): _MAX_ZSTD_WINDOW_LOG}
    return zstd.ZstdDecompressor(options=options), (zstd.ZstdError,)


def _lz4() -> tuple[_Decoder, tuple[type[Exception], ...]]:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor(), (RuntimeError,)


def _bzip2() -> tuple[_Decoder, tuple[type[Exception], ...]]:
    import bz2

    return bz2.BZ2Decompressor(), (OSError, ValueError)


def _xz() -> tuple[_Decoder, tuple[type[Exception], ...]]:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_XZ_BYTES), (lzma.LZMAError,)


_FORMATS: Final = (
    (b"\x1f\x8b", _Format("gzip", _gzip)),
    (b"\x28\xb5\x2f\xfd", _Format("zstd", _zstd)),
    (b"\x04\x22\x4d\x18", _Format("lz4", _lz4)),
    (b"BZh", _Format("bzip2", _bzip2)),
    (b"\xfd7zX", _Format("xz", _xz)),
)
_SKIPPABLE_NAME: Final = "zstd or lz4"


def compression_name(start: bytes) -> str | None:
    """Return the compression of a file that begins with ``start`` (4 bytes or more), or None.

    A skippable frame may begin Zstandard or LZ4 data, and has both names.
    """
    if _is_skippable(start):
        return _SKIPPABLE_NAME
    detected = _format(start)
    return None if detected is None else detected.name


def _format(start: bytes) -> _Format | None:
    return next((known for magic, known in _FORMATS if start.startswith(magic)), None)


def _is_skippable(start: bytes) -> bool:
    return start[1:4] == b"\x2a\x4d\x18" and start[0] & 0xF0 == 0x50


class DecompressedSource:
    """Decompresses a source, piece by piece."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._input = bytearray(_INPUT_BYTES)
        self._pending = b""
        self._format: _Format | None = None
        self._decoder: _Decoder | None = None
        self._errors: tuple[type[Exception], ...] = ()
        self._stalled = False
        self._at_end = False

    @property
    def format_name(self) -> str:
        """Name of the compression, for messages."""
        return _SKIPPABLE_NAME if self._format is None else self._format.name

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``; return the number of bytes, 0 at the end.

        Raises :class:`DamagedDataError` when the data ends within a piece or is wrong.
        """
        while True:
            if self._decoder is None and not self._begin():
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
        detected = _format(self._pending)
        if detected is None or self._format not in {None, detected}:
            detail = f"what follows the {self.format_name} data is no {self.format_name} data"
            raise DamagedDataError(detail, cut=False)
        self._format = detected
        self._decoder, self._errors = detected.decoder()
        return True

    def _decompress(self, max_length: int) -> bytes:
        """Decompress the next bytes of the current piece; maybe none, before its end too."""
        decoder = self._decoder
        assert decoder is not None
        compressed = self._pending
        if not compressed and (decoder.needs_input or self._stalled) and self._fill():
            compressed = self._pending
        self._pending = b""
        try:
            data = decoder.decompress(compressed, max_length)
        except self._errors as error:
            detail = f"damaged {self.format_name} data ({error})"
            raise DamagedDataError(detail, cut=False) from None
        if decoder.eof:
            self._pending = decoder.unused_data or b""
            self._decoder = None
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
