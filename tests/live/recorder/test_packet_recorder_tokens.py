"""Recorded packets of a SASL login can be read, but contain no credentials."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.live.recorder import packet_ring
from kanalyze.live.recorder.files import PcapngWriter
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.tables.filters import RowFilter
from tests.support import kafka as k
from tests.support import proxied
from tests.support.captures import path
from tests.support.packets import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    ethernet,
    ipv4,
    ipv6,
    pcap_file,
    tcp,
    timed,
)
from tests.support.watched import watch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.packets import Packet

PASSWORD = b"correct-horse-battery"
PLAIN = b"\0alice\0" + PASSWORD
UNSUPPORTED, WRONG = 35, 58
TO_BROKER, TO_CLIENT = True, False
NS_PER_S = 1_000_000_000


def internet_sum(data: bytes) -> int:
    words = struct.unpack(f">{len(data) // 2 + len(data) % 2}H", data + bytes(len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def pseudo_header(packet: bytes) -> tuple[bytes, int]:
    """Return the pseudo header of a TCP segment in an Ethernet packet, and the segment's offset."""
    if packet[12:14] == b"\x86\xdd":
        length = struct.unpack_from(">H", packet, 18)[0]
        return packet[22:54] + struct.pack(">II", length, 6), 54
    words = packet[14] & 15
    length = struct.unpack_from(">H", packet, 16)[0] - 4 * words
    return packet[26:34] + struct.pack(">HH", 6, length), 14 + 4 * words


def with_checksum(packet: bytes) -> bytes:
    head, at = pseudo_header(packet)
    checksum = 0xFFFF - internet_sum(head + packet[at:])
    return packet[: at + 16] + struct.pack(">H", checksum) + packet[at + 18 :]


def has_checksum(packet: bytes) -> bool:
    head, at = pseudo_header(packet)
    return internet_sum(head + packet[at:]) == 0xFFFF


class LoginTraffic:
    """The packets of a connection with valid checksums. Its sequence numbers wrap around."""

    def __init__(
        self,
        *,
        is_ipv6: bool = False,
        options: bytes = b"",
        first_sequence: int = 0xFFFF_FFC0,
    ) -> None:
        self._port = 50_000
        self._is_ipv6 = is_ipv6
        self._options = options
        self.next = {TO_BROKER: first_sequence, TO_CLIENT: 7}
        self.packets: list[bytes] = []
        self._add(TO_BROKER, SYN)
        self._add(TO_CLIENT, SYN | ACK)
        self._add(TO_BROKER, ACK)

    def send(self, to_broker: bool, *parts: bytes) -> LoginTraffic:
        """Send each part as a segment from one end."""
        for part in parts:
            self._add(to_broker, PSH | ACK, part)
        return self

    def lose(self, to_broker: bool, part: bytes) -> LoginTraffic:
        """Send bytes that are not captured from one end."""
        self.next[to_broker] += len(part)
        return self

    def retransmit(self, to_broker: bool, data: bytes, back: int) -> LoginTraffic:
        """Retransmit bytes from one end, beginning some bytes before the next sequence number."""
        self._put(to_broker, PSH | ACK, data, self.next[to_broker] - back)
        return self

    def delay(self, count: int) -> LoginTraffic:
        """Move the last packet some packets forward in the capture."""
        self.packets.insert(len(self.packets) - 1 - count, self.packets.pop())
        return self

    def close(self, flag: int = FIN) -> LoginTraffic:
        self._add(TO_CLIENT, flag | ACK)
        return self

    def _add(self, to_broker: bool, flags: int, payload: bytes = b"") -> None:
        self._put(to_broker, flags, payload, self.next[to_broker])
        self.next[to_broker] += len(payload) + bool(flags & (SYN | FIN))

    def _put(self, to_broker: bool, flags: int, payload: bytes, sequence: int) -> None:
        ports = (self._port, 9092) if to_broker else (9092, self._port)
        acknowledged = self.next[not to_broker]
        inner = tcp(*ports, sequence, acknowledged, flags, payload, self._options)
        if self._is_ipv6:
            ends = ("2001:db8::1", "2001:db8::2")
            packet = ethernet(ipv6(inner, *(ends if to_broker else ends[::-1])), 0x86DD)
        else:
            addresses = ("10.0.0.1", "10.0.0.2")
            packet = ethernet(ipv4(inner, *(addresses if to_broker else addresses[::-1])))
        self.packets.append(with_checksum(packet))


