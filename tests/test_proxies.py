"""What a proxy puts before a protocol changes no row, but for the columns that tell of it."""

from __future__ import annotations

import io
import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.requests import Row
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support import proxied, tls_captures
from tests.support.captures import CHOSEN, NAMES, in_turn, path
from tests.support.cases import for_each
from tests.support.disorder import TRANSFORMATIONS, packets_of
from tests.support.disorder.transformation import apply
from tests.support.proxied import OTHER, PREFIXES, SENDER, Turn, sent
from tests.support.reference import reference
from tests.support.saved_state import run
from tests.support.streams import cut
from tests.support.traffic import Line, capture_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kanalyze.spec.rows.connections import ConnectionRow

NEW = ("proxy", "proxied_client_ip", "proxied_client_port", "proxied_target")
PLACES = ("capture", "request_packet", "response_packet")
NETWORK = (
    *("capture_point", "broker_network_ns", "broker_time_ns", "client_network_ns"),
    *("retransmission_wait_ns", "pipeline_wait_ns", "waited_ns", "retransmitted_packets"),
)
"""A prefix is acknowledged, too."""
OF_PLACES = ("capture", "packet", "requestPacket", "responsePacket", "request_packet")
CLIENT_NAMED = ("PROXY v1", "PROXY v2", "PROXY v1, PROXY v2", "SOCKS5, PROXY v1")


def rows_of(capture: Any, **options: Any) -> list[Row]:
    run = Analysis([capture], **options)
    return [row for batch in run.row_batches() for row in batch]


def connections_of(capture: Any, **options: Any) -> list[ConnectionRow]:
    run = Analysis([capture], **options)
    return [row for batch in run.connection_batches() for row in batch]


def proxies(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, name) for name in NEW) for row in rows]


def plain(rows: Iterable[Row], *but: str) -> list[tuple[Any, ...]]:
    names = [name for name in Row._fields if name not in (*NEW, *PLACES, *but)]
    return [tuple(getattr(row, name) for name in names) for row in rows]


# -- captures of the repository -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "prefix"), in_turn([name for name in NAMES if name != "tls"], PREFIXES, CHOSEN)
)
def test_a_prefix_changes_no_row(name: str, prefix: str) -> None:
    capture = proxied.behind(name, PREFIXES[prefix])
    found = rows_of(io.BytesIO(capture))
    expected = rows_of(str(path(name)))
    assert plain(found, *NETWORK) == plain(expected, *NETWORK)
    connections = connections_of(io.BytesIO(capture))
    proxies = {(row.connection, row.connection_number): row.proxy for row in connections}
    for row in found:
        assert row.proxy == proxies[row.connection, row.connection_number]
    assert {row.proxy for row in found} - {None} == {proxied.kind_of(prefix)}
    for connection in connections:
        is_begun = connection.opened_by is not None and connection.client_payload_bytes
        if connection.protocol.startswith("kafka"):
            assert (connection.proxy is not None) == bool(is_begun)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_columns_name_client_and_target(prefix: str) -> None:
    row = rows_of(io.BytesIO(capture_behind(PREFIXES[prefix])))[0]
    has_client = prefix in CLIENT_NAMED
    client = proxied.CLIENT if has_client else (None, None)
    if prefix.endswith("IPv6") and prefix.startswith("PROXY"):
        client = proxied.CLIENT_6
    if prefix == "PROXY v2, long":
        client = proxied.CLIENT
    assert (row.proxied_client_ip, row.proxied_client_port) == client
    assert (row.proxied_target is not None) == prefix.startswith(("HTTP", "SOCKS"))


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("tls13-aes128gcm", "PROXY v2"),
        ("tls12-aes256cbc-sha1", "PROXY v1"),
        ("tls13-mutual", "HTTP CONNECT"),
        ("tls12-aes128gcm", "SOCKS5, password"),
    ],
)
def test_a_key_log_opens_tls_behind_a_prefix(name: str, prefix: str) -> None:
    capture = proxied.behind(str(tls_captures.path(name)), PREFIXES[prefix])
    keys = str(tls_captures.keylog(name))
    found = list(kanalyze.requests(io.BytesIO(capture), keylog=keys))
    expected = list(kanalyze.requests(tls_captures.path(name), keylog=keys))
    assert len(expected) > 3
    assert plain(found, *NETWORK) == plain(expected, *NETWORK)
    assert {row.proxy for row in found} == {proxied.kind_of(prefix)}


@pytest.mark.parametrize("prefix", ["PROXY v1", "HTTP CONNECT", "SOCKS5"])
def test_what_tls_shows_without_keys_is_the_same_behind_a_prefix(prefix: str) -> None:
    name = "tls13-aes128gcm"
    capture = proxied.behind(str(tls_captures.path(name)), PREFIXES[prefix])
    found, expected = (
        connections_of(io.BytesIO(capture)),
        connections_of(str(tls_captures.path(name))),
    )
    columns = [name for name in expected[0]._fields if "tls" in name or "estimated" in name]
    for one, other in zip(found, expected, strict=True):
        assert one.protocol == "tls"
        assert [getattr(one, c) for c in columns] == [getattr(other, c) for c in columns]
        assert one.proxy == proxied.kind_of(prefix)


