"""Alerts: one line for each thing that is wrong now.

In: a snapshot. Out: short texts with a style, the most severe first. Texts from the wire are
escaped.

There are three kinds:

- problems of the capture, which make the figures wrong: packets lost, nothing captured, no Kafka;
- findings, the same as in a report, with its texts and thresholds
  (``kanalyze/queries/sql/findings/``);
- the state at this moment, which no query over rows can find: a request that hangs now, and the
  share of errors and the latency compared to a moment ago.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import escape
from kanalyze.live.view.tables import finding_text
from kanalyze.live.window.snapshot import PIPE
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.header import discarded_texts, refused_texts, unread_texts
from kanalyze.render.units import api_text, counted, duration_text, percent_text, rate_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.live.window.snapshot import CaptureState, Snapshot

_SEVERE = "bold white on red"
_BAD = "bold red"
_WARNING = "bold yellow"

_SECOND_NS = 1_000_000_000
_HANGING_NS = 10_000_000_000
"""The age of a request in flight that is an alert."""
_BEGINNING_NS = 3_000_000_000
"""At the start, missing packets or requests are no alert before this time."""
_IDLE_NS = 5_000_000_000
"""A gap between packets that is an alert: idle clients send a heartbeat every 3 s."""
_MANY_ERRORS = 0.01
_TIMES_USUAL = 3
"""Latency is high if it is at least this many times the usual latency, and at least _HIGH_NS."""
_HIGH_NS = 5_000_000
"""A lower p99 is no alert, because differences of short latencies are noise."""
_USUAL_STEPS = 15
"""Minimum number of steps before the window to know the usual latency."""
_MANY_REQUESTS = 100
"""Minimum number of requests: with fewer, p99 is the slowest request."""
_BAD_SEVERITY = 70
"""Findings with this severity or a higher one are red."""
_NAME_LIMIT = 48


class Alert(NamedTuple):
    """A line about one thing that is wrong."""

    text: str
    style: str


def alerts(snapshot: Snapshot) -> Iterator[Alert]:
    """Yield the alerts, the most severe first."""
    yield from _of_capture(snapshot)
    yield from _silent(snapshot)
    yield from _unanswered(snapshot)
    yield from _findings(snapshot)
    yield from _errors(snapshot)
    yield from _latency(snapshot)
    yield from _given_up(snapshot)
    yield from _doubts(snapshot)


def _of_capture(snapshot: Snapshot) -> Iterator[Alert]:
    capture = snapshot.capture
    if capture is None:
        return
    if dropped := snapshot.dropped_packets:
        share = percent_text(dropped / (dropped + snapshot.packets))
        rate = rate_text(dropped, snapshot.window_ns)
        text = f"{rate} packets dropped before they were read ({share}): figures are too low"
        yield Alert(text, _SEVERE)
    for problem in capture.problems:
        yield Alert(escape(problem), _SEVERE)
    if snapshot.idle_ns >= (_IDLE_NS if capture.packets else _BEGINNING_NS):
        yield _nothing(capture, snapshot.idle_ns)
    elif snapshot.packets and not _has_requests(snapshot) and snapshot.window_ns >= _BEGINNING_NS:
        yield _no_requests(snapshot)


def _given_up(snapshot: Snapshot) -> Iterator[Alert]:
    tls = None if snapshot.capture is None else snapshot.capture.tls
    if tls is not None and tls.given_up:
        text = f"{_with_tls(tls.given_up)} and no secret in the key log, since the capture began"
        yield Alert(text, _WARNING)


def _with_tls(connections: int) -> str:
    if connections == 1:
        return "1 connection has TLS"
    verb = "has" if connections == 1 else "have"
    return f"{counted(connections, 'connection')} {verb} TLS"


def _doubts(snapshot: Snapshot) -> Iterator[Alert]:
    doubts = None if snapshot.capture is None else snapshot.capture.doubts
    if doubts is not None:
        for text in refused_texts(doubts):
            yield Alert(f"{text} since the capture began", _BAD)
        for text in unread_texts(doubts):
            yield Alert(text, _WARNING)
        for text in discarded_texts(doubts):
            yield Alert(text, _WARNING)


def _has_requests(snapshot: Snapshot) -> bool:
    """Return true if there are requests, answered or in flight."""
    in_flight = None if snapshot.capture is None else snapshot.capture.in_flight
    return bool(snapshot.traffic.requests or (in_flight is not None and in_flight.requests))


def _nothing(capture: CaptureState, idle_ns: int) -> Alert:
    # In whole seconds, which are easier to read while they change.
    time = duration_text(idle_ns // _SECOND_NS * _SECOND_NS)
    if capture.packets:
        return Alert(f"no packets for {time}", _WARNING)
    if capture.source == PIPE:
        return Alert(
            f"no packets yet for {time}: is the pipe flushed, as tcpdump -U does?", _WARNING
        )
    return Alert(f"no packets yet for {time}: another interface, or another filter?", _WARNING)


def _no_requests(snapshot: Snapshot) -> Alert:
    if snapshot.filters:
        return Alert(f"packets, but no requests with {snapshot.filters}", _WARNING)
    if snapshot.traffic.response_bytes:
        return Alert("responses without requests: is one direction captured elsewhere?", _WARNING)
    if snapshot.rows:
        return Alert(f"packets, but no requests for {duration_text(snapshot.window_ns)}", _WARNING)
    tls = None if snapshot.capture is None else snapshot.capture.tls
    if tls is None or not tls.encrypted:
        return Alert("packets, but no Kafka in them: another port, or TLS?", _WARNING)
    text = f"packets, but no Kafka in them: {_with_tls(tls.encrypted)}"
    if tls.given_up is None:
        text += ", which --keylog FILE decrypts"
    return Alert(text, _WARNING)


def _silent(snapshot: Snapshot) -> Iterator[Alert]:
    capture = snapshot.capture
    for silent in () if capture is None else capture.silent_brokers:
        silence_ns = (snapshot.time_ns - silent.since_ns) // _SECOND_NS * _SECOND_NS
        text = f"broker {_name(str(silent.broker))} has answered nobody for "
        text += f"{duration_text(silence_ns)}: {counted(silent.requests, 'request')} "
        text += f"{'waits' if silent.requests == 1 else 'wait'} on "
        yield Alert(f"{text}{counted(silent.connections, 'connection')}", _SEVERE)


def _unanswered(snapshot: Snapshot) -> Iterator[Alert]:
    capture = snapshot.capture
    in_flight = None if capture is None else capture.in_flight
    if capture is None or in_flight is None or not in_flight.oldest:
        return
    oldest = in_flight.oldest[0]
    age_ns = snapshot.time_ns - oldest.start_ns
    if age_ns >= _HANGING_NS:
        api = api_text(oldest.api_name, oldest.api_key, _name)
        # The capture may have lost the response.
        is_sure = not (capture.anomalies or {}).get(AnomalyKind.LOST_BYTES)
        text = "no response for " if is_sure else "no response, unless it was lost, for "
        text += f"{duration_text(age_ns // _SECOND_NS * _SECOND_NS)}: {api}"
        text += f" from {_name(oldest.client_id)} to {_name(str(oldest.broker))}"
        if in_flight.requests > 1:
            wait = "waits" if in_flight.requests == 1 else "wait"
            text += f" ({counted(in_flight.requests, 'request')} {wait})"
        yield Alert(text, _BAD)
        if not any(step.response_bytes for step in snapshot.history):
            yield Alert(
                "requests without responses: is one direction captured elsewhere?", _WARNING
            )


def _errors(snapshot: Snapshot) -> Iterator[Alert]:
    share = snapshot.error_share
    if share is None or share < _MANY_ERRORS or not snapshot.traffic.errors:
        return
    text = f"{percent_text(share)} of requests fail"
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for error in snapshot.errors:
        if not error.other:
            counts[error.api_name, error.error_name] += error.occurrences
    if counts:
        ((api_name, error_name), _), *_ = counts.most_common(1)
        text += f", most with {_name(error_name)}: {_name(api_name)}"
    yield Alert(text, _BAD)


def _latency(snapshot: Snapshot) -> Iterator[Alert]:
    window = -(-snapshot.window_ns // snapshot.step_ns)
    before = [time for time in snapshot.p99_history[:-window] if time is not None]
    if snapshot.p99_ns is None or len(before) < _USUAL_STEPS:
        return
    if snapshot.traffic.requests < _MANY_REQUESTS:
        return
    usual_ns = int(median(before))
    if snapshot.p99_ns >= max(_TIMES_USUAL * usual_ns, _HIGH_NS):
        text = f"p99 is {duration_text(snapshot.p99_ns)}, usually {duration_text(usual_ns)}"
        # APIs are sorted by requests.
        slow = [api for api in snapshot.apis if not api.waited and not api.other]
        slow = [api for api in slow if (api.p99_ns or 0) >= snapshot.p99_ns]
        if slow:
            text += f": {_name(slow[0].api_name)}"
        yield Alert(text, _BAD)


def _findings(snapshot: Snapshot) -> Iterator[Alert]:
    """Yield the findings that are still present."""
    if snapshot.findings is None:
        return
    for finding in snapshot.findings.present(snapshot.time_ns, snapshot.recent_ns):
        style = _BAD if finding.severity >= _BAD_SEVERITY else _WARNING
        yield Alert(finding_text(finding), style)


def _name(text: str | None) -> str:
    return shown(text, _NAME_LIMIT)