def token(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def handshake(correlation_id: int, version: int, mechanism: str = "PLAIN") -> bytes:
    return k.request(k.SASL_HANDSHAKE, version, correlation_id, k.string(mechanism))


def handshake_answer(correlation_id: int, mechanism: str = "PLAIN") -> bytes:
    return k.response(correlation_id, struct.pack(">hi", 0, 1) + k.string(mechanism))


def authenticate(correlation_id: int, raw: bytes, version: int = 1) -> bytes:
    if version < 2:
        return k.request(k.SASL_AUTHENTICATE, version, correlation_id, token(raw))
    body = bytes([len(raw) + 1]) + raw + b"\0"
    return k.request(k.SASL_AUTHENTICATE, version, correlation_id, body, tags=b"\0")


def authenticated(
    correlation_id: int, raw: bytes = b"", version: int = 1, *, error: int = 0
) -> bytes:
    if version < 2:
        body = struct.pack(">h", error) + k.string("no" if error else None) + token(raw)
        return k.response(correlation_id, body + struct.pack(">q", 0) * (version > 0))
    text = b"\x03no" if error else b"\0"
    body = struct.pack(">h", error) + text + bytes([len(raw) + 1]) + raw + bytes(8) + b"\0"
    return k.response(correlation_id, body, tags=b"\0")


def cut(data: bytes, *at: int) -> list[bytes]:
    return [data[begin:end] for begin, end in zip((0, *at), (*at, len(data)), strict=True)]


def failed_versions(traffic: LoginTraffic) -> LoginTraffic:
    """Add an error before the login: the token is near the packets of that error."""
    traffic.send(TO_BROKER, k.api_versions(1, 9))
    return traffic.send(TO_CLIENT, k.api_versions_answer_v0(1, UNSUPPORTED))


def failing_heartbeat(traffic: LoginTraffic, correlation_id: int = 9) -> LoginTraffic:
    """Add an error after the login."""
    traffic.send(TO_BROKER, k.heartbeat(correlation_id))
    return traffic.send(TO_CLIENT, k.heartbeat_answer(correlation_id, 25))


def recorded_packets(
    packets: Sequence[bytes] | Sequence[Packet], folder: Path, at_once: int = 40
) -> list[bytes]:
    """Return the bytes of the packets that are recorded if all rows match."""
    source, target = folder / "source.pcap", folder / "recorded.pcapng"
    with_times = [packet for packet in packets if not isinstance(packet, bytes)]
    without_times = [packet for packet in packets if isinstance(packet, bytes)]
    source.write_bytes(pcap_file(with_times or timed(without_times)))
    watch(source, PacketRecorder(PcapngWriter(target), [RowFilter()]), at_once)
    assert PASSWORD not in target.read_bytes()
    return packets_in(target)


def packets_in(file: Path) -> list[bytes]:
    with MergedCaptures(find_inputs([str(file)])) as captures:
        return [
            bytes(batch.buffer[at : at + size])
            for batch in captures.batches()
            for at, size in zip(batch.offset.tolist(), batch.captured_bytes.tolist(), strict=True)
        ]


def check(traffic: LoginTraffic, folder: Path, *secrets: bytes, at_once: int = 40) -> list[bytes]:
    """Check that all packets up to the last row are recorded, without secrets."""
    recorded = recorded_packets(traffic.packets, folder, at_once)
    assert len(recorded) > 4
    assert list(map(len, recorded)) == list(map(len, traffic.packets))[: len(recorded)]
    assert all(map(has_checksum, recorded))
    for secret in secrets:
        assert secret not in b"".join(recorded)
    return recorded


def login(traffic: LoginTraffic, version: int, *, error: int = 0) -> LoginTraffic:
    traffic.send(TO_BROKER, handshake(1, 1)).send(TO_CLIENT, handshake_answer(1))
    traffic.send(TO_BROKER, authenticate(2, PLAIN, version))
    return traffic.send(TO_CLIENT, authenticated(2, b"server-part", version, error=error))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("at_once", [1, 40])
def test_tokens_of_a_failed_login_are_redacted(version: int, at_once: int, tmp_path: Path) -> None:
    traffic = login(LoginTraffic(), version, error=WRONG).close()
    recorded = check(traffic, tmp_path, PLAIN, b"alice", b"server-part", at_once=at_once)
    # Only the token is changed, so that the reason of the failure can be read.
    (row,) = kanalyze.requests(tmp_path / "recorded.pcapng", errors=True)
    assert (row.api_name, row.error_code) == ("SaslAuthenticate", WRONG)
    assert list(map(len, recorded)) == list(map(len, traffic.packets[:-1]))
    changed = [
        sum(map(int.__ne__, before, after))
        for before, after in zip(traffic.packets[:-1], recorded, strict=True)
    ]
    # Bytes that were zero before are the same, and the checksum may be the same.
    assert changed[:5] == [0] * 5
    assert len(PLAIN) - 2 <= changed[5] <= len(PLAIN)
    assert len(b"server-part") <= changed[6] <= len(b"server-part") + 2


@pytest.mark.parametrize("version", [0, 2])
def test_tokens_of_a_successful_login_before_an_error_are_redacted(
    version: int, tmp_path: Path
) -> None:
    ipv6 = LoginTraffic(is_ipv6=True, options=b"\1\1\x08\x0a" + bytes(8))
    for traffic in (LoginTraffic(), ipv6):
        check(failing_heartbeat(login(traffic, version)), tmp_path, PLAIN, b"server-part")


def raw_login(traffic: LoginTraffic) -> LoginTraffic:
    traffic.send(TO_BROKER, handshake(1, 0)).send(TO_CLIENT, handshake_answer(1))
    return traffic.send(TO_BROKER, token(PLAIN))


@pytest.mark.parametrize("at_once", [1, 40])
def test_tokens_without_a_header_are_redacted(at_once: int, tmp_path: Path) -> None:
    """Also of a login that the broker refuses: it closes the connection, and no rows follow."""
    traffic = raw_login(failed_versions(LoginTraffic()))
    check(traffic.close(RST), tmp_path, PLAIN, at_once=at_once)
    traffic = raw_login(failed_versions(LoginTraffic())).send(TO_CLIENT, token(b"server-part"))
    check(failing_heartbeat(traffic), tmp_path, PLAIN, b"server-part", at_once=at_once)


SCRAM = (
    (TO_BROKER, b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"),
    (TO_CLIENT, b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1,s=QSXCR+Q6sek8bf92,i=4096"),
    (TO_BROKER, b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1,p=v0X8v3Bz2T0CJGbJQyF0X"),
    (TO_CLIENT, b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="),
)


@pytest.mark.parametrize("version", [0, 1])
def test_tokens_of_scram_are_redacted(version: int, tmp_path: Path) -> None:
    """After a handshake of version 0, tokens have no headers."""
    traffic = failed_versions(LoginTraffic())
    traffic.send(TO_BROKER, handshake(1, version, "SCRAM-SHA-256"))
    traffic.send(TO_CLIENT, handshake_answer(1, "SCRAM-SHA-256"))
    for index, (to_broker, raw) in enumerate(SCRAM):
        message = authenticate if to_broker else authenticated
        traffic.send(to_broker, message(2 + index // 2, raw) if version else token(raw))
    parts = [part for _, raw in SCRAM for part in raw.split(b",") if len(part) > 8]
    check(failing_heartbeat(traffic), tmp_path, *parts)


CUT_OFFSETS = [(3,), (9,), (18, 25), (24, 31, 32), tuple(range(1, 40))]


@pytest.mark.parametrize("at", CUT_OFFSETS)
@pytest.mark.parametrize("at_once", [1, 3, 40])
def test_a_token_in_several_segments_is_redacted(
    at: tuple[int, ...], at_once: int, tmp_path: Path
) -> None:
    traffic = LoginTraffic().send(TO_BROKER, handshake(1, 1)).send(TO_CLIENT, handshake_answer(1))
    traffic.send(TO_BROKER, *cut(authenticate(2, PLAIN), *at))
    traffic.send(TO_CLIENT, *cut(authenticated(2, b"server-part", error=WRONG), 20, 23))
    recorded = check(traffic, tmp_path, PASSWORD[:6], PASSWORD[-6:], b"ver-p", at_once=at_once)
    payloads = b"".join(payload_of(packet) for packet in recorded)
    assert not any(PASSWORD[index : index + 4] in payloads for index in range(len(PASSWORD) - 3))
    (row,) = kanalyze.requests(tmp_path / "recorded.pcapng", errors=True)
    assert row.error_code == WRONG


def payload_of(packet: bytes) -> bytes:
    _, at = pseudo_header(packet)
    return packet[at + (packet[at + 12] >> 4) * 4 :]


@pytest.mark.parametrize("at_once", [1, 40])
def test_an_unfinished_token_is_redacted(at_once: int, tmp_path: Path) -> None:
    traffic = failed_versions(LoginTraffic())
    traffic.send(TO_BROKER, handshake(1, 1)).send(TO_CLIENT, handshake_answer(1))
    traffic.send(TO_BROKER, authenticate(2, PLAIN + bytes(90))[:-50])
    check(traffic, tmp_path, PLAIN, at_once=at_once)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_retransmissions_of_a_token_are_redacted(count: int, tmp_path: Path) -> None:
    """A retransmission has the token alone, or with bytes around it, long after the login."""
    request = authenticate(2, PLAIN)
    traffic = LoginTraffic().send(TO_BROKER, handshake(1, 1)).send(TO_CLIENT, handshake_answer(1))
    traffic.send(TO_BROKER, request, k.heartbeat(3))
    traffic.send(TO_CLIENT, authenticated(2), k.heartbeat_answer(3, 25))
    for number in range(count):
        failing_heartbeat(traffic, 4 + number)
    back = count * len(k.heartbeat(4)) + len(k.heartbeat(3)) + len(request)
    traffic.retransmit(TO_BROKER, request, back)
    traffic.retransmit(TO_BROKER, request[-12:] + k.heartbeat(3), back - len(request) + 12)
    traffic.retransmit(TO_BROKER, request[20:40], back - 20)
    failing_heartbeat(traffic, 9)
    check(traffic, tmp_path, PASSWORD[:6], PASSWORD[-6:])
    check(traffic, tmp_path, PASSWORD[:6], PASSWORD[-6:], at_once=1)


def test_segments_of_a_token_out_of_order_are_redacted(tmp_path: Path) -> None:
    traffic = LoginTraffic().send(TO_BROKER, handshake(1, 1)).send(TO_CLIENT, handshake_answer(1))
    traffic.send(TO_BROKER, *cut(authenticate(2, PLAIN), 24, 33)).delay(2)
    failing_heartbeat(traffic.send(TO_CLIENT, authenticated(2)))
    check(traffic, tmp_path, PASSWORD[:6], PASSWORD[-6:])


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("lost", [slice(0, 3), slice(0, 17), slice(20, 30)])
def test_a_token_is_redacted_if_a_part_was_not_captured(
    lost: slice, begins: bool, tmp_path: Path
) -> None:
    """Nor perhaps what came before it, if the capture begins there."""
    request = authenticate(2, PLAIN)
    traffic = LoginTraffic()
    if begins:
        traffic.packets.clear()
    else:
        failed_versions(traffic)
        traffic.send(TO_BROKER, handshake(1, 1)).send(TO_CLIENT, handshake_answer(1))
    traffic.send(TO_BROKER, *filter(None, [request[: lost.start]]))
    traffic.lose(TO_BROKER, request[lost]).send(TO_BROKER, request[lost.stop :])
    traffic.send(TO_CLIENT, authenticated(2, b"server-part"))
    for number in range(3, 12):
        failing_heartbeat(traffic, number)
    check(traffic, tmp_path, PASSWORD[-6:], b"server-part")


def test_tokens_of_a_second_login_are_redacted(tmp_path: Path) -> None:
    traffic = failing_heartbeat(login(LoginTraffic(), 1))
    traffic.send(TO_BROKER, handshake(4, 1)).send(TO_CLIENT, handshake_answer(4))
    traffic.send(TO_BROKER, authenticate(5, PLAIN + b"2")).send(
        TO_CLIENT, authenticated(5, b"other")
    )
    check(failing_heartbeat(traffic, 10), tmp_path, PLAIN, b"other")


def test_a_later_connection_on_the_same_ports_is_not_redacted(tmp_path: Path) -> None:
    """Sequence numbers may equal those of a token of the previous connection."""
    first = login(LoginTraffic(), 1, error=WRONG).close(RST)
    second = failing_heartbeat(LoginTraffic(first_sequence=0xFFFF_FFD0))
    packets = timed(first.packets + second.packets)
    for packet in packets[len(first.packets) :]:
        packet.time_ns += 61 * NS_PER_S
    recorded = recorded_packets(packets, tmp_path)
    assert recorded[-len(second.packets) :] == second.packets


def test_tokens_in_packets_cut_by_the_snap_length_are_redacted(tmp_path: Path) -> None:
    traffic = failing_heartbeat(login(LoginTraffic(), 1))
    packets = timed(traffic.packets)
    for packet in packets:
        packet.wire_bytes, packet.data = len(packet.data), packet.data[:90]
    recorded = recorded_packets(packets, tmp_path)
    assert PASSWORD[:6] not in b"".join(recorded)


def test_fragments_of_a_token_are_left_out(tmp_path: Path) -> None:
    traffic = failing_heartbeat(login(LoginTraffic(), 1))
    packets: list[bytes] = []
    for packet in traffic.packets:
        data = packet[34:]
        if PASSWORD in packet:
            for begin in range(0, len(data), 48):
                more = 0x2000 * (begin + 48 < len(data))
                part = ipv4(data[begin : begin + 48], fragment=more | begin // 8)
                packets.append(ethernet(part))
        else:
            packets.append(packet)
    for at_once in (1, 2, 40):
        recorded = recorded_packets(packets, tmp_path, at_once)
        assert PASSWORD[:6] not in b"".join(recorded)
        assert PASSWORD[-6:] not in b"".join(recorded)
        assert len(recorded) < len(packets)


@pytest.mark.parametrize(
    ("name", "secrets"),
    [
        # The token of PLAIN, and the proofs that SCRAM derives from a password.
        ("sasl", [b"\0alice\0alice", b",p=", b",i=4096", b",r="]),
        ("old-0-10-2-2", []),
        ("old-1-1-1", []),
    ],
)
def test_tokens_of_real_clients_are_redacted(
    name: str, secrets: list[bytes], tmp_path: Path
) -> None:
    target = tmp_path / "recorded.pcapng"
    watch(path(name), PacketRecorder(PcapngWriter(target), [RowFilter()]))
    for secret in secrets:
        assert secret in path(name).read_bytes()
        assert secret not in target.read_bytes()
    # Sorted by request: when a response is given up depends on other packets of the capture.
    before, after = (
        sorted((row.request_start_ns, row.api_name, row.error_code, row.status) for row in rows)
        for rows in (kanalyze.requests(path(name)), kanalyze.requests(target))
    )
    assert after == before


def test_tokens_in_a_tunnel_are_redacted(tmp_path: Path) -> None:
    """The outer checksum, which covers the whole inner packet, stays valid too."""
    traffic = failing_heartbeat(login(LoginTraffic(), 1))
    recorded = recorded_packets([in_vxlan(packet) for packet in traffic.packets], tmp_path)
    assert len(recorded) == len(traffic.packets)
    for packet in recorded:
        head = packet[26:34] + struct.pack(">HH", 17, len(packet) - 34)
        assert internet_sum(head + packet[34:]) == 0xFFFF
        assert has_checksum(packet[50:])


def in_vxlan(packet: bytes) -> bytes:
    inner = struct.pack(">II", 8 << 24, 5 << 8) + packet
    head = struct.pack(">HHHH", 40_000, 4789, 8 + len(inner), 0)
    outer = ethernet(ipv4(head + inner, protocol=17))
    summed = outer[26:34] + struct.pack(">HH", 17, len(outer) - 34) + outer[34:]
    checksum = 0xFFFF - internet_sum(summed)
    return outer[:40] + struct.pack(">H", checksum) + outer[42:]


def test_tokens_of_too_many_logins_are_all_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packet_ring, "_MAX_TOKENS", 3)
    traffic = login(LoginTraffic(), 1)
    for number in range(10, 20):
        traffic.send(TO_BROKER, authenticate(number, PLAIN))
        traffic.send(TO_CLIENT, authenticated(number, b"server-part"))
    check(failing_heartbeat(traffic, 30), tmp_path, b"server-part", at_once=2)


@pytest.mark.parametrize("at_once", [1, 3, 40])
@pytest.mark.parametrize("name", ["SOCKS5, password", "HTTP CONNECT, login"])
def test_credentials_for_a_proxy_are_redacted(name: str, at_once: int, tmp_path: Path) -> None:
    traffic = LoginTraffic()
    for side, data in proxied.PREFIXES[name]:
        traffic.send(side == proxied.SENDER, *cut(data, 1, len(data) // 2))
    failing_heartbeat(traffic)
    recorded = recorded_packets(traffic.packets, tmp_path, at_once)
    written = b"".join(recorded)
    for secret in (proxied.PASSWORD, b"YWxpY2U6aHVudGVyMi1zZWNyZXQ="):
        pieces = [secret[at : at + 4] for at in range(len(secret) - 3)]
        assert [piece for piece in pieces if piece in written] == []
    (row,) = kanalyze.requests(tmp_path / "recorded.pcapng")
    assert (row.proxy, row.status) == (proxied.kind_of(name), "error")
    assert all(map(has_checksum, recorded))
