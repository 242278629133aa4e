"""Which request a response answers, also where parts of the connection were not captured.

In: requests and responses as they are read, and where bytes were lost. Out: the exchange that a
response completes, or none when that is not certain. This module must not know how messages are
read.

Where nothing is lost, the oldest unanswered request with a response's correlation id is the one it
answers. After a loss that holds as long as no id comes twice: an id that is found is the one that
was sent. A client that uses ids again (some send 0 always) is another matter: the response to one
request may have been lost, and the next one with that id is not its own. What is known then:

- No response answers a request that was sent after it.
- A client that never sent a request before the last one was answered does not begin to: a response
  answers the last request before it, and what was sent before that was answered unseen.
- Otherwise a response is paired where only one request can be meant, and with none where several
  can: a wrong latency is worse than none.

Compiled by Cython, with the types in ``pairing.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.session.pending_requests import Pending

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.session.exchange import Bodies, Exchange, Peers

__all__ = ["Pairing"]

_MOST_RUNS = 64
"""Clients count, on one connection or over several, and losses leave holes. Of more runs the lowest
ones are taken for one: a client that goes on below is taken to use its ids again."""


class Pairing:
    """The unanswered requests of one connection, and what is known of losses."""

    __slots__ = (
        "_pending",
        "_pipelined",
        "_repeats",
        "_requests_lost",
        "_responses_lost",
        "_unsure_before",
        "_used",
        "given_up",
    )
    _LEFT_OUT = ("given_up",)

    def __init__(self, *, from_start: bool) -> None:
        """Begin; ``from_start`` says that no request of the connection was sent unseen."""
        self._pending = Pending()
        self._requests_lost = not from_start
        self._responses_lost = False
        self._used = _UsedIds()
        self._repeats = False
        self._pipelined = False
        self._unsure_before = 0
        """Packet: a request that began before it may have been answered unseen."""
        self.given_up: list[Exchange] = []
        """What :meth:`take_given_up` returns."""

    def state(self, bodies: Bodies) -> State:
        """Return what :meth:`load_state` takes, once what was given up was taken."""
        return (
            *(self._requests_lost, self._responses_lost, self._repeats, self._pipelined),
            *(self._unsure_before, self._used.state(), self._pending.state(bodies)),
        )

    def load_state(self, state: object, peers: Peers, bodies: Bodies) -> None:
        """Go on from a state; raises ValueError where that is none."""
        values = fields(state, "bbbbntt")
        self._requests_lost, self._responses_lost, self._repeats, self._pipelined = values[:4]
        self._unsure_before = values[4]
        self._used.load_state(values[5])
        self._pending.load_state(values[6], peers, bodies)

    @property
    def requests_lost(self) -> bool:
        """Whether the client may have sent requests that were not seen."""
        return self._requests_lost

    @property
    def is_lossy(self) -> bool:
        """Whether there is anything that may not have been seen."""
        return self._requests_lost or self._responses_lost

    @property
    def unsure_before(self) -> int:
        """A packet: a request that began before it may have been answered unseen."""
        return self._unsure_before

    @property
    def repeats(self) -> bool:
        """Whether the client uses ids again."""
        return self._repeats

    def __len__(self) -> int:
        return len(self._pending)

    def take_oldest(self, count: int) -> list[Exchange]:
        """Take out the ``count`` requests that wait for longest."""
        oldest = sorted(self._pending, key=_began)[:count]
        for exchange in oldest:
            self._pending.remove(exchange)
        return oldest

    def keys(self) -> dict[int, set[tuple[int, int]]]:
        """Return the (api_key, api_version) of the waiting requests of each correlation id."""
        return self._pending.keys()

    def lose_requests(self) -> None:
        """Note that requests may have been lost."""
        self._requests_lost = True

    def lose_responses(self, packet: int) -> None:
        """Note that responses may have been lost before the one that begins in ``packet``."""
        self._responses_lost = True
        self._unsure_before = max(self._unsure_before, packet)

    def ask(self, exchange: Exchange) -> Exchange | None:
        """Let a request wait; return one that is given up because too many do."""
        if not self._repeats:
            self._repeats = self._used.add(exchange.correlation)
        return self._pending.add(exchange)

    def answer(self, correlation_id: int, packet: int) -> Exchange | None:
        """Take out the request that a response which begins in ``packet`` answers.

        None when none waits, or several may be meant; those are given up.
        """
        if not self._repeats:
            return self._answer_unique(correlation_id, packet)
        if not (self._requests_lost or self._responses_lost):
            found = self._pending.answer(correlation_id)
        elif self._pipelined:
            found = self._answer_certain(correlation_id, packet)
        else:
            found = self._answer_last(correlation_id, packet)
        if found is not None and not self._pipelined and self._pending.size > 0:
            self._pipelined = self._sent_between(_began(found), packet)
        return found

    def _sent_between(self, first: int, last: int) -> bool:
        """Tell whether a request that waits was sent between two packets."""
        return any(first < _began(other) < last for other in self._pending)

    def oldest(self, correlation_id: int) -> Exchange | None:
        """Return the oldest waiting request with an id."""
        return self._pending.oldest(correlation_id)

    def may_be_lost(self, exchange: Exchange) -> bool:
        """Tell whether the response to a request may have come unseen."""
        return self._responses_lost and _began(exchange) < self._unsure_before

    def waiting(self) -> list[Exchange]:
        """Return the requests whose response is still to come, as far as can be told."""
        return [exchange for exchange in self._pending if not self.may_be_lost(exchange)]

    def take_given_up(self) -> list[Exchange]:
        """Return the requests that no response can be told of any more, since the last call."""
        given_up, self.given_up = self.given_up, []
        return given_up

    def take_all(self) -> list[Exchange]:
        """Take out all that wait, in the order of their requests."""
        return self._pending.take_all()

    def _answer_unique(self, correlation_id: int, packet: int) -> Exchange | None:
        if not (self._requests_lost or self._responses_lost):
            return self._pending.answer(correlation_id)
        found = self._pending.oldest(correlation_id)
        if found is None or _began(found) > packet:
            return None
        return self._pending.answer(correlation_id)

    def _answer_last(self, correlation_id: int, packet: int) -> Exchange | None:
        """Answer for a client that waits for each answer: the last request before the response."""
        sent = [exchange for exchange in self._pending if _began(exchange) < packet]
        if not sent:
            return None
        last = max(sent, key=_began)
        for exchange in sent:
            if exchange is not last:
                self._pending.remove(exchange)
                self.given_up.append(exchange)
        if last.correlation != correlation_id:
            return None
        self._pending.remove(last)
        return last

    def _answer_certain(self, correlation_id: int, packet: int) -> Exchange | None:
        """Answer where only one request can be meant; give up all of that id where several can."""
        oldest = self._pending.oldest(correlation_id)
        if oldest is None or _began(oldest) > packet:
            return None
        alone = self._pending.count(correlation_id) == 1
        if not self._requests_lost and (alone or _began(oldest) >= self._unsure_before):
            return self._pending.answer(correlation_id)
        while oldest is not None:
            self._pending.remove(oldest)
            self.given_up.append(oldest)
            oldest = self._pending.oldest(correlation_id)
        return None


class _UsedIds:
    """Which ids were used: runs of consecutive ones, of which most clients have one."""

    __slots__ = ("_firsts", "_last", "_lasts", "_limit")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._last = 0
        """The end of the run that grows; its next id is free below ``_limit``."""
        self._limit = 0

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return self._last, self._limit, tuple(self._firsts), tuple(self._lasts)

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        self._last, self._limit, firsts, lasts = fields(state, "iitt")
        self._firsts, self._lasts = list(items(firsts, "i")), list(items(lasts, "i"))
        ids = [each for run in zip(firsts, lasts, strict=True) for each in run]
        if len(ids) > 2 * _MOST_RUNS or ids != sorted(ids):
            raise ValueError("runs of ids that overlap")
        if firsts and not firsts[0] <= self._last < _NO_ID:
            raise ValueError("a run that grows and is not there")

    def add(self, correlation_id: int) -> bool:
        """Note an id; tell whether it was used before, or may have been."""
        if correlation_id == self._last + 1 and correlation_id < self._limit:
            self._last = correlation_id
            return False
        return self._begin_run(correlation_id)

    def _begin_run(self, correlation_id: int) -> bool:
        firsts, lasts = self._firsts, self._lasts
        if firsts and correlation_id > self._last and self._limit == _NO_ID:
            # A client that counts over several connections leaves holes in each of them.
            lasts[-1] = self._last
            firsts.append(correlation_id)
            lasts.append(correlation_id)
            if len(firsts) > _MOST_RUNS:
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
        if len(firsts) > _MOST_RUNS:
            if index == 1:
                return True
            del firsts[1], lasts[0]
            index -= 1
        self._last = correlation_id
        self._limit = firsts[index] if index < len(firsts) else _NO_ID
        return False


_NO_ID = 1 << 31
"""Above all ids."""


def _began(exchange: Exchange) -> int:
    return exchange.request.start_packet if exchange.request is not None else 0
