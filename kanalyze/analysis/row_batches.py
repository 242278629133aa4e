"""Makes the rows of a step: those of columns by column, the others one by one.

In: exchanges, as objects and as columns, with their order. Out:
:class:`~kanalyze.analysis.block.RowBatch`. This module must not know what a row says of a single
exchange: that is in :mod:`~kanalyze.analysis.rows` and :mod:`~kanalyze.analysis.row_columns`.

What a row needs of earlier ones (names of topics, ends of logs) is learned and asked for in the
order of the exchanges, whichever way their rows are made.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.analysis.block import Ints, RowBatch, RowBlock, Words, bytes_of_row, in_pieces
from kanalyze.analysis.extract import FETCH
from kanalyze.analysis.row_columns import RowDraft, draft_rows, finished_block
from kanalyze.protocol.language import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.analysis.extract import Facts
    from kanalyze.analysis.row import Row
    from kanalyze.analysis.rows import RowMaker
    from kanalyze.analysis.topics import TopicNames
    from kanalyze.analysis.waits import LogEnds
    from kanalyze.connection.columns import ExchangeColumns
    from kanalyze.connection.exchange import Exchange

__all__ = ["BatchMaker"]


class BatchMaker:
    """Turns what a step brought into rows; what it knows of earlier rows is the row maker's."""

    def __init__(self, maker: RowMaker, place: Callable[[int], tuple[str, int | None]]) -> None:
        """Make one.

        Args:
            maker: makes single rows.
            place: gives, for a packet number over the whole input, the capture it is in and its
                number there.
        """
        self._maker = maker
        self._place = place

    def batches(
        self,
        exchanges: Sequence[Exchange],
        turns: NDArray[np.int64],
        columns: Sequence[ExchangeColumns],
    ) -> Iterator[RowBatch]:
        """Give the rows of a step, in the order of the turns.

        Rows that are objects are made no more at a time than may be held: those of a fetch session
        list a thousand partitions that no message names.

        Args:
            exchanges: those that are objects.
            turns: the place of each of them among all.
            columns: the others.
        """
        if not columns:
            # No more than one ahead.
            for rows in in_pieces(map(self._maker.row, exchanges), bytes_of_row):
                yield RowBatch(rows)
            return
        single = list(zip(turns.tolist(), exchanges, strict=True))
        drafts = []
        for each in columns:
            draft, odd = _divided(each)
            if odd is not None:
                single += zip(odd.turn.tolist(), odd.exchanges(), strict=True)
                single.sort(key=_turn)
            if draft is not None:
                drafts.append(draft)
        first = 0
        for some, end in self._bounded(single):
            within = drafts if not first and end is None else _between(drafts, first, end)
            yield self._batch(some, within)
            first = end or 0

    def _bounded(
        self, single: list[tuple[int, Exchange]]
    ) -> Iterator[tuple[list[_Single], int | None]]:
        """Divide what comes as objects; with each part the turn where the next begins, if any."""
        size_of = self._maker.sizes_ahead()
        facts = map(self._maker.facts, (exchange for _, exchange in single))
        looked_at = (_Single(*item, found) for item, found in zip(single, facts, strict=True))
        pieces = in_pieces(looked_at, lambda item: size_of(item.exchange, item.facts))
        some = next(pieces, [])
        for following in pieces:
            yield some, following[0].turn
            some = following
        yield some, None

    def _batch(self, single: list[_Single], drafts: list[RowDraft]) -> RowBatch:
        columns = [_Columns(draft, self._maker) for draft in drafts]
        rows = self._single_rows(single, columns)
        blocks = tuple(self._finished(each) for each in columns)
        all_turns = [each.turn for each in columns]
        all_turns.append(np.array([item.turn for item in single], np.int64))
        return RowBatch(rows, blocks, np.argsort(np.concatenate(all_turns)))

    def _single_rows(self, single: list[_Single], drafts: list[_Columns]) -> list[Row]:
        """Make the rows of objects; on the way columns learn and ask what comes before them."""
        maker = self._maker
        waits = _Waits(drafts, maker.log_ends)
        rows = []
        for turn, exchange, facts in single:
            if facts.names:
                for draft in drafts:
                    draft.name_topics(turn)
            if exchange.api_key == FETCH:
                waits.go_on(turn)
            rows.append(maker.row(exchange, facts))
        for draft in drafts:
            draft.name_topics(None)
        waits.go_on(None)
        return rows

    def _finished(self, columns: _Columns) -> RowBlock:
        draft, maker = columns.draft, self._maker
        each = draft.exchanges
        captures, request_packet = self._places(each.request_packet)
        _, response_packet = self._places(each.response_packet)
        return finished_block(
            draft,
            api_name=maker.api_name(each.api_key) or "",
            captures=captures,
            request_packet=request_packet,
            response_packet=response_packet,
            topic=columns.topic,
            topic_id_text=maker.names.text,
            tells_throttle=maker.tells_throttle(each.api_key, each.api_version),
            waited=columns.waited,
        )

    def _places(self, packet: NDArray[np.int64]) -> tuple[Words, Ints]:
        """Return captures, and the numbers that packets have in them."""
        first, last = int(packet.min()), int(packet.max())
        capture, number = self._place(first)
        other, last_number = self._place(last)
        # A packet of another capture between the two would have taken a number.
        if number is not None and last_number is not None and capture == other:
            shift = number - first
            if last_number - last == shift:
                return Words(np.zeros(len(packet), np.int32), [capture]), Ints(packet + shift, None)
        places = [self._place(value) for value in packet.tolist()]
        known: dict[str, int] = {}
        codes = [known.setdefault(name, len(known)) for name, _ in places]
        valid = np.array([found is not None for _, found in places])
        numbers = np.array([found or 0 for _, found in places], np.int64)
        return Words(np.array(codes, np.int32), list(known)), Ints(numbers, valid)


