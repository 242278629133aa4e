"""Handshake messages in any pieces, too large, cut, and random; facts of certificates."""

from __future__ import annotations

import datetime
import random
import zlib
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.tls.handshake import (
    COMPRESSED_CERTIFICATE,
    MAX_MESSAGE_BYTES,
    HandshakeMessage,
    MessageAssembler,
    certificate_facts,
    certificates_in,
    decompressed_certificate,
    read_alert,
    read_client_hello,
    read_encrypted_extensions,
    read_server_hello,
)
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.negotiation import MessageOrigin, Negotiation
from kanalyze.tls.records import TlsRecord
from tests.support import tls_made as made
from tests.support.cases import for_each
from tests.support.tls_talk import certificate

CLIENT_HELLO, SERVER_HELLO = made.client_hello()[9:], made.server_hello(made.SUITE_12)[9:]


def test_a_client_hello_is_read() -> None:
    hello = read_client_hello(CLIENT_HELLO)
    assert hello is not None
    assert (hello.random, hello.session_id) == (made.CLIENT_RANDOM, made.SESSION_ID)
    assert hello.versions == (0x0304, 0x0303)  # without the GREASE version
    assert hello.suites == (made.SUITE_13, made.SUITE_12)
    assert (hello.server_name, hello.alpn) == ("broker.example", ("kafka",))
    assert (hello.has_psk, hello.has_early_data, hello.has_ticket) == (False, False, False)


def test_a_server_hello_is_read() -> None:
    hello = read_server_hello(SERVER_HELLO)
    assert hello is not None
    assert (hello.version, hello.suite, hello.random) == (0x0303, 0xC02F, made.SERVER_RANDOM)
    assert (hello.alpn, hello.encrypt_then_mac, hello.is_retry) == (None, False, False)
    retry = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
    again = read_server_hello(SERVER_HELLO.replace(made.SERVER_RANDOM, retry))
    assert again is not None
    assert again.is_retry


def test_a_server_name_keeps_its_control_characters() -> None:
    odd = CLIENT_HELLO.replace(b"broker.example", b"broker\xff\x1b[2Jxxx")
    hello = read_client_hello(odd)
    assert hello is not None
    assert hello.server_name == "broker\\xff\x1b[2Jxxx"


@given(st.sampled_from([CLIENT_HELLO, SERVER_HELLO]), st.integers(0, 1 << 32))
def test_cut_or_changed_messages_raise_nothing(body: bytes, seed: int) -> None:
    chosen = random.Random(seed)
    changed = bytearray(body[: chosen.randrange(len(body) + 1)])
    for _ in range(min(4, len(changed))):
        changed[chosen.randrange(len(changed))] = chosen.randrange(256)
    for is_13 in (False, True):
        assert len(certificates_in(bytes(changed), is_13=is_13)) <= 16
    read_encrypted_extensions(bytes(changed))
    hello = read_client_hello(bytes(changed))
    assert hello is None or len(hello.suites) <= 64
    answer = read_server_hello(bytes(changed))
    assert answer is None or answer.suite <= 0xFFFF


@given(st.lists(st.integers(1, 200)))
def test_messages_are_assembled_from_any_pieces(sizes: list[int]) -> None:
    stream = made.message(1, CLIENT_HELLO) + made.message(14, b"") + made.message(11, bytes(300))
    assembler, found, at = MessageAssembler(), [], 0
    for size in [*sizes, len(stream)]:
        found += list(assembler.feed(stream[at : at + size]))
        at += size
    assert found == [
        HandshakeMessage(1, CLIENT_HELLO),
        HandshakeMessage(14, b""),
        HandshakeMessage(11, bytes(300)),
    ]


def test_a_message_that_is_too_large_is_skipped() -> None:
    assembler = MessageAssembler()
    stream = made.message(11, bytes(MAX_MESSAGE_BYTES)) + made.message(14, b"")
    found = []
    for at in range(0, len(stream), 16384):
        found += list(assembler.feed(stream[at : at + 16384]))
        assert assembler.buffered_bytes <= 16384
    assert found == [HandshakeMessage(11, b""), HandshakeMessage(14, b"")]


def test_alerts_have_names() -> None:
    alert = read_alert(b"\x02\x30", 1, 5, 7)
    assert alert is not None
    assert (alert.level, alert.description) == ("fatal", "unknown_ca")
    odd = read_alert(b"\x07\xfe", 0, 5, 7)
    assert odd is not None
    assert (odd.level, odd.description) == ("7", "254")
    assert read_alert(b"\x02", 0, 5, 7) is None


def test_data_that_is_no_certificate_has_no_facts() -> None:
    for data in (b"", b"\x30\x82", bytes(100), bytes(1 << 20)):
        assert certificate_facts(data) is None


# -- compressed certificates (RFC 8879), which OpenSSL 3.2 and later send --------------------------

ONE_CERTIFICATE = bytes.fromhex("00 000009 000004 30820000 0000")


def compressed(message: bytes, *, algorithm: int = 1, length: int | None = None) -> bytes:
    data = zlib.compress(message)
    declared_bytes = len(message) if length is None else length
    return b"".join(
        (algorithm.to_bytes(2), declared_bytes.to_bytes(3), len(data).to_bytes(3), data),
    )


