"""Keeps the packets of requests that somebody wants to look at later: errors, slow ones.

In: packets as they are captured, rows as they are made of them. Out: packets of some rows, with
enough before to see why, to whoever writes them. This module must not know the clock, nor how rows
are made.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from kanalyze.common.escaping import escape
from kanalyze.errors import UsageError
from kanalyze.live.recorder.packet_ring import Ends, RecentPackets
from kanalyze.model.tcp import Endpoint
from kanalyze.render.units import duration_text
from kanalyze.statistics.aggregation_inputs import held_back_on_purpose
from kanalyze.tables.columns.numpy_arrays import ints_of, lists_of, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kanalyze.live.recorder.packet_ring import TakenPackets
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import TokenBytes
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.row import Row

__all__ = ["PacketKeeper", "PacketSink", "comment_of"]

_NS_PER_S: Final = 1_000_000_000
_SETTLE_NS: Final = 2 * _NS_PER_S
"""How long packets are held back, besides the lead: rows of other connections may bring some that
come before them."""
_MOST_CLIENT_ID_CHARS: Final = 200
MOST_ROWS_PER_S: Final = 500
"""In a second of the capture; ``kanalyze live --help`` names it."""
_CLOCK_SET_BACK_S: Final = 60
"""Rows this much older than others do not belong to them: the clock was set back."""
_LAST_NS: Final = (1 << 63) - 1


class PacketSink(Protocol):
    """What packets are written to."""

    def write(
        self, packets: PacketBatch, comments: Mapping[int, Sequence[str]] | None = None, /
    ) -> None:
        """Write packets in their order, with comments by index; raises OSError."""

    def close(self) -> None:
        """Finish; raises OSError."""


class _RowRate:
    """Lets only so many rows of a second pass."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._second = -1
        self._count = 0
        """Rows of that second so far."""

    def take(self, seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows pass, by the second of each; those that come late count with others."""
        if not len(seconds):
            return np.zeros(0, dtype=np.bool_)
        if seconds.max() < self._second - _CLOCK_SET_BACK_S:
            self._second = -1
        latest = np.maximum.accumulate(np.maximum(seconds, self._second))
        is_first = latest != np.concatenate(([self._second], latest[:-1]))
        places = np.arange(len(seconds))
        begins = np.maximum.accumulate(np.where(is_first, places, -self._count))
        places -= begins
        self._second, self._count = int(latest[-1]), int(places[-1]) + 1
        return places < self._most


class PacketKeeper:
    """Holds the latest packets, and writes those of rows that match.

    Of a row these are the packets of its connection from some time before the request's first
    packet to the response's last one (where that never came, or packets are missing on the way or
    came late: to the last one there is), and the packets that opened the connection, as far as they
    are held. Each packet is written once, with a comment where a request begins that matched.
    Packets come in the order of the capture, but for those of exchanges that took longer than
    packets are held back, which come when they end; those of one connection are always in order.

    Tokens of SASL, both ways, are zeros in what is written, and so is what could not be read, for
    it may hold one; see :meth:`hide`. Packets in fragments are left out while there are logins.

    Of each second only so many rows are wanted, the first ones: where everything fails at once it
    is no use to look for the packets of all, nor would they leave others on the disk.
    """

    def __init__(
        self,
        sink: PacketSink,
        filters: Sequence[RowFilter],
        *,
        limit_bytes: int = 64 << 20,
        lead_s: float = 1.0,
        most_rows_per_s: int = MOST_ROWS_PER_S,
    ) -> None:
        """Begin with no packets.

        Args:
            sink: such as a :class:`~kanalyze.live.recorder.pcapng_writer.PcapngWriter`.
            filters: a row is wanted that one of them lets pass.
            limit_bytes: how much to hold of packets, with what is needed to find them.
            lead_s: how much before a request to keep.
            most_rows_per_s: how many rows are wanted of a second; of filters that ask for more
                than errors and slowness, how many are looked at.

        Raises:
            UsageError: a limit makes no sense.
        """
        if limit_bytes < 1 or not 0 <= lead_s <= 86_400:
            raise UsageError("packets are kept within 1 byte or more, and with 0 s to a day before")
        if most_rows_per_s < 1:
            raise UsageError(f"not a number of rows to keep in a second: {most_rows_per_s}")
        self._sink = sink
        self._filters = tuple(filters)
        self._lead_ns = int(lead_s * _NS_PER_S)
        self._recent = RecentPackets(limit_bytes)
        self.rows = 0
        """Rows that matched."""
        self.late_rows = 0
        """Of these, those whose request began so long ago that its packets are no longer held."""
        self.skipped_rows = 0
        """Besides, those beyond what is wanted of a second."""
        self.lost_packets = 0
        """Those that could not be written."""
        self._rate = _RowRate(most_rows_per_s)

    @property
    def held_bytes(self) -> int:
        """How much is held of packets now."""
        return self._recent.held_bytes

    def add_packets(self, batch: PacketBatch) -> None:
        """Take packets, before their rows; raises OSError. Nothing of the batch is held."""
        self._write_all(self._recent.add(batch))

    def hide(self, tokens: Sequence[TokenBytes]) -> None:
        """Take where packets hold tokens that somebody logs in with, before rows of the packets."""
        self._recent.hide(tokens)

    def add_rows(self, block: RowBlock) -> int:
        """Take rows, and return how many of them match.

        Of each, the packets that are held are going to be written.
        """
        rows = self._wanted(block) if len(block) else []
        self.rows += len(rows)
        for ends, spans in self._spans(rows).items():
            self._mark(ends, spans)
        for row in rows:
            self._comment(row)
        return len(rows)

    def tick(self, now_ns: int) -> None:
        """Write what is wanted and has been held back for long enough; raises OSError.

        ``now_ns`` is the Unix time now, by the clock of the packets.
        """
        self._write_all(self._recent.take(now_ns - self._lead_ns - _SETTLE_NS))

    def flush(self) -> None:
        """Write all that is wanted, at once; raises OSError."""
        self._write_all(self._recent.take())

    def close(self) -> None:
        """Write all that is wanted and finish; raises OSError."""
        try:
            self.flush()
        finally:
            self._sink.close()

    def _write_all(self, packets: Iterable[TakenPackets]) -> None:
        failure = None
        for taken in packets:
            try:
                self._sink.write(taken.packets, taken.comments)
            except OSError as error:
                # They are not held on to: there would be more and more of them.
                self.lost_packets += len(taken.packets)
                failure = failure or error
        if failure is not None:
            raise failure

    def _wanted(self, block: RowBlock) -> list[Row]:
        near = np.zeros(len(block), dtype=np.bool_)
        for each in self._filters:
            near |= _may_match(block, each)
        if not near.any():
            return []
        some = np.flatnonzero(near)
        is_wanted = self._rate.take(_row_times(block)[some] // _NS_PER_S)
        self.skipped_rows += len(some) - int(is_wanted.sum())
        rows = block.take(some[is_wanted].tolist()).rows()
        return [row for row in rows if any(each.matches(row) for each in self._filters)]

    def _spans(self, rows: Sequence[Row]) -> dict[Ends, list[tuple[int, int]]]:
        """Return from when to when packets are wanted, by connection."""
        spans: defaultdict[tuple[Endpoint, Endpoint], list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            client = Endpoint(row.client_ip, row.client_port)
            spans[client, Endpoint(row.broker_ip, row.broker_port)].append(_span(row))
        return {Ends.of(*ends): of_ends for ends, of_ends in spans.items()}

    def _mark(self, ends: Ends, spans: Sequence[tuple[int, int]]) -> None:
        for begin_ns, end_ns in _joined(spans, self._lead_ns):
            self._recent.mark_handshake(ends, begin_ns)
            from_ns = begin_ns - self._lead_ns
            if self._recent.mark(ends, from_ns, end_ns):
                self._recent.mark(ends, from_ns, _LAST_NS)

    def _comment(self, row: Row) -> None:
        packets = [each for each in (row.request_packet, row.response_packet) if each is not None]
        self.late_rows += not (packets and self._recent.holds(packets[0]))
        text = comment_of(row)
        # The first that takes it; one that was written for an earlier row takes no more.
        any(self._recent.comment(packet, text) for packet in packets)


def comment_of(row: Row) -> str:
    """Return what to say of a request in a capture: one line, without what could do harm."""
    api = row.api_name or ("?" if row.api_key is None else f"API {row.api_key}")
    parts = [api if row.api_version is None else f"{api} v{row.api_version}"]
    if row.client_id is not None:
        parts.append(f"client {escape(row.client_id[:_MOST_CLIENT_ID_CHARS])}")
    parts.append(row.status.replace("_", " ") if row.status != "error" else "")
    parts.append(", ".join(dict.fromkeys(error.name for error in row.errors[:8])))
    if row.latency_ns is not None:
        parts.append(f"latency {duration_text(row.latency_ns)}")
    return "; ".join(filter(None, parts))


def _may_match(block: RowBlock, wanted: RowFilter) -> NDArray[np.bool_]:
    """Return which rows are worth a look: made by one, a row costs as much as a hundred here."""
    near = np.ones(len(block), dtype=np.bool_)
    if wanted.errors_only:
        status, errors = words_of(block.columns["status"]), lists_of(block.columns["errors"])
        # Code -1, null, finds the last one.
        is_error = np.array([*(word == "error" for word in status.words), False], dtype=np.bool_)
        near &= is_error[status.codes] | (np.diff(errors.offsets) > 0)
    if wanted.slower_than_ns is not None:
        near &= ints_of(block.columns["latency_ns"]).values > wanted.slower_than_ns
        near &= ~held_back_on_purpose(block.columns)
    return near


def _row_times(block: RowBlock) -> NDArray[np.int64]:
    """Return when requests began, or where that is not known their responses."""
    request = ints_of(block.columns["request_start_ns"])
    response = ints_of(block.columns["response_start_ns"])
    is_known = True if request.valid is None else request.valid
    return np.where(is_known, request.values, response.values)


def _span(row: Row) -> tuple[int, int]:
    """Return the times of the first packet of a request and of the last one of its response.

    Where the end of the response was not seen, or clocks contradict, that is all there is to come.
    """
    times = (row.request_start_ns, row.request_end_ns, row.response_start_ns, row.response_end_ns)
    known = [time_ns for time_ns in times if time_ns is not None]
    is_over = row.response_end_ns is not None or row.status == "one_way"
    if known != sorted(known):
        # The clock was set back: what is between has any time.
        return min(known), _LAST_NS
    return known[0], known[-1] if is_over else _LAST_NS


def _joined(spans: Iterable[tuple[int, int]], lead_ns: int) -> list[tuple[int, int]]:
    """Return spans of time with those as one that meet when each begins so much earlier."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin - lead_ns <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
