"""Reads connections on which nothing is out of the ordinary by columns, many messages at a time.

In: what a batch of packets added to Kafka connections. Out: exchanges as columns, and those that
columns are not for as objects, in the order in which they ended. This module must not know rows,
nor packets beyond the times and numbers of bytes.

Of each connection the requests and responses of a batch that answer each other one by one are
taken out of the middle; what comes before and after them, and every connection that does not bear
this out, goes to :meth:`~kanalyze.connection.kafka.KafkaConnection.feed`. So there is one place
that knows what to do when something is wrong, and it is not here: here it is only told apart.

What has to hold of a request and the response at the same place for the two to be a pair of the
middle: the ids are the same, the request ended before the response did and began no later, it is
due a response (Produce with acks=0 is not), its header can be read, and its id follows the one
before. What is read of both is then the same whether one looks at them one by one or at all
together, which tests hold against each other (``tests/test_columnar.py``).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.connection.columns import ExchangeColumns
from kanalyze.connection.cutting import cut, plain_stream
from kanalyze.connection.frame_columns import FrameBytes, FrameColumns, read_integers
from kanalyze.connection.heads import CLIENT_ID_AT, RequestHeads, after_no_tags, read_heads
from kanalyze.model import Chunk
from kanalyze.protocol.lockstep_columns import taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.connection.exchange import Exchange, Peers
    from kanalyze.connection.frame_columns import Direction
    from kanalyze.connection.kafka import KafkaConnection
    from kanalyze.connection.order import Ended
    from kanalyze.connection.reader import MessageReader
    from kanalyze.model import StreamItem
    from kanalyze.protocol.lockstep import Fields

__all__ = ["ColumnReader"]

_NONE = np.zeros(0, np.int64)

_LEAST_PAIRS = 8
"""Of a connection in a batch: with fewer, setting up costs more than it saves."""
_MOST_PASSED = 8
"""Batches that a connection is not looked at in, after it was refused as often."""
_LEAST_ALIKE = 16
"""Messages of one API version in a batch: as above."""
_MOST_HELD_BYTES = 1024 * 1024
"""Of requests without an answer that a connection holds until its next batch."""
_MOST_UNANSWERED = 4
"""Requests at the beginning of a batch that may be without an answer in it."""
_MOST_WAITING = 10_000
"""As many requests of a connection may wait for an answer (see ``Pending``)."""


class _Offer(NamedTuple):
    """A connection that may be read by columns."""

    connection: KafkaConnection
    requests: Direction
    responses: Direction
    ahead_bytes: int
    """Of the requests, what came with an earlier batch."""

    @property
    def ahead(self) -> int:
        """How many requests came whole with an earlier batch."""
        cuts = self.requests.cuts
        return bisect_right([*cuts.at[1:], cuts.end], self.ahead_bytes) if self.ahead_bytes else 0


class _Middle(NamedTuple):
    """Pairs of a connection that answer each other one by one."""

    first: int
    last: int
    """Requests ``first`` to ``last``, by index in the cuts of the connection."""
    shift: int
    """Response ``k + shift`` answers request ``k``: those before answer what came earlier. Below 0
    where the first request is answered by a response that had begun already."""
    pair: int
    """Index of the first among the pairs of the batch."""


class _Pairs(NamedTuple):
    """Requests and responses of the middles of all connections, by index among the frames."""

    request: NDArray[np.int64]
    response: NDArray[np.int64]
    offer: NDArray[np.int64]


class _Group(NamedTuple):
    """Pairs of one API version that were read, all of them soundly."""

    kind: tuple[int, int]
    pairs: NDArray[np.int64]
    asked: Fields
    answered: Fields


class ColumnReader:
    """Reads by columns what a batch of packets added to connections.

    For one batch: :meth:`offer` it connections, then :meth:`read`, then :meth:`take` what became
    of each one that was accepted, in the same order, and :meth:`finish`.
    """

    def __init__(self, reader: MessageReader, apis: frozenset[int]) -> None:
        """Begin a batch.

        Args:
            reader: reads messages.
            apis: keys of the APIs that columns are made of.
        """
        self._reader = reader
        self._apis = apis
        self._offers: list[_Offer] = []
        self._requests = FrameColumns()
        self._responses = FrameColumns()
        self._store = FrameBytes()
        self._data = np.zeros(0, np.uint8)
        self._heads: RequestHeads
        self._middles: list[_Middle | None] = []
        self._pairs: _Pairs
        self._groups: list[_Group] = []
        self._is_cold = np.zeros(0, np.bool_)
        """Of each pair: whether it is read one by one."""
        self._places = _NONE
        """Of each pair: its place among what ended; -1 where it was not a pair after all."""
        self._peers: list[Peers | None] = []
        self._lost_ns: list[int] = []

    # -- what is offered --------------------------------------------------------------------------

    def offer(
        self, connection: KafkaConnection, items: tuple[list[StreamItem], list[StreamItem]]
    ) -> bool:
        """Tell whether a connection's part of the batch may be read by columns.

        If so it must not be fed with it: :meth:`take` does that.
        """
        if not connection.is_plain or not self._may_pay(connection, items):
            return False
        if self._take_up(connection, items):
            connection.refusals = 0
            return True
        connection.refusals += 1
        connection.batches_passed = 0
        return False

    @staticmethod
    def _may_pay(
        connection: KafkaConnection, items: tuple[list[StreamItem], list[StreamItem]]
    ) -> bool:
        """Tell whether it is worth a look: messages are seldom smaller than segments."""
        if connection.batches_passed < min(connection.refusals, _MOST_PASSED):
            # Of large messages there are few: a connection of those has them in every batch.
            connection.batches_passed += 1
            return False
        return all(
            sum(item.last - item.first for item in side if isinstance(item, Chunk)) >= _LEAST_PAIRS
            for side in items
        )

    def _take_up(
        self, connection: KafkaConnection, items: tuple[list[StreamItem], list[StreamItem]]
    ) -> bool:
        client_side = connection.client_side
        requests = plain_stream([*connection.held_back, *items[client_side]])
        responses = plain_stream(items[1 - client_side])
        if requests is None or responses is None:
            return False
        skips = connection.unfinished_bytes
        asked = cut(requests, skips[0], 8)
        answered = cut(responses, skips[1], 4)
        if asked is None or answered is None:
            return False
        if min(len(asked.at), len(answered.at)) < _LEAST_PAIRS:
            return False
        ahead_bytes = sum(len(chunk.segments.buffer) for chunk in connection.held_back)
        connection.held_back = []
        self._offers.append(
            _Offer(
                connection,
                self._requests.add(requests, asked, self._store),
                self._responses.add(responses, answered, self._store),
                ahead_bytes,
            )
        )
        return True

    # -- what is read -----------------------------------------------------------------------------

    def read(self) -> None:
        """Read what was offered: find the pairs, and decode those that are alike."""
        if not self._offers:
            return
        self._requests.close()
        self._responses.close()
        self._data = self._store.array()
        self._heads = read_heads(self._requests, self._data, self._reader)
        self._pair()
        self._is_cold = np.ones(len(self._pairs.request), np.bool_)
        self._places = np.full(len(self._pairs.request), -1, np.int64)
        kinds = self._heads.kind[self._pairs.request]
        for index, kind in enumerate(self._heads.kinds):
            alike = np.flatnonzero(kinds == index)
            if kind[0] in self._apis and len(alike) >= _LEAST_ALIKE:
                group = self._decode(kind, alike)
                if group is not None:
                    self._groups.append(group)
                    self._is_cold[group.pairs] = False

    def _pair(self) -> None:
        """Find the middle of each connection."""
        answered_id = read_integers(self._data, self._responses.start + 4, ">i4")
        requests, responses, offers = [_NONE], [_NONE], [_NONE]
        count = 0
        for index, offer in enumerate(self._offers):
            middle = self._middle_of(offer, answered_id[offer.responses.rows], count)
            self._middles.append(middle)
            if middle is None:
                continue
            own = np.arange(middle.first, middle.last)
            count += len(own)
            requests.append(own + offer.requests.first)
            responses.append(own + offer.responses.first + middle.shift)
            offers.append(np.full(len(own), index))
        self._pairs = _Pairs(*map(np.concatenate, (requests, responses, offers)))

    def _middle_of(
        self, offer: _Offer, answered_id: NDArray[np.int64], pair: int
    ) -> _Middle | None:
        """Return the middle of a connection, if there is one; its first pair is number ``pair``."""
        heads, asked, answered = self._heads, offer.requests.rows, offer.responses.rows
        asked_id = heads.correlation_id[asked]
        first_answer = _first_answer(asked_id, answered_id)
        if first_answer is None:
            return None
        base, shift = first_answer
        # Messages are taken in the order in which they ended; one that comes out of the order of
        # its stream waits for those before it. So a response finds its request if any response up
        # to it ended after all requests up to that one.
        asked_end = self._requests.end_packet[asked].copy()
        asked_end[: offer.ahead] = 0
        latest_asked = np.maximum.accumulate(asked_end)
        answered_end = self._responses.end_packet[answered]
        latest_answered = np.maximum.accumulate(answered_end)
        count = min(len(asked_end), len(answered_end) - shift)
        ours, theirs = slice(base, count), slice(base + shift, count + shift)
        is_pair = asked_id[ours] == answered_id[theirs]
        is_pair &= latest_asked[ours] < latest_answered[theirs]
        began = self._requests.start_packet[asked][ours]
        is_pair &= began <= self._responses.start_packet[answered][theirs]
        is_odd = self._is_odd(offer)
        # A request whose id does not follow may begin a middle; it may not be within one.
        is_pair[1:] &= ~is_odd[ours][1:]
        is_pair[:1] &= heads.is_sound[asked][ours][:1]
        last = count if is_pair.all() else base + int(is_pair.argmin())
        odd = np.flatnonzero(is_odd[last:])
        if len(odd):
            # It may need no response, and so end before the responses to those before it; or it
            # tells that ids come again, which matters for all responses after it.
            ended = int(np.searchsorted(latest_answered, asked_end[last + odd[0]]))
            last = min(last, ended - shift)
        last = _parting(answered_end, latest_answered, last + shift) - shift
        telling = np.flatnonzero(heads.is_telling[asked][base : max(base, last)])
        first = base + int(telling[-1]) + 1 if len(telling) else base
        if not _LEAST_PAIRS <= last - first < _MOST_WAITING:
            return None
        return _Middle(first, last, shift, pair)

    def _is_odd(self, offer: _Offer) -> NDArray[np.bool_]:
        """Tell which requests of a connection need not be answered in their turn, or break it."""
        rows = offer.requests.rows
        ids = self._heads.correlation_id[rows]
        is_odd: NDArray[np.bool_] = ~self._heads.is_sound[rows]
        is_odd[1:] |= ids[1:] != ids[:-1] + 1
        return is_odd

    def _decode(self, kind: tuple[int, int], pairs: NDArray[np.int64]) -> _Group | None:
        """Read pairs of one kind, if there are enough; those that are not sound stay cold."""
        decoders = self._reader.lockstep(*kind)
        if decoders is None:
            return None
        request, response = self._pairs.request[pairs], self._pairs.response[pairs]
        asked, answered = self._requests, self._responses
        asked_end = asked.start[request] + asked.size[request] + 4
        answered_end = answered.start[response] + answered.size[response] + 4
        body = answered.start[response] + 8
        is_whole = (asked.held[request] >= asked_end) & (answered.held[response] >= answered_end)
        if self._reader.header_versions(*kind)[1] >= 1:
            body, is_whole = after_no_tags(
                self._data, body, answered_end, is_whole, np.ones(len(body), np.bool_)
            )
        kept = np.flatnonzero(is_whole)
        asks, sound = decoders[0](self._data, self._heads.body[request[kept]], asked_end[kept])
        answers, also_sound = decoders[1](self._data, body[kept], answered_end[kept])
        both = np.flatnonzero(sound & also_sound)
        if not len(both):
            return None
        if len(both) < len(kept):
            asks, answers = taken(asks, both), taken(answers, both)
        return _Group(kind, pairs[kept[both]], asks, answers)

    # -- what became of it ------------------------------------------------------------------------

    def take(self, index: int, ended: Ended, latest: int = 0) -> int:
        """Go on with the offer at an index as far as it was read, and in the usual way after.

        Returns the last packet that any of its exchanges ended in, as :meth:`Ended.add`, which
        ``latest`` is from, where some ended before.
        """
        offer, middle = self._offers[index], self._middles[index]
        connection = offer.connection
        self._peers.append(None)
        self._lost_ns.append(-1)
        if middle is None:
            return ended.add(_feed(offer, (0, 0), _ends_of(offer)), latest)
        asked, answered = offer.requests, offer.responses
        begins = (asked.cuts.place(middle.first), answered.cuts.place(middle.first + middle.shift))
        ends = (asked.cuts.place(middle.last), answered.cuts.place(middle.last + middle.shift))
        if begins != (0, 0):
            latest = ended.add(_feed(offer, (0, 0), begins), latest)
        ids = self._heads.correlation_id[asked.first + middle.first : asked.first + middle.last]
        if not connection.pass_answered(int(ids[0]), len(ids)):
            return ended.add(_feed(offer, begins, _ends_of(offer)), latest)
        self._peers[-1] = connection.peers
        self._lost_ns[-1] = -1 if connection.lost_ns is None else connection.lost_ns
        latest = self._pass_middle(offer, middle, ended, latest)
        if not self._may_hold_back(offer, middle):
            return ended.add(_feed(offer, ends, _ends_of(offer)), latest)
        # Requests that will be answered in the next batch are read there, with their responses.
        latest = ended.add(_feed(offer, (_ends_of(offer)[0], ends[1]), _ends_of(offer)), latest)
        left = asked.stream.copy(ends[0], asked.stream.size)
        connection.held_back = [] if left is None else [left]
        return latest

    def _may_hold_back(self, offer: _Offer, middle: _Middle) -> bool:
        """Tell whether the requests after the middle are such as may be of the next one."""
        asked = offer.requests
        if middle.last + middle.shift < len(offer.responses.cuts.at):
            return False
        if self._is_odd(offer)[middle.last :].any():
            return False
        if self._heads.is_telling[asked.rows][middle.last :].any():
            return False
        return asked.stream.size - asked.cuts.place(middle.last) <= _MOST_HELD_BYTES

    def _pass_middle(self, offer: _Offer, middle: _Middle, ended: Ended, latest: int) -> int:
        connection = offer.connection
        pairs = np.arange(middle.pair, middle.pair + middle.last - middle.first)
        request, response = self._pairs.request[pairs], self._pairs.response[pairs]
        packets = np.maximum.accumulate(self._responses.end_packet[response])
        packets = np.maximum(packets, latest)
        place = ended.add_run(packets)
        self._places[pairs] = np.arange(place, place + len(pairs))
        is_cold = self._is_cold[pairs]
        read = self._requests.size[request] + self._responses.size[response] + 8
        connection.count_decoded(int(read[~is_cold].sum()))
        for index in np.flatnonzero(is_cold).tolist():
            exchange = connection.read_pair(
                self._requests.frame(offer.requests, middle.first + index),
                self._responses.frame(offer.responses, middle.first + index + middle.shift),
            )
            ended.fill(place + index, exchange)
        return int(packets[-1])

    def finish(self, ended: Ended) -> None:
        """Hand over the columns of all connections."""
        for group in self._groups:
            is_pair = self._places[group.pairs] >= 0
            if not is_pair.any():
                continue
            if is_pair.all():
                self._hand_over(group, ended)
                continue
            # A connection turned out otherwise: its pairs were read in the usual way.
            kept = np.flatnonzero(is_pair)
            asked, answered = taken(group.asked, kept), taken(group.answered, kept)
            self._hand_over(_Group(group.kind, group.pairs[kept], asked, answered), ended)

    def _hand_over(self, group: _Group, ended: Ended) -> None:
        pairs, heads = group.pairs, self._heads
        request, response = self._pairs.request[pairs], self._pairs.response[pairs]
        asked, answered = self._requests, self._responses
        offers, peer = np.unique(self._pairs.offer[pairs], return_inverse=True)
        own = offers.tolist()
        peers = tuple(peers for index in own if (peers := self._peers[index]) is not None)
        columns = ExchangeColumns(
            *group.kind,
            peers,
            peer,
            np.array([self._lost_ns[index] for index in own])[peer],
            heads.correlation_id[request],
            asked.start[request] + CLIENT_ID_AT,
            heads.client_id_length[request],
            asked.start_ns[request],
            asked.end_ns[request],
            asked.start_packet[request],
            asked.end_packet[request],
            asked.size[request] + 4,
            answered.start_ns[response],
            answered.end_ns[response],
            answered.start_packet[response],
            answered.end_packet[response],
            answered.size[response] + 4,
            self._data,
            group.asked,
            group.answered,
            np.zeros(len(pairs), np.int64),
        )
        ended.fill_columns(self._places[pairs], columns)


def _feed(offer: _Offer, begins: tuple[int, int], ends: tuple[int, int]) -> list[Exchange]:
    """Feed a connection with a part of what was offered; positions are of requests, responses."""
    began = begins[0]
    if began < offer.ahead_bytes:
        came_before = min(ends[0], offer.ahead_bytes)
        offer.connection.ask(offer.requests.stream.chunks(began, came_before))
        began = came_before
    asked: list[StreamItem] = [*offer.requests.stream.chunks(began, ends[0])]
    answered: list[StreamItem] = [*offer.responses.stream.chunks(begins[1], ends[1])]
    if not asked and not answered:
        return []
    is_first = offer.connection.client_side == 0
    return offer.connection.feed((asked, answered) if is_first else (answered, asked))


def _first_answer(
    asked_id: NDArray[np.int64], answered_id: NDArray[np.int64]
) -> tuple[int, int] | None:
    """Find the first request that a response here answers; return it and the shift.

    Those before it were answered by a response that had begun earlier, or are not answered at all.
    """
    for request in range(min(len(asked_id), _MOST_UNANSWERED)):
        found = np.flatnonzero(answered_id == asked_id[request])
        if len(found):
            return request, int(found[0]) - request
    return None


def _parting(ended: NDArray[np.int64], latest: NDArray[np.int64], last: int) -> int:
    """Return how many responses, ``last`` at most, all ended before any of the others did."""
    if not 0 < last < len(ended):
        return last
    earliest_after = np.minimum.accumulate(ended[::-1])[::-1]
    parts = np.flatnonzero(latest[:last] < earliest_after[1 : last + 1])
    return int(parts[-1]) + 1 if len(parts) else 0


def _ends_of(offer: _Offer) -> tuple[int, int]:
    return offer.requests.stream.size, offer.responses.stream.size