def test_a_certificate_compressed_by_zlib_is_read() -> None:
    assert decompressed_certificate(compressed(ONE_CERTIFICATE)) == ONE_CERTIFICATE
    assert certificates_in(ONE_CERTIFICATE, is_13=True) == [bytes.fromhex("30820000")]


def test_a_compressed_certificate_with_a_wrong_length_is_not_read() -> None:
    for length in (0, len(ONE_CERTIFICATE) - 1, len(ONE_CERTIFICATE) + 1, MAX_MESSAGE_BYTES + 1):
        assert decompressed_certificate(compressed(ONE_CERTIFICATE, length=length)) is None
    bomb = compressed(bytes(MAX_MESSAGE_BYTES + 1))
    assert decompressed_certificate(bomb) is None
    for body in (b"", compressed(ONE_CERTIFICATE)[:-3], compressed(ONE_CERTIFICATE, algorithm=2)):
        assert decompressed_certificate(body) is None
    assert decompressed_certificate(b"\0\1\0\0\4\0\0\4junk") is None


def test_a_compressed_client_certificate_counts_as_mutual_tls() -> None:
    for algorithm, is_read in ((1, True), (3, False)):
        negotiation = Negotiation(KeyLog())
        negotiation.facts.client_index = 0
        negotiation.server_hello = read_server_hello(made.server_hello(made.SUITE_13)[9:])
        ec = x509.load_pem_x509_certificate(Path(certificate("ec", "client")).read_bytes())
        der = ec.public_bytes(Encoding.DER)
        entry = len(der).to_bytes(3) + der + b"\0\0"
        body = compressed(b"\0" + len(entry).to_bytes(3) + entry, algorithm=algorithm)
        message = HandshakeMessage(COMPRESSED_CERTIFICATE, body)
        record = TlsRecord(b"\x17\3\3\0\0", b"", 0, (0, 0), (0, 0))
        origin = MessageOrigin(0, is_sealed=True, is_gapless=True, record=record)
        assert negotiation.read(message, origin) is None
        assert negotiation.facts.mutual is True
        found = negotiation.facts.client_certificate
        assert (found is not None and found.subject == "CN=client") == is_read


KEY = ec.generate_private_key(ec.SECP256R1())
NAMES = (
    [(NameOID.COMMON_NAME, "broker-1.example")],
    [(NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A, B; C"), (NameOID.TITLE, "x")],
    [(NameOID.COMMON_NAME, ' lead"ing#+<>\\ '), (NameOID.LOCALITY_NAME, "#Zürich")],
    [(NameOID.DOMAIN_COMPONENT, "lab"), (NameOID.USER_ID, "7"), (NameOID.STREET_ADDRESS, "5")],
    [],
)
TIMES = ((1950, 2049), (2020, 2050), (2049, 2051), (2020, 9999))


def signed_for(parts: list[tuple[x509.ObjectIdentifier, str]], years: tuple[int, int]) -> bytes:
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])
    first, last = (
        datetime.datetime(year, 12, 31, 23, 59, 58, tzinfo=datetime.UTC) for year in years
    )
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(x509.Name([*name][::-1]))
    builder = builder.public_key(KEY.public_key()).serial_number(1)
    signed = builder.not_valid_before(first).not_valid_after(last).sign(KEY, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("parts", NAMES)
@pytest.mark.parametrize("years", TIMES)
def test_facts_of_certificates_are_those_that_cryptography_reads(
    parts: list[tuple[x509.ObjectIdentifier, str]], years: tuple[int, int]
) -> None:
    der = signed_for(parts, years)
    theirs, ours = x509.load_der_x509_certificate(der), certificate_facts(der)
    assert ours is not None
    assert ours.subject == theirs.subject.rfc4514_string()
    assert ours.issuer == theirs.issuer.rfc4514_string()
    assert ours.not_before_ns == int(theirs.not_valid_before_utc.timestamp()) * 10**9
    after_ns = int(theirs.not_valid_after_utc.timestamp()) * 10**9
    assert ours.not_after_ns == (after_ns if after_ns < 1 << 63 else None)


def test_several_parts_of_one_name_are_distinguished() -> None:
    several = [
        x509.NameAttribute(NameOID.COMMON_NAME, "a"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b"),
    ]
    name = x509.Name([x509.RelativeDistinguishedName(several)])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = builder.public_key(KEY.public_key()).not_valid_before(now).not_valid_after(now)
    der = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    facts = certificate_facts(der)
    assert facts is not None
    assert facts.subject == name.rfc4514_string()


@for_each("seed", range(50))
def test_corrupt_certificates_raise_nothing(seed: int) -> None:
    dice = Random(seed)
    der = signed_for(NAMES[1], TIMES[0])
    for _ in range(40):
        data = bytearray(der[: dice.randrange(len(der))] if seed % 2 else der)
        for _ in range(min(len(data), dice.randrange(1, 5))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        facts = certificate_facts(bytes(data))
        assert facts is None or len(facts.subject) <= 1024
