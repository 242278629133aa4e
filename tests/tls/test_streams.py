"""Captures of TLS are decrypted if there are keys; without keys, their updates are unchanged."""

from __future__ import annotations

import struct
from collections import Counter

import pytest

import kanalyze
from kanalyze.model.streams import Chunk, Segments, StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.streams import DecryptedStreams
from tests.support import tls_captures
from tests.support.tls_talk import log_with

FEW = [
    *("tls13-aes128gcm", "tls12-aes128gcm", "tls12-aes256cbc-sha1", "tls13-mutual"),
    *("tls13-sasl", "tls13-late", "tls12-lost", "tls12-resumed"),
]
RESUMED = "tls12-resumed"
"""Go's client resumes sessions by tickets, and writes no secret of these: tshark reads none."""
WHOLE = [name for name in tls_captures.READABLE if name not in tls_captures.WITH_SECRETS]
LATE_1_2 = ["tls12-late", "tls12-cbc-late"]
"""The keys of TLS 1.2 depend on the hellos, which these captures do not have."""
CUT = [name for name in (*tls_captures.LATE, *tls_captures.LOST) if name not in LATE_1_2]
WITH_LOGIN = [name for name in WHOLE if "handshake_requests" in tls_captures.truth(name)]
LOGGED = [name for name in WHOLE if name not in WITH_LOGIN]
OTHER = "tls-no-suite"
"""A capture whose key log has no secret of another capture."""
_OTHERS = b"".join(
    f"{label} {number:064x} {'ab' * size}\n".encode()
    for number in range(500)
    for label, size in (
        *(("CLIENT_RANDOM", 48), ("CLIENT_TRAFFIC_SECRET_0", 32), ("SERVER_TRAFFIC_SECRET_0", 48)),
    )
)
"""Lines of sessions that are in no capture."""
_FILE_HEADER, _PACKET_HEADER = 24, 16
_IP_ID = _PACKET_HEADER + 14 + 4
_ANSWERED = ("ok", "error")


def marked(names: list[str]) -> list[object]:
    """A few cases always run; the others are long tests."""
    return [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in names]


def rows_of(name: str, **options):
    return list(kanalyze.requests(tls_captures.path(name), **options))


def decrypted_rows_of(name: str, **options):
    return rows_of(name, keylog=tls_captures.keylog(name), **options)


def key_of(row) -> tuple[object, ...]:
    client = f"{row.client_ip}:{row.client_port}"
    return (client, row.correlation_id, row.api_key, row.api_version)


@pytest.mark.parametrize("name", marked(LOGGED))
def test_requests_and_errors_are_those_that_the_broker_logged(name):
    rows, truth = decrypted_rows_of(name), tls_captures.truth(name)
    assert _numbers(rows, "api_version") == truth["broker_requests"]
    assert _numbers([row for row in rows if row.error_code], "error_name") == truth["broker_errors"]


@pytest.mark.parametrize("name", marked(WITH_LOGIN))
def test_requests_after_a_login_are_those_that_the_broker_counted(name):
    truth = tls_captures.truth(name)
    expected = Counter(truth["handshake_requests"])
    for api, by_version in truth["authenticated_requests"].items():
        expected[api] += sum(by_version.values())
    found = Counter(row.api_name for row in decrypted_rows_of(name))
    assert found.pop("SaslAuthenticate") > 0  # which the broker does not count
    assert found == expected


def _response_bytes(row) -> int | None:
    """tshark's bytes of a frame, without the size; None if some are not in the capture."""
    if row.response_bytes is None or "incomplete_frame" in row.anomalies:
        return None
    return row.response_bytes - 4


