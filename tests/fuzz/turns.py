"""An input as the bytes that both ends of a connection sent, with cuts and losses.

An input is 4 bytes with the sizes of segments, then turns: ``kind uint8, length uint16``, and that
many bytes. The lowest bit of a kind is the direction; the next one means that the bytes were lost;
the one after it switches snapping of later segments to 48 bytes on and off. A turn that does not
fit is shorter: every input is valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kanalyze.model.streams import Chunk, Gap, Segments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.model.streams import StreamItem

__all__ = ["LOST", "SNAP", "Turn", "items_of", "turns_in", "turns_of"]

LOST, SNAP = 2, 4
HEAD_BYTES = 4
_SNAPPED_BYTES = 48
_TIME_NS = 1_700_000_000_000_000_000
_LONGEST_TURN_BYTES = 0xFFFF


class Turn(NamedTuple):
    """Bytes that one end sent, or that were lost."""

    side: int
    """0 or 1."""
    data: bytes
    is_lost: bool
    is_snapped: bool


def turns_in(data: bytes) -> list[Turn]:
    """Read an input; never empty turns."""
    turns, at, snapped = [], HEAD_BYTES, False
    while at + 3 < len(data):
        kind = data[at]
        length = int.from_bytes(data[at + 1 : at + 3], "big")
        snapped ^= bool(kind & SNAP)
        found = data[at + 3 : at + 3 + length]
        if found:
            turns.append(Turn(kind & 1, found, bool(kind & LOST), snapped))
        at += 3 + length
    return turns


def turns_of(parts: Iterable[tuple[int, bytes]], cuts: bytes = b"\xff\x40\x03\xff") -> bytes:
    """Write an input from (kind, bytes) pairs; longer ones become several turns."""
    made = [cuts]
    for kind, data in parts:
        for at in range(0, len(data), _LONGEST_TURN_BYTES):
            piece = data[at : at + _LONGEST_TURN_BYTES]
            made.append(bytes((kind,)) + len(piece).to_bytes(2, "big") + piece)
    return b"".join(made)


def items_of(turns: Iterable[Turn], cuts: bytes) -> list[tuple[int, StreamItem]]:
    """Return (side, chunk or gap) for each turn; packets are numbered from 1 over all.

    ``cuts`` are sizes of segments in units of 8 bytes, taken in turn.
    """
    sizes = [8 * size for size in cuts if size] or [1448]
    items: list[tuple[int, StreamItem]] = []
    offsets = [0, 0]
    packet = 1
    for turn in turns:
        if turn.is_lost:
            item: StreamItem = Gap(offsets[turn.side], len(turn.data), _TIME_NS + packet, packet)
        else:
            item = _chunk(turn, offsets[turn.side], sizes, packet)
            packet += item.last
        offsets[turn.side] += len(turn.data)
        items.append((turn.side, item))
    return items


def _chunk(turn: Turn, stream_offset: int, sizes: list[int], packet: int) -> Chunk:
    starts, lengths, captured, at = [], [], [], 0
    while at < len(turn.data):
        length = min(sizes[(packet + len(starts)) % len(sizes)], len(turn.data) - at)
        starts.append(at)
        lengths.append(length)
        captured.append(min(length, _SNAPPED_BYTES) if turn.is_snapped else length)
        at += length
    packets = list(range(packet, packet + len(starts)))
    times = [_TIME_NS + number for number in packets]
    segments = Segments(memoryview(turn.data), starts, lengths, captured, times, packets)
    return Chunk(stream_offset, segments, 0, len(starts))
