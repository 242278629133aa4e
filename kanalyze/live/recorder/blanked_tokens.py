"""Tokens in packets, blanked: what is kept of a login is that there was one.

In: where in streams tokens are; TCP segments. Out: the same segments with zeros in place of tokens,
and with checksums as right as they were. This module must not know which segments are kept.

A token is where its sequence numbers are: a copy of it that was sent again, in whatever pieces, is
found too.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import TcpConnection

__all__ = ["HiddenBytes", "Sender", "SentBytes"]

Sender = tuple[int, int]
"""A connection and the end that sends, as hashes."""

_MOST_TOKENS: Final = 1 << 14
"""At once; a login takes two or four of them."""
_MOST_OF_SENDER: Final = 256
"""Above it all that a sender says is hidden: nobody logs in so often."""
_EVERYTHING: Final = (-1, -1)
_LATE_NS: Final = 60_000_000_000
"""How long after its connection a segment may come: TIME_WAIT of Linux. Fragments are waited for
half as long."""
_LAST_NS: Final = (1 << 63) - 1
_U32: Final = (1 << 32) - 1
_HALF: Final = 1 << 31
_LEAST_HEADER_BYTES: Final = 20
_MOST_HEADER_BYTES: Final = 60
_HEADER_WORDS_AT: Final = 12
_CHECKSUM_AT: Final = 16


class SentBytes(NamedTuple):
    """Payload of segments, each whole in its packet, as columns."""

    time_ns: NDArray[np.int64]
    sequence: NDArray[np.int64]
    payload_start: NDArray[np.int64]
    """Index in the buffer of the packets."""
    captured_bytes: NDArray[np.int64]
    ports: NDArray[np.uint32]
    """That of the sender in the upper half, that of the receiver in the lower one."""

    def moved(self, which: NDArray[np.int64], shifts: NDArray[np.int64]) -> SentBytes:
        """Return some of them, as they are in a buffer where each is so much further on."""
        return SentBytes(
            self.time_ns[which],
            self.sequence[which],
            self.payload_start[which] + shifts,
            self.captured_bytes[which],
            self.ports[which],
        )


class _Hidden(NamedTuple):
    """Bytes of a stream that are not to be kept."""

    tcp: TcpConnection
    sequence: int
    """Of the first of them."""
    length: int | None
    """None for all that the sender says."""
    age_ns: int
    """When that was told, by a clock that does not jump."""


class HiddenBytes:
    """Where tokens are, by who sent them; the latest ones."""

    def __init__(self) -> None:
        self._by_sender: defaultdict[Sender, dict[tuple[int, int], _Hidden]]
        self._by_sender = defaultdict(dict)
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def is_full(self) -> bool:
        """Whether some are to be dropped: what they stand for is to be blanked before."""
        return self._count > _MOST_TOKENS

    @property
    def connections(self) -> NDArray[np.uint64]:
        """The connections of which there are any, as hashes."""
        return np.array([connection for connection, _ in self._by_sender], np.uint64)

    def add(self, sender: Sender, token: TokenBytes, age_ns: int) -> None:
        """Take where a token is; it holds in place of what was said of the same message before."""
        tcp = token.connection
        tokens = self._by_sender[sender]
        message = tcp.serial, token.stream_offset
        self._count -= tokens.pop(message, None) is not None
        length = _HALF - 1 if token.end is None else min(token.end - token.begin, _HALF - 1)
        if length > 0:
            sequence = tcp.first_sequence[token.direction] + token.begin & _U32
            tokens[message] = _Hidden(tcp, sequence, length, age_ns)
            self._count += 1
        if len(tokens) > _MOST_OF_SENDER:
            self._count -= len(tokens) - 1
            tokens.clear()
            tokens[_EVERYTHING] = _Hidden(tcp, 0, None, age_ns)
        if not tokens:
            del self._by_sender[sender]

    def drop(self, before_ns: int) -> None:
        """Forget what was told long before some time, by the clock that does not jump."""
        self._drop(before_ns - _LATE_NS)

    def drop_half(self) -> None:
        """Forget the older half."""
        ages = [each.age_ns for tokens in self._by_sender.values() for each in tokens.values()]
        self._drop(sorted(ages)[len(ages) // 2] + 1)

    def is_about(self, first_ns: int, last_ns: int) -> bool:
        """Tell whether anything was told about some time, by the clock that does not jump."""
        return any(
            first_ns - _LATE_NS <= each.age_ns <= last_ns + _LATE_NS
            for tokens in self._by_sender.values()
            for each in tokens.values()
        )

    def blank(self, buffer: memoryview, sent: SentBytes, sender: Sender) -> None:
        """Blank what a sender's segments hold of tokens, in the buffer that they are in."""
        for hidden in self._by_sender.get(sender, {}).values():
            if hidden.length is None:
                begin, end = np.zeros_like(sent.captured_bytes), sent.captured_bytes
            else:
                begin = (hidden.sequence - sent.sequence + _HALF & _U32) - _HALF
                end = np.minimum(begin + hidden.length, sent.captured_bytes)
                begin = np.maximum(begin, 0)
            found = (end > begin) & (sent.time_ns <= _last_ns(hidden.tcp))
            for place in np.flatnonzero(found).tolist():
                _blank(buffer, sent, place, int(begin[place]), int(end[place]))

    def _drop(self, before_ns: int) -> None:
        for sender in list(self._by_sender):
            tokens = self._by_sender[sender]
            for message in [key for key, each in tokens.items() if each.age_ns < before_ns]:
                del tokens[message]
                self._count -= 1
            if not tokens:
                del self._by_sender[sender]


def _last_ns(tcp: TcpConnection) -> int:
    """Return until when a segment on the ports of a connection may be one of its own.

    There is no first time: the clock may have been set back since the connection began.
    """
    return _LAST_NS if tcp.end is None else tcp.last_time_ns + _LATE_NS


def _blank(buffer: memoryview, sent: SentBytes, index: int, begin: int, end: int) -> None:
    """Write zeros over some of a segment's payload, and its checksum anew.

    The checksum is changed by what the bytes added to it (RFC 1624): one that a network card was to
    fill in, or of a segment that was not captured to its end, stays what it was to the rest. So
    do the sums of tunnels, of which the segment is a part: it adds to them what it did before.
    """
    at = int(sent.payload_start[index])
    # Two by two from the first byte of the payload, which is at an even place of the segment.
    data = bytes(begin & 1) + bytes(buffer[at + begin : at + end])
    words = np.frombuffer(data + bytes(len(data) & 1), ">u2")
    buffer[at + begin : at + end] = bytes(end - begin)
    checksum_at = _header_at(buffer, sent, index) + _CHECKSUM_AT
    # One's complement arithmetic: what the words no longer add to the sum, the checksum does.
    total = int.from_bytes(buffer[checksum_at : checksum_at + 2]) + int(words.sum(dtype=np.int64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    buffer[checksum_at : checksum_at + 2] = total.to_bytes(2)


def _header_at(buffer: memoryview, sent: SentBytes, index: int) -> int:
    """Return where a segment's header begins: it tells its own length."""
    end = int(sent.payload_start[index])
    begin = int(sent.ports[index]).to_bytes(4) + int(sent.sequence[index]).to_bytes(4)
    for size in range(_LEAST_HEADER_BYTES, min(_MOST_HEADER_BYTES, end) + 1, 4):
        at = end - size
        if buffer[at + _HEADER_WORDS_AT] >> 4 == size // 4 and buffer[at : at + 8] == begin:
            return at
    raise AssertionError("a segment without a header")
