"""Writes the rates of the last seconds as JSON Lines.

In: windows and the time. Out: a line of ASCII at each interval, on a binary stream. The lines may
be mixed with rows (:class:`~kanalyze.export.text_files.JsonLinesWriter` on the same stream): rows
have no ``kind``.

The line, schema 1
------------------

Times are Unix times in ns, durations are in ns, ``..._per_s`` are numbers per second over the
window, rounded to 3 decimals. Texts are as on the wire, long ones are shortened. An entry with
``"other": true`` sums up everything beyond the limit of names; its names are null. Tables have the
first :data:`MOST` entries.

- ``kind``: ``rates``; ``schema``: 1
- ``time_ns``, ``time`` (ISO 8601): the end of the window, by the time of the packets
- ``window_ns``: the length of the window of rates; ``recent_ns``: of ``slowest`` and ``groups``
- ``rows``, ``late_rows``: counts since the beginning; late rows were older than the window
- ``capture``: null, or ``source elapsed_ns packets wire_bytes dropped_packets connections
  connections_seen held_bytes last_packet_ns anomalies in_flight problems tls refused_connections
  refused_by unanswered_connections unanswered_by unread_ports late_packets late_bytes
  out_of_window_packets out_of_window_bytes before_start_bytes``. All are counts since the beginning
  except ``connections`` (open now) and ``held_bytes`` (buffered for them now). ``dropped_packets``:
  null if unknown. ``anomalies``: counts by kind. ``in_flight``: ``requests`` without a response
  now, and the ``oldest`` of those that the broker does not hold back on purpose: ``start_ns api_key
  api_name client_id client broker``; at the last line, requests in flight also become rows, as
  unanswered. ``problems``: texts that say why files cannot be written now. ``tls``: connections
  with TLS: numbers of open ones, ``decrypted`` and ``encrypted``, and of those ``given_up`` because
  no secret came for them (null without keys). The last ten are the same as in ``quality`` of the
  report, and missing if not counted: connections that were refused or never answered (of the first
  :data:`MOST` brokers), connections on a broker's port that were not recognised, and captured TCP
  data that belongs to no stream
- ``silent_brokers`` of ``capture``: those that answer nobody now, for at least a second, though
  requests wait on several connections: ``broker requests connections since_ns``; the last is the
  time of the last response
- ``packets_per_s wire_bytes_per_s dropped_packets_per_s``
- ``requests_per_s errors_per_s request_bytes_per_s response_bytes_per_s unread_per_s``: ``unread``
  are requests whose response was not read; ``error_share``: the share of the other requests that
  have an error code other than 0, from 0 to 1; null if there are no others
- ``p50_ns p99_ns``: quantiles of latency, without requests that were held back on purpose; null if
  there are none
- ``idle_ns``: the time since the last packet
- ``apis``, most requests first: ``wire api_key api_name waited other requests_per_s errors_per_s
  request_bytes_per_s response_bytes_per_s unread_per_s p50_ns p99_ns``; ``waited``: true
  in the entry of the requests whose response the broker held back on purpose; latencies are null if
  there are none
- ``clients``, most requests first: ``client_id client_ip other requests_per_s errors_per_s
  request_bytes_per_s response_bytes_per_s unread_per_s p50_ns p99_ns``; latencies
  without requests that were held back on purpose, null if there are none
- ``brokers``, most requests first: ``broker``, and the same fields as clients from ``other`` on
- ``topics``, most bytes first: ``topic topic_id other produce_requests_per_s
  produced_records_per_s produced_bytes_per_s``, the same for fetch, ``records_known errors_per_s``
- ``errors``, most frequent first: ``api_name error_code error_name topic other
  occurrences_per_s last_time_ns``
- ``groups`` that rebalanced, the latest first: ``group_id other protocol members members_known
  rebalances joins syncs leaves told errors last_error_name longest_join_ns longest_sync_ns
  last_time_ns``; ``protocol``: classic, consumer, share, streams or null; ``members``: a lower
  bound if ``members_known`` is false; ``rebalances``: a lower bound, null if not known;
  ``told``: responses with REBALANCE_IN_PROGRESS; ``errors``: requests of members that failed
- ``slowest``: as in the report
- ``findings`` of the last minutes, of faults that were last seen at most a minute ago, the most
  severe first; null before the first search: ``name title severity what sure concerns first_time_ns
  last_time_ns first_packet``, as in the report
- ``names``, missing without names of addresses: what is known of the addresses in the line, by
  address: ``name app zone``
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO

from kanalyze.common.times import format_time
from kanalyze.live.run import Sink
from kanalyze.live.window.tables import WINDOW_TABLES
from kanalyze.queries.report_names import add_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.common.named_tuples import NamedTuple
    from kanalyze.live.window.snapshot import CaptureState, Snapshot
    from kanalyze.live.window.windows import Windows
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.names import AddressNames

SCHEMA = 1
MOST = 10

_OF_FINDINGS = (
    *("name", "title", "severity", "what", "sure", "concerns"),
    *("first_time_ns", "last_time_ns", "first_packet"),
)
_AMOUNTS = frozenset(name for table in WINDOW_TABLES.values() for name in table.amounts)
"""Fields of entries that are sums over the window: they become rates."""


def rates(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of a line."""
    capture = snapshot.capture
    return {
        "kind": "rates",
        "schema": SCHEMA,
        "time_ns": snapshot.time_ns,
        "time": format_time(snapshot.time_ns),
        "window_ns": snapshot.window_ns,
        "recent_ns": snapshot.recent_ns,
        "rows": snapshot.rows,
        "late_rows": snapshot.late_rows,
        "capture": None if capture is None else _capture(capture),
        "packets_per_s": _rate(snapshot, snapshot.packets),
        "wire_bytes_per_s": _rate(snapshot, snapshot.wire_bytes),
        "dropped_packets_per_s": _rate(snapshot, snapshot.dropped_packets),
        **_entry(snapshot, snapshot.traffic),
        "error_share": None if snapshot.error_share is None else round(snapshot.error_share, 6),
        "p50_ns": snapshot.p50_ns,
        "p99_ns": snapshot.p99_ns,
        "idle_ns": snapshot.idle_ns,
        "apis": _entries(snapshot, snapshot.apis[:MOST]),
        "clients": _entries(snapshot, snapshot.clients[:MOST]),
        "brokers": _entries(snapshot, snapshot.brokers[:MOST]),
        "topics": _entries(snapshot, snapshot.topics[:MOST]),
        "errors": _entries(snapshot, snapshot.errors[:MOST]),
        # Counts, not rates: a group has few such events in a minute.
        "groups": [group._asdict() for group in snapshot.groups[:MOST]],
        "slowest": list(snapshot.slowest[:MOST]),
        "findings": _findings(snapshot),
    }


