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
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kanalyze.export.files import FileWriter
from kanalyze.export.traces import MAX_ITEMS, OffsetLinks, end_ns_of, parts_of, topics_of
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock

_NS_PER_US: Final = 1000
_ONE_SIDED: Final = 0
"""The thread of requests without a response, and of responses without a request."""


class PerfettoWriter(FileWriter):
    """Writes rows of requests as a trace."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(destination, columns, private=private)
        self._is_first = True
        self._is_open = True
        self._zero_ns: int | None = None
        self._threads = _Threads()
        self._links = OffsetLinks()
        self._arrows = 0
        self.output.file.write(b'{"displayTimeUnit": "ns", "traceEvents": [')

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""
        rows = chain.from_iterable(piece.rows() for piece in block.pieces())
        for event in chain.from_iterable(map(self._events, rows)):
            separator = b"\n" if self._is_first else b",\n"
            self._is_first = False
            self.output.file.write(separator + json.dumps(event).encode())

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
        end_ns = max(end_ns_of(row) or begin_ns, begin_ns)
        pid, tid, names = self._threads.assign(row, begin_ns, end_ns)
        yield from names
        track = {"pid": pid, "tid": tid}
        name = row.api_name or row.status
        name = name if row.api_version is None else f"{name} v{row.api_version}"
        yield self._slice(name, begin_ns, end_ns, track) | {"args": _arguments(row)}
        for part, part_ns, part_end_ns in parts_of(row):
            yield self._slice(part, part_ns, part_end_ns, track)
        for produce, fetch in self._links.of(row, (pid, tid)):
            self._arrows += 1
            for phase, end in (("s", produce), ("f", fetch)):
                pid, tid = end.mark
                yield {
                    "ph": phase,
                    "id": self._arrows,
                    "name": "offsets",
                    "cat": "records",
                    "bp": "e",
                    "pid": pid,
                    "tid": tid,
                    "ts": self._us(end.time_ns),
                }

    def _slice(
        self, name: str, begin_ns: int, end_ns: int, track: dict[str, int]
    ) -> dict[str, Any]:
        us = {"ts": self._us(begin_ns), "dur": (end_ns - begin_ns) / _NS_PER_US}
        return {"ph": "X", "name": name, "cat": "kafka", **us, **track}

    def _us(self, time_ns: int) -> float:
        assert self._zero_ns is not None
        return (time_ns - self._zero_ns) / _NS_PER_US


class _Threads:
    """Assigns a process to each connection, and threads to its requests without overlaps."""

    def __init__(self) -> None:
        self._pids: dict[tuple[str, int], int] = {}
        self._ends: dict[int, dict[int, int]] = {}
        """By process and thread: the end in ns of the last slice."""

    def assign(self, row: Row, begin_ns: int, end_ns: int) -> tuple[int, int, list[dict[str, Any]]]:
        """Return process and thread of a request, and events that name new ones."""
        events = []
        pid = self._pids.setdefault((row.connection, row.connection_number), len(self._pids) + 1)
        if pid not in self._ends:
            client = "" if row.client_id is None else f"{row.client_id} "
            events.append(_name("process_name", pid, 0, f"{client}{row.connection}"))
        ends = self._ends.setdefault(pid, {})
        tid, text = _ONE_SIDED, "without the other side"
        if row.request_start_ns is not None and row.response_start_ns is not None:
            in_flight = [tid for tid in ends if tid != _ONE_SIDED]
            free = (tid for tid in in_flight if ends[tid] <= begin_ns)
            tid = next(free, len(in_flight) + 1)
            text = f"in flight {tid}"
        if tid not in ends:
            events.append(_name("thread_name", pid, tid, text))
        ends[tid] = end_ns
        return pid, tid, events


def _name(kind: str, pid: int, tid: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}}


def _arguments(row: Row) -> dict[str, Any]:
    """Return what is shown of a request besides its times, without unknown values."""
    errors = list(dict.fromkeys(error.name for error in row.errors))
    arguments = {
        "status": row.status,
        "errors": errors[:MAX_ITEMS] or None,
        "client_id": row.client_id,
        "correlation_id": row.correlation_id,
        "topics": topics_of(row)[:MAX_ITEMS] or None,
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
