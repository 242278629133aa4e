"""Finds the request of a response, also if parts of the connection were not captured.

In: requests and responses as they are read, and where bytes were lost. Out: the exchange that a
response completes, or none if that is not certain; the exchanges that are complete without a
response, and the responses that will get no request.

Correlation ids belong to one connection; they may be 0, negative, repeated, or fall. Without a
loss, a response belongs to the oldest pending request with its correlation id. After a loss that
still holds if no id is used twice. But some clients reuse ids (some always send 0): then the
response to a request may be lost, and the next response with that id is not its own. In this case:

- No response belongs to a request that was sent after it.
- A client that never pipelined requests does not begin to: a response belongs to the last request
  before it, and the responses to earlier requests were lost.
- Otherwise a response is paired if it can belong to one request only. If several are possible it is
  paired with none: a wrong latency is worse than none.

A broker answers the requests of a connection in their order. Some proxies and servers do not: their
responses are paired by the same rules, but no request waits for the response before its own.

A request may be captured after its response, or found after a loss only later: such a response
waits (:class:`EarlyResponses`). Kafka sends no response to a Produce with acks=0; some other
brokers do (librdkafka's mock cluster). So if a later request gets its response first, or no
response comes for long, the broker counts as one that sends none, and later requests do not wait
(:class:`OneWayRequests`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import items
from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.session.exchange import Exchange
from kanalyze.model.packets import NO_TIME

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import more_ids
    from kanalyze.common.compiled import nothing_kept as free_ids

    FEW = 8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.session.decode_plans import MessageChecks
    from kanalyze.kafka.session.exchange import ExchangeOwner


class PendingRequests:
    """Exchanges without a response, oldest first, at most ``most`` of them: 1 or more.

    An id is searched from the oldest exchange on, which nearly always has it.
    """

    _NOT_SAVED = ("_first", "_ids", "_most", "_room", "_waiting", "size")
    """The state has the exchanges, one by one."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._waiting: list[Any] = []
        self._first = 0
        """How many at the beginning of the list were removed; they are None there."""
        if not cython.compiled:
            self._ids = list[int]()  # those of the exchanges in the list
            self._room = 0
        self.size = 0

    def __dealloc__(self) -> None:
        free_ids(self._ids)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._waiting[self._first :])

    def _place(self, correlation_id: int) -> int:
        """Return the place of the oldest exchange with an id; -1 if there is none."""
        for index in range(self._first, len(self._waiting)):
            if self._ids[index] == correlation_id:
                return index
        return -1

    def state(self, context: ExchangeOwner) -> State:
        """Return what :meth:`load_state` takes."""
        return tuple([exchange.state(context) for exchange in self])

    def load_state(self, state: object, context: ExchangeOwner) -> None:
        """Continue from a state; raises ValueError for any other value."""
        exchange_states = items(state, "t")
        if len(exchange_states) > self._most:
            raise ValueError("more requests than may be pending")
        for exchange_state in exchange_states:
            self.add(Exchange.from_state(exchange_state, context))

    def add(self, exchange: Exchange) -> Exchange | None:
        """Add an exchange; return the oldest one if there are too many."""
        place = len(self._waiting)
        if place == self._room:
            self._room = 2 * place + FEW
            self._ids = more_ids(self._ids, self._room)
        self._ids[place] = exchange.correlation
        self._waiting.append(exchange)
        self.size += 1
        return None if self.size <= self._most else self._take(self._first)

    def oldest(self, correlation_id: int) -> Exchange | None:
        """Return the oldest exchange with this id."""
        index = self._place(correlation_id)
        return None if index < 0 else self._waiting[index]

    def first(self) -> Exchange | None:
        """Return the exchange that was added first."""
        return None if self.size == 0 else self._waiting[self._first]

    def count(self, correlation_id: int) -> int:
        """Return how many exchanges have this id."""
        return sum([exchange.correlation == correlation_id for exchange in self])

    def pop(self, correlation_id: int) -> Exchange | None:
        """Remove and return the oldest exchange with this id; None if there is none."""
        index = self._place(correlation_id)
        return None if index < 0 else self._take(index)

    def remove(self, exchange: Exchange) -> None:
        """Remove an exchange."""
        index = self._first
        while self._waiting[index] is not exchange:
            index += 1
        self._take(index)

    def _take(self, index: int) -> Exchange:
        """Remove and return the exchange at a place."""
        taken: Exchange = self._waiting[index]
        self.size -= 1
        if index == self._first:
            self._waiting[index] = None
            self._first += 1
            if self._first >= FEW and self._first >= self.size:
                self._close_gap(0, self._first)
                self._first = 0
        else:
            self._close_gap(index, index + 1)
        return taken

    def _close_gap(self, begin: int, end: int) -> None:
        del self._waiting[begin:end]
        for index in range(begin, len(self._waiting)):
            self._ids[index] = self._ids[index + end - begin]

    def apis(self) -> dict[int, set[tuple[int, int]]]:
        """Return the (api_key, api_version) of the exchanges of each correlation id."""
        apis_by_id: dict[int, set[tuple[int, int]]] = {}
        for exchange in self:
            key, version = exchange.api_key, exchange.api_version
            if key is not None and version is not None:
                apis_by_id.setdefault(exchange.correlation, set()).add((key, version))
        return apis_by_id

    def pop_all(self) -> list[Exchange]:
        """Remove and return all, in the order of their requests."""
        requests = sorted(self, key=_start_packet)
        self._waiting.clear()
        self._first = self.size = 0
        return requests


