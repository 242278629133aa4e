"""Handshakes read without keys, compared with tshark without keys.

Without tshark this file is not collected (see conftest.py).
"""

from __future__ import annotations

import datetime
import subprocess
from collections import defaultdict

import pytest
from cryptography import x509

import kanalyze
from tests.support import tls_captures

CERTIFICATE, SERVER_HELLO = "11", "2"
FIELDS = (
    *("tcp.stream", "tcp.srcport", "tls.handshake.type", "tls.handshake.version"),
    *("tls.handshake.extensions.supported_version", "tls.handshake.ciphersuite"),
    *("tls.handshake.certificate", "x509sat.uTF8String"),
)
VERSIONS = {"0x0303": "TLS 1.2", "0x0304": "TLS 1.3"}


def read(name: str) -> dict[str, list[dict[str, list[str]]]]:
    """Handshake packets by port of the client."""
    shown = [word for field in FIELDS for word in ("-e", field)]
    command = ["tshark", "-r", str(tls_captures.path(name)), "-d", "tcp.port==9094,tls"]
    command += ["-Y", "tls.handshake", "-T", "fields", *shown]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    streams = defaultdict(list)
    clients = {}
    for line in ran.stdout.splitlines():
        values = dict(zip(FIELDS, [each.split(",") for each in line.split("\t")], strict=True))
        stream, port = values["tcp.stream"][0], values["tcp.srcport"][0]
        clients.setdefault(stream, port)
        values["is_server"] = [port] if port != clients[stream] else []
        streams[clients[stream]].append(values)
    return streams


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["tls12-mutual", "tls12-expired", "tls13-aes128gcm"])
def test_versions_suites_and_certificates_are_those_of_tshark(name: str) -> None:
    of_tshark = read(name)
    rows = list(kanalyze.connections(tls_captures.path(name)))
    assert {str(row.client_port) for row in rows} == of_tshark.keys()
    for row in rows:
        of_server = [each for each in of_tshark[str(row.client_port)] if each["is_server"]]
        [hello] = [each for each in of_server if SERVER_HELLO in each["tls.handshake.type"]]
        chosen = hello["tls.handshake.extensions.supported_version"][0]
        assert row.tls_version == VERSIONS[chosen or hello["tls.handshake.version"][0]]
        ders = [
            each["tls.handshake.certificate"][0]
            for each in of_server
            if CERTIFICATE in each["tls.handshake.type"]
        ]
        if row.tls_version == "TLS 1.3":
            assert not ders
            assert row.tls_certificate_subject is None
            continue
        certificate = x509.load_der_x509_certificate(bytes.fromhex(ders[0]))
        assert row.tls_certificate_subject == certificate.subject.rfc4514_string()
        assert row.tls_certificate_issuer == certificate.issuer.rfc4514_string()
        assert row.tls_certificate_not_after_ns is not None
        seconds = row.tls_certificate_not_after_ns // 10**9
        until = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        assert until == certificate.not_valid_after_utc
