"""What the parsers of the capture formats share.

In: the bytes of a capture file, in portions of any size. Out: :class:`Parsed`, packets as columns
over these bytes.
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
    "MAX_PACKETS",
    "MAX_RECORD_BYTES",
    "STANDARD_SNAP_BYTES",
    "CaptureParser",
    "Columns",
    "Parsed",
    "corrupt",
]

MAX_RECORD_BYTES = 256 << 20
"""A record or block with a larger size in its header is corrupt."""
STANDARD_SNAP_BYTES = 262_144
"""The largest packet that tcpdump and Wireshark write, whatever the snap length says."""
MAX_PACKETS = 32_768
"""Most packets of a batch. Each may be a connection of its own, and all results of a batch are in
memory at once."""


class Columns:
    """Packets as columns, without numbers; :class:`PacketBatch` explains the columns."""

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
    """The result of parsing the bytes between ``start`` and ``end``."""

    columns: Columns | None
    """The complete packets; None without one."""
    position: int
    """Index of the first unused byte: the start of an incomplete record, or ``end``."""
    record_bytes: int = 0
    """Size of the record at ``position``, if known; 0 if its header is incomplete."""
    anomaly: Anomaly | None = None
    """Set if the record at ``position`` is corrupt: nothing after it can be read."""
    is_last: bool = False
    """Whether nothing after these packets is to be read."""
    begins_capture: bool = False
    """Whether the header of another capture is at ``position``, as after ``cat a.pcap b.pcap``."""


class CaptureParser(Protocol):
    """A parser of one capture format; it keeps the values of the file's header."""

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machine dropped; None if the file does not say it."""

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file's header from ``buffer[:end]``; None if there are not enough bytes.

        Raises :class:`kanalyze.errors.CaptureError` if the header is of an unknown kind.
        """

    def parse(self, buffer: memoryview, start: int, end: int, most: int = MAX_PACKETS) -> Parsed:
        """Read the records in ``buffer[start:end]``; a record has to begin at ``start``.

        It uses at least one record if one is complete. It may stop before the last complete one
        (after ``most`` packets), so the caller repeats the call until it uses no more bytes.
        """


def corrupt(detail: str) -> Anomaly:
    """Make the anomaly of a record that contradicts itself."""
    return Anomaly(AnomalyKind.CAPTURE_CORRUPT, detail=detail)
