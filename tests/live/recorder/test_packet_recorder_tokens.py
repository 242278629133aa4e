"""Recorded packets of a login show that there was one, but contain no credentials."""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.live.recorder import token_redaction
from kanalyze.live.recorder.packet_recorder import PacketRecorder
from kanalyze.live.recorder.pcapng_writer import PcapngWriter
from kanalyze.tables.filters import RowFilter
from tests.support import kafka as k
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
    """The pseudo header of a TCP segment in an Ethernet packet, and where the segment begins."""
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


class Line:
    """A connection as packets with right checksums; its sequence numbers wrap around."""

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

    def says(self, to_broker: bool, *parts: bytes) -> Line:
        """Let one side send each part as a segment."""
        for part in parts:
            self._add(to_broker, PSH | ACK, part)
        return self

    def loses(self, to_broker: bool, part: bytes) -> Line:
        """Let one side send bytes that are not captured."""
        self.next[to_broker] += len(part)
        return self

    def again(self, to_broker: bool, data: bytes, back: int) -> Line:
        """Let one side retransmit bytes, beginning some bytes back."""
        self._put(to_broker, PSH | ACK, data, self.next[to_broker] - back)
        return self

    def late(self, count: int) -> Line:
        """Move the last packet some packets forward in the capture."""
        self.packets.insert(len(self.packets) - 1 - count, self.packets.pop())
        return self

    def closes(self, flag: int = FIN) -> Line:
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
            four = ("10.0.0.1", "10.0.0.2")
            packet = ethernet(ipv4(inner, *(four if to_broker else four[::-1])))
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


def failed_versions(line: Line) -> Line:
    """An error before the login: the token is in the lead, or in the packets after the error."""
    line.says(TO_BROKER, k.api_versions(1, 9))
    return line.says(TO_CLIENT, k.api_versions_answer_v0(1, UNSUPPORTED))


def failing_heartbeat(line: Line, correlation_id: int = 9) -> Line:
    """An error after the login."""
    line.says(TO_BROKER, k.heartbeat(correlation_id))
    return line.says(TO_CLIENT, k.heartbeat_answer(correlation_id, 25))


def kept_of(
    packets: Sequence[bytes] | Sequence[Packet], folder: Path, at_once: int = 40
) -> list[bytes]:
    """Return the bytes of the packets that are recorded for all rows."""
    source, target = folder / "source.pcap", folder / "kept.pcapng"
    made = [packet for packet in packets if not isinstance(packet, bytes)]
    bare = [packet for packet in packets if isinstance(packet, bytes)]
    source.write_bytes(pcap_file(made or timed(bare)))
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


def check(line: Line, folder: Path, *secrets: bytes, at_once: int = 40) -> list[bytes]:
    """Check that a connection is saved up to its last row, with right checksums and no secrets."""
    kept = kept_of(line.packets, folder, at_once)
    assert len(kept) > 4
    assert list(map(len, kept)) == list(map(len, line.packets))[: len(kept)]
    assert all(map(has_checksum, kept))
    for secret in secrets:
        assert secret not in b"".join(kept)
    return kept


def login(line: Line, version: int, *, error: int = 0) -> Line:
    line.says(TO_BROKER, handshake(1, 1)).says(TO_CLIENT, handshake_answer(1))
    line.says(TO_BROKER, authenticate(2, PLAIN, version))
    return line.says(TO_CLIENT, authenticated(2, b"server-part", version, error=error))


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("at_once", [1, 40])
def test_a_login_that_failed(version: int, at_once: int, tmp_path: Path) -> None:
    line = login(Line(), version, error=WRONG).closes()
    kept = check(line, tmp_path, PLAIN, b"alice", b"server-part", at_once=at_once)
    # Only the token is changed, so that the reason of the failure can be read.
    (row,) = kanalyze.requests(tmp_path / "kept.pcapng", errors=True)
    assert (row.api_name, row.error_code) == ("SaslAuthenticate", WRONG)
    assert list(map(len, kept)) == list(map(len, line.packets[:-1]))
    changed = [
        sum(map(int.__ne__, before, after))
        for before, after in zip(line.packets[:-1], kept, strict=True)
    ]
    # Bytes that were zero before are the same, and the checksum may be the same.
    assert changed[:5] == [0] * 5
    assert len(PLAIN) - 2 <= changed[5] <= len(PLAIN)
    assert len(b"server-part") <= changed[6] <= len(b"server-part") + 2