def _numbers(rows, column: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        of_api = found.setdefault(row.api_name, {})
        value = str(getattr(row, column))
        of_api[value] = of_api.get(value, 0) + 1
    return found


@pytest.mark.parametrize("name", marked(tls_captures.READABLE))
def test_requests_are_those_that_tshark_decrypts(name):
    rows = decrypted_rows_of(name)
    found = [(*key_of(row), row.request_bytes - 4, _response_bytes(row)) for row in rows]
    expected = [tuple(each) for each in tls_captures.read_by_tshark(name)]
    if name == RESUMED:
        assert Counter(found) > Counter(expected)
    else:
        assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("name", marked(CUT))
def test_rows_of_a_cut_capture_are_those_of_the_whole_one(name):
    whole = {key_of(row): row for row in decrypted_rows_of(tls_captures.source(name))}
    rows = decrypted_rows_of(name)
    assert rows
    for row in rows:
        if row.status in _ANSWERED:
            assert row.api_version == whole[key_of(row)].api_version
            assert row.request_bytes == whole[key_of(row)].request_bytes
            assert row.response_bytes == whole[key_of(row)].response_bytes


@pytest.mark.parametrize("name", marked(LATE_1_2))
def test_rows_are_as_without_keys_where_no_key_can_be_derived(name):
    assert decrypted_rows_of(name) == rows_of(name) == []


@pytest.mark.parametrize("name", marked(WHOLE))
def test_rows_are_as_without_keys_where_no_secret_fits(name):
    other = {"keylog": tls_captures.keylog(OTHER)}
    path = tls_captures.path(name)
    assert rows_of(name, **other) == rows_of(name) == []
    for table in (kanalyze.connections, kanalyze.anomalies):
        assert list(table(path, **other)) == list(table(path))


@pytest.mark.parametrize("name", ["tls13-late", "tls12-cbc-long"])
def test_other_lines_in_a_key_log_change_no_row(name, tmp_path):
    own = tls_captures.keylog(name).read_bytes()
    log = tmp_path / "odd.keys"
    log.write_bytes(_OTHERS + bytes(range(256)) * 40 + b"\n" + own + _OTHERS[:-9])
    assert rows_of(name, keylog=log) == decrypted_rows_of(name) != []


def test_keys_do_not_change_rows_of_plaintext():
    path = "captures/basics.pcap"
    keys = tls_captures.keylog("tls13-aes128gcm")
    assert list(kanalyze.requests(path, keylog=keys)) == list(kanalyze.requests(path))


@pytest.mark.parametrize("name", tls_captures.WITH_SECRETS)
def test_secrets_inside_a_capture_are_used_without_a_key_log(name):
    assert len(rows_of(name)) == len(tls_captures.read_by_tshark(name)) > 0


def test_encrypted_sasl_tokens_have_no_places_in_tcp():
    name, places = "tls13-sasl", []
    log = log_with(tls_captures.keylog(name).read_bytes())
    analysis = Analysis([str(tls_captures.path(name))], on_tokens=places.extend, keylog=log)
    rows = [row for rows in analysis.row_batches() for row in rows]
    assert "SaslAuthenticate" in {row.api_name for row in rows}
    assert places == []


def test_latency_parts_of_a_retransmitted_request_are_null(tmp_path):
    name = "tls13-aes128gcm"
    keys = tls_captures.keylog(name)
    row = max(decrypted_rows_of(name), key=lambda each: each.latency_ns or 0)
    assert row.broker_time_ns is not None
    again = tmp_path / "again.pcap"
    again.write_bytes(_with_packet_again(tls_captures.path(name).read_bytes(), row))
    (found,) = [
        each for each in kanalyze.requests(again, keylog=keys) if key_of(each) == key_of(row)
    ]
    assert found.latency_ns == row.latency_ns
    assert found.retransmitted_packets == 1
    assert found.broker_network_ns == row.broker_network_ns
    parts = (found.retransmission_wait_ns, found.pipeline_wait_ns, found.broker_time_ns)
    assert parts == (None, None, None)


def _with_packet_again(pcap: bytes, row) -> bytes:
    """A capture in which a request is retransmitted, halfway to the response."""
    packets, at = [], _FILE_HEADER
    while at < len(pcap):
        seconds, nanoseconds, size, _ = struct.unpack_from("<4I", pcap, at)
        packet = pcap[at : at + _PACKET_HEADER + size]
        packets.append((seconds * 10**9 + nanoseconds, packet))
        at += len(packet)
    time_ns = row.request_end_ns + row.latency_ns // 2
    _, sent = packets[row.request_packet - 1]
    copy = bytearray(sent)
    struct.pack_into("<2I", copy, 0, time_ns // 10**9, time_ns % 10**9)
    copy[_IP_ID] ^= 0x55  # another packet, not one that was captured twice
    packets.append((time_ns, bytes(copy)))
    packets.sort(key=lambda each: each[0])
    return pcap[:_FILE_HEADER] + b"".join(packet for _, packet in packets)


def _update(pieces: list[bytes], *, closed: bool = False) -> StreamUpdate:
    ends = (Endpoint("10.0.0.1", 4000), Endpoint("10.0.0.2", 9092))
    tcp = TcpConnection(1, ends, 1, 0, 0, 0, 1, (True, True))
    return _update_of(tcp, pieces, closed=closed)


def _update_of(tcp: TcpConnection, pieces: list[bytes], *, closed: bool = False) -> StreamUpdate:
    items = []
    for number, piece in enumerate(pieces):
        buffer = bytearray(b"?" + piece)  # like that of a batch, which is overwritten
        segments = Segments(memoryview(buffer), [1], [len(piece)], [len(piece)], [number], [number])
        items.append(Chunk(0, segments, 0, 1))
    return StreamUpdate(tcp, (items, []), closed)


def _bytes(update: StreamUpdate) -> bytes:
    found = b""
    for item in update.items[0]:
        segments = item.segments
        for index in range(item.first, item.last):
            start = segments.start[index]
            found += bytes(segments.view(start, start + segments.captured[index]))
    return found


def test_bytes_that_are_no_tls_pass_at_once_and_unchanged():
    streams = DecryptedStreams(KeyLog(), 1 << 20)
    update = _update([b"\0\0\0\x20\0\x12\0\x04"])
    (passed,) = streams.feed([update]).updates
    assert _bytes(passed) == _bytes(update)
    later = _update_of(update.connection, [b"more"], closed=True)
    assert streams.feed([later]).updates == [later]
    assert streams.buffered_bytes == 0


def test_buffered_bytes_outlast_their_batch():
    streams = DecryptedStreams(KeyLog(), 1 << 20)
    update = _update([b"\x16\x03\x01"])
    assert streams.feed([update]).updates == []
    assert streams.buffered_bytes > 3
    update.items[0][0].segments.buffer[:] = b"\xff" * 4
    closing = _update_of(update.connection, [b"\x00\x05hello"], closed=True)
    (passed,) = streams.feed([closing]).updates
    assert passed.closed
    assert _bytes(passed) == b"\x16\x03\x01\x00\x05hello"
    assert streams.buffered_bytes == 0


def test_no_secret_is_shown_by_the_settings_of_an_analysis():
    analysis = Analysis([], keylog=log_with(tls_captures.keylog("tls13-aes128gcm").read_bytes()))
    assert "KeyLog object" in repr(analysis._context.settings)
