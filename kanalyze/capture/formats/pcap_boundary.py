"""Finds where a record of a pcap file begins, without reading the bytes before it.

In: bytes from the middle of a file. Out: :class:`Boundary`, a guess.

A pcap file has no mark between its records; each record's header gives the offset of the next one.
An offset counts as a boundary if plausible headers follow each other from it on, over more bytes
than a record of the usual size has, or exactly up to the end of the file. That is no proof: a
packet may contain a capture whose last record ends where the packet does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kanalyze.capture.formats.pcap import PcapParser

__all__ = ["CHAIN_BYTES", "Boundary", "find_boundary"]

CHAIN_BYTES: Final = 1 << 20
"""Bytes over which records have to follow each other: at least four of the largest usual ones."""
_WINDOW_BYTES: Final = 2 * CHAIN_BYTES
"""Searched at once: room for a whole chain from any offset in the first half."""


class Boundary(NamedTuple):
    """The result of a search in a range of bytes."""

    offset: int
    """Index in the buffer; no record seems to begin before it."""
    is_found: bool
    """Whether a record begins there. If not, continue the search there, with more bytes."""


def find_boundary(
    parser: PcapParser,
    buffer: memoryview,
    start: int,
    end: int,
    *,
    is_end: bool,
    near_ns: int | None,
) -> Boundary:
    """Search ``buffer[start:end]`` for the first record.

    Args:
        parser: a parser that has read the file's header.
        buffer: a part of the file.
        start: index where the search begins.
        end: index after the last byte.
        is_end: whether the file ends there too.
        near_ns: Unix time in ns of the file's first packet; None if it is not known.
    """
    if end - start > _WINDOW_BYTES:
        end, is_end = start + _WINDOW_BYTES, False
    begins, ends = parser.likely_records(buffer, start, end, near_ns)
    following = list(zip(begins.tolist(), ends.tolist(), strict=True))
    reach: dict[int, int] = {}
    for begin, record_end in reversed(following):
        reach[begin] = reach.get(record_end, record_end)
    unseen = end - parser.header_bytes + 1
    """The first offset whose header is not complete."""
    for begin, _ in following:
        if reach[begin] - begin >= CHAIN_BYTES or (is_end and reach[begin] == end):
            return Boundary(begin, is_found=True)
        if reach[begin] >= unseen and not is_end:
            return Boundary(begin, is_found=False)
    return Boundary(end if is_end else max(start, unseen), is_found=False)