class _Single(NamedTuple):
    """An exchange that comes as an object."""

    turn: int
    exchange: Exchange
    facts: Facts


def _turn(item: tuple[int, Exchange]) -> int:
    return item[0]


def _between(drafts: Iterable[RowDraft], first: int, end: int | None) -> list[RowDraft]:
    """Return the drafts of the rows with these turns."""
    found = []
    for draft in drafts:
        turn = draft.exchanges.turn
        is_within = turn >= first if end is None else (turn >= first) & (turn < end)
        if is_within.any():
            part = draft_rows(draft.exchanges.taken(np.flatnonzero(is_within)))
            assert part is not None
            found.append(part)
    return found


def _divided(each: ExchangeColumns) -> tuple[RowDraft | None, ExchangeColumns | None]:
    """Return the rows of those that are as usual, and the others."""
    draft = draft_rows(each)
    if draft is None:
        return None, each
    if len(draft.kept) == len(each):
        return draft, None
    is_odd = np.ones(len(each), np.bool_)
    is_odd[draft.kept] = False
    return draft, each.taken(np.flatnonzero(is_odd))


class _Columns:
    """The draft of rows, and what is added to it."""

    def __init__(self, draft: RowDraft, maker: RowMaker) -> None:
        self.draft = draft
        self.turn = draft.exchanges.turn
        self._names: TopicNames = maker.names
        parts = draft.parts
        self._topic = np.full(len(parts.partition), -1, np.int32)
        self._words: dict[str, int] = {}
        self._named = 0
        """Rows with a turn below it have their topics' names."""
        row = np.repeat(np.arange(len(self.turn)), np.diff(parts.offsets))
        self.part_turn = self.turn[row]
        self.part_peer = draft.exchanges.peer[row]
        self.waited: Ints | None = None

    @property
    def is_fetch(self) -> bool:
        """Whether these are fetches."""
        return self.draft.exchanges.api_key == FETCH

    @property
    def topic(self) -> Words:
        """The name of each partition's topic."""
        return Words(self._topic, list(self._words))

    def name_topics(self, before: int | None) -> None:
        """Name the topics of rows with a turn below ``before`` (None: all), as now known."""
        parts = self.draft.parts
        if before is None:
            at = np.flatnonzero(self.part_turn >= self._named)
        else:
            at = np.flatnonzero((self.part_turn >= self._named) & (self.part_turn < before))
            self._named = before
        if not len(at):
            return
        ids = len(parts.topic_ids) + 1
        kinds, kind = np.unique(
            parts.topic[at].astype(np.int64) * ids + parts.topic_id[at], return_inverse=True
        )
        codes = []
        for value in kinds.tolist():
            topic, topic_id = self._topic_of(*divmod(value + 1, ids))
            name = self._names.name(topic, topic_id)
            codes.append(-1 if name is None else self._words.setdefault(name, len(self._words)))
        self._topic[at] = np.array(codes, np.int32)[kind]

    def _topic_of(self, topic: int, topic_id_after: int) -> tuple[str | None, bytes]:
        """Return name and id by their codes; that of the id is one more here."""
        parts = self.draft.parts
        return (
            None if topic < 0 else parts.topics[topic],
            ZERO_UUID if topic_id_after == 0 else parts.topic_ids[topic_id_after - 1],
        )

    def logs(self) -> list[Hashable]:
        """Return which log each partition is, as the row maker names it."""
        draft, parts = self.draft, self.draft.parts
        serials = [peers.tcp.serial for peers in draft.exchanges.peers]
        known: dict[tuple[int, int, int, int], Hashable] = {}
        found: list[Hashable] = []
        for key in zip(
            self.part_peer.tolist(),
            parts.topic.tolist(),
            parts.topic_id.tolist(),
            parts.partition.tolist(),
            strict=True,
        ):
            log = known.get(key)
            if log is None:
                topic, topic_id = self._topic_of(key[1], key[2] + 1)
                log = known[key] = (serials[key[0]], topic, topic_id, key[3])
            found.append(log)
        return found


