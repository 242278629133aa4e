"""Selects the packets that belong to requests, with comments that name the requests.

In: rows of requests by column, and spans of time; then segments. Out: the numbers of packets.

A packet belongs to a request if it is on the same connection and was captured between the request's
first packet and the response's last one. So retransmissions and pure acknowledgments are included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tcp import Endpoint
from kanalyze.net.endpoint_hashes import hashes_of, hashes_of_ends
from kanalyze.render.wireshark import comments_of
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Words
from kanalyze.tables.columns.numpy_arrays import ints_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

    _Longs: TypeAlias = NDArray[np.int64]
    _Columns: TypeAlias = tuple[_Longs, ...]

MAX_COMMENTED: Final = 1_000_000
"""Number of requests whose packets get comments; a comment takes some 100 bytes of memory."""
LAST_NS: Final = (1 << 63) - 1
_MAX_COMMENTS: Final = 100
"""Number of comments on one packet, which may contain thousands of requests."""
_GROUP_SHIFT: Final = 32
"""Bits for the rank of a time, below those of a group: there are fewer ranges than that."""
_MESSAGES: Final = (
    ("request_start_ns", "request_end_ns"),
    ("response_start_ns", "response_end_ns"),
)

_END_NAMES: Final = ("connection", "client_ip", "client_port", "broker_ip", "broker_port")
_BY_NAME: Final = {column.name: column for column in COLUMNS}
_END_COLUMNS: Final = [_BY_NAME[name] for name in _END_NAMES]


class Span(NamedTuple):
    """A range of capture times in ns, both ends included."""

    from_ns: int
    until_ns: int


class Spans(NamedTuple):
    """A span for each row of a block, as columns."""

    from_ns: _Longs
    until_ns: _Longs
    is_timed: NDArray[np.bool_]
    """Whether a row has a time; the others have no span."""

    @classmethod
    def of(cls, block: RowBlock) -> Spans:
        """Return the times of the first and the last packet of each request and its response.

        If the clock was set back meanwhile, the latest time counts as the last one.
        """
        first = np.full(len(block), LAST_NS)
        last = np.full(len(block), -1)
        for names in _MESSAGES:
            for name in names:
                times = ints_of(block.columns[name])
                is_known = True if times.valid is None else times.valid
                np.minimum(first, times.values, out=first, where=is_known)
                np.maximum(last, times.values, out=last, where=is_known)
        began = [ints_of(block.columns[starts]).valid for starts, _ in _MESSAGES]
        is_timed = np.ones(len(block), dtype=np.bool_)
        if began[0] is not None and began[1] is not None:
            is_timed = began[0] | began[1]
        return cls(first, last, is_timed)

    def only(self, rows: _Longs) -> Spans:
        """Return the spans of the rows at some positions."""
        return Spans(self.from_ns[rows], self.until_ns[rows], self.is_timed[rows])

    def widened(self, around_ns: int) -> Spans:
        """Return the spans with up to ``around_ns`` more before and after each."""
        by = min(around_ns, LAST_NS)
        return self._replace(
            from_ns=np.maximum(self.from_ns, by) - by,
            until_ns=np.minimum(self.until_ns, LAST_NS - by) + by,
        )


class FoundPackets(NamedTuple):
    """Packets of a batch that are selected."""

    numbers: _Longs
    """Packet numbers, ascending, without repetition."""
    commented: _Longs
    """The numbers of packets with a comment, ascending; repeated for each comment."""
    comments: _Longs
    """For each of these, the index of the comment in :attr:`PacketSelection.comments`."""
    fragmented: _Longs
    """Connections with a packet that came in IP fragments, for :meth:`PacketSearch.is_within`."""


class PacketSelection:
    """Selects packets; everything is added before the first batch is searched."""

    def __init__(self) -> None:
        self._ends: list[tuple[Endpoint, Endpoint]] = []
        self._numbers: dict[tuple[Endpoint, Endpoint], int] = {}
        self._by_text: dict[str, int] = {}
        """Numbers of connections, by their ends and by their text in rows."""
        self._spans: list[_Columns] = []
        """Connection, beginning and end of spans."""
        self._messages: list[_Columns] = []
        """Connection, end that sent it, beginning, end and comment of messages."""
        self.comments: list[str] = []
        """The comments of the requests."""
        self.requests = 0
        """Number of requests added."""

    def __bool__(self) -> bool:
        return bool(self._spans)

    @property
    def uncommented_requests(self) -> int:
        """Number of requests beyond :data:`MAX_COMMENTED`."""
        return max(self.requests - MAX_COMMENTED, 0)

    def add_requests(self, block: RowBlock, spans: Spans) -> None:
        """Select the packets of requests, all of which have a time, in these spans of time."""
        connections = self._connections_of(block)
        self._spans.append((connections, spans.from_ns, spans.until_ns))
        first_comment = len(self.comments)
        self.requests += len(block)
        commented = min(len(block), MAX_COMMENTED - first_comment)
        if commented < len(block):
            block, connections = block.part(0, commented), connections[:commented]
        self.comments += comments_of(block)
        numbers = np.arange(first_comment, first_comment + commented)
        for sender, (start_name, end_name) in enumerate(_MESSAGES):
            start, end = ints_of(block.columns[start_name]), ints_of(block.columns[end_name])
            last = (
                end.values if end.valid is None else np.where(end.valid, end.values, start.values)
            )
            senders = np.full(commented, sender)
            message: _Columns = (connections, senders, start.values, last, numbers)
            if start.valid is not None:
                message = tuple(column[start.valid] for column in message)
            self._messages.append(message)

    def add_span(self, client: Endpoint, broker: Endpoint, span: Span) -> None:
        """Select the packets of a connection in a span of time."""
        numbers = (self._number_of(client, broker), *span)
        self._spans.append(tuple(np.array([number]) for number in numbers))

    def search(self) -> PacketSearch:
        """Return what finds the packets selected so far."""
        return PacketSearch(self._ends, self._spans, self._messages, self.comments)

    def _connections_of(self, block: RowBlock) -> _Longs:
        """Return the number of each row's connection."""
        texts = block.columns["connection"]
        assert isinstance(texts, Words)
        codes = np.asarray(texts.codes)
        used, first_rows = np.unique(codes, return_index=True)
        words = [texts.words[code] for code in used.tolist()]
        new_rows = [
            row
            for row, word in zip(first_rows.tolist(), words, strict=True)
            if word not in self._by_text
        ]
        for word, *ends in zip(*block.take(new_rows).values(_END_COLUMNS), strict=True):
            client_ip, client_port, broker_ip, broker_port = ends
            client, broker = Endpoint(client_ip, client_port), Endpoint(broker_ip, broker_port)
            self._by_text[word] = self._number_of(client, broker)
        numbers = np.empty(len(texts.words), np.int64)
        numbers[used] = [self._by_text[word] for word in words]
        of_rows: _Longs = numbers[codes]
        return of_rows

    def _number_of(self, client: Endpoint, broker: Endpoint) -> int:
        number = self._numbers.setdefault((client, broker), len(self._ends))
        if number == len(self._ends):
            self._ends.append((client, broker))
        return number