# -- orders, cuts, batches ------------------------------------------------------------------------


STEPS = sorted(
    set(TRANSFORMATIONS)
    & {
        "cut to single bytes",
        "every packet twice",
        "fragments shuffled",
        "probed",
        "sent again",
        "sequence numbers wrap",
        "blocks shuffled, clock rising",
    }
)


@pytest.mark.parametrize(("step", "prefix"), in_turn(STEPS, PREFIXES))
def test_disorder_changes_nothing_behind_a_prefix(step: str, prefix: str) -> None:
    packets = proxied.proxied_packets(packets_of("waits"), PREFIXES[prefix])
    changed = apply(packets, [(step, TRANSFORMATIONS[step])], f"{prefix} {step}")
    found = [row for file in changed.files for row in rows_of(io.BytesIO(file))]
    expected = rows_of(str(path("waits")))
    times = [name for name in Row._fields if name.endswith("_ns")]
    but = (*NETWORK, *times, "waited", "zero_windows", "anomalies")
    assert sorted(map(repr, plain(found, *but))) == sorted(map(repr, plain(expected, *but)))
    assert {row.proxy for row in found} == {proxied.kind_of(prefix)}


def capture_behind(
    turns: list[Turn], *, dice: Random | None = None, close: bool = True, messages: bool = True
) -> bytes:
    """A capture of one connection: a prefix, and two requests with their answers.

    With ``dice``, all bytes are cut into segments of any size.
    """
    all_turns = list(turns)
    if messages:
        for number in (1, 2):
            all_turns.append((SENDER, k.heartbeat(number)))
            all_turns.append((OTHER, k.heartbeat_answer(number)))
    packets: list[bytes] = []
    line = Line(packets).open()
    for side, data in all_turns:
        sizes = [] if dice is None else [dice.choice((1, 1, 3, 9, 60)) for _ in data]
        line.says(side, *cut(data, sizes))
    if close:
        line.close()
    return capture_of(packets)


@for_each("seed", range(4))
def test_any_cuts_and_batches_give_the_same_rows(seed: int) -> None:
    for prefix, turns in PREFIXES.items():
        if prefix == "PROXY v2, long":
            continue
        capture = capture_behind(turns, dice=Random(f"{seed} {prefix}"))
        expected = rows_of(io.BytesIO(capture_behind(turns)))
        found = rows_of(io.BytesIO(capture))
        times = [name for name in Row._fields if name.endswith("_ns")]
        assert plain(found, *times) == plain(expected, *times)
        assert proxies(found) == proxies(expected)
        assert reference([io.BytesIO(capture)]).rows == found


@for_each("seed", range(3))
def test_a_run_that_is_saved_within_a_prefix_gives_the_same(seed: int) -> None:
    for prefix, turns in PREFIXES.items():
        if prefix == "PROXY v2, long":
            continue
        capture = capture_behind(turns, dice=Random(f"{seed} {prefix}"))
        whole = run(io.BytesIO(capture), most_packets=lambda: 1, connections=True)
        saved = run(
            *(io.BytesIO(capture),),
            most_packets=lambda: 1,
            breaks=lambda: True,
            connections=True,
        )
        assert saved == whole
        assert len(whole.rows) == 2
        assert whole.connections[0].proxy == proxied.kind_of(prefix)


def test_shards_give_the_same_rows(tmp_path: Path) -> None:
    capture = tmp_path / "behind.pcap"
    capture.write_bytes(proxied.behind("basics", PREFIXES["SOCKS5"]))
    parts = [rows_of(str(capture), shard=Shard(index, 3)) for index in range(3)]
    found = sorted(map(repr, (row for part in parts for row in part)))
    assert found == sorted(map(repr, rows_of(str(capture))))


