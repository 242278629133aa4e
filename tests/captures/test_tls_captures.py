"""The TLS captures agree with their truth files; no analyzer, no broker and no tshark is needed."""

import re
from collections import Counter
from typing import Any

import pytest

from tests.support import tls_captures
from tests.support.cases import for_each
from tests.support.tls_captures import (
    FAILED,
    FOLDER,
    LATE,
    LOST,
    READABLE,
    RECORDED,
    STAND_INS,
    WITH_SECRETS,
)
from tools.record.lab.provenance import page

LIMIT_BYTES = 3_100_000
SIZE_PREFIX = 4
LABELS = (
    r"(?:CLIENT|SERVER)_HANDSHAKE_TRAFFIC_SECRET|(?:CLIENT|SERVER)_TRAFFIC_SECRET_0"
    "|EXPORTER_SECRET|CLIENT_RANDOM|CLIENT_EARLY_TRAFFIC_SECRET|EARLY_EXPORTER_SECRET"
)
KEYLOG_LINE = re.compile(
    rf"(?:{LABELS}) [0-9A-F]{{64}} [0-9A-F]{{64,96}}"
    r"|RSA SESSION-ID:[0-9A-F]{64} MASTER-KEY:[0-9A-F]{96}|#.*"
)
# ApiVersions, SaslHandshake and SaslAuthenticate of a login: the broker does not log them.
LOGIN_API_KEYS = {18, 17, 36}
SUITES = {
    "tls13-aes128gcm": "TLS_AES_128_GCM_SHA256",
    "tls13-aes256gcm": "TLS_AES_256_GCM_SHA384",
    "tls13-chacha20": "TLS_CHACHA20_POLY1305_SHA256",
    "tls12-aes128gcm": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "tls12-aes256gcm": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "tls12-chacha20": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "tls12-aes256cbc-sha1": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "tls12-aes128cbc-sha256": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "tls12-aes256cbc-sha384": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
}
# tshark reads none of the sessions that Go resumed.
HALF_READ = "tls12-resumed"


def requests_in_log(name: str) -> Counter[tuple[str, int, int, int]]:
    """Requests of the broker's log."""
    headers = ((one["client"], one["requestHeader"]) for one in tls_captures.request_log(name))
    return Counter(
        (client, header["correlationId"], header["requestApiKey"], header["requestApiVersion"])
        for client, header in headers
    )


def requests_in_tshark(name: str) -> Counter[tuple[str, int, int, int]]:
    """Requests that tshark read."""
    return Counter(one[:4] for one in tls_captures.read_by_tshark(name))


def values_of(name: str, attribute: str) -> set[Any]:
    """All values of an attribute of the connections of a capture."""
    return {one[attribute] for one in tls_captures.connections(name)}


def alerts(name: str) -> set[tuple[str, str]]:
    """Fatal alerts by who sent them."""
    return {
        (alert["by"], alert["description"])
        for one in tls_captures.connections(name)
        for alert in one["alerts"]
        if alert["level"] == "Fatal"
    }


def test_the_folder_is_small_and_every_capture_has_its_truth() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < LIMIT_BYTES
    found = {file.name for file in FOLDER.iterdir() if file.suffix in {".pcap", ".pcapng"}}
    names = [*RECORDED, *WITH_SECRETS, *LATE, *LOST, *STAND_INS]
    assert found == {tls_captures.truth(name)["capture"] for name in names}


def test_no_private_key_is_kept() -> None:
    for file in FOLDER.iterdir():
        assert b"PRIVATE KEY" not in file.read_bytes(), file.name


def test_every_line_of_a_key_log_is_a_secret_or_a_comment() -> None:
    for file in FOLDER.glob("*.keys"):
        for line in file.read_text().splitlines():
            assert KEYLOG_LINE.fullmatch(line.upper()), (file.name, line[:40])


def test_provenance_is_written_from_the_truth_files() -> None:
    assert page(FOLDER) == (FOLDER / "PROVENANCE.md").read_text()


@pytest.mark.parametrize("name", [*READABLE, *WITH_SECRETS])
def test_tshark_reads_the_requests_that_the_broker_logged(name: str) -> None:
    found, expected = requests_in_tshark(name), requests_in_log(name)
    assert expected
    if "SASL_SSL" in tls_captures.truth(name)["ports"]:
        assert found >= expected
        assert {key for _, _, key, _ in found - expected} <= LOGIN_API_KEYS
    elif name == HALF_READ:
        assert found <= expected
        resumed = {one["client"] for one in tls_captures.connections(name) if one["resumed"]}
        assert {client for client, *_ in expected - found} <= resumed
    else:
        assert found == expected