class PacketSearch:
    """Finds the packets of a selection in batches of segments.

    Connections are known by the hashes of their ends. Those of the same two ends, whichever of them
    was the client, are one here.
    """

    def __init__(
        self,
        ends: Sequence[tuple[Endpoint, Endpoint]],
        spans: Sequence[_Columns],
        messages: Sequence[_Columns],
        comments: Sequence[str],
    ) -> None:
        senders = [hashes_of([pair[side] for pair in ends]) for side in (0, 1)]
        self._keys, pair_of = np.unique(senders[0] + senders[1], return_inverse=True)
        pair_of = pair_of.reshape(-1)
        self._lower = np.empty(len(self._keys), np.uint64)
        """The lower one of the hashes of the two ends of each pair."""
        self._lower[pair_of] = np.minimum(*senders)
        connections, first, last = _joined(spans, 3)
        self._spans = pair_of[connections], first, last
        self._span_ranges = TimeRanges(*self._spans)
        connections, sides, first, last, numbers = _joined(messages, 5)
        hashes = np.where(sides == 0, senders[0][connections], senders[1][connections])
        group = self._sender(pair_of[connections], hashes)
        order = _by_time_and_text(group, first, last, numbers, comments)
        self._messages = TimeRanges(group[order], first[order], last[order])
        self._message_ends, self._comments = last[order], numbers[order]

    def find(self, segments: SegmentColumns, whole_bytes: int) -> FoundPackets:
        """Return the selected packets of segments.

        ``whole_bytes`` is the size of the batch's buffer. Payload beyond it was put together from
        IP fragments.
        """
        senders, receivers = hashes_of_ends(segments)
        pairs, is_known = self._pairs(senders + receivers)
        times = np.asarray(segments.time_ns)
        rows = np.flatnonzero(is_known)
        rows = rows[self._span_ranges.contain(pairs[rows], times[rows])]
        numbers = np.asarray(segments.number)[rows]
        is_fragmented = np.asarray(segments.payload_start)[rows] > whole_bytes
        with_payload = rows[np.asarray(segments.payload_bytes)[rows] > 0]
        commented, comments = self._comments_at(
            self._sender(pairs[with_payload], senders[with_payload]), times[with_payload]
        )
        return FoundPackets(
            np.unique(numbers),
            np.asarray(segments.number)[with_payload][commented],
            comments,
            np.unique(pairs[rows[is_fragmented]]),
        )

    def is_within(self, fragmented: _Longs, times: _Longs) -> NDArray[np.bool_]:
        """Return which times are in a span of any of some connections, as :meth:`find` has them."""
        pairs, first, last = self._spans
        chosen = np.isin(pairs, fragmented)
        one_group = np.zeros(int(chosen.sum()), np.int64)
        ranges = TimeRanges(one_group, first[chosen], last[chosen])
        return ranges.contain(np.zeros(len(times), np.int64), times)

    def _pairs(self, keys: NDArray[np.uint64]) -> tuple[_Longs, NDArray[np.bool_]]:
        """Return which pair of ends segments are of, and whether it is a selected one."""
        pairs = np.minimum(self._keys.searchsorted(keys), len(self._keys) - 1)
        return pairs, self._keys[pairs] == keys

    def _sender(self, pairs: _Longs, hashes: NDArray[np.uint64]) -> _Longs:
        """Return a number for each end of each pair, by the hashes of the ends."""
        numbers: _Longs = 2 * pairs + (hashes != self._lower[pairs])
        return numbers

    def _comments_at(self, senders: _Longs, times: _Longs) -> tuple[_Longs, _Longs]:
        """Return the comments on packets as columns: index of the packet, and of the comment."""
        first = self._messages.first_unfinished(senders, times)
        end = np.minimum(self._messages.begun(senders, times), first + _MAX_COMMENTS)
        counts = np.maximum(end - first, 0)
        packets = np.repeat(np.arange(len(times)), counts)
        place = np.arange(len(packets)) - np.repeat(np.cumsum(counts) - counts, counts)
        messages = first[packets] + place
        is_at = self._message_ends[messages] >= times[packets]
        return packets[is_at], self._comments[messages[is_at]]


