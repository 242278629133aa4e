"""The TLS columns of a connection: why TLS failed, and its counts."""

from __future__ import annotations

from typing import Any

import pytest

from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.model.tls import CertificateFacts, SentAlert, TlsConnection
from kanalyze.tables.connections import tls_columns

CLIENT, BROKER = 0, 1
HELLO = {"client_index": CLIENT, "offered_versions": ("TLS 1.3",)}
HANDSHAKE = {**HELLO, "version": "TLS 1.3", "suite": "TLS_AES_128_GCM_SHA256"}
COMPLETE = {**HANDSHAKE, "is_complete": True, "estimated_requests": 3}


def columns(
    facts: dict[str, Any] | None,
    client_index: int = CLIENT,
    protocol: str = "tls",
    **changes: Any,
) -> dict[str, Any]:
    ends = (Endpoint("10.0.0.1", 40_000), Endpoint("10.0.0.2", 9093))
    tcp = TcpConnection(1, ends, 1, 0, 0, 0)
    tcp.end, tcp.closed_by = "fin", BROKER
    tcp.packets, tcp.payload_bytes = (9, 9), (900, 900)
    for name, value in changes.items():
        setattr(tcp, name, value)
    if facts is not None:
        tcp.tls = TlsConnection()
        for name, value in facts.items():
            setattr(tcp.tls, name, value)
    return tls_columns(tcp, client_index, protocol)


def alert(sender: int, name: str, level: str | None = "fatal") -> dict[str, Any]:
    return {"alerts": (SentAlert(sender, level, name),)}


@pytest.mark.parametrize(
    ("facts", "changes", "expected"),
    [
        (COMPLETE, {}, (None, None)),
        ({**COMPLETE, **alert(CLIENT, "close_notify", "warning")}, {}, (None, None)),
        ({**COMPLETE, **alert(CLIENT, "encrypted", None)}, {}, (None, None)),
        ({**COMPLETE, **alert(BROKER, "encrypted", None)}, {}, (None, None)),
        ({**COMPLETE, **alert(CLIENT, "unrecognized_name", "warning")}, {}, (None, None)),
        ({**COMPLETE, **alert(BROKER, "bad_record_mac")}, {}, ("bad_record_mac", "broker")),
        ({**HANDSHAKE, **alert(CLIENT, "unknown_ca")}, {}, ("unknown_ca", "client")),
        ({**HANDSHAKE, **alert(CLIENT, "encrypted", None)}, {}, ("encrypted", "client")),
        (
            {**COMPLETE, **alert(BROKER, "encrypted", None), "estimated_requests": 0},
            {},
            ("encrypted", "broker"),
        ),
        (alert(CLIENT, "encrypted", None), {}, (None, None)),  # a late start
        (HANDSHAKE, {}, ("closed", "broker")),
        (HANDSHAKE, {"closed_by": None, "end": "open"}, (None, None)),
        (HANDSHAKE, {"lost_bytes": [0, 1]}, (None, None)),
        (HELLO, {"payload_bytes": [900, 0]}, ("tls_on_plaintext_port", "broker")),
        (HELLO, {"payload_bytes": [900, 0], "end": "open"}, (None, None)),
        # A client that leaves by itself, and one that says so after it was left.
        (HELLO, {"payload_bytes": [900, 0], "closed_by": CLIENT}, ("closed", "client")),
        (
            {**HELLO, **alert(CLIENT, "decode_error")},
            {"payload_bytes": [900, 0]},
            ("tls_on_plaintext_port", "broker"),
        ),
        (
            {**HELLO, **alert(CLIENT, "user_canceled", "warning")},
            {"payload_bytes": [900, 0], "closed_by": CLIENT},
            ("closed", "client"),
        ),
        (HELLO, {"payload_bytes": [900, 0], "lost_bytes": [0, 7]}, (None, None)),
        ({**HELLO, **alert(BROKER, "protocol_version")}, {}, ("protocol_version", "broker")),
        (HELLO, {"payload_bytes": [900, 0], "packets": [9, 0], "closed_by": None}, (None, None)),
        (
            {"is_clear_client": True, "client_index": CLIENT, **alert(BROKER, "internal_error")},
            {},
            ("plaintext_on_tls_port", "broker"),
        ),
        (None, {}, (None, None)),
    ],
)
def test_tls_failures_have_a_reason_and_an_end(
    facts: dict[str, Any] | None, changes: dict[str, Any], expected: tuple[str | None, str | None]
) -> None:
    found = columns(facts, **changes)
    assert (found["tls_failure"], found["tls_failed_by"]) == expected


def test_ends_are_client_and_broker_whichever_was_seen_first() -> None:
    facts = {
        **COMPLETE,
        "client_index": 1,
        "records": [1, 2],
        "bytes": [10, 20],
        **alert(1, "close_notify", "warning"),
        "server_certificate": CertificateFacts("CN=a", "CN=b", 1, 2),
    }
    found = columns(facts, client_index=1)
    assert found["tls_alerts"] == ["client warning close_notify"]
    assert (found["client_tls_records"], found["broker_tls_records"]) == (2, 1)
    assert (found["client_tls_bytes"], found["broker_tls_bytes"]) == (20, 10)
    assert found["tls_certificate_subject"] == "CN=a"
    assert found["tls_certificate_not_after_ns"] == 2
    assert found["tls_client_certificate_subject"] is None


def test_decrypted_is_null_without_tls_and_false_without_a_tls_analysis() -> None:
    assert columns(COMPLETE)["tls_decrypted"] is False
    assert columns({**COMPLETE, "is_decrypted": True}, protocol="kafka")["tls_decrypted"] is True
    assert columns(None)["tls_decrypted"] is False
    assert columns(None, protocol="kafka")["tls_decrypted"] is None
    assert columns({"is_clear_client": True}, protocol="kafka")["tls_decrypted"] is None


def test_bytes_that_only_looked_like_tls_leave_no_columns() -> None:
    plain = columns(None, protocol="kafka")
    assert columns({"records": [3, 0], "client_index": 0}, protocol="kafka") == plain
