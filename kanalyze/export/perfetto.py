"""Rows of requests as a trace, for https://ui.perfetto.dev and chrome://tracing.

In: rows of requests. Out: JSON.

The format is Chromium's Trace Event Format. A connection is a process; its requests are slices of a
thread, with their parts as slices inside. Requests that are in flight at the same time are on
different threads. An arrow goes from a Produce to each Fetch of the same offsets. Times are
microseconds since the first request: viewers read them as doubles, in which Unix times would lose
nanoseconds.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.files import FileWriter, OutputFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.spec.columns import AnyRow
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["PerfettoWriter"]

_NS_PER_US: Final = 1000
_MAX_ITEMS: Final = 20
"""Number of topics or errors that are shown for a request."""
_MAX_ENDS: Final = 100_000
"""Number of arrow ends that are kept until the other end comes."""
_MAX_ARROWS: Final = 64
"""Number of arrows to or from one partition of a request."""
_ONE_SIDED: Final = 0
"""The thread of requests without a response, and of responses without a request."""
_PARTS: Final = (
    ("pipeline_wait_ns", "waits for the response before it"),
    ("retransmission_wait_ns", "waits for bytes sent again"),
    ("broker_network_ns", "network to the broker and back"),
    ("broker_time_ns", "broker"),
)
"""Parts of a latency, in the order in which they are drawn: each is a sum, not a span of time."""


class _End(NamedTuple):
    """One end of an arrow: a request that produced or fetched some offsets of a partition."""

    first_offset: int
    end_offset: int
    """The offset after the last one."""
    pid: int
    tid: int
    time_ns: int


class PerfettoWriter(FileWriter):
    """Writes rows of requests as a trace."""

    def __init__(self, destination: str, *, private: bool = False) -> None:
        super().__init__(OutputFile(destination, private=private))
        self._is_first = True
        self._is_open = True
        self._zero_ns: int | None = None
        self._threads = _Threads()
        self._arrows = _Arrows()
        self.output.file.write(b'{"displayTimeUnit": "ns", "traceEvents": [')

    def write(self, rows: Iterable[AnyRow]) -> None:
        """Write rows of requests; raises OSError."""
        for row in cast("Iterable[Row]", rows):
            for event in self._events(row):
                separator = b"\n" if self._is_first else b",\n"
                self._is_first = False
                self.output.file.write(separator + json.dumps(event).encode())

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""
        for piece in block.pieces():
            self.write(piece.rows())

    def close(self) -> None:
        """Finish the file; ``otherData`` has the Unix time that times count from."""
        if self._is_open:
            self._is_open = False
            others = {"first_request_ns": self._zero_ns}
            self.output.file.write(b'\n], "otherData": ' + json.dumps(others).encode() + b"}\n")
        super().close()

    def _events(self, row: Row) -> Iterator[dict[str, Any]]:
        begin_ns = row.began_ns
        if begin_ns is None:
            return
        if self._zero_ns is None:
            self._zero_ns = begin_ns
        end_ns = max(_end_ns(row) or begin_ns, begin_ns)
        pid, tid, names = self._threads.assign(row, begin_ns, end_ns)
        yield from names
        track = {"pid": pid, "tid": tid}
        name = row.api_name or row.status
        name = name if row.api_version is None else f"{name} v{row.api_version}"
        yield self._slice(name, begin_ns, end_ns, track) | {"args": _arguments(row)}
        for part, part_ns, part_end_ns in _parts(row):
            yield self._slice(part, part_ns, part_end_ns, track)
        for number, start, end in self._arrows.of(row, pid, tid):
            for phase, event in (("s", start), ("f", end)):
                yield {
                    "ph": phase,
                    "id": number,
                    "name": "offsets",
                    "cat": "records",
                    "bp": "e",
                    "pid": event.pid,
                    "tid": event.tid,
                    "ts": self._us(event.time_ns),
                }

    def _slice(
        self, name: str, begin_ns: int, end_ns: int, track: dict[str, int]
    ) -> dict[str, Any]:
        us = (end_ns - begin_ns) / _NS_PER_US
        return {
            "ph": "X",
            "name": name,
            "cat": "kafka",
            "ts": self._us(begin_ns),
            "dur": us,
            **track,
        }

    def _us(self, time_ns: int) -> float:
        assert self._zero_ns is not None
        return (time_ns - self._zero_ns) / _NS_PER_US


class _Threads:
    """Assigns a process to each connection, and threads to its requests without overlaps."""

    def __init__(self) -> None:
        self._pids: dict[tuple[str, int], int] = {}
        self._ends: dict[int, list[int]] = {}
        """By process: the end in ns of the last slice of each thread."""
        self._named: set[tuple[int, int]] = set()

    def assign(self, row: Row, begin_ns: int, end_ns: int) -> tuple[int, int, list[dict[str, Any]]]:
        """Return process and thread of a request, and events that name new ones."""
        events = []
        key = row.connection, row.connection_number
        pid = self._pids.get(key)
        if pid is None:
            pid = self._pids[key] = len(self._pids) + 1
            client = "" if row.client_id is None else f"{row.client_id} "
            events.append(_name("process_name", pid, 0, f"{client}{row.connection}"))
        tid = self._thread(pid, row, begin_ns, end_ns)
        if (pid, tid) not in self._named:
            self._named.add((pid, tid))
            text = "without the other side" if tid == _ONE_SIDED else f"in flight {tid}"
            events.append(_name("thread_name", pid, tid, text))
        return pid, tid, events

    def _thread(self, pid: int, row: Row, begin_ns: int, end_ns: int) -> int:
        if row.request_start_ns is None or row.response_start_ns is None:
            return _ONE_SIDED
        ends = self._ends.setdefault(pid, [])
        for index, last_ns in enumerate(ends):
            if last_ns <= begin_ns:
                ends[index] = end_ns
                return index + 1
        ends.append(end_ns)
        return len(ends)


class _Arrows:
    """Finds which Produce and which Fetch have the same offsets of a partition."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, int], list[_End]] = {}
        """By API, topic and partition, in the order of offsets; if too many, half are removed."""
        self._stored_ends = 0
        self._arrows = 0

    def of(self, row: Row, pid: int, tid: int) -> Iterator[tuple[int, _End, _End]]:
        """Yield number, Produce and Fetch of the arrows that a request completes; keep its ends."""
        if row.api_name not in ("Produce", "Fetch"):
            return
        is_produce = row.api_name == "Produce"
        time_ns = row.request_end_ns if is_produce else row.response_start_ns
        if time_ns is None:
            return
        for topic, partition, first, records in _offsets(row):
            end = _End(first, first + records, pid, tid, time_ns)
            for other in self._others("Fetch" if is_produce else "Produce", topic, partition, end):
                produce, fetch = (end, other) if is_produce else (other, end)
                if produce.time_ns <= fetch.time_ns:
                    self._arrows += 1
                    yield self._arrows, produce, fetch
            insort(self._ends.setdefault((row.api_name, topic, partition), []), end)
            self._stored_ends += 1
        if self._stored_ends > _MAX_ENDS:
            self._ends = {key: ends[len(ends) // 2 :] for key, ends in self._ends.items()}
            self._stored_ends = sum(map(len, self._ends.values()))

    def _others(self, api: str, topic: str, partition: int, end: _End) -> Iterator[_End]:
        """Yield the ends of the other API with some of the offsets of an end, the latest first."""
        ends = self._ends.get((api, topic, partition), [])
        last = bisect_left(ends, end.end_offset, key=attrgetter("first_offset"))
        for other in reversed(ends[max(last - _MAX_ARROWS, 0) : last]):
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


def _name(kind: str, pid: int, tid: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}}


def _end_ns(row: Row) -> int | None:
    times = (row.response_end_ns, row.response_start_ns, row.request_end_ns)
    return next((time_ns for time_ns in times if time_ns is not None), None)


def _parts(row: Row) -> Iterator[tuple[str, int, int]]:
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


def _arguments(row: Row) -> dict[str, Any]:
    """Return what is shown of a request besides its times, without unknown values."""
    topics = list(dict.fromkeys(part.topic or part.topic_id for part in row.partitions))
    errors = list(dict.fromkeys(error.name for error in row.errors))
    arguments = {
        "status": row.status,
        "errors": errors[:_MAX_ITEMS] or None,
        "client_id": row.client_id,
        "correlation_id": row.correlation_id,
        "topics": topics[:_MAX_ITEMS] or None,
        "group_id": row.group_id,
        "latency_ns": row.latency_ns,
        "waited": row.waited,
        "request_bytes": row.request_bytes,
        "response_bytes": row.response_bytes,
        "record_count": row.record_count,
        "capture": row.capture,
        "request_packet": row.request_packet,
        "response_packet": row.response_packet,
    }
    return {name: value for name, value in arguments.items() if value is not None}