@pytest.mark.parametrize("name", [name for name in READABLE if name != HALF_READ])
def test_tshark_reads_the_bytes_that_the_broker_counted(name: str) -> None:
    [counted] = tls_captures.truth(name)["broker_listeners"].values()
    requests = tls_captures.read_by_tshark(name)
    if "SASL_SSL" in tls_captures.truth(name)["ports"]:
        requests = [one for one in requests if one[:4] in requests_in_log(name)]
    sizes = [one.response_bytes for one in requests if one.response_bytes is not None]
    assert sum(one.request_bytes + SIZE_PREFIX for one in requests) == counted["request_bytes"]
    assert sum(size + SIZE_PREFIX for size in sizes) == counted["response_bytes"]
    assert len(sizes) == counted["responses"]


@for_each("name", STAND_INS)
def test_tshark_reads_the_requests_that_openssl_was_given(name: str) -> None:
    requests_per_connection = tls_captures.truth(name)["requests_of_a_connection"]
    clients = [one["client"] for one in tls_captures.connections(name)]
    expected = [
        (client, number, 18, 0)
        for client in clients
        for number in range(1, requests_per_connection + 1)
    ]
    assert requests_in_tshark(name) == Counter(expected)


@for_each("name", RECORDED)
def test_connections_are_those_that_the_broker_accepted(name: str) -> None:
    listeners = tls_captures.truth(name)["broker_listeners"].values()
    accepted = sum(table["connections"] for table in listeners)
    assert len(tls_captures.connections(name)) == accepted


@for_each("name", READABLE)
def test_all_records_that_clients_sent_were_produced(name: str) -> None:
    truth = tls_captures.truth(name)
    produced = {topic: sum(parts.values()) for topic, parts in truth["produced_records"].items()}
    assert produced == truth["client_sent"]
    assert all("errors" not in client for client in truth["clients"])


@for_each("name", SUITES)
def test_the_capture_of_a_cipher_suite_uses_that_suite(name: str) -> None:
    assert values_of(name, "suite") == {SUITES[name]}
    assert values_of(name, "version") == {"1." + name[4]}


def test_captures_have_the_features_they_were_recorded_for() -> None:
    for version in ("12", "13"):
        assert values_of(f"tls{version}-resumed", "resumed") == {True, False}
        assert values_of(f"tls{version}-mutual", "client_certificate") == {True}
    assert max(values_of("tls13-key-update", "key_updates")) > 1
    assert (
        values_of("tls12-ticket", "resumed")
        == values_of("tls13-early-data", "resumed")
        == {True, False}
    )
    assert values_of("tls-ecdsa", "version") == {"1.2", "1.3"}
    assert "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" in values_of("tls-ecdsa", "suite")
    assert values_of("tls10-and-11", "version") == {"1.0", "1.1"}
    for digest in ("sha1", "sha256", "sha384"):
        assert values_of(f"tls12-etm-{digest}", "encrypt_then_mac") == {True, False}


def test_handshakes_fail_as_they_should() -> None:
    found = {name: alerts(name) for name in FAILED}
    for version in ("12", "13"):
        assert ("client", "Unknown CA") in found[f"tls{version}-unknown-ca"]
        assert ("client", "Certificate Expired") in found[f"tls{version}-expired"]
        assert found[f"tls{version}-no-certificate"]
        assert {by for by, _ in found[f"tls{version}-no-certificate"]} == {"broker"}
    assert found["tls-wrong-version"] == {("broker", "Protocol Version")}
    assert found["tls-no-suite"] == {("broker", "Handshake Failure")}


@pytest.mark.parametrize("name", [*LATE, *LOST])
def test_a_cut_capture_has_fewer_packets_than_its_source(name: str) -> None:
    truth, whole = tls_captures.truth(name), tls_captures.truth(tls_captures.source(name))
    assert truth["packets"] == whole["packets"] - len(truth["left_out"])
    assert truth["left_out"]
    assert len(requests_in_tshark(name)) < len(requests_in_log(name))
