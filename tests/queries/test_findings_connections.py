"""Findings about connections that nobody can use, in captures made for them.

Each fault is provoked in two ways that differ, with a healthy workload beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support import kafka as k
from tests.support.timeline import Timeline
from tests.support.traffic import (
    TO_BROKER,
    TO_CLIENT,
    Part,
    answers,
    asks,
    body,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BROKER = ("10.0.1.1", 9092)
BROKER_TEXT = "10.0.1.1:9092"
CLIENT_ID = "orders-app"


# --- connections that a load balancer forgot ---


def idle_then_reset(
    silences_s: Sequence[float], *, acks: int = -1, survived_s: Sequence[float] = ()
) -> Timeline:
    """Connections whose first request after a silence is reset, and others that are answered."""
    timeline = Timeline()
    for number, silence_s in enumerate([*silences_s, *survived_s]):
        line = timeline.at(number).line(50000 + number, broker=BROKER).open()
        line.client(produce(1, 9)).broker(produce_answer(1, 9))
        timeline.at(number + silence_s)
        line.client(produce(2, 9, acks=acks))
        if number < len(silences_s):
            line.reset()
        else:
            line.broker(produce_answer(2, 9))
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            idle_then_reset([400, 400, 371.5]),
            (
                "3 connections reset by the other end at the next request (Produce) after "
                "371.5 to 400.0 s of silence"
            ),
        ),
        # Another limit, a producer that wants no answer, and a silence that was short enough.
        (
            idle_then_reset([910], acks=0, survived_s=[898]),
            (
                "1 connection reset by the other end at the next request (Produce) after "
                "910.0 s of silence; the longest silence before an answer was 898.0 s"
            ),
        ),
    ],
)
def test_a_reset_of_the_first_request_after_a_silence_is_an_idle_cut(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "idle_cut")
    assert finding.what == words
    assert finding.concerns["broker"] == "10.0.1.1:9092"
    assert finding.concerns["client_ip"] == "10.0.0.1"


@pytest.mark.parametrize(
    "timeline",
    [
        idle_then_reset([], survived_s=[400, 400]),
        # Other connections survive as long a silence: it is not the silence.
        idle_then_reset([400], survived_s=[400.2]),
        # One reset after a silence that is no known limit, and resets in the midst of work.
        idle_then_reset([100]),
        idle_then_reset([2, 2, 2, 2]),
    ],
)
def test_a_reset_for_another_reason_is_no_idle_cut(timeline: Timeline, tmp_path: Path) -> None:
    assert timeline.findings(tmp_path, "idle_cut") == []


# --- addresses that Metadata names and that nobody can reach ---

METADATA_VERSION = 9


def told(*addresses: tuple[str, int]) -> bytes:
    """The body of a response that names brokers."""
    brokers = [
        {"nodeId": number, "host": host, "port": port, "rack": None}
        for number, (host, port) in enumerate(addresses, start=1)
    ]
    return body(k.METADATA, "response", METADATA_VERSION, brokers=brokers)


def asking(
    address: tuple[str, int],
    times: int = 6,
    apart_s: float = 1,
    *,
    client_ip: str = "10.0.0.5",
    is_new_each_time: bool = False,
    then: bytes | None = None,
) -> Timeline:
    """A client that asks for Metadata again and again; then it may do some work."""
    timeline = Timeline()
    line = timeline.line(40000, client_ip, BROKER).open()
    for number in range(times):
        timeline.at(number * apart_s)
        if is_new_each_time and number:
            line.close()
            line = timeline.line(40000 + number, client_ip, BROKER).open()
        question = body(k.METADATA, "request", METADATA_VERSION)
        line.client(asks_frame(number, question))
        line.broker(answers(k.METADATA, METADATA_VERSION, number, told(address)))
    if then is not None:
        timeline.at(times * apart_s)
        line.client(then).broker(produce_answer(99, 9))
    return timeline


def asks_frame(correlation_id: int, content: bytes) -> bytes:
    return asks(k.METADATA, METADATA_VERSION, correlation_id, content, CLIENT_ID)


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            asking(("localhost", 9092)),
            (
                "6 times in 5.0 s Metadata named localhost:9092, the client's own machine, to a "
                "client on another; it asked for nothing else"
            ),
        ),
        (
            asking(("127.0.1.1", 29092), times=3, apart_s=30, is_new_each_time=True),
            "3 times in 60.0 s Metadata named 127.0.1.1:29092, the client's own machine, to a ",
        ),
        (
            asking(("172.18.0.4", 9092), times=4, is_new_each_time=True),
            "4 times in 3.0 s Metadata named 172.18.0.4:9092, which the client never tried to ",
        ),
        (
            asking(("kafka", 9092), times=9, apart_s=0.1),
            "9 times in 0.8 s Metadata named kafka:9092, which the client never tried to reach",
        ),
        (
            asking(("broker-1.example.com", 19092)),
            "6 times in 5.0 s Metadata named broker-1.example.com:19092, which the client never",
        ),
    ],
)
def test_an_address_that_a_client_is_told_and_cannot_use_is_a_wrong_listener(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "wrong_listener")
    assert finding.what.startswith(words)
    assert finding.concerns == {
        "client_id": CLIENT_ID,
        "client_ip": "10.0.0.5",
        "broker": BROKER_TEXT,
    }


@pytest.mark.parametrize(
    "timeline",
    [
        # On the broker's machine, and through a tunnel that ends there.
        asking(("localhost", 9092), client_ip=BROKER[0]),
        asking(("localhost", 9092), then=produce(99, 9, client_id=CLIENT_ID)),
        # The address is the one that the client is connected to: a check of the cluster's health.
        asking(BROKER, times=20),
        # At a distance that metadata is refreshed at: the address may be out of sight.
        asking(("172.18.0.4", 9092), times=4, apart_s=60),
        asking(("broker-1.example.com", 9092)),
        asking(("localhost", 9092), times=2),
    ],
)
def test_an_address_that_may_be_right_is_no_wrong_listener(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "wrong_listener") == []


# --- connections that are closed instead of ApiVersions being answered ---


def api_versions(version: int) -> bytes:
    software = {"clientSoftwareName": "librdkafka", "clientSoftwareVersion": "2.5.0"}
    values = software if version >= 3 else {}
    return asks(
        k.API_VERSIONS, version, 0, body(k.API_VERSIONS, "request", version, **values), CLIENT_ID
    )


def api_versions_answer(version: int) -> bytes:
    return answers(k.API_VERSIONS, version, 0, body(k.API_VERSIONS, "response", version))


def turned_away(
    times: int,
    *,
    version: int = 4,
    is_reset: bool = True,
    apart_s: float = 0.5,
    after_s: float = 0.03,
    answered: int = 0,
) -> Timeline:
    """Connections that end at ApiVersions, and others to the same broker that are answered."""
    timeline = Timeline()
    for number in range(times + answered):
        timeline.at(number * apart_s)
        line = timeline.line(40000 + number, "10.0.0.5", BROKER).open()
        line.client(api_versions(version))
        timeline.at(number * apart_s + after_s)
        if number >= times:
            line.broker(api_versions_answer(version)).close()
        elif is_reset:
            line.reset()
        else:
            line.close(TO_CLIENT)
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            turned_away(6),
            (
                "6 connections in 2.5 s closed at ApiVersions v4 without an answer: 6 by RST, "
                "0 by FIN, within 30.0 ms; answers on 0 other connections to this address"
            ),
        ),
        (
            turned_away(3, version=2, is_reset=False, apart_s=20, after_s=4, answered=1),
            (
                "3 connections in 40.0 s closed at ApiVersions v2 without an answer: 0 by RST, "
                "3 by FIN, within 4000.0 ms; answers on 1 other connection to this address"
            ),
        ),
    ],
)
def test_connections_closed_at_their_first_request_are_a_finding(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "closed_at_api_versions")
    assert finding.what == words
    assert finding.concerns == {
        "client_id": CLIENT_ID,
        "client_ip": "10.0.0.5",
        "broker": BROKER_TEXT,
    }


@pytest.mark.parametrize(
    "timeline",
    [
        turned_away(0, answered=9),
        turned_away(2),
        # A broker that stops: connections that were open at one time end at one time.
        turned_away(5, apart_s=0.01, after_s=2),
        # It hangs, which is another finding.
        turned_away(4, apart_s=20, after_s=15),
    ],
)
def test_connections_that_end_later_or_at_once_are_not_turned_away(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "closed_at_api_versions") == []


# --- ends that speak another protocol than Kafka ---

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
SSH_BANNER = b"SSH-2.0-OpenSSH_9.6\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: broker:9092\r\nUser-Agent: Prometheus\r\n\r\n"
KERBEROS = bytes.fromhex("6082020a06092a864886f7120102020100") + bytes(512)
SPNEGO = bytes.fromhex("605806062b0601050502a04e") + bytes(78)


def framed(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def talks(
    times: int,
    *said: tuple[int, bytes],
    broker: tuple[str, int] = BROKER,
    others: int = 0,
    ends: int = TO_CLIENT,
) -> Timeline:
    """Connections on which this is said, by turns; and others, of Kafka."""
    timeline = Timeline()
    for number in range(times + others):
        timeline.at(number)
        line = timeline.line(40000 + number, "10.0.0.5", broker).open()
        if number >= times:
            line.client(api_versions(3)).broker(api_versions_answer(3)).close()
            continue
        for side, payload in said:
            line.says(side, payload)
        line.close(ends)
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            talks(
                5, (TO_BROKER, api_versions(3)), (TO_CLIENT, BAD_REQUEST), broker=("10.0.0.8", 80)
            ),
            "5 connections in 4.0 s: the server speaks HTTP; 0 requests to this address answered",
        ),
        (
            talks(1, (TO_BROKER, api_versions(4)), (TO_CLIENT, SSH_BANNER)),
            "1 connection in 0.0 s: the server speaks SSH; 0 requests to this address answered",
        ),
        (
            talks(2, (TO_BROKER, SCRAPE), others=1, broker=("10.0.0.8", 19092)),
            "2 connections in 1.0 s that begin with HTTP on a port of Kafka",
        ),
        (
            talks(1, (TO_BROKER, SCRAPE)),
            "1 connection in 0.0 s that begins with HTTP on a port of Kafka",
        ),
        (
            talks(
                3,
                (TO_BROKER, api_versions(3)),
                (TO_CLIENT, api_versions_answer(3)),
                (TO_BROKER, framed(KERBEROS)),
            ),
            (
                "3 connections in 2.0 s: the client sends GSSAPI tokens after ApiVersions, "
                "without a SaslHandshake; 3 requests to this address answered"
            ),
        ),
        (
            talks(3, (TO_BROKER, framed(KERBEROS)), broker=("10.0.0.8", 19092)),
            "3 connections in 2.0 s that begin with GSSAPI on a port of Kafka",
        ),
        (
            talks(
                2,
                (TO_BROKER, api_versions(0)),
                (TO_CLIENT, api_versions_answer(0)),
                (TO_BROKER, framed(SPNEGO)),
            ),
            "2 connections in 1.0 s: the client sends GSSAPI tokens after ApiVersions, without a",
        ),
    ],
)
def test_another_protocol_is_named(timeline: Timeline, words: str, tmp_path: Path) -> None:
    [finding] = timeline.findings(tmp_path, "wrong_protocol")
    assert finding.what.startswith(words)
    assert finding.concerns["client_ip"] == "10.0.0.5"


@pytest.mark.parametrize(
    "timeline",
    [
        talks(0, others=4),
        # A web server of its own, and one that shares a port with nobody.
        talks(3, (TO_BROKER, SCRAPE), (TO_CLIENT, BAD_REQUEST), broker=("10.0.0.8", 80)),
        talks(3, (TO_BROKER, SCRAPE), broker=("10.0.0.8", 8080)),
        # The client gave up before the server said anything.
        talks(3, (TO_BROKER, SCRAPE), ends=TO_BROKER),
    ],
)
def test_other_protocols_on_their_own_ports_are_no_finding(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "wrong_protocol") == []


# --- producers without acknowledgments that are thrown out ---


def unheard(
    sizes: Sequence[int], *, limit: int, acks: int = 0, first: int = TO_CLIENT, apart_s: float = 1
) -> Timeline:
    """A producer whose connection ends after a batch that is larger than a limit."""
    timeline = Timeline()
    line = None
    for number, size in enumerate(sizes):
        timeline.at(number * apart_s)
        if line is None:
            line = timeline.line(40000 + number, "10.0.0.5", BROKER).open()
            line.client(api_versions(3)).broker(api_versions_answer(3))
        records = k.record_batch(1, size=size)
        line.client(produce(number, 9, [Part(records=records)], acks=acks, client_id=CLIENT_ID))
        if acks:
            line.broker(produce_answer(number, 9))
        if size > limit:
            line.close(first)
            line = None
    return timeline


@pytest.mark.parametrize(
    ("timeline", "words"),
    [
        (
            unheard([9000, 100, 9000, 200, 8000], limit=1000),
            (
                r"3 connections of 3 with acks=0 closed by the broker, each within 0\.0 ms of a "
                r"Produce request of 8\d\d\d B or more; 2 other requests, of up to \d\d\d B, "
                r"without that"
            ),
        ),
        (
            unheard([700] * 4, limit=1, apart_s=0.1),
            (
                r"4 connections of 4 with acks=0 closed by the broker, each within 0\.0 ms of a "
                r"Produce request of \d+ B or more; there are no other requests of this client"
            ),
        ),
    ],
)
def test_a_producer_without_acknowledgments_that_is_thrown_out_is_a_finding(
    timeline: Timeline, words: str, tmp_path: Path
) -> None:
    [finding] = timeline.findings(tmp_path, "closed_after_produce")
    assert re.fullmatch(words, finding.what), finding.what
    assert finding.concerns == {
        "client_id": CLIENT_ID,
        "client_ip": "10.0.0.5",
        "broker": BROKER_TEXT,
    }


@pytest.mark.parametrize(
    "timeline",
    [
        unheard([100] * 9, limit=1000),
        unheard([9000, 9000], limit=1000),
        # The client closes; or the broker does after an answer, as when it stops.
        unheard([9000] * 5, limit=1000, first=TO_BROKER),
        unheard([9000] * 5, limit=1000, acks=1),
    ],
)
def test_a_producer_that_is_heard_or_leaves_is_no_finding(
    timeline: Timeline, tmp_path: Path
) -> None:
    assert timeline.findings(tmp_path, "closed_after_produce") == []
