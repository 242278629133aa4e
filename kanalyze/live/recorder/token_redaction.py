"""Redacts SASL tokens in packets: zeros replace the bytes of a token.

In: the positions of tokens in streams; TCP segments. Out: the same segments with zeros in place of
tokens, and checksums that are right if they were right before.

A token is found by its sequence numbers, so retransmissions of it are found too.
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

__all__ = ["SegmentPayloads", "Sender", "TokenRedactor"]

Sender = tuple[int, int]
"""The hash of a connection, and the hash of the endpoint that sends."""

_MAX_TOKENS: Final = 1 << 14
"""A login has two or four tokens."""
_MAX_OF_SENDER: Final = 256
"""Maximum number of tokens of a sender. Above it everything from the sender is redacted: no client
logs in so often."""
_EVERYTHING: Final = (-1, -1)
_LATE_NS: Final = 60_000_000_000
"""How long after the end of its connection a segment may come: TIME_WAIT of Linux, and twice the
time limit for IP fragments."""
_LAST_NS: Final = (1 << 63) - 1
_U32: Final = (1 << 32) - 1
_HALF: Final = 1 << 31
_MIN_HEADER_BYTES: Final = 20
_MAX_HEADER_BYTES: Final = 60
_HEADER_WORDS_AT: Final = 12
_CHECKSUM_AT: Final = 16


class SegmentPayloads(NamedTuple):
    """Payloads of segments as columns; each payload lies in one packet."""

    time_ns: NDArray[np.int64]
    sequence: NDArray[np.int64]
    payload_start: NDArray[np.int64]
    """Index in the buffer of the packets."""
    captured_bytes: NDArray[np.int64]
    ports: NDArray[np.uint32]
    """The source port in the upper half, the destination port in the lower half."""

    def moved(self, indices: NDArray[np.int64], shifts: NDArray[np.int64]) -> SegmentPayloads:
        """Return the payloads at ``indices``, each with its start shifted to another buffer."""
        return SegmentPayloads(
            self.time_ns[indices],
            self.sequence[indices],
            self.payload_start[indices] + shifts,
            self.captured_bytes[indices],
            self.ports[indices],
        )


class _RedactedRange(NamedTuple):
    """Bytes of a stream to redact."""

    tcp: TcpConnection
    sequence: int
    """Stream offset of the first byte."""
    length: int | None
    """None for everything from the sender."""
    age_ns: int
    """When it was added, on a monotonic clock."""


class TokenRedactor:
    """Redacts the latest tokens, which are stored by sender."""

    def __init__(self) -> None:
        self._by_sender: defaultdict[Sender, dict[tuple[int, int], _RedactedRange]]
        self._by_sender = defaultdict(dict)
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def is_full(self) -> bool:
        """True if there are too many tokens: redact all buffered packets, then drop some."""
        return self._count > _MAX_TOKENS

    @property
    def connections(self) -> NDArray[np.uint64]:
        """The hashes of connections with tokens."""
        return np.array([connection for connection, _ in self._by_sender], np.uint64)

    def add(self, sender: Sender, token: TokenBytes, age_ns: int) -> None:
        """Add the position of a token; it replaces an earlier position for the same message."""
        tcp = token.connection
        tokens = self._by_sender[sender]
        message = tcp.serial, token.stream_offset
        self._count -= tokens.pop(message, None) is not None
        length = _HALF - 1 if token.end is None else min(token.end - token.begin, _HALF - 1)
        if length > 0:
            sequence = tcp.first_sequence[token.direction] + token.begin & _U32
            tokens[message] = _RedactedRange(tcp, sequence, length, age_ns)
            self._count += 1
        if len(tokens) > _MAX_OF_SENDER:
            self._count -= len(tokens) - 1
            tokens.clear()
            tokens[_EVERYTHING] = _RedactedRange(tcp, 0, None, age_ns)
        if not tokens:
            del self._by_sender[sender]

    def drop(self, before_ns: int) -> None:
        """Forget tokens added long before a time on the monotonic clock."""
        self._drop(before_ns - _LATE_NS)

    def drop_half(self) -> None:
        """Forget the older half of the tokens."""
        ages = [token.age_ns for tokens in self._by_sender.values() for token in tokens.values()]
        self._drop(sorted(ages)[len(ages) // 2] + 1)

    def covers(self, first_ns: int, last_ns: int) -> bool:
        """Return true if a token was added near an interval on the monotonic clock."""
        return any(
            first_ns - _LATE_NS <= token.age_ns <= last_ns + _LATE_NS
            for tokens in self._by_sender.values()
            for token in tokens.values()
        )

    def redact(self, buffer: memoryview, sent: SegmentPayloads, sender: Sender) -> None:
        """Redact tokens in the segments of a sender, in their buffer."""
        for token in self._by_sender.get(sender, {}).values():
            if token.length is None:
                begin, end = np.zeros_like(sent.captured_bytes), sent.captured_bytes
            else:
                begin = (token.sequence - sent.sequence + _HALF & _U32) - _HALF
                end = np.minimum(begin + token.length, sent.captured_bytes)
                begin = np.maximum(begin, 0)
            overlaps = (end > begin) & (sent.time_ns <= _last_ns(token.tcp))
            for index in np.flatnonzero(overlaps).tolist():
                _zero(buffer, sent, index, int(begin[index]), int(end[index]))

    def _drop(self, before_ns: int) -> None:
        for sender in list(self._by_sender):
            tokens = self._by_sender[sender]
            for message in [key for key, token in tokens.items() if token.age_ns < before_ns]:
                del tokens[message]
                self._count -= 1
            if not tokens:
                del self._by_sender[sender]


def _last_ns(tcp: TcpConnection) -> int:
    """Return the latest time of a segment that may belong to a connection.

    There is no earliest time: the clock may have been set back since the connection began.
    """
    return _LAST_NS if tcp.end is None else tcp.last_time_ns + _LATE_NS


def _zero(buffer: memoryview, sent: SegmentPayloads, index: int, begin: int, end: int) -> None:
    """Write zeros over a part of a segment's payload, and update its checksum.

    The checksum is updated by the change of the bytes (RFC 1624), not computed again. So a checksum
    that was wrong stays wrong, for example because the network card fills it in or the segment was
    cut. The checksums of tunnels around the segment stay right.
    """
    start = int(sent.payload_start[index])
    # Words of two bytes; the payload begins at an even offset in the segment.
    data = bytes(begin & 1) + bytes(buffer[start + begin : start + end])
    words = np.frombuffer(data + bytes(len(data) & 1), ">u2")
    buffer[start + begin : start + end] = bytes(end - begin)
    checksum_at = _header_at(buffer, sent, index) + _CHECKSUM_AT
    # In one's complement arithmetic, what the words lose is added to the checksum.
    total = int.from_bytes(buffer[checksum_at : checksum_at + 2]) + int(words.sum(dtype=np.int64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    buffer[checksum_at : checksum_at + 2] = total.to_bytes(2)


def _header_at(buffer: memoryview, sent: SegmentPayloads, index: int) -> int:
    """Return the index of the header of a segment, found by the header length that it states."""
    end = int(sent.payload_start[index])
    begin = int(sent.ports[index]).to_bytes(4) + int(sent.sequence[index]).to_bytes(4)
    for size in range(_MIN_HEADER_BYTES, min(_MAX_HEADER_BYTES, end) + 1, 4):
        at = end - size
        if buffer[at + _HEADER_WORDS_AT] >> 4 == size // 4 and buffer[at : at + 8] == begin:
            return at
    raise AssertionError("a segment without a header")
