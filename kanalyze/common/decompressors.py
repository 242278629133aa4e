"""A decompressor for each codec that both captures and records have: gzip, Zstandard, LZ4 frames.

In: compressed bytes. Out: an object that decompresses them in bounded steps.

The libraries are loaded when a codec is first needed:

- gzip: :mod:`zlib`, of the standard library.
- lz4: lz4 (BSD), the binding to the reference library. 1 ms to load.
- zstd: the standard library's compression.zstd from Python 3.14 on; before, its backport by the
  same author (backports.zstd, PSF licence), which has the same interface.

Magic numbers: RFC 1952 (gzip), RFC 8878 (Zstandard), the LZ4 Frame Format description.
"""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_GZIP_WINDOW: Final = 31
"""``wbits`` of zlib for a gzip header and trailer, with a window of 32 KiB."""
_MAX_ZSTD_WINDOW_LOG: Final = 27
"""128 MiB: the limit of ``zstd`` itself, without options."""


class Decompressor(Protocol):
    """Decompresses one piece (a gzip member, a frame), as the classes of :mod:`bz2` do."""

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


class OpenedCodec(NamedTuple):
    """A decompressor, and the exceptions that it raises for wrong data."""

    decompressor: Decompressor
    errors: tuple[type[Exception], ...]


class Codec(NamedTuple):
    """A codec."""

    name: str
    magic: bytes
    """What each piece begins with."""
    open: Callable[[], OpenedCodec]
    """Makes a decompressor for one piece."""


class _GzipDecompressor:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        # zlib may keep output when the room is exactly full and its input consumed.
        return not (self._member.unconsumed_tail or self._is_full)

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        output = self._member.decompress(self._member.unconsumed_tail + data, max_length)
        self._is_full = len(output) == max_length
        return output


def _gzip() -> OpenedCodec:
    return OpenedCodec(_GzipDecompressor(), (zlib.error,))


def _zstd() -> OpenedCodec:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    options = {int(zstd.DecompressionParameter.window_log_max): _MAX_ZSTD_WINDOW_LOG}
    return OpenedCodec(zstd.ZstdDecompressor(options=options), (zstd.ZstdError,))


def _lz4() -> OpenedCodec:
    from lz4.frame import LZ4FrameDecompressor

    return OpenedCodec(LZ4FrameDecompressor(), (RuntimeError, ValueError))


GZIP: Final = Codec("gzip", b"\x1f\x8b", _gzip)
ZSTD: Final = Codec("zstd", b"\x28\xb5\x2f\xfd", _zstd)
LZ4: Final = Codec("lz4", b"\x04\x22\x4d\x18", _lz4)
