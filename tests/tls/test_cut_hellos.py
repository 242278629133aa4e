"""Packets of TLS that are cut short: what is in the beginning of a hello is known, and no more."""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.tls import handshake
from tests.support import tls_captures
from tests.support import tls_made as made
from tests.support.captures import often

if TYPE_CHECKING:
    from pathlib import Path

FILE_HEADER, PACKET_HEADER = 24, 16
SNAPS = (100, 128, 160, 200, 300, 600)
PLAIN = [name for name in tls_captures.RECORDED if tls_captures.path(name).suffix == ".pcap"]
FEW = ["tls12-clients", "tls13-clients", "tls12-resumed", "tls12-mutual", "tls10-and-11"]
FACTS = (
    *("tls_version", "tls_cipher_suite", "tls_server_name", "tls_alpn", "tls_handshake_ns"),
    *("tls_offered_versions", "tls_offered_alpn", "tls_resumed", "tls_certificate_requested"),
    *("tls_mutual", "tls_certificate_subject", "tls_client_certificate_subject"),
)
VALUES = (
    *("api_name", "api_version", "client_id", "request_bytes", "response_bytes"),
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns", "error_code"),
    *("record_count", "record_bytes", "latency_ns"),
)


def snapped(name: str, length: int) -> bytes:
    """A capture with the first bytes of each packet."""
    data = tls_captures.path(name).read_bytes()
    cut, at = bytearray(data[:FILE_HEADER]), FILE_HEADER
    while at < len(data):
        seconds, part, size, wire = struct.unpack_from("<4I", data, at)
        begin = at + PACKET_HEADER
        kept = min(size, length)
        cut += struct.pack("<4I", seconds, part, kept, wire) + data[begin : begin + kept]
        at = begin + size
    return bytes(cut)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cut.pcap"


@functools.cache
def whole(name: str) -> dict[tuple[str, int], Any]:
    rows = kanalyze.connections(tls_captures.path(name))
    return {(row.connection, row.connection_number): row for row in rows}


@pytest.mark.few(8)
@pytest.mark.parametrize("length", SNAPS)
@pytest.mark.parametrize("name", often(PLAIN, FEW))
def test_facts_are_those_of_whole_packets_or_not_known(name: str, length: int, file: Path) -> None:
    file.write_bytes(snapped(name, length))
    for row in kanalyze.connections(file):
        full = whole(name)[row.connection, row.connection_number]
        for fact in FACTS:
            value = getattr(row, fact)
            assert value in (None, [], getattr(full, fact)), fact
        if length >= 200:
            assert row.tls_version == full.tls_version
            assert row.tls_cipher_suite == full.tls_cipher_suite


@pytest.mark.few(6)
@pytest.mark.parametrize("length", SNAPS)
@pytest.mark.parametrize("name", often(PLAIN, FEW))
def test_what_is_decrypted_is_right(name: str, length: int, file: Path) -> None:
    file.write_bytes(snapped(name, length))
    keys = tls_captures.keylog(name)

    def rows_of(path: Path) -> dict[tuple[Any, ...], Any]:
        rows = kanalyze.requests(path, keylog=keys)
        return {(row.connection, row.correlation_id, row.api_key): row for row in rows}

    full = rows_of(tls_captures.path(name))
    found = rows_of(file)
    for key, row in found.items():
        if row.status != "orphan_response":
            for column in VALUES:
                assert getattr(row, column) in (None, getattr(full[key], column)), column
    if name == "tls12-clients" and length >= 200:
        assert len(found) > 30


@pytest.mark.usefixtures("all_findings")
def test_the_report_does_not_claim_what_it_cannot_know(file: Path) -> None:
    name = "tls13-clients"
    file.write_bytes(snapped(name, 200))
    report = kanalyze.report(file, keylog=tls_captures.keylog(name))
    assert report["totals"]["rows"] > 20
    assert report["totals"]["produced_records_known"] is False
    assert report["totals"]["fetched_records_known"] is False
    findings = {finding["name"]: finding for finding in report["findings"]}
    assert " connections (21 with TLS); " in findings["capture_snapped"]["what"]
    assert "Under TLS they are not counted" in findings["capture_snapped"]["why"]
    # The responses are in what was cut off.
    assert "unanswered" not in findings
    # As the whole capture has it.
    report = kanalyze.report(tls_captures.path(name), keylog=tls_captures.keylog(name))
    assert report["totals"]["produced_records_known"] is True


def test_records_are_not_known_to_be_all_where_a_connection_is_not_decrypted() -> None:
    file = tls_captures.path("tls12-clients")
    keys = file.with_suffix(".java.keys")
    report = kanalyze.report(file, keylog=keys)
    assert report["totals"]["rows"]
    assert report["totals"]["produced_records_known"] is False


@pytest.mark.parametrize("suite", [made.SUITE_12, made.SUITE_13])
def test_hellos_may_be_cut_anywhere(suite: int) -> None:
    client = handshake.read_client_hello(made.client_hello()[9:])
    server = handshake.read_server_hello(made.server_hello(suite)[9:])
    assert client is not None
    assert server is not None
    for end in range(len(made.client_hello()) - 9):
        cut = handshake.read_client_hello(made.client_hello()[9:][:end], is_cut=True)
        assert (cut is None) == (end < 34)
        if cut is not None:
            assert cut.random == client.random
            assert cut.versions in ((), client.versions)
            assert cut.server_name in (None, client.server_name)
            assert cut.alpn in ((), client.alpn)
    for end in range(len(made.server_hello(suite)) - 9):
        cut_server = handshake.read_server_hello(made.server_hello(suite)[9:][:end], is_cut=True)
        if cut_server is not None:
            assert (cut_server.version, cut_server.suite) == (server.version, server.suite)
