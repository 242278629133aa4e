"""Rare and old variants of TLS, between two real ends of OpenSSL."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.runtime.pipeline import Analysis
from tests.support import tls_captures
from tests.support.tls_talk import log_with

if TYPE_CHECKING:
    from kanalyze.tls.keylog import KeyLog

OLD = "tls10-and-11"
READ = [name for name in tls_captures.STAND_INS if name != OLD]
EARLY_LABEL = b"CLIENT_EARLY_TRAFFIC_SECRET"


def connections(name: str):
    return list(kanalyze.connections(tls_captures.path(name), keylog=tls_captures.keylog(name)))


def requests(name: str, log: KeyLog):
    analysis = Analysis([str(tls_captures.path(name))], keylog=log)
    return [row for rows in analysis.row_batches() for row in rows]


def log_of(name: str, *, without: bytes | None = None) -> KeyLog:
    lines = tls_captures.keylog(name).read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if without is None or not line.startswith(without)]
    return log_with(b"".join(kept))


def key_of(row) -> tuple[object, ...]:
    client = f"{row.client_ip}:{row.client_port}"
    return (client, row.correlation_id, row.api_key, row.api_version)


@pytest.mark.parametrize("name", READ)
def test_requests_are_those_that_tshark_decrypts(name):
    rows = requests(name, log_of(name))
    sizes = [(*key_of(row), row.request_bytes - 4, row.response_bytes - 4) for row in rows]
    expected = [tuple(each) for each in tls_captures.read_by_tshark(name)]
    assert Counter(sizes) == Counter(expected)
    assert {row.status for row in rows} == {"ok"}


@pytest.mark.parametrize("name", tls_captures.STAND_INS)
def test_handshakes_are_those_that_tshark_reads(name):
    expected = {one["client"]: one for one in tls_captures.connections(name)}
    rows = connections(name)
    assert len(rows) == len(expected)
    for row in rows:
        one = expected[f"{row.client_ip}:{row.client_port}"]
        assert row.tls_version == f"TLS {one['version']}"
        assert row.tls_cipher_suite == one["suite"]
        assert row.tls_resumed == one["resumed"]
        assert row.tls_failure is None
        assert row.tls_decrypted is (name != OLD)


def test_the_certificate_of_an_elliptic_curve_is_read():
    subjects = {row.tls_version: row.tls_certificate_subject for row in connections("tls-ecdsa")}
    assert subjects["TLS 1.2"] == "CN=localhost"


def test_without_its_secret_only_early_data_is_missing():
    name = "tls13-early-data"
    whole = Counter(map(key_of, requests(name, log_of(name))))
    rows = requests(name, log_of(name, without=EARLY_LABEL))
    kept = Counter(key_of(row) for row in rows if row.api_key is not None)
    assert kept < whole
    assert {number for _, number, *_ in whole - kept} == {1}
    assert (whole - kept).total() == 1


@pytest.mark.usefixtures("all_findings")
def test_old_versions_are_named_and_not_decrypted():
    assert requests(OLD, log_of(OLD)) == []
    report = kanalyze.report(tls_captures.path(OLD), keylog=tls_captures.keylog(OLD))
    kinds = {finding["name"] for finding in report["findings"]}
    assert {"tls_weak", "capture_encrypted"} <= kinds
