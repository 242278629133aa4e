"""Finds out whether bytes that begin anywhere hold requests of Kafka.

In: one direction of a connection as it comes, and what the other one said. Out: which wire it is.
This module must not know connections; where exactly the requests begin is of no concern here.

Every byte is searched once, and a few times where a request that is not all there begins. What is
found must have :mod:`~kanalyze.connection.evidence` beyond its own fit.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.connection.evidence import has_answer, read_head
from kanalyze.protocol.wire import WireError

if TYPE_CHECKING:
    from kanalyze.connection.evidence import RequestHead
    from kanalyze.connection.held import HeldStream
    from kanalyze.connection.locate import RequestLocator
    from kanalyze.connection.reader import MessageReader

__all__ = ["Search", "Searcher", "Wire"]

Wire: TypeAlias = Literal["kafka", "kafka after tokens", "kafka-0.7"]

_HEAD_BYTES = 14
_PATIENCE_BYTES = 64 * 1024
"""How long a request that is not all there is waited for."""
_MOST_TRIES = 8
"""Requests without evidence that are passed over at each look: each costs another search."""
_MOST_WAITING = 16
"""Requests without a name whose answer is looked for."""
_ENOUGH_IN_A_ROW = 3
_ENOUGH_ANSWERED = 2
_SHORTEST_TOPIC_07 = 3
_FEW_BYTES = 64


class Search:
    """How far one direction has been searched; positions as in ``HeldStream``.

    Attributes:
        sought: bytes before it begin no request, or one without evidence.
        sought_07: the same for Kafka 0.7.
        waiting: requests without evidence so far.
        is_row: some of them followed one another.
    """

    __slots__ = ("is_row", "next_answer_end", "next_end", "sought", "sought_07", "waiting")

    def __init__(self) -> None:
        self.sought = 0
        self.sought_07 = 0
        self.next_end = 1
        self.next_answer_end = 1
        self.is_row = False
        self.waiting: list[RequestHead] = []

    def wait_for(self, head: RequestHead) -> None:
        """Note a request whose answer would be evidence; only the last few are kept."""
        if head not in self.waiting:
            self.waiting.append(head)
            del self.waiting[:-_MOST_WAITING]
            self.next_answer_end = 1


class Searcher:
    """Searches."""

    def __init__(self, reader: MessageReader, locate: RequestLocator) -> None:
        self._reader = reader
        self._locate = locate

    def look(
        self, search: Search, held: HeldStream, other: HeldStream, *, last: bool = False
    ) -> Wire | None:
        """Search what came since the last look; None where there is no evidence (yet).

        ``last`` says that nothing more will come.
        """
        if held.end >= search.next_end or last:
            wire = self._runs(search, held, last=last)
            if wire is not None:
                return wire
            open_bytes = held.end - min(search.sought, search.sought_07)
            # A request that has begun is looked at again when half as much more has come.
            search.next_end = held.end + (0 if open_bytes < _FEW_BYTES else open_bytes // 2) + 1
        return "kafka" if self._is_answered(search, other, last=last) else None

    def _runs(self, search: Search, held: HeldStream, *, last: bool) -> Wire | None:
        """Search run after run; what a hole ends will not go on."""
        search.sought = max(search.sought, held.begin)
        search.sought_07 = max(search.sought_07, held.begin)
        while True:
            at = min(search.sought, search.sought_07)
            index = bisect_right(held.ends, at)
            ends_here = index < len(held.ends)
            end = held.ends[index] if ends_here else held.end
            wire = self._run(search, held, end, final=last or ends_here)
            if wire is not None or not ends_here:
                return wire
            search.sought = search.sought_07 = end

    def _run(self, search: Search, held: HeldStream, end: int, *, final: bool) -> Wire | None:
        if self._new(search, held, end, final=final):
            return "kafka"
        # What begins as Kafka does needs no search, and what reads 0.7 is not loaded for it.
        from kanalyze.connection.locate07 import Request07Locator

        view = held.read(search.sought_07, end)
        found, keep = Request07Locator()(view)
        if found is not None and _is_sound_07(view[found:]):
            return "kafka-0.7"
        search.sought_07 += keep if found is None else found + 1
        return None

    def _new(self, search: Search, held: HeldStream, end: int, *, final: bool) -> bool:
        """Search for requests of later versions, from ``sought`` to ``end``."""
        first = search.sought
        view = held.read(first, end)
        at, open_at = 0, None
        for _ in range(_MOST_TRIES):
            found, keep = self._locate(view[at:])
            if found is None:
                if len(view) - at - keep < _HEAD_BYTES:
                    at += keep
                    break
                # A request that is not all there begins at ``keep``: others may follow.
                at += keep
                if open_at is None:
                    open_at = at
                if final:
                    self._wait_if_cut(search, held, first + at, view[at:])
                at += 1
                continue
            at += found
            if self._begins(search, held, first + at, view[at:]):
                return True
            at += 1
        else:
            at = max(at, len(view) - _HEAD_BYTES + 1)
        if open_at is not None and not final and len(view) - open_at < _PATIENCE_BYTES:
            at = open_at
        search.sought += at
        return False

    def _begins(self, search: Search, held: HeldStream, position: int, view: memoryview) -> bool:
        """Tell whether a request that seems to begin here has evidence; else let it wait."""
        head = read_head(self._reader, view)
        if head is None:
            return False
        # Of one that is not all there too little is checked: by two bytes out of step, a path of
        # ZooKeeper is a client id. If it is one, the next one is found.
        if self._locate.verdict(view) != "yes":
            return False
        if head.is_named:
            return True
        end = position + head.end
        if held.segment_at(position) and (end == held.end or held.segment_at(end)):
            # Small requests are sent by themselves; small numbers fit anywhere.
            search.wait_for(head)
            search.is_row = search.is_row or self._is_row(view)
        return False

    def _wait_if_cut(
        self, search: Search, held: HeldStream, position: int, view: memoryview
    ) -> None:
        """Note a request that the snap length cut: it takes up a segment to the byte."""
        head = read_head(self._reader, view)
        if head is not None and head.is_named and held.segment_at(position) == head.end:
            search.wait_for(head)

    def _is_row(self, view: memoryview) -> bool:
        """Tell whether requests follow one another whose correlation ids rise by 1."""
        at, before = 0, None
        for _ in range(_ENOUGH_IN_A_ROW):
            head = read_head(self._reader, view[at:])
            if head is None or self._locate.verdict(view[at:]) != "yes":
                return False
            number = int.from_bytes(head.correlation_id, "big")
            if before is not None and number != before + 1:
                return False
            before, at = number, at + head.end
        return True

    def _is_answered(self, search: Search, other: HeldStream, *, last: bool) -> bool:
        """Tell whether one request with any name, or two without one, are answered.

        Where the other end was not captured, those that follow one another will have to do.
        """
        if not search.waiting:
            return False
        if last and not other.payload_bytes:
            return search.is_row
        if other.end < search.next_answer_end and not last:
            return False
        search.next_answer_end = other.end + other.captured_bytes // 8 + 1
        answered = [h for h in search.waiting if has_answer(self._reader, h, other, 0)]
        return any(head.name_length for head in answered) or (
            len({head.correlation_id for head in answered}) >= _ENOUGH_ANSWERED
        )


def _is_sound_07(view: memoryview) -> bool:
    """Tell whether a request of Kafka 0.7 is one, and says enough to be no accident."""
    from kanalyze.connection.locate07 import Request07Locator  # as above
    from kanalyze.protocol.kafka07 import parse_request

    if Request07Locator.verdict(view) != "yes":
        return False
    size = int.from_bytes(view[:4], "big")
    try:
        request = parse_request(view[: size + 4])
    except WireError:
        return False
    return any(
        len(part.topic) >= _SHORTEST_TOPIC_07
        or (part.messages is not None and part.messages.whole_bytes > 0)
        for part in request.parts
    )