def _findings(snapshot: Snapshot) -> list[dict[str, Any]] | None:
    """Return the findings that are still present; None before the first search."""
    latest = snapshot.findings
    if latest is None:
        return None
    found = (finding.to_dict() for finding in latest.present(snapshot.time_ns)[:MOST])
    return [{name: finding[name] for name in _OF_FINDINGS} for finding in found]


class RatesWriter(Sink):
    """Writes a line at each interval, and one at the end."""

    def __init__(
        self,
        windows: Windows,
        stream: BinaryIO,
        *,
        interval_ns: int,
        names: AddressNames | None = None,
    ) -> None:
        """Write to a stream, which is not closed; the first line is due after one interval.

        A line has those of ``names`` that its addresses have.
        """
        self._windows = windows
        self._names = names
        self._stream = stream
        self._interval_ns = interval_ns
        self._due_ns: int | None = None
        self._now_ns: int | None = None

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Count rows."""
        self._windows.add(rows, now_ns)
        self._now_ns = now_ns

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Write a line if it is due. Raises OSError."""
        self._windows.add_capture(state, now_ns)
        self._now_ns = now_ns
        if self._due_ns is None:
            self._due_ns = clock_ns + self._interval_ns
        if clock_ns >= self._due_ns:
            # Missed lines are not written later.
            missed = (clock_ns - self._due_ns) // self._interval_ns
            self._due_ns += (missed + 1) * self._interval_ns
            self._write(now_ns)
        return True

    def close(self) -> None:
        """Write the last line."""
        if self._now_ns is not None:
            self._write(self._now_ns)

    def _write(self, now_ns: int) -> None:
        fields = rates(self._windows.snapshot(now_ns))
        add_names(fields, self._names, now_ns)
        line = json.dumps(
            fields,
            ensure_ascii=True,
            allow_nan=False,
            separators=(",", ":"),
        )
        self._stream.write(line.encode("ascii") + b"\n")
        self._stream.flush()


def _capture(capture: CaptureState) -> dict[str, Any]:
    fields = capture._asdict()
    del fields["findings"], fields["write_failures"]
    for name, value in (fields.pop("doubts") or {}).items():
        fields[name] = _first(value) if name.endswith("_by") else value
    fields["silent_brokers"] = [
        {**silent._asdict(), "broker": str(silent.broker)} for silent in capture.silent_brokers
    ]
    if capture.tls is not None:
        fields["tls"] = capture.tls._asdict()
    in_flight = capture.in_flight
    if in_flight is not None:
        oldest = [
            {**request._asdict(), "client": str(request.client), "broker": str(request.broker)}
            for request in in_flight.oldest
        ]
        fields["in_flight"] = {"requests": in_flight.requests, "oldest": oldest}
    return fields


def _first(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the highest counts."""
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:MOST])


def _entries(snapshot: Snapshot, entries: Iterable[NamedTuple]) -> list[dict[str, Any]]:
    return [_entry(snapshot, entry) for entry in entries]


def _entry(snapshot: Snapshot, entry: NamedTuple) -> dict[str, Any]:
    """Return an entry with rates in place of sums."""
    return {
        f"{name}_per_s" if name in _AMOUNTS else name: _rate(snapshot, value)
        if name in _AMOUNTS
        else value
        for name, value in entry._asdict().items()
    }


def _rate(snapshot: Snapshot, amount: int) -> float:
    return round(snapshot.per_second(amount), 3)
