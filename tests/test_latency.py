"""Where the time of requests went, against what was set and measured while they were recorded.

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
    from kanalyze.tables.row import Row

MS = 1_000_000
PLACES = ("client", "between", "broker")
PARTS = (
    *("request_send_ns", "broker_network_ns", "retransmission_wait_ns", "pipeline_wait_ns"),
    *("broker_time_ns", "response_send_ns"),
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


def ways_ns(place: str) -> tuple[int, int]:
    """Round trips from a place to the client, and to the broker, as they were set."""
    set_ms = truth()["delays_ms"]
    near = set_ms["client_to_middle"] + set_ms["middle_to_client"]
    far = set_ms["middle_to_server"] + set_ms["server_to_middle"]
    told = {"client": (0, near + far), "between": (near, far), "broker": (near + far, 0)}
    return told[place][0] * MS, told[place][1] * MS


@pytest.mark.parametrize("place", PLACES)
def test_the_network_takes_what_was_set(place: str) -> None:
    client_ns, broker_ns = ways_ns(place)
    for row in rows(place):
        assert row.capture_point == place
        assert 0 <= (row.client_network_ns or 0) - client_ns <= 2 * WITHIN_NS
        assert 0 <= (row.broker_network_ns or 0) - broker_ns <= WITHIN_NS


@pytest.mark.parametrize("place", PLACES)
def test_connections_say_where_they_were_captured(place: str) -> None:
    found = list(kanalyze.connections(FOLDER / "latency" / f"{place}.pcap"))
    assert {connection.capture_point for connection in found} == {place}


@pytest.mark.parametrize("place", PLACES)
def test_the_broker_takes_what_the_server_measured(place: str) -> None:
    for row, told in zip(rows(place), truth()["requests"], strict=True):
        assert abs((row.broker_time_ns or 0) - told["broker_ns"]) <= WITHIN_NS


@pytest.mark.parametrize("place", PLACES)
def test_the_client_waits_for_all_of_it(place: str) -> None:
    for row, told in zip(rows(place), truth()["requests"], strict=True):
        if told["kind"] == "lost" and place == "broker":
            continue  # What was lost on the way there was not seen there.
        waited_ns = (row.total_time_ns or 0) + (row.client_network_ns or 0)
        assert abs(waited_ns - told["client_ns"]) <= WITHIN_NS


@pytest.mark.parametrize("place", PLACES)
def test_a_request_waits_for_those_before_it(place: str) -> None:
    before_ns = 0
    for row, told in zip(rows(place), truth()["requests"], strict=True):
        if told["kind"] == "behind":
            assert abs((row.pipeline_wait_ns or 0) - before_ns) <= WITHIN_NS
        else:
            assert row.pipeline_wait_ns == 0
            before_ns = 0
        before_ns += told["broker_ns"]


@pytest.mark.parametrize("place", PLACES)
def test_a_request_that_was_lost_behind_the_capture_waits_until_it_is_sent_again(
    place: str,
) -> None:
    for row, told in zip(rows(place), truth()["requests"], strict=True):
        if told["kind"] == "lost" and place != "broker":
            assert (row.retransmitted_packets or 0) >= 1
            lost_ns = told["client_ns"] - told["broker_ns"] - sum(ways_ns(place))
            assert abs((row.retransmission_wait_ns or 0) - lost_ns) <= WITHIN_NS
        else:
            assert row.retransmission_wait_ns == 0


def test_a_large_message_takes_a_round_trip_more_to_send() -> None:
    (large,) = (row for row in rows("client") if (row.request_bytes or 0) > 10_000)
    (told,) = (row for row in rows("broker") if (row.response_bytes or 0) > 10_000)
    for sent_ns in (large.request_send_ns, told.response_send_ns):
        assert (sent_ns or 0) >= sum(ways_ns("client"))


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_add_up_to_the_whole(name: str) -> None:
    for row in analysis(name)[0]:
        parts = [getattr(row, part) for part in PARTS]
        assert all(part is None or part >= 0 for part in parts)
        if None not in parts:
            assert sum(parts) == row.total_time_ns
        if row.broker_time_ns is not None:
            assert sum(parts[1:5]) == row.latency_ns


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("tls", "snaplen")])
def test_parts_are_known_of_nearly_all_that_were_answered(name: str) -> None:
    answered = [row for row in analysis(name)[0] if row.status in ("ok", "error")]
    known = [row for row in answered if row.broker_time_ns is not None]
    assert len(known) >= 0.85 * len(answered)
    # All of these were recorded on one machine, where both ends have one address.
    assert {row.capture_point for row in known} == {"host"}