class TimeRanges:
    """Ranges of time in groups, both ends included; they may overlap."""

    def __init__(self, group: _Longs, first: _Longs, last: _Longs) -> None:
        """Prepare the search; messages of a group have to be in the order of their beginnings.

        A group and the rank of a time in it are one number, so all groups are searched at once.
        """
        order = np.lexsort((first, group))
        group, first, last = group[order], first[order], last[order]
        self._firsts, ranks = np.unique(first, return_inverse=True)
        self._begins = (group << _GROUP_SHIFT) + ranks.reshape(-1)
        self._lasts, ranks = np.unique(last, return_inverse=True)
        # If the clock was set back, an earlier range may end later.
        self._latest_ends = np.maximum.accumulate((group << _GROUP_SHIFT) + ranks.reshape(-1))

    def begun(self, group: _Longs, times: _Longs) -> _Longs:
        """Return the index after the last range of a group that began up to a time."""
        rank = self._firsts.searchsorted(times, "right") - 1
        return self._begins.searchsorted((group << _GROUP_SHIFT) + rank, "right")

    def first_unfinished(self, group: _Longs, times: _Longs) -> _Longs:
        """Return the index of the first range of a group that ends at a time or later."""
        rank = self._lasts.searchsorted(times)
        return self._latest_ends.searchsorted((group << _GROUP_SHIFT) + rank)

    def contain(self, group: _Longs, times: _Longs) -> NDArray[np.bool_]:
        """Return whether any range of a group contains a time."""
        return self.first_unfinished(group, times) < self.begun(group, times)


def ends_of(row: Row | ConnectionRow) -> tuple[Endpoint, Endpoint]:
    """Return the client and the broker of a row."""
    return Endpoint(row.client_ip, row.client_port), Endpoint(row.broker_ip, row.broker_port)


def _by_time_and_text(
    group: _Longs, first: _Longs, last: _Longs, numbers: _Longs, comments: Sequence[str]
) -> _Longs:
    """Return the order of messages by group, beginning, end and comment."""
    order = np.lexsort((last, first, group))
    is_same = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
    for column in (group, first, last):
        is_same &= np.diff(column[order]) == 0
    if not is_same.any():
        return order
    tied = order[np.append(is_same, False) | np.append(False, is_same)]
    texts = [comments[number] for number in numbers[tied].tolist()]
    places = {text: place for place, text in enumerate(sorted(set(texts)))}
    rank = np.zeros(len(order), np.int64)
    rank[tied] = [places[text] for text in texts]
    return np.lexsort((rank, last, first, group))


def _joined(parts: Sequence[_Columns], width: int) -> _Columns:
    """Return columns of all parts together; there are ``width`` columns even without parts."""
    empty = (np.empty(0, np.int64),) * width
    return tuple(np.concatenate(columns) for columns in zip(empty, *parts, strict=True))
