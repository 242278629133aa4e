"""Captures cut into files, as a rotation would write them."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.capture.reader import open_capture
from tests.support.packets import packets_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NANOSECOND_MAGIC = 0xA1B23C4D
_SNAP_BYTES = 262_144


class CutPacket(NamedTuple):
    time_ns: int
    data: bytes
    wire_bytes: int
    link_type: int


def packets_of(path: Path) -> list[CutPacket]:
    with open_capture(str(path)) as reader:
        packets = packets_in(reader)
    return [CutPacket(p.time_ns, p.data, p.wire_bytes or 0, p.link_type) for p in packets]


def write_pcap(path: Path, packets: Sequence[CutPacket]) -> None:
    """Write packets, all of one link type."""
    (link_type,) = {packet.link_type for packet in packets}
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", _NANOSECOND_MAGIC, 2, 4, 0, 0, _SNAP_BYTES, link_type))
        for packet in packets:
            seconds, ns = divmod(packet.time_ns, 10**9)
            file.write(struct.pack("<IIII", seconds, ns, len(packet.data), packet.wire_bytes))
            file.write(packet.data)


def cut(path: Path, folder: Path, count: int, seed: int = 1) -> list[Path]:
    """Cut a capture at random packets into files, whose names are in their order."""
    packets = packets_of(path)
    places = sorted(random.Random(seed).sample(range(1, len(packets)), count - 1))
    files = []
    for number, (start, end) in enumerate(zip([0, *places], [*places, None], strict=True)):
        file = folder / f"{path.stem}-{number:02}.pcap"
        write_pcap(file, packets[start:end])
        files.append(file)
    return files