@pytest.mark.parametrize("prefix", ["PROXY v2", "SOCKS5, password"])
@pytest.mark.parametrize("command", [["records", "--values"], ["decode"]])
def test_records_and_decoded_messages_are_the_same(
    prefix: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "behind.pcap").write_bytes(proxied.behind("groups", PREFIXES[prefix]))
    texts = []
    for capture in (path("groups"), tmp_path / "behind.pcap"):
        assert main([*command, str(capture), "--format", "jsonl"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        texts.append([without_places(line) for line in lines])
    assert len(texts[0]) > 10
    assert texts[0] == texts[1]


def without_places(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in OF_PLACES}


# -- what is behind it, and what is not -----------------------------------------------------------


def test_requests_begin_in_the_packet_behind_the_prefix() -> None:
    rows = rows_of(io.BytesIO(capture_behind([(SENDER, proxied.v1())])))
    assert [row.request_packet for row in rows] == [5, 7]
    together = [(SENDER, proxied.v2() + k.heartbeat(1)), (OTHER, k.heartbeat_answer(1))]
    rows = rows_of(io.BytesIO(capture_behind(together, messages=False)))
    assert [(row.request_packet, row.request_bytes) for row in rows] == [(4, len(k.heartbeat(1)))]


def test_the_byte_counts_of_a_connection_have_the_prefix() -> None:
    turns = PREFIXES["SOCKS5"]
    one, other = (
        connections_of(io.BytesIO(capture_behind(turns)))[0],
        connections_of(io.BytesIO(capture_behind([])))[0],
    )
    assert one.client_payload_bytes - other.client_payload_bytes == len(sent(turns, SENDER))
    assert one.broker_payload_bytes - other.broker_payload_bytes == len(sent(turns, OTHER))
    assert (one.decoded_bytes, one.skipped_bytes) == (other.decoded_bytes, other.skipped_bytes)
    assert (one.requests, one.protocol) == (2, "kafka")


@for_each("prefix", ["PROXY v1", "PROXY v2", "HTTP CONNECT", "SOCKS5", "SOCKS4"])
def test_another_protocol_behind_a_prefix_keeps_its_name(prefix: str) -> None:
    http = [(SENDER, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), (OTHER, b"HTTP/1.1 200 OK\r\n\r\n")]
    capture = capture_behind([*PREFIXES[prefix], *http], messages=False)
    assert rows_of(io.BytesIO(capture)) == []
    (row,) = connections_of(io.BytesIO(capture))
    assert (row.protocol, row.proxy) == ("http", proxied.kind_of(prefix))


def test_a_health_check_is_a_connection_without_a_protocol(all_findings: None) -> None:
    capture = capture_behind([(SENDER, proxied.local())], messages=False)
    (row,) = connections_of(io.BytesIO(capture))
    assert (row.protocol, row.proxy, row.proxied_client_ip) == ("none", "proxy-v2", None)
    assert row.tls_failure is None
    report = kanalyze.report(io.BytesIO(capture))
    assert report["findings"] == []


def test_no_finding_takes_a_prefix_for_the_wrong_protocol(all_findings: None) -> None:
    for prefix in ("PROXY v1", "PROXY v2", "HTTP CONNECT", "SOCKS5"):
        report = kanalyze.report(io.BytesIO(capture_behind(PREFIXES[prefix])))
        assert "wrong_protocol" not in [each["name"] for each in report["findings"]]


def test_a_capture_that_begins_behind_the_prefix_is_read_as_ever() -> None:
    packets: list[bytes] = []
    line = Line(packets)
    for number in (1, 2, 3):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    rows = rows_of(io.BytesIO(capture_of(packets)))
    assert [row.proxy for row in rows] == [None] * 3


@for_each("place", [(0, 1), (0, 9), (0, 30), (20, 1), (20, 9)])
def test_lost_bytes_of_a_prefix_hide_nothing(place: tuple[int, int]) -> None:
    first, lost = place
    packets: list[bytes] = []
    header = proxied.v1()
    line = Line(packets).open().client(header[:first]).loses(SENDER, lost)
    line.client(header[first + lost :])
    for number in range(1, 6):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    rows = rows_of(io.BytesIO(capture_of(packets)))
    assert [row.correlation_id for row in rows] == [1, 2, 3, 4, 5]
    assert not first or {(row.proxy, row.proxied_client_ip) for row in rows} == {("proxy-v1", None)}


def test_an_answer_before_its_request_is_read_behind_a_prefix() -> None:
    rows = rows_of(io.BytesIO(capture_behind([])))
    packets: list[bytes] = []
    line = Line(packets).open()
    whole = PREFIXES["SOCKS5"]
    line.broker(sent(whole, OTHER)).client(sent(whole, SENDER))
    for number in (1, 2):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    found = rows_of(io.BytesIO(capture_of(packets)))
    assert [row.status for row in found] == [row.status for row in rows]
    assert {row.proxy for row in found} == {"socks5"}


@for_each("prefix", ["PROXY v1", "PROXY v2", "HTTP CONNECT", "SOCKS5"])
def test_a_named_port_is_no_obstacle(prefix: str) -> None:
    rows = rows_of(io.BytesIO(capture_behind(PREFIXES[prefix])), ports=[9092])
    assert [(row.status, row.proxy) for row in rows] == [("ok", proxied.kind_of(prefix))] * 2


@for_each("prefix", sorted(PREFIXES))
def test_kafka_0_7_is_read_behind_a_prefix(prefix: str) -> None:
    turns = [
        *PREFIXES[prefix],
        *((SENDER, old.fetch(0)), (OTHER, old.fetched(old.message()))),
        *((SENDER, old.fetch(9)), (OTHER, old.fetched())),
    ]
    rows = rows_of(io.BytesIO(capture_behind(turns, messages=False)))
    assert [(row.wire, row.api_name, row.status) for row in rows] == [
        ("kafka-0.7", "Fetch", "ok")
    ] * 2
    assert {row.proxy for row in rows} == {proxied.kind_of(prefix)}
