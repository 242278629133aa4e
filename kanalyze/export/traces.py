"""What formats of traces show of requests: their parts, and which have the same offsets.

In: rows of requests. Out: parts with begin and end; pairs of a Produce and a Fetch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.spec.rows.requests import Row

MAX_ITEMS: Final = 20
"""Number of topics or errors that are shown for a request."""
_MAX_ENDS: Final = 100_000
"""Number of ends that are kept until the other end comes."""
_MAX_LINKS: Final = 64
"""Number of links to or from one partition of a request."""
_PARTS: Final = (
    ("pipeline_wait_ns", "waits for the response before it"),
    ("retransmission_wait_ns", "waits for bytes sent again"),
    ("broker_network_ns", "network to the broker and back"),
    ("waited_ns", "waits on purpose"),
    ("broker_time_ns", "broker"),
)
"""Parts of a latency, in the order in which they are drawn: each is a sum, not a span of time."""


def end_ns_of(row: Row) -> int | None:
    """Return the latest known time of a request or its response, in ns since 1970."""
    times = (row.response_end_ns, row.response_start_ns, row.request_end_ns)
    return next((time_ns for time_ns in times if time_ns is not None), None)


def parts_of(row: Row) -> Iterator[tuple[str, int, int]]:
    """Yield name, begin and end in ns of the parts of an answered request."""
    begin, sent = row.request_start_ns, row.request_end_ns
    answered, end = row.response_start_ns, row.response_end_ns
    if begin is None or sent is None or answered is None or answered < sent:
        return
    if sent > begin:
        yield "sends the request", begin, sent
    parts = [(text, getattr(row, name)) for name, text in _PARTS]
    if all(part_ns is not None for _, part_ns in parts):
        at = sent
        for text, part_ns in parts:
            if part_ns:
                yield text, at, min(at + part_ns, answered)
                at = min(at + part_ns, answered)
    if end is not None and end > answered:
        yield "sends the response", answered, end


def topics_of(row: Row) -> list[str]:
    """Return the topics of a request, by name if it is known, else by id."""
    topics = dict.fromkeys(part.topic or part.topic_id for part in row.partitions)
    return [topic for topic in topics if topic is not None]


class OffsetEnd(NamedTuple):
    """A request that produced or fetched some offsets of a partition."""

    first_offset: int
    end_offset: int
    """The offset after the last one."""
    time_ns: int
    mark: Any
    """What the caller knows the request by."""


class OffsetLinks:
    """Finds which Produce and which Fetch have the same offsets of a partition."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, int], list[OffsetEnd]] = {}
        """By API, topic and partition, in the order of offsets; if too many, half are removed."""
        self._stored_ends = 0

    def of(self, row: Row, mark: object) -> Iterator[tuple[OffsetEnd, OffsetEnd]]:
        """Yield Produce and Fetch of the links that a request completes; keep its ends.

        ``mark`` is what the ends of this request are known by.
        """
        if row.api_name not in ("Produce", "Fetch"):
            return
        is_produce = row.api_name == "Produce"
        time_ns = row.request_end_ns if is_produce else row.response_start_ns
        if time_ns is None:
            return
        for topic, partition, first, records in _offsets(row):
            end = OffsetEnd(first, first + records, time_ns, mark)
            for other in self._others("Fetch" if is_produce else "Produce", topic, partition, end):
                produce, fetch = (end, other) if is_produce else (other, end)
                if produce.time_ns <= fetch.time_ns:
                    yield produce, fetch
            ends = self._ends.setdefault((row.api_name, topic, partition), [])
            insort(ends, end, key=attrgetter("first_offset"))
            self._stored_ends += 1
        if self._stored_ends > _MAX_ENDS:
            self._ends = {key: ends[len(ends) // 2 :] for key, ends in self._ends.items()}
            self._stored_ends = sum(map(len, self._ends.values()))

    def _others(self, api: str, topic: str, partition: int, end: OffsetEnd) -> Iterator[OffsetEnd]:
        """Yield the ends of the other API with some of the offsets of an end, the latest first."""
        ends = self._ends.get((api, topic, partition), [])
        last = bisect_left(ends, end.end_offset, key=attrgetter("first_offset"))
        for other in reversed(ends[max(last - _MAX_LINKS, 0) : last]):
            if other.end_offset > end.first_offset:
                yield other


def _offsets(row: Row) -> Iterator[tuple[str, int, int, int]]:
    """Yield topic, partition, first offset and number of the records of a request."""
    for part in row.partitions:
        topic = part.topic or part.topic_id
        base = part.base_offset
        if topic is None or part.partition is None or base is None or base < 0:
            continue
        if part.record_count:
            yield topic, part.partition, base, part.record_count
