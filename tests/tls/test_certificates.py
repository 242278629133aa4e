"""Facts of certificates, compared with those that ``cryptography`` reads."""

from __future__ import annotations

import datetime
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kanalyze.tls.handshake import certificate_facts
from tests.support.cases import for_each

KEY = ec.generate_private_key(ec.SECP256R1())
NAMES = (
    [(NameOID.COMMON_NAME, "broker-1.example")],
    [(NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A, B; C"), (NameOID.TITLE, "x")],
    [(NameOID.COMMON_NAME, ' lead"ing#+<>\\ '), (NameOID.LOCALITY_NAME, "#Zürich")],
    [(NameOID.DOMAIN_COMPONENT, "lab"), (NameOID.USER_ID, "7"), (NameOID.STREET_ADDRESS, "5")],
    [],
)
TIMES = ((1950, 2049), (2020, 2050), (2049, 2051), (2020, 9999))


def made(parts: list[tuple[x509.ObjectIdentifier, str]], years: tuple[int, int]) -> bytes:
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
    der = made(parts, years)
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
    der = made(NAMES[1], TIMES[0])
    for _ in range(40):
        data = bytearray(der[: dice.randrange(len(der))] if seed % 2 else der)
        for _ in range(min(len(data), dice.randrange(1, 5))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        facts = certificate_facts(bytes(data))
        assert facts is None or len(facts.subject) <= 1024
