"""What the parsers of the capture formats share.

In: the bytes of a capture file, in any portions. Out: :class:`Parsed`, packets as columns over the
bytes handed in. Must not know: where the bytes come from; nothing here reads a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from kanalyze.model import Anomaly, AnomalyKind, PacketBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = [
    "MAX_RECORD_BYTES",
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


class Columns:
    """Packets as columns, not numbered yet; the meaning is that of :class:`PacketBatch`."""

    __slots__ = ("captured_bytes", "link_type", "offset", "time_ns", "wire_bytes")

    def __init__(
        self,
        time_ns: NDArray[np.int64],
        offset: NDArray[np.int64],
        captured_bytes: NDArray[np.int64],
        wire_bytes: NDArray[np.int64],
        link_type: NDArray[np.int32],
    ) -> None:
        self.time_ns = time_ns
        self.offset = offset
        self.captured_bytes = captured_bytes
        self.wire_bytes = wire_bytes
        self.link_type = link_type

    def __len__(self) -> int:
        return len(self.time_ns)

    @classmethod
    def joined(cls, parts: list[Columns]) -> Columns | None:
        """Put packets over the same bytes one after another; None for none."""
        if len(parts) < 2:
            return parts[0] if parts else None
        return cls(
            time_ns=np.concatenate([part.time_ns for part in parts]),
            offset=np.concatenate([part.offset for part in parts]),
            captured_bytes=np.concatenate([part.captured_bytes for part in parts]),
            wire_bytes=np.concatenate([part.wire_bytes for part in parts]),
            link_type=np.concatenate([part.link_type for part in parts]),
        )

    def first(self, count: int) -> Columns:
        """Return the first packets alone; all of them where there are no more than ``count``."""
        return self._cut(slice(count))

    def parts(self, count: int) -> Iterator[Columns]:
        """Give the packets in parts of at most ``count``."""
        for start in range(0, len(self), count):
            yield self._cut(slice(start, start + count))

    def _cut(self, here: slice) -> Columns:
        return Columns(
            time_ns=self.time_ns[here],
            offset=self.offset[here],
            captured_bytes=self.captured_bytes[here],
            wire_bytes=self.wire_bytes[here],
            link_type=self.link_type[here],
        )

    def batch(self, buffer: memoryview, first_number: int) -> PacketBatch:
        """Make a batch over ``buffer``, numbered from ``first_number`` on."""
        return PacketBatch(
            buffer=buffer,
            number=np.arange(first_number, first_number + len(self), dtype=np.int64),
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
    """A parser of one capture format, fed with bytes; it keeps what the file's header said."""

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machine dropped, where the file says it."""

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the file's header from ``buffer[:end]``; None when there are not enough bytes.

        Raises :class:`kanalyze.errors.CaptureError` when it is of a kind that cannot be read.
        """

    def parse(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Read the records in ``buffer[start:end]``; ``start`` is where a record begins.

        Always uses at least one record when one is complete; may stop before the last complete
        one (at a change of byte order), so it is to be called until it uses nothing.
        """


def corrupt(detail: str) -> Anomaly:
    """Make the anomaly of a record that contradicts itself."""
    return Anomaly(AnomalyKind.CAPTURE_CORRUPT, detail=detail)