_MAX_RUNS = 128
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
        "lost:here _reuses_ids:bool _pipelined:bool _used:here pending:here",
        added="keeps_order:bool _last_answered_offset:int _last_answer_offset:int",
    )

    def __init__(self, *, from_start: bool) -> None:
        """Make a correlator; ``from_start``: no request was sent before the capture."""
        self.pending = PendingRequests()
        self.lost = LostMessages(requests=not from_start)
        self._used = _UsedIds()
        self._reuses_ids = False
        self._pipelined = False
        self.keeps_order = True
        """True while every response came before those of later requests."""
        self._last_answered_offset = self._last_answer_offset = -1
        """Stream offsets of the last of the requests that were answered, and of its response."""

    def drop_oldest(self, count: int) -> list[Exchange]:
        """Remove and return the ``count`` oldest requests."""
        oldest = sorted(self.pending, key=_start_packet)[:count]
        for exchange in oldest:
            self.pending.remove(exchange)
        return oldest

    def add(self, exchange: Exchange) -> Exchange | None:
        """Add a request; return the oldest one if there are too many."""
        if not self._reuses_ids:
            self._reuses_ids = self._used.add(exchange.correlation)
        return self.pending.add(exchange)

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
            oldest = self.pending.oldest(correlation_id)
            if (
                oldest is not None
                and _start_packet(oldest) <= packet
                and not self._is_certain(oldest)
            ):
                dropped = [other for other in self.pending if other.correlation == correlation_id]
        else:
            sent = [exchange for exchange in self.pending if _start_packet(exchange) < packet]
            last = max(sent, key=_start_packet, default=None)
            dropped = [exchange for exchange in sent if exchange is not last]
        for exchange in dropped:
            self.pending.remove(exchange)
        return dropped

    def match(self, correlation_id: int, packet: int) -> Exchange | None:
        """Remove and return the request that a response answers; None if that is not certain.

        ``packet`` is the packet in which the response begins.
        """
        if not self._reuses_ids:
            return self._match_unique(correlation_id, packet)
        if not (self.lost.requests or self.lost.responses):
            exchange = self.pending.pop(correlation_id)
        elif self._pipelined:
            oldest = self.pending.oldest(correlation_id)
            is_certain = oldest is not None and self._is_certain(oldest)
            exchange = self._match_earlier(correlation_id, packet) if is_certain else None
        else:
            exchange = self._match_last(correlation_id, packet)
        if exchange is not None and not self._pipelined and self.pending.size > 0:
            self._pipelined = self._sent_between(_start_packet(exchange), packet)
        return exchange

    def follow_order(self, asked: int, answered: int) -> bool:
        """Note which request was answered; return true if a later one was answered before it.

        Both are stream offsets.
        """
        if asked > self._last_answered_offset:
            self._last_answered_offset, self._last_answer_offset = asked, answered
            return False
        is_late = asked < self._last_answered_offset and answered > self._last_answer_offset
        if is_late:
            self.keeps_order = False
        return is_late

    def overtakes(self, asked: int) -> bool:
        """Return true if a request before a stream offset still waits for its response.

        One whose response was lost does not.
        """
        earliest = self.pending.first()
        if earliest is None:
            return False
        waiting = earliest.request
        return (
            waiting is not None
            and waiting.stream_offset < asked
            and not self.lost.has_response_to(earliest)
        )

    def _sent_between(self, first: int, last: int) -> bool:
        """Return true if a pending request was sent between two packets."""
        return any(first < _start_packet(other) < last for other in self.pending)

    def in_flight(self) -> list[Exchange]:
        """Return the requests whose response may still come."""
        if self.pending.size == 0:
            return []
        lost = self.lost
        return [exchange for exchange in self.pending if not lost.has_response_to(exchange)]

    def _match_unique(self, correlation_id: int, packet: int) -> Exchange | None:
        if not (self.lost.requests or self.lost.responses):
            return self.pending.pop(correlation_id)
        return self._match_earlier(correlation_id, packet)

    def _match_earlier(self, correlation_id: int, packet: int) -> Exchange | None:
        """Match the oldest request with the id, unless it was sent after the response."""
        oldest = self.pending.oldest(correlation_id)
        if oldest is None or _start_packet(oldest) > packet:
            return None
        return self.pending.pop(correlation_id)

    def _match_last(self, correlation_id: int, packet: int) -> Exchange | None:
        """Match for a client that does not pipeline: the last request before the response."""
        for exchange in self.pending:
            if _start_packet(exchange) < packet and exchange.correlation == correlation_id:
                self.pending.remove(exchange)
                return exchange
        return None

    def _is_certain(self, oldest: Exchange) -> bool:
        """Return true if the next response with an id can belong to its oldest request only."""
        is_alone = self.pending.count(oldest.correlation) == 1
        return not self.lost.requests and (
            is_alone or _start_packet(oldest) >= self.lost.unsure_before
        )


