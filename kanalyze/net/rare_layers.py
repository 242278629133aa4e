"""Headers that are rare: libraries made for them read them, packet by packet.

In: places of such headers. Out: places of what they carry. Must not know: how they are read.

What is not read is counted by its name. Without the libraries that is all of it, and an anomaly
says how to get them.
"""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kanalyze.model import AnomalyKind
from kanalyze.net.columns import Headers
from kanalyze.net.names import tunnel_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.net.columns import Packets, Places

__all__ = ["Found", "can_read", "find_inside", "note_missing", "read_pbb", "read_wireless"]

_MOST_HEADER_BYTES: Final = 1024
"""Of a packet, shown to a library: more than any header here has."""
_MODULE: Final = "kanalyze.net.scapy_layers"
_HINT: Final = "pip install 'kanalyze[layers]' to have it read"
_PBB: Final = "802.1ah"
_NOT_READ: Final = -1


class Found(NamedTuple):
    """What a library says of headers, an entry each."""

    size: NDArray[np.int64]
    kind: NDArray[np.int64]
    """-1 where it is not read."""
    names: list[str]
    """What it is where it is not read, otherwise empty."""

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """Where it is known what is carried."""
        read: NDArray[np.bool_] = self.kind != _NOT_READ
        return read


@cache
def _module() -> Any:
    """Import what reads them, once one is met: it takes half a second; None where it is not."""
    try:
        with warnings.catch_warnings():
            # It imports ciphers that nobody uses here and that will move.
            warnings.simplefilter("ignore")
            return importlib.import_module(_MODULE)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "scapy":
            raise
        return None


def can_read() -> bool:
    """Tell whether the libraries are there."""
    return _module() is not None


def find_inside(packets: Packets, places: Places, reader: str) -> Found:
    """Let a function of the libraries' module read the header at each place."""
    read = getattr(_module(), reader)
    size, kind = np.zeros(len(places), np.int64), np.full(len(places), _NOT_READ)
    names = [""] * len(places)
    ends = np.minimum(places.limit, places.at + _MOST_HEADER_BYTES)
    for index, (at, end) in enumerate(zip(places.at.tolist(), ends.tolist(), strict=True)):
        found = read(bytes(packets.buffer[at:end]) if at < end else b"")
        if isinstance(found, str):
            names[index] = found
        else:
            size[index], kind[index] = found
    return Found(size, kind, names)


def note_missing(packets: Packets, rows: NDArray[np.int64], name: str) -> None:
    """Say of packets what would read them."""
    if len(rows):
        kind = AnomalyKind.UNKNOWN_LINK_TYPE
        packets.notes.add_packets(kind, packets.batch, rows, f"{name}: {_HINT}")


def read_wireless(packets: Packets, places: Places, reader: str) -> Headers:
    """Step over headers of 802.11, by the name of the function for what stands before them."""
    return _after(packets, places, find_inside(packets, places, reader))


def read_pbb(packets: Packets, places: Places) -> Headers:
    """Step over the tags of 802.1ah, provider backbone bridges."""
    if not can_read():
        note_missing(packets, places.row, _PBB)
        _count(packets, _PBB, len(places))
        return Headers.joined([])
    found = find_inside(packets, places, "read_pbb")
    packets.enter(places.row[found.is_read], tunnel_bit(_PBB))
    return _after(packets, places, found)


def _after(packets: Packets, places: Places, found: Found) -> Headers:
    """Return what is carried where it is known; count the others."""
    for name in found.names:
        if name:
            _count(packets, name, 1)
    return Headers(places.after(found.size), found.kind).pick(found.is_read)


def _count(packets: Packets, name: str, count: int) -> None:
    packets.notes.counters.count_other(name, count)
    packets.notes.counters.not_ip += count
