"""What the parsers of the capture formats share.

In: the bytes of a capture file, in any portions. Out: :class:`Parsed`, packets as columns over the
bytes handed in. Must not know: where the bytes come from; nothing here reads a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kanalyze.common.int_columns import rising
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import PacketBatch

if TYPE_CHECKING:
    from array import array

__all__ = [
    "MAX_RECORD_BYTES",
    "MOST_PACKETS",
    "STANDARD_SNAP_BYTES",
    "CaptureParser",
    "Columns",
    "Parsed",
    "corrupt",
]

MAX_RECORD_BYTES = 256 << 20
"""A record or block that says it is larger is taken for corruption."""
STANDARD_SNAP_BYTES = 262_144
"""The largest packet that tcpdump and Wireshark write, whatever the snap length says."""
MOST_PACKETS = 32_768
"""Packets of a batch. Each may be a connection of its own, and all results of a batch are in memory
at once."""


class Columns:
    """Packets as columns, not numbered yet; the meaning is that of :class:`PacketBatch`."""

    __slots__ = ("captured_bytes", "link_type", "offset", "time_ns", "wire_bytes")

    def __init__(
        self,
        time_ns: array[int],
        offset: array[int],
        captured_bytes: array[int],
        wire_bytes: array[int],
        link_type: array[int],
    ) -> None:
        self.time_ns = time_ns
        self.offset = offset
        self.captured_bytes = captured_bytes
        self.wire_bytes = wire_bytes
        self.link_type = link_type

    def __len__(self) -> int:
        return len(self.time_ns)

    def first(self, count: int) -> Columns:
        """Return the first ``count`` packets, or all of them if they are fewer."""
        return Columns(
            time_ns=self.time_ns[:count],
            offset=self.offset[:count],
            captured_bytes=self.captured_bytes[:count],
            wire_bytes=self.wire_bytes[:count],
            link_type=self.link_type[:count],
        )

    def batch(self, buffer: memoryview, first_number: int) -> PacketBatch:
        """Make a batch over ``buffer``, numbered from ``first_number`` on."""
        return PacketBatch(
            buffer=buffer,
            number=rising(first_number, len(self)),
            time_ns=self.time_ns,
            offset=self.offset,
            captured_bytes=self.captured_bytes,
            wire_bytes=self.wire_bytes,
            link_type=self.link_type,
        )


class Parsed(NamedTuple):
    """What a parser made of the bytes between ``start`` and ``end``."""

    columns: Columns | None
    """The packets that were complete; None for none."""
    position: int
    """Index of the first byte not used: the start of a record that is not complete, or ``end``."""
    record_bytes: int = 0
    """Size of the record at ``position``, as far as it is known; 0 when its header is cut."""
    anomaly: Anomaly | None = None
    """Set when the record at ``position`` makes no sense: nothing after it can be read."""
    is_last: bool = False
    """Set when nothing after these packets is to be read."""


class CaptureParser(Protocol):
    """A parser of one capture format, fed with bytes; it keeps the values of the file's header."""

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machine dropped, where the file says it."""

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file's header from ``buffer[:end]``; None when there are not enough bytes.

        Raises :class:`kanalyze.errors.CaptureError` when it is of a kind that cannot be read.
        """

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MOST_PACKETS) -> Parsed:
        """Read the records in ``buffer[start:end]``; ``start`` is where a record begins.

        Always uses at least one record when one is complete; may stop before the last complete
        one (there are ``most`` packets), so it is to be called until it uses nothing.
        """


def corrupt(detail: str) -> Anomaly:
    """Make the anomaly of a record that contradicts itself."""
    return Anomaly(AnomalyKind.CAPTURE_CORRUPT, detail=detail)
