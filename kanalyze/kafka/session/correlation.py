"""Finds the request of a response, also if parts of the connection were not captured.

In: requests and responses as they are read, and where bytes were lost. Out: the exchange that a
response completes, or none if that is not certain.

Without a loss, a response belongs to the oldest pending request with its correlation id. After a
loss that still holds if no id is used twice. But some clients reuse ids (some always send 0): then
the response to a request may be lost, and the next response with that id is not its own. In this
case:

- No response belongs to a request that was sent after it.
- A client that never pipelined requests does not begin to: a response belongs to the last request
  before it, and the responses to earlier requests were lost.
- Otherwise a response is paired if it can belong to one request only. If several are possible it is
  paired with none: a wrong latency is worse than none.

A broker answers the requests of a connection in their order. Some proxies and servers do not: their
responses are paired by the same rules, but no request waits for the response before its own.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.session.pending_requests import PendingRequests

if TYPE_CHECKING:
    from kanalyze.kafka.session.exchange import Exchange, Message

__all__ = ["Correlator", "LostMessages"]

_MAX_RUNS = 64
"""Clients count ids up, on one connection or over several, and losses leave holes. Beyond so many
runs the lowest ones are merged; a client that continues below them counts as reusing ids."""


class LostMessages:
    """Which messages of one connection may be lost.

    Attributes:
        requests: True if requests may be lost.
        responses: True if responses may be lost.
        unsure_before: a packet; the response to a request that began before it may be lost.
    """

    _SAVED = Saved("requests:bool responses:bool unsure_before:count")

    def __init__(self, *, requests: bool) -> None:
        self.requests = requests
        self.responses = False
        self.unsure_before = 0

    @property
    def any(self) -> bool:
        """True if any message may be lost."""
        return self.requests or self.responses

    def add_responses(self, packet: int) -> None:
        """Note that responses may be lost before the one that begins in ``packet``."""
        self.responses = True
        self.unsure_before = max(self.unsure_before, packet)

    def has_response_to(self, exchange: Exchange) -> bool:
        """Return true if the response to a request may be lost."""
        return self.responses and _start_packet(exchange) < self.unsure_before


class Correlator:
    """The pending requests of one connection, each of which gets its response."""

    _SAVED = Saved(
        "lost:here _reuses_ids:bool _pipelined:bool _used:here _pending:here",
        added="keeps_order:bool _last_answered_offset:int _last_answer_offset:int",
    )

    def __init__(self, *, from_start: bool) -> None:
        """Make a correlator; ``from_start``: no request was sent before the capture."""
        self._pending = PendingRequests()
        self.lost = LostMessages(requests=not from_start)
        self._used = _UsedIds()
        self._reuses_ids = False
        self._pipelined = False
        self.keeps_order = True
        """True while every response came before those of later requests."""
        self._last_answered_offset = self._last_answer_offset = -1
        """Stream offsets of the last of the requests that were answered, and of its response."""

    def __len__(self) -> int:
        return len(self._pending)

    def drop_oldest(self, count: int) -> list[Exchange]:
        """Remove and return the ``count`` oldest requests."""
        oldest = sorted(self._pending, key=_start_packet)[:count]
        for exchange in oldest:
            self._pending.remove(exchange)
        return oldest

    def pending_apis(self) -> dict[int, set[tuple[int, int]]]:
        """Return the (api_key, api_version) of the pending requests of each correlation id."""
        return self._pending.apis()

    def add(self, exchange: Exchange) -> Exchange | None:
        """Add a request; return the oldest one if there are too many."""
        if not self._reuses_ids:
            self._reuses_ids = self._used.add(exchange.correlation)
        return self._pending.add(exchange)

    def is_ambiguous(self) -> bool:
        """Return true if :meth:`drop_ambiguous` has to be called before :meth:`match`."""
        return self._reuses_ids and (self.lost.requests or self.lost.responses)

    def drop_ambiguous(self, correlation_id: int, packet: int) -> list[Exchange]:
        """Remove and return the requests that no response can be matched with any more.

        Args:
            correlation_id: the id of the response to be matched next.
            packet: the packet in which this response begins.
        """
        dropped = []
        if self._pipelined:
            oldest = self._pending.oldest(correlation_id)
            if (
                oldest is not None
                and _start_packet(oldest) <= packet
                and not self._is_certain(oldest)
            ):
                dropped = [other for other in self._pending if other.correlation == correlation_id]
        else:
            sent = [exchange for exchange in self._pending if _start_packet(exchange) < packet]
            last = max(sent, key=_start_packet, default=None)
            dropped = [exchange for exchange in sent if exchange is not last]
        for exchange in dropped:
            self._pending.remove(exchange)
        return dropped

    def match(self, correlation_id: int, packet: int) -> Exchange | None:
        """Remove and return the request that a response answers; None if that is not certain.

        ``packet`` is the packet in which the response begins.
        """
        if not self._reuses_ids:
            return self._match_unique(correlation_id, packet)
        if not (self.lost.requests or self.lost.responses):
            exchange = self._pending.pop(correlation_id)
        elif self._pipelined:
            oldest = self._pending.oldest(correlation_id)
            is_certain = oldest is not None and self._is_certain(oldest)
            exchange = self._match_earlier(correlation_id, packet) if is_certain else None
        else:
            exchange = self._match_last(correlation_id, packet)
        if exchange is not None and not self._pipelined and self._pending.size > 0:
            self._pipelined = self._sent_between(_start_packet(exchange), packet)
        return exchange

    def follow_order(self, request: Message, response: Message) -> bool:
        """Note which request was answered; return true if a later one was answered before it."""
        asked, answered = request.stream_offset, response.stream_offset
        if asked > self._last_answered_offset:
            self._last_answered_offset, self._last_answer_offset = asked, answered
            return False
        is_late = asked < self._last_answered_offset and answered > self._last_answer_offset
        if is_late:
            self.keeps_order = False
        return is_late

    def overtakes(self, request: Message) -> bool:
        """Return true if an earlier request still waits, though its response was not lost."""
        earliest = self._pending.first() if self._pending.size else None
        return (
            earliest is not None
            and earliest.request is not None
            and earliest.request.stream_offset < request.stream_offset
            and not self.lost.has_response_to(earliest)
        )

    def _sent_between(self, first: int, last: int) -> bool:
        """Return true if a pending request was sent between two packets."""
        return any(first < _start_packet(other) < last for other in self._pending)

    def oldest(self, correlation_id: int) -> Exchange | None:
        """Return the oldest pending request with an id."""
        return self._pending.oldest(correlation_id)

    def in_flight(self) -> list[Exchange]:
        """Return the requests whose response may still come."""
        lost = self.lost
        return [exchange for exchange in self._pending if not lost.has_response_to(exchange)]

    def drop_all(self) -> list[Exchange]:
        """Remove and return all, in the order of their requests."""
        return self._pending.pop_all()

    def _match_unique(self, correlation_id: int, packet: int) -> Exchange | None:
        if not (self.lost.requests or self.lost.responses):
            return self._pending.pop(correlation_id)
        return self._match_earlier(correlation_id, packet)

    def _match_earlier(self, correlation_id: int, packet: int) -> Exchange | None:
        """Match the oldest request with the id, unless it was sent after the response."""
        oldest = self._pending.oldest(correlation_id)
        if oldest is None or _start_packet(oldest) > packet:
            return None
        return self._pending.pop(correlation_id)

    def _match_last(self, correlation_id: int, packet: int) -> Exchange | None:
        """Match for a client that does not pipeline: the last request before the response."""
        for exchange in self._pending:
            if _start_packet(exchange) < packet and exchange.correlation == correlation_id:
                self._pending.remove(exchange)
                return exchange
        return None

    def _is_certain(self, oldest: Exchange) -> bool:
        """Return true if the next response with an id can belong to its oldest request only."""
        is_alone = self._pending.count(oldest.correlation) == 1
        return not self.lost.requests and (
            is_alone or _start_packet(oldest) >= self.lost.unsure_before
        )


class _UsedIds:
    """The ids that were used, as runs of consecutive ids; most clients have one run."""

    _SAVED = Saved("_last:int _limit:int _firsts:list[int] _lasts:list[int]")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._last = 0
        """The end of the growing run; ids after it are free below ``_limit``."""
        self._limit = 0

    def _after_load(self) -> None:
        firsts = self._firsts
        ids = [number for run in zip(firsts, self._lasts, strict=True) for number in run]
        if len(ids) > 2 * _MAX_RUNS or ids != sorted(ids):
            raise ValueError("runs of ids that overlap")
        if firsts and not firsts[0] <= self._last < _NO_ID:
            raise ValueError("a growing run that does not exist")

    def add(self, correlation_id: int) -> bool:
        """Add an id; tell whether it was used before, or may have been."""
        if correlation_id == self._last + 1 and correlation_id < self._limit:
            self._last = correlation_id
            return False
        return self._start_run(correlation_id)

    def _start_run(self, correlation_id: int) -> bool:
        firsts, lasts = self._firsts, self._lasts
        if firsts and correlation_id > self._last and self._limit == _NO_ID:
            # A client with one counter for several connections leaves holes in each of them.
            lasts[-1] = self._last
            firsts.append(correlation_id)
            lasts.append(correlation_id)
            if len(firsts) > _MAX_RUNS:
                del firsts[1], lasts[0]
            self._last = correlation_id
            return False
        if firsts:
            lasts[bisect_right(firsts, self._last) - 1] = self._last
        index = bisect_right(firsts, correlation_id)
        if index and correlation_id <= lasts[index - 1]:
            return True
        if index and correlation_id == lasts[index - 1] + 1:
            lasts[index - 1] = correlation_id
        else:
            firsts.insert(index, correlation_id)
            lasts.insert(index, correlation_id)
            index += 1
        if len(firsts) > _MAX_RUNS:
            if index == 1:
                return True
            del firsts[1], lasts[0]
            index -= 1
        self._last = correlation_id
        self._limit = firsts[index] if index < len(firsts) else _NO_ID
        return False


_NO_ID = 1 << 31
"""A number above all ids."""


def _start_packet(exchange: Exchange) -> int:
    return exchange.request.start_packet if exchange.request is not None else 0
