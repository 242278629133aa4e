"""TLS connections, watched without keys and with keys."""

from __future__ import annotations

import ssl
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.common.saved import load, make, save
from kanalyze.model.streams import Chunk, Gap, Segments, StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.model.tls import ENCRYPTED, SentAlert, TlsConnection
from kanalyze.tls.watcher import TlsWatcher
from tests.support import tls_captures
from tests.support import tls_made as made
from tests.support.captures import path
from tests.support.reference import batches_of
from tests.support.tls_talk import Sent, Setting, items_of, talk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.model.streams import StreamItem
    from kanalyze.spec.rows.connections import ConnectionRow

FEW = (
    *("tls13-clients", "tls12-mutual", "tls12-resumed", "tls13-expired", "tls13-no-certificate"),
    *("tls12-late", "tls12-lost", "tls13-lost", "tls-other-port"),
)
TURNS = ((0, b"ask" * 9), (1, b"answer" * 9), (0, b"more" * 99), (1, b"answer" * 4000))
MAX_BYTES = 1 << 24


def rows_of(name: str, **options: Any) -> list[ConnectionRow]:
    return list(kanalyze.connections(tls_captures.path(name), **options))


def connection(serial: int = 1, *, start_seen: bool = True) -> TcpConnection:
    ends = (Endpoint("10.0.0.1", 40_000), Endpoint("10.0.0.2", 9093))
    tcp = TcpConnection(serial, ends, 1, 0 if start_seen else None, 0, 0)
    tcp.start_seen = start_seen, start_seen
    return tcp


def updates_of(
    tcp: TcpConnection, items: Iterable[tuple[int, StreamItem]], *, closes: bool = True
) -> list[StreamUpdate]:
    found = []
    for side, item in items:
        both: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        both[side].append(item)
        found.append(StreamUpdate(tcp, both, closed=False))
    return [*found, StreamUpdate(tcp, ([], []), closed=True)] if closes else found


def watched(sent: Iterable[Sent], segment: int = 1448) -> TlsConnection:
    return watched_items(items_of(sent, segment))


def watched_items(items: Iterable[tuple[int, StreamItem]], **options: Any) -> TlsConnection:
    tcp = connection(**options)
    TlsWatcher(MAX_BYTES).feed(updates_of(tcp, items))
    return tcp.tls or TlsConnection()


# -- sessions of OpenSSL --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3"])
def test_the_negotiation_of_openssl_is_read(version: str) -> None:
    setting = Setting(ssl.TLSVersion[version], kind="rsa", alpn=("kafka", "x"))
    tls = watched(talk(setting, TURNS).wire)
    name = {"TLSv1": "TLS 1.0"}.get(version, version.replace("v", " ").replace("_", "."))
    assert (tls.version, tls.server_name, tls.client_index) == (name, "broker.example", 0)
    assert (tls.offered_versions, tls.offered_alpn) == ((name,), ("kafka", "x"))
    assert tls.is_complete
    assert tls.handshake_ns is not None
    assert tls.estimated_requests == 2
    if name == "TLS 1.3":
        assert (tls.mutual, tls.server_certificate, tls.alpn) == (None, None, None)
    else:
        assert tls.server_certificate is not None
        assert (tls.mutual, tls.alpn) == (False, "kafka")
        assert tls.server_certificate.subject == "CN=broker"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_and_bytes_are_those_on_the_wire(version: ssl.TLSVersion) -> None:
    conversation = talk(Setting(version), TURNS)
    tls = watched(conversation.wire)
    for side, stream in enumerate(conversation.streams):
        at = records = 0
        while at < len(stream):
            at += 5 + int.from_bytes(stream[at + 3 : at + 5])
            records += 1
        assert (tls.bytes[side], tls.records[side]) == (len(stream), records)


@pytest.mark.parametrize("segment", [1, 7, 1448])
def test_facts_do_not_depend_on_where_segments_end(segment: int) -> None:
    wire = talk(Setting(), TURNS).wire
    whole, cut = watched(wire), watched(wire, segment)
    for name in ("version", "suite", "server_name", "records", "bytes", "estimated_requests"):
        assert getattr(cut, name) == getattr(whole, name)


# -- captures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tls13-clients", "tls12-mutual", "tls12-resumed"])
def test_facts_are_those_that_tshark_reads_with_keys(name: str) -> None:
    rows = {f"{row.client_ip}:{row.client_port}": row for row in rows_of(name)}
    of_tshark = {each["client"]: each for each in tls_captures.connections(name)}
    assert rows.keys() == of_tshark.keys()
    for client, row in rows.items():
        expected = of_tshark[client]
        assert row.tls_version == f"TLS {expected['version']}"
        assert row.tls_cipher_suite == expected["suite"]
        assert row.tls_server_name == expected["server_name"]
        assert row.tls_resumed == expected["resumed"]
        if row.tls_mutual is not None:
            assert row.tls_mutual == expected["client_certificate"]
        if name == "tls12-resumed":
            continue  # tshark does not decrypt all of this capture
        seen = {alert.split()[0] for alert in row.tls_alerts}
        assert seen <= {alert["by"] for alert in expected["alerts"]}
        # An alert is not distinguished from data of the same size.
        assert len(seen) == len(expected["alerts"]) or row.end == "reset"