class _Waits:
    """Asks of the fetches of all drafts, in their order, whether they waited."""

    def __init__(self, drafts: Sequence[_Columns], log_ends: LogEnds) -> None:
        self._log_ends = log_ends
        self._asked = [_Fetches(draft) for draft in drafts if draft.is_fetch]
        turns = [fetches.turn for fetches in self._asked]
        sizes = [len(turn) for turn in turns]
        all_turns = np.concatenate(turns) if turns else np.zeros(0, np.int64)
        order = np.argsort(all_turns)
        self._turns: list[int] = all_turns[order].tolist()
        self._of: list[int] = np.repeat(np.arange(len(sizes)), sizes)[order].tolist()
        rows = [np.arange(size) for size in sizes]
        self._rows: list[int] = np.concatenate(rows)[order].tolist() if rows else []
        self._next = 0

    def go_on(self, before: int | None) -> None:
        """Take in the fetches with a turn below ``before``; None: all that are left, and end."""
        last = len(self._turns) if before is None else bisect_left(self._turns, before)
        for index in range(self._next, last):
            self._asked[self._of[index]].take(self._rows[index], self._log_ends)
        self._next = last
        if before is None:
            for fetches in self._asked:
                fetches.finish()


class _Fetches:
    """The fetches of one draft, by lists: they are gone through one by one."""

    def __init__(self, columns: _Columns) -> None:
        draft = columns.draft
        each, parts = draft.exchanges, draft.parts
        self._columns = columns
        self.turn = each.turn
        serials = np.array([peers.tcp.serial for peers in each.peers])
        self._connection: list[int] = serials[each.peer].tolist()
        self._asked_ns: list[int] = each.request_end_ns.tolist()
        self._answered_ns: list[int] = each.response_start_ns.tolist()
        self._max_wait_ms: list[int] = (
            [] if draft.max_wait_ms is None else draft.max_wait_ms.tolist()
        )
        self._min_bytes: list[int] = [] if draft.min_bytes is None else draft.min_bytes.tolist()
        self._record_bytes = _row_sums(parts.offsets, parts.records.record_bytes)
        self._failed = _row_sums(parts.offsets, parts.error_code != 0)
        self._lost_ns: list[int] = each.lost_ns.tolist()
        self._offsets: list[int] = parts.offsets.tolist()
        self._logs = columns.logs()
        self._base_offset = _or_none(parts.base_offset)
        self._high_watermark = _or_none(parts.high_watermark)
        self._waited: list[bool | None] = [None] * len(each)

    def take(self, row: int, log_ends: LogEnds) -> None:
        """Ask of one, and learn from it."""
        first, last = self._offsets[row], self._offsets[row + 1]
        logs, answered_ns, lost_ns = self._logs, self._answered_ns[row], self._lost_ns[row]
        self._waited[row] = log_ends.waited(
            self._connection[row],
            asked_ns=self._asked_ns[row],
            answered_ns=answered_ns,
            max_wait_ms=self._max_wait_ms[row],
            min_bytes=self._min_bytes[row],
            record_bytes=self._record_bytes[row],
            failed=self._failed[row] > 0,
            got=[
                (logs[part], offset)
                for part in range(first, last)
                if (offset := self._base_offset[part]) is not None
            ],
            lost_ns=None if lost_ns < 0 else lost_ns,
        )
        for part in range(first, last):
            high_watermark = self._high_watermark[part]
            if high_watermark is not None:
                log_ends.learn(logs[part], high_watermark, answered_ns)

    def finish(self) -> None:
        """Hand over what was found."""
        valid = np.array([waited is not None for waited in self._waited])
        values = np.array([bool(waited) for waited in self._waited]).astype(np.int64)
        self._columns.waited = Ints(values, None if valid.all() else valid)


def _row_sums(
    offsets: NDArray[np.int64], values: NDArray[np.int64] | NDArray[np.bool_]
) -> list[int]:
    before = np.concatenate([[0], np.cumsum(values)])
    sums: list[int] = (before[offsets[1:]] - before[offsets[:-1]]).tolist()
    return sums


def _or_none(ints: Ints) -> list[int | None]:
    values: list[int | None] = ints.values.tolist()
    if ints.valid is None:
        return values
    pairs = zip(values, ints.valid.tolist(), strict=True)
    return [value if valid else None for value, valid in pairs]
