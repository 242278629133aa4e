"""Records the packets of selected requests: failed or slow ones.

In: packets as they are captured; the rows made of them. Out: the packets of the selected rows, and
some before them, to a a writer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.extraction.selection import ends_of
from kanalyze.live.recorder.packet_ring import PacketRing
from kanalyze.live.window.row_measures import held_back_on_purpose
from kanalyze.net.endpoint_hashes import EndpointHashes
from kanalyze.render.wireshark import comments_of
from kanalyze.tables.columns.numpy_arrays import all_began_ns, ints_of, lists_of, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from kanalyze.live.recorder.files import PcapngWriter
    from kanalyze.live.recorder.packet_ring import SelectedPackets
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import Endpoint
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.filters import RowFilter

_NS_PER_S: Final = 1_000_000_000
_SETTLE_NS: Final = 2 * _NS_PER_S
"""How long packets stay buffered in addition to the lead, because rows of other connections may
still select earlier packets."""
MAX_ROWS_PER_S: Final = 500
"""Per second of the capture; ``kanalyze live --help`` names it."""
_CLOCK_SET_BACK_S: Final = 60
"""Rows this much older than others mean that the clock was set back."""
_LAST_NS: Final = (1 << 63) - 1


class _RowRateLimit:
    """Limits the number of rows per second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._second = -1
        self._count = 0
        """Number of rows admitted in that second so far."""

    def admit(self, seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are within the limit, by the second of each."""
        if not len(seconds):
            return np.zeros(0, dtype=np.bool_)
        if seconds.max() < self._second - _CLOCK_SET_BACK_S:
            self._second = -1
        latest = np.maximum.accumulate(np.maximum(seconds, self._second))
        is_first = latest != np.concatenate(([self._second], latest[:-1]))
        index_in_second = np.arange(len(seconds))
        begins = np.maximum.accumulate(np.where(is_first, index_in_second, -self._count))
        index_in_second -= begins
        self._second, self._count = int(latest[-1]), int(index_in_second[-1]) + 1
        return index_in_second < self._most


class PacketRecorder:
    """Buffers the latest packets, and writes those of rows that match a filter.

    The packets of a row are those of its connection, from some time (the lead) before the request
    to the end of the response. If there is no response, or if packets are missing or out of order,
    they extend to the newest packet. The handshake of the connection is written too, if it is still
    buffered. Each packet is written once; the first one of a matching request has a comment.

    Packets are written in the order of the capture, except for those of exchanges that last longer
    than packets are buffered: they are written when the exchange ends. Packets of one connection
    are always in order.

    SASL tokens of both directions are redacted, and so are messages that could not be read, which
    may have tokens; see :meth:`redact`. Fragmented packets are left out while there are tokens.

    Only the first rows of a second are recorded: if everything fails at once, a sample is enough,
    and the rest would fill the disk.
    """

    def __init__(
        self,
        sink: PcapngWriter,
        filters: Sequence[RowFilter],
        *,
        limit_bytes: int = 64 << 20,
        lead_s: float = 1.0,
        max_rows_per_s: int = MAX_ROWS_PER_S,
    ) -> None:
        """Start with an empty buffer.

        Args:
            sink: writes the packets.
            filters: a row is recorded if one of them matches.
            limit_bytes: memory for buffered packets.
            lead_s: seconds to record before a request.
            max_rows_per_s: the limit of rows per second. Filters on more than errors and latency
                are applied to the rows within the limit.
        """
        self._sink = sink
        self._filters = tuple(filters)
        self._lead_ns = int(lead_s * _NS_PER_S)
        self._ring = PacketRing(limit_bytes)
        self.rows = 0
        """Rows that matched."""
        self.late_rows = 0
        """Matching rows whose first packets are no longer buffered."""
        self.skipped_rows = 0
        """Rows beyond the limit per second."""
        self.lost_packets = 0
        """Packets that could not be written."""
        self._rate = _RowRateLimit(max_rows_per_s)

    def add_packets(self, batch: PacketBatch) -> None:
        """Copy packets to the buffer, before their rows come; raises OSError."""
        self._write_all(self._ring.add(batch))

    def redact(self, tokens: Sequence[TokenBytes]) -> None:
        """Redact tokens in packets that are written from now on; call it before the rows come."""
        self._ring.redact(tokens)

    def add_rows(self, block: RowBlock) -> int:
        """Select the packets of matching rows to be written; return how many rows match."""
        block = self._matching(block) if len(block) else block
        rows: list[Row] = block.rows()
        self.rows += len(rows)
        for endpoints, spans in self._spans(rows).items():
            self._mark(endpoints, spans)
        for row, text in zip(rows, comments_of(block), strict=True):
            self._comment(row, text)
        return len(rows)

    def tick(self, now_ns: int) -> None:
        """Write the selected packets that were buffered for long enough; raises OSError.

        ``now_ns`` is the Unix time by the clock of the packets.
        """
        self._write_all(self._ring.release(now_ns - self._lead_ns - _SETTLE_NS))

    def flush(self) -> None:
        """Write all selected packets now; raises OSError."""
        self._write_all(self._ring.release())

    def close(self) -> None:
        """Write all selected packets and close the sink; raises OSError."""
        try:
            self.flush()
        finally:
            self._sink.close()

    def _write_all(self, packets: Iterable[SelectedPackets]) -> None:
        failure = None
        for selected in packets:
            try:
                self._sink.write(selected.packets, selected.comments)
            except OSError as error:
                # These packets are not buffered again: the buffer would grow without limit.
                self.lost_packets += len(selected.packets)
                failure = failure or error
        if failure is not None:
            raise failure

    def _matching(self, block: RowBlock) -> RowBlock:
        may_match = np.zeros(len(block), dtype=np.bool_)
        for row_filter in self._filters:
            may_match |= _may_match(block, row_filter)
        if not may_match.any():
            return block.take([])
        candidates = np.flatnonzero(may_match)
        is_admitted = self._rate.admit(all_began_ns(block)[candidates] // _NS_PER_S)
        self.skipped_rows += len(candidates) - int(is_admitted.sum())
        admitted = block.take(candidates[is_admitted].tolist())
        numbers = {
            number for row_filter in self._filters for number in row_filter.numbers(admitted)
        }
        return admitted.take(sorted(numbers))

    def _spans(self, rows: Sequence[Row]) -> dict[EndpointHashes, list[tuple[int, int]]]:
        """Return the time spans of packets to record, by connection."""
        spans: defaultdict[tuple[Endpoint, Endpoint], list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            spans[ends_of(row)].append(_span(row))
        return {
            EndpointHashes.of(*endpoints): of_connection
            for endpoints, of_connection in spans.items()
        }

    def _mark(self, endpoints: EndpointHashes, spans: Sequence[tuple[int, int]]) -> None:
        for begin_ns, end_ns in _joined(spans, self._lead_ns):
            self._ring.mark_handshake(endpoints, begin_ns)
            from_ns = begin_ns - self._lead_ns
            if self._ring.mark(endpoints, from_ns, end_ns):
                self._ring.mark(endpoints, from_ns, _LAST_NS)

    def _comment(self, row: Row, text: str) -> None:
        numbers = [
            number for number in (row.request_packet, row.response_packet) if number is not None
        ]
        self.late_rows += not (numbers and self._ring.has(numbers[0]))
        # Only the first packet that is not written yet gets the comment.
        any(self._ring.comment(number, text) for number in numbers)


def _may_match(block: RowBlock, row_filter: RowFilter) -> NDArray[np.bool_]:
    """Return which rows may match a filter, by columns: making row objects is 100 times slower."""
    may_match = np.ones(len(block), dtype=np.bool_)
    if row_filter.get("errors"):
        status, errors = words_of(block.columns["status"]), lists_of(block.columns["errors"])
        # Malformed rows match if their response was not read.
        may_match &= status.is_one_of({"error", "malformed"}) | (np.diff(errors.offsets) > 0)
    slower_than_ns = row_filter.get("slower_than")
    if slower_than_ns is not None:
        may_match &= ints_of(block.columns["latency_ns"]).values > slower_than_ns
        may_match &= ~held_back_on_purpose(block.columns)
    return may_match


def _span(row: Row) -> tuple[int, int]:
    """Return the times of the first packet of a request and of the last one of its response.

    The span has no end if the end of the response was not seen, or if the clock was set back.
    """
    times = (row.request_start_ns, row.request_end_ns, row.response_start_ns, row.response_end_ns)
    known_times = [time_ns for time_ns in times if time_ns is not None]
    is_over = row.response_end_ns is not None or row.status == "one_way"
    if known_times != sorted(known_times):
        # The clock was set back: packets in between may have any time.
        return min(known_times), _LAST_NS
    return known_times[0], known_times[-1] if is_over else _LAST_NS


def _joined(spans: Iterable[tuple[int, int]], lead_ns: int) -> list[tuple[int, int]]:
    """Join the spans that overlap if each begins earlier by the lead; return them in order."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin - lead_ns <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
