"""Finds out whether bytes that begin anywhere hold requests of Kafka.

In: one direction of a connection as it comes, and what the other one said. Out: which wire it is.
This module must not know connections; where exactly the requests begin is of no concern here.

Every byte is searched once, and a few times where a request that is not all there begins. What is
found must have :mod:`~kanalyze.kafka.session.heuristics` beyond its own fit. Of a large request no
more is held than of anything else: its head may be evidence enough, or what follows where it ends.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.session.heuristics import RequestHead, carries_records, has_answer, read_head
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.replay_buffer import HeldStream
    from kanalyze.kafka.session.resync import RequestLocator

__all__ = ["Search", "Searcher", "Wire"]

Wire: TypeAlias = Literal["kafka", "kafka after tokens", "kafka-0.7"]

_HEAD_BYTES = 14
_PATIENCE_BYTES = 64 * 1024
"""How long a request that is not all there is looked at again."""
_MOST_TRIES = 16
"""Requests without evidence that are passed over at each look."""
_MOST_BEGUN = 64
"""Requests that are not all there of which it is awaited what follows them."""
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
        waiting: requests without evidence so far, and whether their answer has to fit to the byte.
        begun: named requests that were not all there, and where in the stream they are to end.
        is_row: some of them followed one another.
    """

    __slots__ = ("begun", "is_row", "next_answer_end", "next_end", "sought", "sought_07", "waiting")

    def __init__(self) -> None:
        self.sought = 0
        self.sought_07 = 0
        self.next_end = 1
        self.next_answer_end = 1
        self.is_row = False
        self.waiting: list[tuple[RequestHead, bool]] = []
        self.begun: list[tuple[int, RequestHead]] = []

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.sought, self.sought_07, self.next_end, self.next_answer_end, self.is_row),
            tuple([(tuple(head), to_the_byte) for head, to_the_byte in self.waiting]),
            tuple([(end_offset, tuple(head)) for end_offset, head in self.begun]),
        )

    @classmethod
    def from_state(cls, state: object) -> Search:
        """Make one from a state; raises ValueError where that is none."""
        values = fields(state, "nnnnbtt")
        made = cls()
        made.sought, made.sought_07, made.next_end, made.next_answer_end, made.is_row = values[:5]
        for each in items(values[5], "t"):
            head, to_the_byte = fields(each, "tb")
            made.waiting.append((RequestHead.from_state(head), to_the_byte))
        for each in items(values[6], "t"):
            end_offset, head = fields(each, "nt")
            made.begun.append((end_offset, RequestHead.from_state(head)))
        return made

    def wait_for(self, head: RequestHead, *, to_the_byte: bool = False) -> None:
        """Note a request whose answer would be evidence; only the last few are kept."""
        if (head, to_the_byte) not in self.waiting:
            self.waiting.append((head, to_the_byte))
            del self.waiting[:-_MOST_WAITING]
            self.next_answer_end = 1

    def note_begun(self, end_offset: int, head: RequestHead) -> None:
        """Note a request that is not all there; of very many those that end first are kept."""
        if (end_offset, head) not in self.begun:
            self.begun.append((end_offset, head))
            if len(self.begun) > _MOST_BEGUN:
                self.begun.remove(max(self.begun))


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
        if search.begun and self._is_followed(search, held, last=last):
            return "kafka"
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
        from kanalyze.kafka.v07.resync import Request07Locator

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
        keep = max(0, len(view) - _HEAD_BYTES + 1)
        is_open = False
        for at, verdict in islice(self._locate.candidates(view), _MOST_TRIES):
            position, here = first + at, view[at:]
            if verdict == "yes":
                if self._begins(search, held, position, here):
                    return True
                continue
            if carries_records(self._reader, here):
                return True
            self._note_begun(search, held, position, here)
            if final:
                self._wait_if_cut(search, held, position, here)
            elif not is_open and len(here) < _PATIENCE_BYTES:
                # It is looked at again with what follows it.
                keep, is_open = at, True
        search.sought += keep
        return False

    def _begins(self, search: Search, held: HeldStream, position: int, view: memoryview) -> bool:
        """Tell whether a request that begins here has evidence; else let it wait."""
        head = read_head(self._reader, view)
        if head is None:
            return False
        if head.is_named:
            return True
        end = position + head.end
        if held.segment_at(position) and (end == held.end or held.segment_at(end)):
            # Small requests are sent by themselves; small numbers fit anywhere.
            search.wait_for(head)
            search.is_row = search.is_row or self._is_row(view)
        return False

    def _note_begun(
        self, search: Search, held: HeldStream, position: int, view: memoryview
    ) -> None:
        """Note a request that is not all there: where it ends, another one is to begin.

        Of its own little is checked: by two bytes out of step, a path of ZooKeeper is a client id.
        """
        head = read_head(self._reader, view)
        if head is not None and head.is_named:
            search.note_begun(held.offset_of(position) + head.end, head)

    def _is_followed(self, search: Search, held: HeldStream, *, last: bool) -> bool:
        """Tell whether a request that was not all there is followed by one of the same name.

        Those whose end has come are looked at once; then their answer would be evidence.
        """
        for begun in search.begun.copy():
            end_offset, head = begun
            size = _HEAD_BYTES + len(head.name.encode()) + 1
            if end_offset + size > held.end_offset and not last:
                continue
            search.begun.remove(begun)
            view = held.read_at(end_offset, size)
            follower = read_head(self._reader, view)
            if (
                follower is not None
                and follower.name == head.name
                and follower.correlation_id != head.correlation_id
                and self._locate.verdict(view) != "no"
            ):
                return True
            search.wait_for(head, to_the_byte=True)
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
        answered = [
            head
            for head, to_the_byte in search.waiting
            if has_answer(self._reader, head, other, 0, to_the_byte=to_the_byte)
        ]
        return any(head.name for head in answered) or (
            len({head.correlation_id for head in answered}) >= _ENOUGH_ANSWERED
        )


def _is_sound_07(view: memoryview) -> bool:
    """Tell whether a request of Kafka 0.7 is one, and says enough to be no accident."""
    from kanalyze.kafka.v07.messages import parse_request
    from kanalyze.kafka.v07.resync import Request07Locator  # as above

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