@pytest.mark.parametrize("name", tls_captures.FAILED)
def test_a_failure_is_attributed_to_the_end_that_sent_the_first_alert(name: str) -> None:
    of_tshark = {each["client"]: each["alerts"] for each in tls_captures.connections(name)}
    rows = rows_of(name)
    assert rows
    for row in rows:
        alerts = of_tshark.get(f"{row.client_ip}:{row.client_port}", [])
        assert row.tls_failure is not None
        if row.tls_failure in ("plaintext_on_tls_port", "tls_on_plaintext_port"):
            assert name == "tls-other-port"
            continue
        first = alerts[0]
        assert row.tls_failed_by == first["by"]
        named = first["description"].lower().replace(" ", "_")
        assert row.tls_failure in (named, ENCRYPTED)


@pytest.mark.parametrize("name", ["tls13-expired", "tls13-no-certificate", "tls13-unknown-ca"])
def test_with_keys_the_alerts_of_tls_1_3_have_names(name: str) -> None:
    rows = rows_of(name, keylog=tls_captures.keylog(name))
    assert ENCRYPTED not in {row.tls_failure for row in rows}
    assert None not in {row.tls_failure for row in rows}
    of_tshark = {each["client"]: each["alerts"] for each in tls_captures.connections(name)}
    for row in rows:
        first = of_tshark[f"{row.client_ip}:{row.client_port}"][0]
        assert row.tls_failure == first["description"].lower().replace(" ", "_")


@pytest.mark.parametrize("name", ["tls12-mutual", "tls13-mutual", "tls13-clients"])
def test_facts_with_keys_are_those_without_keys_and_more(name: str) -> None:
    plain, opened = rows_of(name), rows_of(name, keylog=tls_captures.keylog(name))
    for before, after in zip(plain, opened, strict=True):
        assert (before.tls_decrypted, after.tls_decrypted) == (False, True)
        assert after.protocol == "kafka"
        assert after.tls_mutual == (name != "tls13-clients")
        assert after.tls_certificate_subject == "CN=localhost"
        assert after.tls_failure is None
        for column in (
            *("tls_version", "tls_cipher_suite", "tls_offered_versions", "tls_resumed"),
            *("client_tls_records", "broker_tls_bytes", "estimated_requests"),
        ):
            assert getattr(before, column) == getattr(after, column)


@pytest.mark.parametrize("name", ["basics", "old-0-8-2-2"])
def test_plaintext_has_no_facts_of_tls(name: str) -> None:
    for row in kanalyze.connections(path(name)):
        about_tls = [n for n in row._fields if "tls_" in n or n.startswith("estimated_")]
        assert len(about_tls) == 27
        assert {repr(getattr(row, each)) for each in about_tls} == {"None", "[]"}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FEW)
def test_rows_do_not_depend_on_the_batches_of_packets(name: str) -> None:
    expected = sorted(rows_of(name))
    for most in (1, 3, 17):
        with batches_of(lambda most=most: most):
            assert sorted(rows_of(name)) == expected