@pytest.mark.parametrize("version", [0, 2])
def test_a_good_login_within_the_lead_of_an_error(version: int, tmp_path: Path) -> None:
    check(failing_heartbeat(login(Line(), version)), tmp_path, PLAIN, b"server-part")


def raw_login(line: Line) -> Line:
    line.says(TO_BROKER, handshake(1, 0)).says(TO_CLIENT, handshake_answer(1))
    return line.says(TO_BROKER, token(PLAIN))


@pytest.mark.parametrize("at_once", [1, 40])
def test_tokens_without_a_header(at_once: int, tmp_path: Path) -> None:
    line = raw_login(failed_versions(Line())).says(TO_CLIENT, token(b"server-part"))
    check(failing_heartbeat(line), tmp_path, PLAIN, b"server-part", at_once=at_once)


@pytest.mark.parametrize("at_once", [1, 40])
def test_tokens_without_a_header_that_were_refused(at_once: int, tmp_path: Path) -> None:
    """The broker closes the connection; no more rows follow."""
    check(raw_login(failed_versions(Line())).closes(RST), tmp_path, PLAIN, at_once=at_once)


SCRAM = (
    (TO_BROKER, b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"),
    (TO_CLIENT, b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1,s=QSXCR+Q6sek8bf92,i=4096"),
    (TO_BROKER, b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1,p=v0X8v3Bz2T0CJGbJQyF0X"),
    (TO_CLIENT, b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="),
)


def test_scram(tmp_path: Path) -> None:
    line = failed_versions(Line())
    line.says(TO_BROKER, handshake(1, 1, "SCRAM-SHA-256"))
    line.says(TO_CLIENT, handshake_answer(1, "SCRAM-SHA-256"))
    for index, (to_broker, raw) in enumerate(SCRAM):
        made = authenticate if to_broker else authenticated
        line.says(to_broker, made(2 + index // 2, raw))
    parts = [part for _, raw in SCRAM for part in raw.split(b",") if len(part) > 8]
    check(failing_heartbeat(line), tmp_path, *parts)


def test_scram_without_headers(tmp_path: Path) -> None:
    line = failed_versions(Line())
    line.says(TO_BROKER, handshake(1, 0, "SCRAM-SHA-256"))
    line.says(TO_CLIENT, handshake_answer(1, "SCRAM-SHA-256"))
    for to_broker, raw in SCRAM:
        line.says(to_broker, token(raw))
    parts = [part for _, raw in SCRAM for part in raw.split(b",") if len(part) > 8]
    check(failing_heartbeat(line), tmp_path, *parts)


CUTS = [(3,), (9,), (18, 25), (24, 31, 32), tuple(range(1, 40))]


@pytest.mark.parametrize("at", CUTS)
@pytest.mark.parametrize("at_once", [1, 3, 40])
def test_a_token_in_pieces(at: tuple[int, ...], at_once: int, tmp_path: Path) -> None:
    line = Line().says(TO_BROKER, handshake(1, 1)).says(TO_CLIENT, handshake_answer(1))
    line.says(TO_BROKER, *cut(authenticate(2, PLAIN), *at))
    line.says(TO_CLIENT, *cut(authenticated(2, b"server-part", error=WRONG), 20, 23))
    kept = check(line, tmp_path, PASSWORD[:6], PASSWORD[-6:], b"ver-p", at_once=at_once)
    hidden = b"".join(payload_of(packet) for packet in kept)
    assert not any(PASSWORD[index : index + 4] in hidden for index in range(len(PASSWORD) - 3))
    (row,) = kanalyze.requests(tmp_path / "kept.pcapng", errors=True)
    assert row.error_code == WRONG


def payload_of(packet: bytes) -> bytes:
    _, at = pseudo_header(packet)
    return packet[at + (packet[at + 12] >> 4) * 4 :]


@pytest.mark.parametrize("at_once", [1, 40])
def test_a_token_that_never_ends(at_once: int, tmp_path: Path) -> None:
    line = failed_versions(Line())
    line.says(TO_BROKER, handshake(1, 1)).says(TO_CLIENT, handshake_answer(1))
    line.says(TO_BROKER, authenticate(2, PLAIN + bytes(90))[:-50])
    check(line, tmp_path, PLAIN, at_once=at_once)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_token_that_was_sent_again(count: int, tmp_path: Path) -> None:
    """A retransmission of the token alone, or with bytes around it, long after the login."""
    asked = authenticate(2, PLAIN)
    line = Line().says(TO_BROKER, handshake(1, 1)).says(TO_CLIENT, handshake_answer(1))
    line.says(TO_BROKER, asked, k.heartbeat(3))
    line.says(TO_CLIENT, authenticated(2), k.heartbeat_answer(3, 25))
    for number in range(count):
        failing_heartbeat(line, 4 + number)
    back = count * len(k.heartbeat(4)) + len(k.heartbeat(3)) + len(asked)
    line.again(TO_BROKER, asked, back)
    line.again(TO_BROKER, asked[-12:] + k.heartbeat(3), back - len(asked) + 12)
    line.again(TO_BROKER, asked[20:40], back - 20)
    failing_heartbeat(line, 9)
    check(line, tmp_path, PASSWORD[:6], PASSWORD[-6:])
    check(line, tmp_path, PASSWORD[:6], PASSWORD[-6:], at_once=1)


def test_pieces_of_a_token_out_of_order(tmp_path: Path) -> None:
    line = Line().says(TO_BROKER, handshake(1, 1)).says(TO_CLIENT, handshake_answer(1))
    line.says(TO_BROKER, *cut(authenticate(2, PLAIN), 24, 33)).late(2)
    failing_heartbeat(line.says(TO_CLIENT, authenticated(2)))
    check(line, tmp_path, PASSWORD[:6], PASSWORD[-6:])


@pytest.mark.parametrize("lost", [slice(0, 3), slice(0, 17), slice(20, 30)])
def test_a_token_of_which_a_part_was_not_captured(lost: slice, tmp_path: Path) -> None:
    asked = authenticate(2, PLAIN)
    line = failed_versions(Line())
    line.says(TO_BROKER, handshake(1, 1)).says(TO_CLIENT, handshake_answer(1))
    line.says(TO_BROKER, *filter(None, [asked[: lost.start]]))
    line.loses(TO_BROKER, asked[lost]).says(TO_BROKER, asked[lost.stop :])
    line.says(TO_CLIENT, authenticated(2, b"server-part"))
    for number in range(3, 12):
        failing_heartbeat(line, number)
    check(line, tmp_path, PASSWORD[-6:], b"server-part")


@pytest.mark.parametrize("first", [1, 9, 24])
def test_a_capture_that_begins_within_a_token(first: int, tmp_path: Path) -> None:
    line = Line()
    line.packets.clear()
    line.says(TO_BROKER, authenticate(2, PLAIN)[first:])
    line.says(TO_CLIENT, authenticated(2, b"server-part"))
    for number in range(3, 12):
        failing_heartbeat(line, number)
    check(line, tmp_path, PASSWORD[-6:], b"server-part")


def test_tokens_are_redacted_over_ipv6_with_tcp_options(tmp_path: Path) -> None:
    options = b"\1\1\x08\x0a" + bytes(8)
    check(failing_heartbeat(login(Line(is_ipv6=True, options=options), 1)), tmp_path, PLAIN)


def test_a_second_login_on_an_open_connection(tmp_path: Path) -> None:
    line = failing_heartbeat(login(Line(), 1))
    line.says(TO_BROKER, handshake(4, 1)).says(TO_CLIENT, handshake_answer(4))
    line.says(TO_BROKER, authenticate(5, PLAIN + b"2")).says(TO_CLIENT, authenticated(5, b"other"))
    check(failing_heartbeat(line, 10), tmp_path, PLAIN, b"other")


def test_a_connection_on_the_same_ports_keeps_its_bytes(tmp_path: Path) -> None:
    """Sequence numbers may equal those of a token of the previous connection."""
    first = login(Line(), 1, error=WRONG).closes(RST)
    second = failing_heartbeat(Line(first_sequence=0xFFFF_FFD0))
    packets = timed(first.packets + second.packets)
    for packet in packets[len(first.packets) :]:
        packet.time_ns += 61 * NS_PER_S
    kept = kept_of(packets, tmp_path)
    assert kept[-len(second.packets) :] == second.packets


def test_tokens_in_packets_cut_by_the_snap_length(tmp_path: Path) -> None:
    line = failing_heartbeat(login(Line(), 1))
    packets = timed(line.packets)
    for packet in packets:
        packet.wire_bytes, packet.data = len(packet.data), packet.data[:90]
    kept = kept_of(packets, tmp_path)
    assert PASSWORD[:6] not in b"".join(kept)


def test_fragments_of_a_token_are_left_out(tmp_path: Path) -> None:
    line = failing_heartbeat(login(Line(), 1))
    packets: list[bytes] = []
    for packet in line.packets:
        data = packet[34:]
        if PASSWORD in packet:
            for begin in range(0, len(data), 48):
                more = 0x2000 * (begin + 48 < len(data))
                part = ipv4(data[begin : begin + 48], fragment=more | begin // 8)
                packets.append(ethernet(part))
        else:
            packets.append(packet)
    for at_once in (1, 2, 40):
        kept = kept_of(packets, tmp_path, at_once)
        assert PASSWORD[:6] not in b"".join(kept)
        assert PASSWORD[-6:] not in b"".join(kept)
        assert len(kept) < len(packets)


@pytest.mark.parametrize(
    ("name", "signs"),
    [
        # The token of PLAIN, and the proofs that SCRAM derives from a password.
        ("sasl", [b"\0alice\0alice", b",p=", b",i=4096", b",r="]),
        ("old-0-10-2-2", []),
        ("old-1-1-1", []),
    ],
)
def test_logins_of_real_clients(name: str, signs: list[bytes], tmp_path: Path) -> None:
    target = tmp_path / "kept.pcapng"
    watch(path(name), PacketRecorder(PcapngWriter(target), [RowFilter()]))
    for sign in signs:
        assert sign in path(name).read_bytes()
        assert sign not in target.read_bytes()
    # In the order of requests: the time at which a response is given up depends on other
    # packets of the capture.
    before, after = (
        sorted((row.request_start_ns, row.api_name, row.error_code, row.status) for row in rows)
        for rows in (kanalyze.requests(path(name)), kanalyze.requests(target))
    )
    assert after == before


def test_addresses_are_what_they_were() -> None:
    """The checksums in these tests include the addresses."""
    packet = Line().packets[0]
    assert packet[26:30] == ipaddress.ip_address("10.0.0.1").packed
    assert has_checksum(packet)


def test_inside_a_tunnel(tmp_path: Path) -> None:
    """The outer checksum, which covers the whole inner packet, stays right too."""
    line = failing_heartbeat(login(Line(), 1))
    kept = kept_of([in_vxlan(packet) for packet in line.packets], tmp_path)
    assert len(kept) == len(line.packets)
    for packet in kept:
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
    monkeypatch.setattr(token_redaction, "_MAX_TOKENS", 3)
    line = login(Line(), 1)
    for number in range(10, 20):
        line.says(TO_BROKER, authenticate(number, PLAIN))
        line.says(TO_CLIENT, authenticated(number, b"server-part"))
    check(failing_heartbeat(line, 30), tmp_path, b"server-part", at_once=2)
