"""Latency parts, compared with the delays set and the times measured during recording.

The captures in ``captures/latency/`` hold the same packets as three places saw them, with known
delays between these and a server that measured its own time (``tools/record/latency.py``).
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from tests.support.captures import FOLDER, NAMES, analysis

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

MS = 1_000_000
PLACES = ("client", "between", "broker")
PARTS = (
    *("request_send_ns", "broker_network_ns", "retransmission_wait_ns", "pipeline_wait_ns"),
    *("waited_ns", "broker_time_ns", "response_send_ns"),
)
WITHIN_NS = 1 * MS


@functools.cache
def truth() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "latency" / "truth.json").read_text())
    return found


@functools.cache
def rows(place: str) -> list[Row]:
    found = sorted(kanalyze.requests(FOLDER / "latency" / f"{place}.pcap"), key=lambda row: row[14])
    assert len(found) == len(truth()["requests"])
    return found


def round_trips_ns(place: str) -> tuple[int, int]:
    """Round trips from a place to the client, and to the broker, as they were set."""
    set_ms = truth()["delays_ms"]
    near = set_ms["client_to_middle"] + set_ms["middle_to_client"]
    far = set_ms["middle_to_server"] + set_ms["server_to_middle"]
    round_trips_ms = {"client": (0, near + far), "between": (near, far), "broker": (near + far, 0)}
    return round_trips_ms[place][0] * MS, round_trips_ms[place][1] * MS


def near(time_ns: int | None, expected_ns: int) -> bool:
    return abs((time_ns or 0) - expected_ns) <= WITHIN_NS


@pytest.mark.parametrize("place", PLACES)
def test_network_times_are_the_delays_that_were_set(place: str) -> None:
    client_ns, broker_ns = round_trips_ns(place)
    for row in rows(place):
        assert row.capture_point == place
        assert 0 <= (row.client_network_ns or 0) - client_ns <= 2 * WITHIN_NS
        assert 0 <= (row.broker_network_ns or 0) - broker_ns <= WITHIN_NS
    found = kanalyze.connections(FOLDER / "latency" / f"{place}.pcap")
    assert {connection.capture_point for connection in found} == {place}


@pytest.mark.parametrize("place", PLACES)
def test_other_times_are_those_that_client_and_server_measured(place: str) -> None:
    before_ns = 0
    for row, measured in zip(rows(place), truth()["requests"], strict=True):
        client_ns, broker_ns = measured["client_ns"], measured["broker_ns"]
        assert near(row.broker_time_ns, broker_ns)
        if measured["kind"] != "behind":
            before_ns = 0
        # A request waits for those before it.
        assert near(row.pipeline_wait_ns, before_ns)
        assert (row.pipeline_wait_ns == 0) == (measured["kind"] != "behind")
        before_ns += broker_ns
        is_lost = measured["kind"] == "lost"
        if not (is_lost and place == "broker"):
            # The broker's capture does not have what was lost on the way to it.
            assert near((row.total_time_ns or 0) + (row.client_network_ns or 0), client_ns)
        if is_lost and place != "broker":
            assert (row.retransmitted_packets or 0) >= 1
            lost_ns = client_ns - broker_ns - sum(round_trips_ns(place))
            assert near(row.retransmission_wait_ns, lost_ns)
        else:
            assert row.retransmission_wait_ns == 0


def test_a_large_message_takes_a_round_trip_more_to_send() -> None:
    (large_request,) = (row for row in rows("client") if (row.request_bytes or 0) > 10_000)
    (large_response,) = (row for row in rows("broker") if (row.response_bytes or 0) > 10_000)
    for sent_ns in (large_request.request_send_ns, large_response.response_send_ns):
        assert (sent_ns or 0) >= sum(round_trips_ns("client"))


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_add_up_to_the_whole(name: str) -> None:
    for row in analysis(name)[0]:
        parts = [getattr(row, part) for part in PARTS]
        assert all(part is None or part >= 0 for part in parts)
        if None in (row.broker_time_ns, row.response_send_ns):
            continue
        # If it is not known whether a request waited, its broker time has the wait in it.
        known = [part or 0 for part in parts]
        assert sum(known) == row.total_time_ns
        assert sum(known[1:6]) == row.latency_ns


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("tls", "snaplen")])
def test_latency_parts_are_known_of_nearly_all_answered_requests(name: str) -> None:
    answered = [row for row in analysis(name)[0] if row.status in ("ok", "error")]
    known = [row for row in answered if row.broker_time_ns is not None]
    assert len(known) >= 0.85 * len(answered)
    # All of these were recorded on one machine, where both ends have one address.
    assert {row.capture_point for row in known} == {"host"}
