"""The byte ranges of a connection that are, or may be, SASL tokens.

In: frames, and where bytes cannot be read. Out: :class:`~kanalyze.model.streams.TokenBytes`, for
code that saves packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.streams import TokenBytes

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.model.tcp import TcpConnection

__all__ = ["PREFIX_BYTES", "TokenRanges"]

PREFIX_BYTES = 4
"""The size prefix of a frame: no part of a token."""
_NONE = -1


class TokenRanges:
    """Reports where tokens are. A later range of the same message replaces an earlier one."""

    _NOT_SAVED = ("_tcp", "has_partial")
    _SAVED = Saved("_partial_offsets:2*int")

    def __init__(self, tcp: TcpConnection) -> None:
        self._tcp = tcp
        self._partial_offsets = [_NONE, _NONE]
        """By direction: stream offset of the incomplete frame that may have a token."""
        self.has_partial = False
        """True if there ever was one: checked for each message, and few connections have one."""

    def _after_load(self) -> None:
        self.has_partial = self._partial_offsets != [_NONE, _NONE]

    def of_frame(
        self, frame: Frame, direction: int, begin: int = PREFIX_BYTES, end: int | None = None
    ) -> TokenBytes:
        """Report a token in a frame, from one frame position to another, or to its end."""
        at = frame.stream_offset
        last = at + (frame.length if end is None else end)
        return TokenBytes(self._tcp, direction, at, at + begin, last, self._tcp.last_time_ns)

    def of_none(self, frame: Frame, direction: int) -> TokenBytes:
        """Report that a frame has no token, though an earlier range said so."""
        return self.of_frame(frame, direction, 0, 0)

    def of_partial(self, frame: Frame, direction: int) -> TokenBytes:
        """Report that an incomplete frame may have a token, until that is known."""
        self._partial_offsets[direction] = frame.stream_offset
        self.has_partial = True
        return self.of_frame(frame, direction)

    def of_unread(self, direction: int, stream_offset: int, end: int | None = None) -> TokenBytes:
        """Report that unreadable bytes may have a token, up to ``end`` if that is known."""
        time_ns = self._tcp.last_time_ns
        return TokenBytes(self._tcp, direction, stream_offset, stream_offset, end, time_ns)

    def was_partial(self, frame: Frame, direction: int) -> bool:
        """Return true if a complete frame was reported as a possible token before."""
        return self._partial_offsets[direction] == frame.stream_offset
