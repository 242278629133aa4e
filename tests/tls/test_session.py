"""Sessions recorded with OpenSSL: the whole plaintext, nothing else, and the facts."""

from __future__ import annotations

import random
import ssl
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.streams import Chunk, Gap
from kanalyze.tls.direction import UNKNOWN_GAP_BYTES
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.keys import cipher_suite, suite_name
from kanalyze.tls.negotiation import Decryption
from tests.support.tls_talk import (
    CLIENT,
    NO_ENCRYPT_THEN_MAC,
    NOT_AFTER,
    SERVER,
    Pair,
    Sent,
    Setting,
    Talk,
    items_of,
    log_with,
    read_items,
    talk,
)

if TYPE_CHECKING:
    from kanalyze.tls.session import TlsSession

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
RANDOM = random.Random(18)
LARGE = RANDOM.randbytes(50_000)
TURNS = [
    (CLIENT, b"request"),
    (SERVER, b"response"),
    (CLIENT, LARGE[:100]),
    (SERVER, LARGE),
    (CLIENT, LARGE[:20_000]),
    (SERVER, b"!"),
]


def suites_12() -> list[tuple[str, str, str]]:
    """(OpenSSL's name, kind of certificate, mode) of the suites that OpenSSL has and we decrypt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = TLS_1_2
    context.set_ciphers("ALL:@SECLEVEL=0")
    found = []
    for cipher in context.get_ciphers():
        suite = cipher_suite(cipher["id"] & 0xFFFF)
        exchange = str(cipher["name"]).split("-")[0]
        if suite is None or cipher.get("auth") not in ("auth-rsa", "auth-ecdsa"):
            continue
        if exchange in ("DHE", "RSA", "SRP") or "PSK" in str(cipher["name"]):
            continue  # need parameters, users or keys that Python gives no server
        kind = "rsa" if cipher["auth"] == "auth-rsa" else "ec"
        found.append((str(cipher["name"]), kind, suite.mode))
    return found


SUITES_12 = suites_12()


def assert_all_is_read(recorded: Talk, log: KeyLog | None = None, step: int = 1) -> TlsSession:
    read = read_items(items_of(recorded.wire), recorded.log() if log is None else log, step=step)
    assert (read.plaintext(CLIENT), read.plaintext(SERVER)) == recorded.said
    assert read.gaps(CLIENT) == read.gaps(SERVER) == []
    facts = read.session.facts
    assert facts.decryption is Decryption.DECRYPTED
    assert [counts.unopened_records for counts in facts.counts] == [0, 0]
    assert [counts.bytes for counts in facts.counts] == [len(s) for s in recorded.streams]
    return read.session


def test_openssl_offers_what_kafka_clients_negotiate() -> None:
    modes = {mode for _, _, mode in SUITES_12}
    assert modes >= {"gcm", "chacha20", "cbc", "ccm", "ccm-8"}


@pytest.mark.parametrize(("name", "kind", "mode"), SUITES_12)
def test_every_suite_of_tls_1_2_is_decrypted(name: str, kind: str, mode: str) -> None:
    for options in (0, NO_ENCRYPT_THEN_MAC) if mode == "cbc" else (0,):
        recorded = talk(Setting(TLS_1_2, name, kind, options), TURNS)
        assert recorded.suite == name
        facts = assert_all_is_read(recorded).facts
        assert (facts.version, facts.resumed, facts.mutual) == (0x0303, False, False)


def test_tls_1_3_is_decrypted() -> None:
    setting = Setting(alpn=("kafka", "h2"))
    facts = assert_all_is_read(talk(setting, TURNS)).facts
    assert facts.version == 0x0304
    assert suite_name(facts.suite or 0) == "TLS_AES_256_GCM_SHA384"
    assert (facts.resumed, facts.mutual, facts.client_index) == (False, False, CLIENT)
    assert (facts.server_name, facts.alpn) == ("broker.example", "kafka")
    assert facts.offered_alpn == ("kafka", "h2")
    assert facts.server_certificate is not None
    assert facts.server_certificate.subject == facts.server_certificate.issuer == "CN=broker"
    assert facts.server_certificate.not_after_ns == int(NOT_AFTER.timestamp()) * 10**9
    assert [(a.direction, a.level, a.description) for a in facts.alerts] == [
        (CLIENT, "warning", "close_notify"),
        (SERVER, "warning", "close_notify"),
    ]


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_resumed_sessions_are_decrypted(version: ssl.TLSVersion) -> None:
    pair = Pair(Setting(version))
    assert assert_all_is_read(pair.talk(TURNS)).facts.resumed is False
    again = assert_all_is_read(pair.talk(TURNS, resume=True)).facts
    assert again.resumed is True
    assert again.server_certificate is None


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_the_certificate_of_a_client_is_read(version: ssl.TLSVersion) -> None:
    facts = assert_all_is_read(talk(Setting(version, mutual=True), TURNS)).facts
    assert facts.mutual is True
    assert facts.client_certificate is not None
    assert facts.client_certificate.subject == "CN=client"


# -- in any pieces --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> dict[str, Talk]:
    return {
        "1.3": talk(Setting(), TURNS),
        "gcm": talk(Setting(TLS_1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"), TURNS),
        "chacha": talk(Setting(TLS_1_2, "ECDHE-ECDSA-CHACHA20-POLY1305"), TURNS),
        "cbc": talk(Setting(TLS_1_2, "ECDHE-ECDSA-AES128-SHA256"), TURNS),
        "mte": talk(Setting(TLS_1_2, "ECDHE-ECDSA-AES128-SHA", options=NO_ENCRYPT_THEN_MAC), TURNS),
    }


KINDS = ["1.3", "gcm", "chacha", "cbc", "mte"]


@given(
    kind=st.sampled_from(KINDS),
    segment=st.sampled_from([1, 2, 5, 7, 100, 1448, 65_000]),
    step=st.integers(1, 40),
)
@settings(max_examples=25, deadline=None)
def test_segments_of_any_size_give_the_same_plaintext_and_facts(
    recorded: dict[str, Talk], kind: str, segment: int, step: int
) -> None:
    one = recorded[kind]
    read = read_items(items_of(one.wire, segment), one.log(), step=step)
    assert (read.plaintext(CLIENT), read.plaintext(SERVER)) == one.said
    whole = read_items(items_of(one.wire), one.log(), step=1000)
    assert facts_of(read.session) == facts_of(whole.session)


def facts_of(session: TlsSession) -> list[object]:
    facts = session.facts
    timed = {"handshake_ns", "alerts"}
    return [getattr(facts, name) for name in sorted(facts.__slots__) if name not in timed]


def test_one_direction_may_come_first(recorded: dict[str, Talk]) -> None:
    """One batch may have all packets of one direction before those of the other."""
    for one in recorded.values():
        for first in (CLIENT, SERVER):
            items = sorted(items_of(one.wire), key=lambda item: item[0] != first)
            read = read_items(items, one.log(), step=1000)
            assert (read.plaintext(CLIENT), read.plaintext(SERVER)) == one.said


def test_each_byte_has_the_packet_that_made_it_readable(recorded: dict[str, Talk]) -> None:
    """Except the first byte of a record, which has the packet in which the record began."""
    one = recorded["1.3"]
    read = read_items(items_of(one.wire), one.log())
    for side in (CLIENT, SERVER):
        packets = {
            packet
            for item in read.items[side]
            if isinstance(item, Chunk)
            for packet in item.segments.packet
        }
        ends = record_packets(one, side)
        assert packets <= {packet for both in ends for packet in both}
        for item in read.items[side]:
            assert isinstance(item, Chunk)
            for index in range(item.first, item.last):
                is_begin = item.segments.length[index] == 1
                known = {(first if is_begin else last) for first, last in ends}
                known |= {last for _, last in ends}
                assert item.segments.packet[index] in known


def record_packets(one: Talk, side: int) -> list[tuple[int, int]]:
    """The first and last packet of each record of a direction, counted independently."""
    owner: list[int] = []
    packet = 0
    for sent in one.wire:
        for at in range(0, len(sent.data), 1448):
            packet += 1
            if sent.side == side:
                owner += [packet] * len(sent.data[at : at + 1448])
    stream, at, found = one.streams[side], 0, []
    while at < len(stream):
        end = at + 5 + int.from_bytes(stream[at + 3 : at + 5], "big")
        found.append((owner[at], owner[end - 1]))
        at = end
    return found


# -- keys -----------------------------------------------------------------------------------------


def test_facts_of_the_handshake_are_read_without_keys(recorded: dict[str, Talk]) -> None:
    facts = read_items(items_of(recorded["gcm"].wire), KeyLog()).session.facts
    assert facts.decryption is Decryption.NO_SECRET
    assert suite_name(facts.suite or 0) == "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    assert (facts.server_name, facts.resumed, facts.mutual) == ("broker.example", False, False)
    assert facts.server_certificate is not None
    assert facts.server_certificate.subject == "CN=broker"
    assert facts.handshake_ns is not None
    assert facts.handshake_ns > 0
    hidden = read_items(items_of(recorded["1.3"].wire), KeyLog()).session.facts
    assert (hidden.version, hidden.mutual, hidden.server_certificate) == (0x0304, None, None)
    assert hidden.handshake_ns is not None


def test_keys_of_other_sessions_open_nothing(recorded: dict[str, Talk]) -> None:
    read = read_items(items_of(recorded["1.3"].wire), recorded["gcm"].log())
    assert read.session.facts.decryption is Decryption.NO_SECRET
    assert read.items == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_secrets_open_nothing(recorded: dict[str, Talk], kind: str) -> None:
    lines = []
    for line in recorded[kind].keys.splitlines():
        words = line.split()
        if len(words) == 3:
            flipped = bytes(byte ^ 1 for byte in bytes.fromhex(words[2].decode()))
            words[2] = flipped.hex().encode()
        lines.append(b" ".join(words))
    read = read_items(items_of(recorded[kind].wire), log_with(b"\n".join(lines)))
    assert read.session.facts.decryption is Decryption.FAILED
    assert read.plaintext(CLIENT) == read.plaintext(SERVER) == b""


# -- a capture that begins late -------------------------------------------------------------------


def late(one: Talk) -> list[Sent]:
    """The bytes after the first ones that the client sent, which begin a record."""
    begin = next(n for n, sent in enumerate(one.wire) if sent.side == CLIENT and n > 2)
    return one.wire[begin + 2 :]


@pytest.mark.parametrize("step", [1, 1000])
def test_a_late_capture_of_tls_1_3_is_decrypted_by_trying_keys_of_the_log(step: int) -> None:
    pair = Pair(Setting())
    others = b"".join(pair.talk([]).keys for _ in range(3))
    one = pair.talk(TURNS)
    log = log_with(others + one.keys + others)
    read = read_items(items_of(late(one)), log, from_start=(False, False), step=step)
    assert read.session.facts.decryption is Decryption.DECRYPTED
    assert read.session.facts.client_index == CLIENT
    for side in (CLIENT, SERVER):
        assert one.said[side].endswith(read.plaintext(side))
        assert len(read.plaintext(side)) >= 20_000
        assert read.gaps(side) == []


def test_a_late_capture_of_tls_1_2_is_not_decrypted(recorded: dict[str, Talk]) -> None:
    one = recorded["gcm"]
    read = read_items(items_of(late(one)), one.log(), from_start=(False, False))
    assert read.session.facts.decryption is Decryption.NO_HELLO
    assert read.items == ([], [])


def test_a_connection_without_its_syn_is_decrypted_from_its_hello(
    recorded: dict[str, Talk],
) -> None:
    for one in recorded.values():
        read = read_items(items_of(one.wire), one.log(), from_start=(False, False))
        assert (read.plaintext(CLIENT), read.plaintext(SERVER)) == one.said


# -- missing bytes --------------------------------------------------------------------------------


def with_gaps(one: Talk, segment: int, lost: set[int]) -> list[tuple[int, object]]:
    """The items of a talk, one for each segment; those in ``lost`` are gaps."""
    items: list[tuple[int, object]] = []
    for number, (side, item) in enumerate(items_of(cut(one, segment), segment)):
        assert isinstance(item, Chunk)
        if number in lost:
            packet = item.segments.packet[0]
            items.append((side, Gap(item.stream_offset, item.segments.length[0], 1, packet)))
        else:
            items.append((side, item))
    return items


def cut(one: Talk, segment: int) -> list[Sent]:
    return [
        Sent(sent.side, sent.data[at : at + segment])
        for sent in one.wire
        for at in range(0, len(sent.data), segment)
    ]


def assert_only_plaintext(one: Talk, items: list[tuple[int, object]]) -> list[int]:
    """Check that every piece is part of the plaintext, in order; return the number of its bytes."""
    read = read_items(items, one.log())  # type: ignore[arg-type]
    totals = []
    for side in (CLIENT, SERVER):
        said, at, shift = one.said[side], 0, 0
        for item in read.items[side]:
            if isinstance(item, Gap):
                if item.length == UNKNOWN_GAP_BYTES:
                    shift = -1
                continue
            data = b"".join(
                bytes(item.segments.view(s, s + n))
                for s, n in zip(item.segments.start, item.segments.length, strict=True)
            )
            if shift < 0:
                place = said.find(data, at)
                assert place >= 0
                shift = 0
                base = item.stream_offset - place
            elif at == 0:
                base = 0
            assert said[item.stream_offset - base :].startswith(data)
            at = item.stream_offset - base + len(data)
        totals.append(len(read.plaintext(side)))
    return totals


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 1 << 16), parts=st.integers(2, 30))
@settings(max_examples=60, deadline=None)
def test_lost_segments_never_make_a_wrong_byte(
    recorded: dict[str, Talk], kind: str, seed: int, parts: int
) -> None:
    one = recorded[kind]
    count = len(cut(one, 1448))
    chosen = random.Random(seed)
    lost = {n for n in range(count) if not chosen.randrange(parts)}
    assert_only_plaintext(one, with_gaps(one, 1448, lost))


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_segment_loses_only_the_records_that_it_touches(
    recorded: dict[str, Talk], kind: str
) -> None:
    """Each segment after the handshake is lost in turn."""
    one = recorded[kind]
    pieces = cut(one, 1448)
    first = next(n for n, sent in enumerate(pieces) if n > 6 and len(sent.data) > 1000)
    for number in range(first, len(pieces)):
        side = pieces[number].side
        got = assert_only_plaintext(one, with_gaps(one, 1448, {number}))
        assert got[1 - side] == len(one.said[1 - side])
        assert got[side] >= len(one.said[side]) - 2 * (1 << 14)