_NO_RUNS = array("q")
"""Shared by all that have no arrays: never written to."""


class _UsedIds:
    """The ids that were used, as runs of consecutive ids; most clients have one run."""

    _NOT_SAVED = ("_first",)
    _SAVED = Saved("_last:int _limit:int _firsts:array[int] _lasts:array[int]")

    def __init__(self) -> None:
        self._first = _NO_ID
        """The first id of the first run, which has no arrays while it is alone."""
        self._firsts = self._lasts = _NO_RUNS
        self._last = 0
        """The end of the growing run; ids after it are free below ``_limit``."""
        self._limit = 0

    def _before_save(self) -> None:
        """Put the first run into arrays, if it is alone."""
        if not self._firsts and self._first != _NO_ID:
            self._firsts, self._lasts = array("q", (self._first,)), array("q", (self._last,))

    def _after_load(self) -> None:
        firsts = self._firsts
        ids = [number for run in zip(firsts, self._lasts, strict=True) for number in run]
        if len(ids) > 2 * _MAX_RUNS or ids != sorted(ids):
            raise ValueError("runs of ids that overlap")
        if firsts and not firsts[0] <= self._last < _NO_ID:
            raise ValueError("a growing run that does not exist")
        self._first = firsts[0] if firsts else _NO_ID

    def add(self, correlation_id: int) -> bool:
        """Add an id; tell whether it was used before, or may have been."""
        if correlation_id == self._last + 1 and correlation_id < self._limit:
            self._last = correlation_id
            return False
        return self._start_run(correlation_id)

    def _start_run(self, correlation_id: int) -> bool:
        if self._first == _NO_ID:
            self._first = self._last = correlation_id
            self._limit = _NO_ID
            return False
        self._before_save()
        firsts, lasts = self._firsts, self._lasts
        if correlation_id > self._last and self._limit == _NO_ID:
            # A client with one counter for several connections leaves holes in each of them.
            lasts[-1] = self._last
            firsts.append(correlation_id)
            lasts.append(correlation_id)
            if len(firsts) > _MAX_RUNS:
                del firsts[1 : _MAX_RUNS // 2], lasts[: _MAX_RUNS // 2 - 1]
            self._last = correlation_id
            return False
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
    request = exchange.request
    return 0 if request is None else request.start_packet


_MAX_RESPONSES = 64
_MAX_BYTES = 1024 * 1024


@Saved("frame:Frame correlation_id:int", Frame, added="previous_ns:int")
class EarlyResponse(NamedTuple):
    """A response that was read before its request."""

    frame: Frame
    correlation_id: int
    previous_ns: int = 0
    """When the response before it ended; 0 if there was none, or its end was lost."""


class EarlyResponses:
    """The early responses of one connection, oldest first; bounded."""

    _NOT_SAVED = ("buffered_bytes",)
    _SAVED = Saved("_responses:list[EarlyResponse]", EarlyResponse, bare=True)

    def __init__(self) -> None:
        self._responses: list[EarlyResponse] = []
        self.buffered_bytes = 0

    def has_any(self) -> bool:
        """Return true if there are any."""
        return bool(self._responses)

    def _after_load(self) -> None:
        self.buffered_bytes = sum([each.frame.buffered_bytes for each in self._responses])

    def add(self, response: EarlyResponse) -> list[Frame]:
        """Keep a response; return the oldest ones that are dropped because there are too many."""
        response.frame.detach()
        self._responses.append(response)
        self.buffered_bytes += response.frame.buffered_bytes
        dropped = []
        while len(self._responses) > _MAX_RESPONSES or self.buffered_bytes > _MAX_BYTES:
            dropped.append(self._remove(0).frame)
        return dropped

    def drop_before(self, stream_offset: int) -> list[Frame]:
        """Drop and return the responses before one whose request came.

        Responses come in the order of their requests (the protocol guide's "Network"): the requests
        of these responses would have come before.
        """
        responses = self._responses
        earlier = [each.frame for each in responses if each.frame.stream_offset <= stream_offset]
        self._responses = [each for each in responses if each.frame.stream_offset > stream_offset]
        self.buffered_bytes -= sum([frame.buffered_bytes for frame in earlier])
        return earlier

    def drop_all(self) -> list[Frame]:
        """Drop and return all."""
        dropped = [each.frame for each in self._responses]
        self._responses.clear()
        self.buffered_bytes = 0
        return dropped

    def match(
        self, exchange: Exchange, checks: MessageChecks, *, requests_lost: bool
    ) -> EarlyResponse | None:
        """Remove and return the response to a request; None if it has not come."""
        request = exchange.request
        begin = request.start_packet if request is not None else 0
        for index, (frame, correlation_id, _) in enumerate(self._responses):
            # If requests were lost, a response before the request belongs to a lost one.
            is_of_lost = requests_lost and frame.start_packet < begin
            if correlation_id != exchange.correlation_id or is_of_lost:
                continue
            if not exchange.one_way or answers(frame, exchange, checks):
                return self._remove(index)
        return None

    def _remove(self, index: int) -> EarlyResponse:
        response = self._responses.pop(index)
        self.buffered_bytes -= response.frame.buffered_bytes
        return response


def answers(frame: Frame, exchange: Exchange, checks: MessageChecks) -> bool:
    """Return true if a response fits a request that expects none: equal ids may be chance."""
    key, version = exchange.api_key, exchange.api_version
    return key is not None and version is not None and checks.confirms_response(frame, key, version)


_MAX_WAITING = 1000
_LONGEST_WAIT_NS = 5_000_000_000


class OneWayRequests:
    """The requests of one connection that expect no response and may still get one."""

    _SAVED = Saved("_sends_responses:bool? _requests:here")

    def __init__(self) -> None:
        self._requests = PendingRequests(2 * _MAX_WAITING)
        self._sends_responses: bool | None = None
        """True if the broker sends responses to such requests; None while that is unknown."""

    def __len__(self) -> int:
        return len(self._requests)

    def has_any(self) -> bool:
        """Return true if any request waits."""
        return self._requests.size > 0

    def add(self, exchange: Exchange) -> list[Exchange]:
        """Add a request; return those that are complete without a response, in their order."""
        if self._sends_responses is False:
            return [exchange]
        self._requests.add(exchange)
        return self.expire(_start_ns(exchange))

    def expire(self, now_ns: int) -> list[Exchange]:
        """Remove and return the requests that have waited for too long, or are too many."""
        expired = []
        while (oldest := self._requests.first()) is not None:
            began_ns = _start_ns(oldest)
            has_waited = began_ns != NO_TIME and now_ns - began_ns > _LONGEST_WAIT_NS
            if len(self._requests) <= _MAX_WAITING and not has_waited:
                break
            self._requests.remove(oldest)
            expired.append(oldest)
        return expired + self._expect_none() if expired else []

    def match(self, frame: Frame, correlation_id: int, checks: MessageChecks) -> Exchange | None:
        """Remove and return the request that a response belongs to; None if it fits none."""
        exchange = self._requests.oldest(correlation_id)
        if exchange is None or not answers(frame, exchange, checks):
            return None
        self._requests.remove(exchange)
        self._sends_responses = True
        return exchange

    def drop_before(self, packet: int, unsure_before: int) -> list[Exchange]:
        """Remove and return the requests before one that got its response, in their order.

        Args:
            packet: the packet in which that request began.
            unsure_before: a packet; the response to a request that began before it may be lost.
        """
        dropped = [exchange for exchange in self._requests if _start_packet(exchange) < packet]
        for exchange in dropped:
            self._requests.remove(exchange)
        dropped.sort(key=_start_packet)
        if dropped and _start_packet(dropped[-1]) >= unsure_before:
            dropped += self._expect_none()
        return dropped

    def drop_all(self) -> list[Exchange]:
        """Remove and return all, in their order."""
        return self._requests.pop_all()

    def _expect_none(self) -> list[Exchange]:
        """Note that a request got no response; return those that will get none either."""
        if self._sends_responses:
            return []
        self._sends_responses = False
        return self._requests.pop_all()


def _start_ns(exchange: Exchange) -> int:
    return exchange.request.start_ns if exchange.request is not None else 0