# -- estimates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tls13-clients", "tls13-mutual", "tls12-clients", "tls12-long"])
def test_estimates_are_near_the_figures_of_decrypted_rows(name: str) -> None:
    """docs/tls.md has the differences for all captures."""
    rows = list(kanalyze.requests(tls_captures.path(name), keylog=tls_captures.keylog(name)))
    off = []
    for row in rows_of(name):
        took = sorted(
            each.latency_ns
            for each in rows
            if each.connection == row.connection and each.latency_ns is not None
        )
        assert row.estimated_requests is not None
        assert abs(row.estimated_requests - len(took)) <= 1
        if row.estimated_requests != len(took):
            continue
        median_ns = row.estimated_response_time_median_ns
        assert median_ns is not None
        off.append(abs(median_ns / took[(len(took) + 1) // 2 - 1] - 1))
    assert sorted(off)[len(off) * 3 // 4] < 0.04


# -- odd and hostile streams -----------------------------------------------------------------------


def chunk(data: bytes, offset: int = 0, packet: int = 1) -> Chunk:
    size = [len(data)]
    return Chunk(offset, Segments(memoryview(data), [0], size, size, [packet], [packet]), 0, 1)


def test_an_alert_in_answer_to_plaintext_is_a_client_without_tls() -> None:
    alert = bytes.fromhex("15030300020250")
    items = [(0, chunk(b"\0\0\0\x10\0\x12\0\3")), (1, chunk(alert, packet=2))]
    tls = watched_items(items)
    assert tls.is_clear_client
    assert tls.alerts == (SentAlert(1, "fatal", "internal_error"),)
    assert not watched_items(items, start_seen=False).is_clear_client


FINISHED = made.record(23, bytes(53))
HELLOS = [Sent(*part) for part in made.conversation(made.SUITE_13, []).parts[:5]]
HELLOS.append(Sent(0, FINISHED))
SMALL, LARGE = 60, 900


def data(side: int, size: int) -> Sent:
    return Sent(side, made.record(23, bytes(size)))


@pytest.mark.parametrize("alert_bytes", [19, 35])
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 1, 2, 40])
def test_records_of_the_client_after_an_alert_of_the_broker_leave_it_an_alert(
    after: int, before: int, alert_bytes: int
) -> None:
    """A client may send requests before it sees that the broker refuses it."""
    client = [data(0, SMALL)]
    tls = watched([*HELLOS, *client * before, data(1, alert_bytes), *client * after])
    assert tls.alerts == (SentAlert(1, None, ENCRYPTED),)
    assert tls.estimated_requests == 0


@pytest.mark.parametrize("size", [19, 35])
@pytest.mark.parametrize("between", [1, 2, 40])
def test_records_of_the_size_of_alerts_are_data_if_their_sender_sends_more(
    between: int, size: int
) -> None:
    turn = [*[data(0, SMALL)] * between, data(1, size)]
    tls = watched([*HELLOS, *turn * 5, data(0, SMALL), *[data(1, LARGE)] * between])
    assert tls.alerts == ()
    assert tls.is_complete
    assert tls.estimated_requests == 6
    # And the other way round.
    turn = [data(0, size), *[data(1, LARGE)] * between]
    tls = watched([*HELLOS, data(0, SMALL), data(1, LARGE), *turn * 5, data(0, SMALL)])
    assert (tls.alerts, tls.estimated_requests) == ((), 6)


def test_a_missing_packet_loses_only_its_records() -> None:
    wire = talk(Setting(), [(0, b"a" * 500), (1, b"b" * 500)] * 20).wire
    whole = watched(wire)
    items = items_of(wire)
    lost = len(items) // 2
    side, gone = items[lost]
    assert isinstance(gone, Chunk)
    length = sum(gone.segments.length)
    items[lost] = (side, Gap(gone.stream_offset, length, gone.segments.time_ns[0], lost))
    tls = watched_items(items)
    assert whole.records[side] - tls.records[side] == 1
    assert tls.records[1 - side] == whole.records[1 - side]
    assert tls.version == whole.version


def test_memory_is_bounded_over_all_connections() -> None:
    wire = talk(Setting(ssl.TLSVersion.TLSv1_2), TURNS).wire
    watcher, most = TlsWatcher(1 << 16), 0
    for serial in range(200):
        watcher.feed(updates_of(connection(serial), items_of(wire)[:2], closes=False))
        most = max(most, watcher.buffered_bytes)
    assert 1 << 15 < most <= 1 << 16
    beyond = connection(999)
    watcher.feed(updates_of(beyond, items_of(wire)))
    assert beyond.tls is None


def test_closed_connections_leave_no_state() -> None:
    watcher = TlsWatcher(MAX_BYTES)
    for serial in range(3):
        watcher.feed(updates_of(connection(serial), items_of(talk(Setting(), TURNS).wire)))
    clear = connection(9)
    watcher.feed(updates_of(clear, [(0, chunk(b"\0\0\0\x10\0\x12\0\3"))]))
    assert watcher.buffered_bytes == 0
    assert save(watcher) == ((), (), ())


@pytest.mark.parametrize("seed", range(20))
def test_changed_bytes_raise_nothing(seed: int) -> None:
    dice = Random(seed)
    wire = talk(Setting(ssl.TLSVersion.TLSv1_2), TURNS).wire
    spoilt = []
    for sent in wire:
        data = bytearray(sent.data)
        for _ in range(dice.randrange(4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        spoilt.append(sent._replace(data=bytes(data)))
    tls = watched(spoilt)
    assert save(make(TlsConnection, save(tls))) == save(tls)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_watcher_continues_from_a_saved_state(version: ssl.TLSVersion) -> None:
    items = items_of(talk(Setting(version, kind="rsa"), TURNS * 4).wire)
    whole = connection()
    TlsWatcher(MAX_BYTES).feed(updates_of(whole, items))
    assert whole.tls is not None
    for cut in range(len(items)):
        tcp = connection()
        first, second = TlsWatcher(MAX_BYTES), TlsWatcher(MAX_BYTES)
        first.feed(updates_of(tcp, items[:cut], closes=False))
        later = make(TcpConnection, save(tcp))
        load(second, save(first), {later.serial: later})
        second.feed(updates_of(later, items[cut:]))
        if cut > 6:  # the handshake was over
            assert later.tls is not None
            assert save(later.tls) == save(whole.tls)


@pytest.mark.parametrize("state", [(), ((), (), (1, "x")), (((5, ()),), (), ()), ((), ((1,),), ())])
def test_a_wrong_state_is_refused(state: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        load(TlsWatcher(MAX_BYTES), state, {})
