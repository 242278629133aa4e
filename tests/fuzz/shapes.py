"""The parts that an input falls into: packets, blocks, frames, batches.

A mutator that deletes, doubles and swaps whole parts, and corrects the length of a part that it
changed, reaches code after the check of the length. In: bytes. Out: parts that, joined, are the
bytes again. An input that cannot be split is one part.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.kafka.records.compression import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable

_PCAP_LITTLE = (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
_PCAP_BIG = (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_LITTLE_ORDER = b"\x4d\x3c\x2b\x1a"


class Shape(NamedTuple):
    """How an input is split into parts, and how a changed part is made valid again."""

    split: Callable[[bytes], list[bytes]]
    mend: Callable[[bytes, bytes], bytes]
    """From (first part, changed part) to the part with the right length; the first part has the
    format."""


def _one(data: bytes) -> list[bytes]:
    return [data]


def _as_it_is(_: bytes, part: bytes) -> bytes:
    return part


def _pieces(data: bytes, at: int, least: int, length_at: Callable[[int], int]) -> list[bytes]:
    """Split what is after a head of ``at`` bytes into parts of at least ``least`` bytes."""
    parts = [data[:at]] if at else []
    while least <= len(data) - at and least <= (length := length_at(at)) <= len(data) - at:
        parts.append(data[at : at + length])
        at += length
    return [*parts, data[at:]] if at < len(data) else parts


def _number(layout: str, data: bytes, at: int) -> int:
    return int(struct.unpack_from(layout, data, at)[0])


def _split_frames(data: bytes) -> list[bytes]:
    return _pieces(data, 0, 4, lambda at: 4 + _number(">i", data, at))


def _mend_frame(_: bytes, part: bytes) -> bytes:
    return (len(part) - 4).to_bytes(4, "big") + part[4:] if len(part) > 4 else part


def _split_turns(data: bytes) -> list[bytes]:
    return _pieces(data, 4, 3, lambda at: 3 + _number(">H", data, at + 1))


def _mend_turn(_: bytes, part: bytes) -> bytes:
    if not 3 <= len(part) < 3 + (1 << 16):
        return part
    return part[:1] + (len(part) - 3).to_bytes(2, "big") + part[3:]


def _split_batches(data: bytes) -> list[bytes]:
    return _pieces(data, 0, 17, lambda at: 12 + _number(">i", data, at + 8))


def _mend_batch(_: bytes, part: bytes) -> bytes:
    if len(part) < 22:
        return part
    part = part[:8] + (len(part) - 12).to_bytes(4, "big") + part[12:]
    if part[16] != 2:
        return part
    return part[:17] + crc32c(part, 21, len(part)).to_bytes(4, "big") + part[21:]


def _split_capture(data: bytes) -> list[bytes]:
    magic = data[:4]
    if magic in _PCAP_LITTLE or magic in _PCAP_BIG:
        layout = "<I" if magic in _PCAP_LITTLE else ">I"
        return _pieces(data, 24, 16, lambda at: 16 + _number(layout, data, at + 8))
    if magic == _PCAPNG:
        layout = "<I" if data[8:12] == _LITTLE_ORDER else ">I"
        return _pieces(data, 0, 12, lambda at: _number(layout, data, at + 4))
    return [data]


def _mend_packet(first: bytes, part: bytes) -> bytes:
    magic = first[:4]
    if magic == _PCAPNG:
        return _mend_block(first, part)
    if len(part) < 16:
        return part
    order = "<" if magic in _PCAP_LITTLE else ">"
    size = len(part) - 16
    return part[:8] + struct.pack(order + "II", size, max(size, _wire(part, order))) + part[16:]


def _wire(part: bytes, order: str) -> int:
    """Return the length on the wire, or 0 if no packet is so long."""
    found: int = struct.unpack_from(order + "I", part, 12)[0]
    return found if found < 1 << 18 else 0


def _mend_block(first: bytes, part: bytes) -> bytes:
    if len(part) < 12:
        return part
    order = "<" if first[8:12] == _LITTLE_ORDER else ">"
    part += bytes(-len(part) % 4)
    size = struct.pack(order + "I", len(part))
    return part[:4] + size + part[8:-4] + size


BYTES = Shape(_one, _as_it_is)
FRAMES = Shape(_split_frames, _mend_frame)
"""``size int32`` and that many bytes; Kafka's messages, and the messages of Kafka 0.7."""
TURNS = Shape(_split_turns, _mend_turn)
"""Data that both ends of a connection sent in turn; see :mod:`tests.fuzz.turns`."""
BATCHES = Shape(_split_batches, _mend_batch)
"""Record batches, and messages of magic 0 and 1."""
CAPTURE = Shape(_split_capture, _mend_packet)
"""Packets of a pcap, blocks of a pcapng; the first part is the file's header."""
