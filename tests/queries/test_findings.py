"""Each kind of finding: rows in which it is found, and rows just below its thresholds."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import kanalyze
from kanalyze.errors import UsageError
from kanalyze.queries.files import Query, built_in
from kanalyze.queries.findings import findings_of, kind_of_finding, unfiltered_only
from kanalyze.spec.rows.cluster import GroupEvent
from kanalyze.spec.rows.connections import ConnectionRow
from kanalyze.spec.rows.requests import Row
from tests.support import rows as made
from tests.support.captures import ROOT, TROUBLED, WHOLE, often, path, truth
from tests.support.filled import filled
from tests.support.findings import all_findings_in, findings_in, kinds_of
from tools import sample_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.queries.database import Database
    from kanalyze.queries.finding import Finding
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row

S = 1_000_000_000
MS = 1_000_000
START_NS = 1_790_000_000 * S

EXPECTED = {
    "errors": {"too_large", "offset_out_of_range", "unknown_topic"},
    "sasl": {"login_failures", "not_authorized"},
    "snaplen": {"capture_snapped"},
    "tls": {"capture_encrypted", "wrong_protocol"},
    "fault-mutation-quota": {"over_quota", "throttled"},
    **{f"old-{release}": {"refused_by_kafka_4"} for release in ("0-8-2-2", "0-9-0-1", "0-10-2-2")},
}
"""Findings in our captures, if they are not just the fault that a capture was recorded for."""


EVERY_KIND = ("basics", "errors", "groups", "sasl", "snaplen", "tls")
"""Captures in which all kinds of findings are searched by default."""


class Made(NamedTuple):
    """The rows of each table, in which a fault is found."""

    requests: Sequence[Row] = ()
    connections: Sequence[ConnectionRow] = ()
    anomalies: Sequence[AnomalyRow] = ()
    groups: Sequence[Any] = ()
    metadata: Sequence[Any] = ()
    capture_quality: Sequence[Any] = ()


def findings(*rows: Sequence[Any], only: Sequence[str] = (), **thresholds: float) -> list[Finding]:
    """Return the findings in rows of each table, the worst first; of some kinds, or of all."""
    with tables_of(*rows) as database:
        return findings_of(database, kinds_of(*only), thresholds)


@contextmanager
def tables_of(*rows: Sequence[Any]) -> Iterator[Database]:
    with filled(Made(*rows)._asdict()) as database:
        yield database


@cache
def a_connection() -> ConnectionRow:
    return next(iter(kanalyze.connections(path("basics"))))


def connection(**changes: Any) -> ConnectionRow:
    """A connection without a fault."""
    sound = {"start_ns": START_NS, "end_ns": START_NS + 20 * S, "end": "fin", "protocol": "kafka"}
    made_of = {**sound, **changes}
    return a_connection()._replace(**{"closed_ns": made_of["end_ns"], **made_of})


def request(at_ns: int = 0, latency_ns: int | None = MS, **changes: Any) -> Row:
    """A request that begins ``at_ns`` after the start, and takes ``latency_ns``."""
    begin_ns = START_NS + at_ns
    end_ns = None if latency_ns is None else begin_ns + latency_ns
    own = a_connection()
    times = {
        "connection": own.connection,
        "connection_number": own.connection_number,
        "request_start_ns": begin_ns,
        "request_end_ns": begin_ns,
        "response_start_ns": end_ns,
        "response_end_ns": end_ns,
        "latency_ns": latency_ns,
        "total_time_ns": latency_ns,
    }
    return made.row(**{**times, **changes})


def spread(count: int, over_s: float, **changes: Any) -> list[Row]:
    return [request(int(number * over_s * S / (count - 1)), **changes) for number in range(count)]


def failed(at_ns: int, code: int, name: str, topic: str | None = "orders", **changes: Any) -> Row:
    error = kanalyze_error(topic, code, name)
    return request(
        at_ns, status="error", error_code=code, error_name=name, errors=[error], **changes
    )


def kanalyze_error(topic: str | None, code: int, name: str) -> Any:
    return made.failed(topic, code, name).errors[0]


def names(found: Sequence[Finding]) -> set[str]:
    return {finding.name for finding in found}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(WHOLE, EVERY_KIND))
def test_all_kinds_of_findings_in_a_capture_are_the_expected_ones(name: str) -> None:
    assert_expected_findings(name, all_findings_in(name))


@pytest.mark.few(16)
@pytest.mark.parametrize("name", WHOLE)
def test_usual_kinds_of_findings_in_a_capture_are_the_expected_ones(name: str) -> None:
    assert_expected_findings(name, findings_in(name))


def assert_expected_findings(name: str, found: Sequence[Finding]) -> None:
    fault = truth(name).get("fault")
    assert names(found) == EXPECTED.get(name, {fault} - {None})
    assert fault is None or found[0].name == fault


@pytest.mark.parametrize(
    "find", [findings_in, pytest.param(all_findings_in, marks=pytest.mark.long)]
)
def test_the_page_of_findings_is_up_to_date(
    find: Callable[[str], list[Finding]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sample_reports, "findings_in", lambda capture, _: find(name_of(Path(capture).name))
    )
    written = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert written == sample_reports.findings_page(), (
        "python -m tools.sample_reports, then tools.docs; read the diff"
    )


def name_of(capture: str) -> str:
    return next(name for name in (*WHOLE, *TROUBLED) if path(name).name == capture)


def test_every_kind_has_a_severity_a_cause_and_a_repair() -> None:
    for query in built_in("findings").values():
        kind = kind_of_finding(query)
        assert 0 <= kind.severity <= 100
        assert kind.why.endswith(".")
        assert kind.repair.endswith(".")
        assert kind.sure.split(":")[0] in ("certain", "likely")


FAULTS: dict[str, tuple[Callable[[], tuple[list[Row], list[ConnectionRow]]], str]] = {}
"""By kind: a function that makes rows with the fault, and the beginning of the finding's text."""


def fault(kind: str, words: str) -> Callable[[Any], Any]:
    def keep(make: Any) -> Any:
        FAULTS[kind] = (make, words)
        return make

    return keep


@fault(
    "refused_by_kafka_4",
    "2 requests of versions that Kafka 4.0 does not accept: Fetch v3, Produce v2; records in",
)
def old_versions() -> Any:
    old = [
        request(api_key=0, api_name="Produce", api_version=2),
        request(api_key=1, api_name="Fetch", api_version=3),
        request(api_key=1, api_name="Fetch", api_version=4),
        # A controller sends this to its brokers.
        request(api_key=6, api_name="UpdateMetadata", api_version=7),
    ]
    return old, []


@fault(
    "refused_versions",
    "2 requests refused: JoinGroup v9, Produce v2; 1 answered UNSUPPORTED_VERSION; 1 time the ",
)
def refused_versions() -> Any:
    cut = {"latency_ns": None, "status": "unanswered"}
    rejected = [
        request(api_key=18, api_name="ApiVersions", api_version=4, status="error", error_code=35),
        request(api_key=11, api_name="JoinGroup", api_version=9, status="error", error_code=35),
        request(api_key=0, api_name="Produce", api_version=2, **cut),
    ]
    return rejected, [connection(closed_by="broker")]


@fault(
    "throttled",
    "2 of 5 responses throttled, 500 ms in all, 400 ms at most; 1 request sent before the thro",
)
def throttled() -> Any:
    # The client has to wait 100 ms from 101 ms on, and does; from 303 ms on it has to wait 400 ms.
    times_ms = ((0, 0), (100, 100), (302, 400), (700, 0), (1200, 0))
    return [request(at * MS, throttle_time_ms=wait_ms) for at, wait_ms in times_ms], []


@fault(
    "metadata_storm",
    "7 Metadata requests in 30.0 s on 1 connection, 7 answered with an error (UNKNOWN_TOPIC_OR_PAR",
)
def metadata_storm() -> Any:
    metadata = {"api_name": "Metadata", "api_key": 3}
    return [failed(n * 5 * S, 3, "UNKNOWN_TOPIC_OR_PARTITION", **metadata) for n in range(7)], []


@fault("unanswered", "1 without an answer within 20.0 s; then the client closed the connection")
def unanswered() -> Any:
    waiting = request(latency_ns=None, status="unanswered")
    return [waiting], [connection(closed_by="client", client_lost_bytes=0, broker_lost_bytes=0)]


@fault("idle_cut", "1 connection closed by the other end after 540.0 s without packets")
def idle_cut() -> Any:
    return [request(latency_ns=0)], [connection(end_ns=START_NS + 540 * S, closed_by="broker")]


@fault(
    "connection_storm",
    "30 short connections to 1 broker in 29.0 s, half of them within 20 ms, 1.0 requests on each",
)
def connection_storm() -> Any:
    short = {"requests": 1, "duration_ns": 20 * MS, "closed_by": "client"}
    many = [
        connection(start_ns=START_NS + n * S, connection_number=n + 1, **short) for n in range(30)
    ]
    long_lived = connection(connection_number=99, duration_ns=60 * S)
    return [], [long_lived, *many]


def event(kind: str, at_s: float, member: str, round_: int | None, **changes: Any) -> Any:
    """An event of a classic group; member ``m`` belongs to client ``client-m``."""
    api_name = {"join": "JoinGroup", "sync": "SyncGroup", "leave": "LeaveGroup"}[kind]
    at_ns = int(at_s * S)
    own_request = request(
        at_ns, api_name=api_name, client_id=f"client-{member}", request_packet=at_ns
    )
    group_event = GroupEvent(kind, "g", member, generation_id=round_, subscribed_topics=("orders",))
    values = {**own_request._asdict(), **group_event._replace(**changes)._asdict()}
    return SimpleNamespace(request_id=1, **values)


def joined(at_s: float, round_: int, *members: str, **changes: Any) -> list[Any]:
    """A round of these members, which takes half a second."""
    joins = [event("join", at_s, member, round_, **changes) for member in members]
    return [*joins, *(event("sync", at_s + 0.499, member, round_) for member in members)]


@fault(
    "rebalances",
    "5 rounds after the first in 50.5 s: 1 as members joined (client-b); "
    "1 as members left (client-b); 1 as members subscribed to other topics (client-a); "
    "1 as members were lost without leaving (client-c); 1 with the same members and topics, so "
    "new partitions, or a member that joined again; the longest took 0.5 s; clients say: polled",
)
def rebalances() -> Any:
    more = {"subscribed_topics": ("orders", "returns")}
    lines = [
        *joined(0, 1, "a", "c"),
        *joined(10, 2, "a", "b", "c"),
        event("leave", 19, "b", None, reason="the consumer is being closed"),
        *joined(20, 3, "a", "c"),
        *joined(30, 4, "a"),
        *joined(40, 5, "a", reason="polled too late"),
        *joined(50, 6, "a", **more),
        event("leave", 60, "a", None),
    ]
    return [], [], [], lines


@fault(
    "fetch_sessions_evicted",
    "3 sessions not found, on 1 of the 2 connections that fetch from it, of 1 client id such as",
)
def fetch_sessions_evicted() -> Any:
    fetch = {"api_name": "Fetch", "api_key": 1}
    lost = [failed(n * S, 70, "FETCH_SESSION_ID_NOT_FOUND", None, **fetch) for n in (0, 1, 2)]
    return [*lost, request(connection_number=2, **fetch)], []


@fault(
    "tiny_batches", "201 produce requests, 101 per s, of 100 B and 1.0 records for each partition"
)
def tiny_batches() -> Any:
    part = made.partition(record_bytes=100, record_count=1, codec="none")
    return spread(201, 2, api_name="Produce", api_key=0, partitions=[part]), []


@fault("stale_leader", "2 answers NOT_LEADER_OR_FOLLOWER over 30.0 s, 1 partition;")
def stale_leader() -> Any:
    return [failed(n * S, 6, "NOT_LEADER_OR_FOLLOWER") for n in (0, 30)], []


REFUSALS = {
    "too_large": (10, "MESSAGE_TOO_LARGE"),
    "not_authorized": (29, "TOPIC_AUTHORIZATION_FAILED"),
    "not_enough_replicas": (19, "NOT_ENOUGH_REPLICAS"),
    "disk_failed": (56, "KAFKA_STORAGE_ERROR"),
    "over_quota": (89, "THROTTLING_QUOTA_EXCEEDED"),
    "refused_work": (87, "INVALID_RECORD"),
    "login_failures": (58, "SASL_AUTHENTICATION_FAILED"),
}


def refusals(kind: str) -> Any:
    """Two refused requests in a burst, one ten seconds later, and one that was accepted."""
    times = (0, 9 * S, 19 * S)
    return [failed(at_ns, *REFUSALS[kind], principal="bob") for at_ns in times] + [request(S)], []


for _kind in REFUSALS:
    _user = " to user bob" if _kind in ("not_authorized", "login_failures") else ""
    _words = f"3 of 4 Produce requests refused{_user}, over 19.0 s in 2 bursts"
    fault(_kind, _words)(partial(refusals, _kind))


def with_tls(count: int, **changes: Any) -> list[ConnectionRow]:
    """Connections with TLS, one a second."""
    return [
        connection(
            **{"protocol": "tls", "tls_decrypted": False, "start_ns": START_NS + n * S, **changes}
        )._replace(connection_number=n + 1)
        for n in range(count)
    ]


@fault("wrong_protocol", "2 connections in 1.0 s that begin with plaintext on a port of TLS")
def wrong_protocol() -> Any:
    return [], [*with_tls(2, tls_failure="plaintext_on_tls_port"), *with_tls(1)]


@fault("wrong_protocol", "2 connections in 1.0 s that begin with TLS on a port without it")
def tls_on_a_plaintext_port() -> Any:
    other = with_tls(3, tls_version="TLS 1.3", broker_port=9_191)
    return [], [*with_tls(2, tls_failure="tls_on_plaintext_port"), *other]


@fault(
    "tls_failed",
    "2 TLS connections in 1.0 s fail: the broker closes before the handshake is over",
)
def closed_after_the_hello_where_others_speak_tls() -> Any:
    closed = {"tls_failure": "tls_on_plaintext_port", "tls_failed_by": "broker"}
    return [], [*with_tls(2, **closed), *with_tls(3, tls_version="TLS 1.3")]


@fault("tls_failed", "2 TLS connections in 1.0 s fail: the client sends the alert unknown_ca")
def tls_failed() -> Any:
    refused = {"tls_failure": "unknown_ca", "tls_failed_by": "client"}
    return [], [*with_tls(2, **refused), *with_tls(1, tls_failure="plaintext_on_tls_port")]


@fault(
    "tls_certificate_expires",
    "the broker's certificate CN=a (signed by CN=b) expires in 12.5 days; 1 connection",
)
def tls_certificate_expires() -> Any:
    until_ns = START_NS + 25 * 43_200 * S
    certificate = {"tls_certificate_subject": "CN=a", "tls_certificate_issuer": "CN=b"}
    return [], with_tls(1, tls_certificate_not_after_ns=until_ns, **certificate)


@fault(
    "tls_weak",
    "2 connections of 1 client: TLS 1.0, TLS_RSA_WITH_3DES_EDE_CBC_SHA "
    "(old version, no forward secrecy, CBC, 3DES)",
)
def tls_weak() -> Any:
    weak = {"tls_version": "TLS 1.0", "tls_cipher_suite": "TLS_RSA_WITH_3DES_EDE_CBC_SHA"}
    sound = {"tls_version": "TLS 1.3", "tls_cipher_suite": "TLS_AES_128_GCM_SHA256"}
    better = {"tls_version": "TLS 1.2", "tls_cipher_suite": "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"}
    return [], [*with_tls(2, **weak), *with_tls(2, **sound), *with_tls(2, **better)]


@fault(
    "hot_partition", "partition 5 has 91 % of the bytes of 6 partitions: 50000 B, 50 records, of 1"
)
def hot_partition() -> Any:
    parts = [made.partition("orders", n, record_bytes=1_000) for n in range(5)]
    hot = made.partition("orders", 5, record_bytes=50_000, record_count=50)
    return [request(partitions=[*parts, hot])], []


@fault("hot_client", "96 % of the bytes of 6 clients that produce: 120000 B")
def hot_client() -> Any:
    sizes = [("hot", 60_000), *((f"cool-{n}", 1_000) for n in range(5))]
    rows = [request(client_id=name, request_bytes=size, response_bytes=0) for name, size in sizes]
    return [*rows, request(S, client_id="hot", request_bytes=60_000, response_bytes=0)], []


@fault("slow_network", "20 of 21 requests took 12.0 ms on average, of which round trips 8.0 ms; 1")
def slow_network() -> Any:
    far = {"total_time_ns": 11 * MS, "broker_network_ns": 7 * MS, "client_network_ns": MS}
    rows = spread(20, 10, latency_ns=11 * MS, **far)
    resent = rows[0]._replace(broker_network_ns=2 * MS, retransmitted_packets=1, zero_windows=1)
    waits = {"retransmission_wait_ns": 2 * MS, "response_send_ns": 1 * MS}
    rows[0] = resent._replace(**waits)
    rows[1] = rows[1]._replace(broker_network_ns=12 * MS)  # still 8 ms on average
    near = rows[2]._replace(broker_network_ns=0, client_network_ns=0)
    return [*rows, near], []


@fault(
    "slow_broker",
    "100 of 100 requests took more than 10.0 ms, within which 99 % are answered by other brokers; "
    "its own 99 % within 30.0 ms",
)
def slow_broker() -> Any:
    return [
        row
        for ip, time_ms in (("10.0.0.1", 10), ("10.0.0.2", 30))
        for row in spread(100, 10, broker_time_ns=time_ms * MS, pipeline_wait_ns=0, broker_ip=ip)
    ], []


@fault("growing_lag", "1000 records behind in 1 partition, 1000 more than 1.0 s before")
def growing_lag() -> Any:
    def fetched(at_ns: int, offset: int, high_watermark: int) -> Row:
        part = made.partition(
            base_offset=offset, record_count=10, record_bytes=90, high_watermark=high_watermark
        )
        return request(at_ns, api_name="Fetch", api_key=1, partitions=[part])

    return [fetched(0, 0, 10), fetched(S, 10, 1020)], []


@pytest.mark.parametrize("api", ["OffsetCommit", "TxnOffsetCommit"])
def test_lag_is_told_from_the_last_commit_too(api: str) -> None:
    def committed(at_ns: int, offset: int, error_code: int | None) -> Row:
        part = made.partition(base_offset=offset, error_code=error_code)
        return request(at_ns, api_name=api, group_id="g", partitions=[part])

    rows, _ = growing_lag()
    commits = [committed(0, 10, 0), committed(1, 20, 0), committed(2, 99, 27)]
    commits += [committed(3, 99, None), committed(4, -1, 0)]
    (found,) = findings([*rows, *commits], only=["growing_lag"])
    assert found.what.endswith("; 1000 behind what group g committed")


@pytest.mark.few(14)
@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_a_fault_is_found_and_described_with_its_figures(kind: str) -> None:
    make, words = FAULTS[kind]
    found = findings(*make(), only=[kind])
    assert [finding.what[: len(words)] for finding in found] == [words]


COUNTED_WRONGLY = re.compile(
    r"(?<![\d.,])1 (TLS )?"
    r"(requests|responses|answers|connections|clients|partitions|packets|gaps|attempts|SYNs|times)"
)


def test_texts_use_the_singular_for_one() -> None:
    """The pages have the texts of every kind, as found in captures."""
    pages = [ROOT / "docs" / "findings.md", *(ROOT / "docs" / "findings").glob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    texts += [
        found.what for kind, (make, _) in FAULTS.items() for found in findings(*make(), only=[kind])
    ]
    assert [found[0] for text in texts for found in COUNTED_WRONGLY.finditer(text)] == []


def almost(kind: str) -> tuple[Any, ...]:
    """The rows of a fault, changed just enough that it is no fault."""
    rows, connections, *_ = FAULTS[kind][0]()
    if kind == "unanswered":
        return rows, [row._replace(broker_lost_bytes=1) for row in connections]
    if kind == "idle_cut":
        return rows, [row._replace(closed_ns=START_NS + 500 * S) for row in connections]
    if kind == "slow_network":
        return [rows[0]._replace(retransmission_wait_ns=0), *rows[1:]], connections
    return rows[:-1], connections[:-1]


LIMITS = {
    "refused_by_kafka_4": {"least_requests": (2, 3)},
    "refused_versions": {"least_requests": (2, 3)},
    "throttled": {"least_throttle_ms": (400, 401)},
    "metadata_storm": {"longest_between_s": (5, 4.99), "least_span_s": (30, 30.01)},
    "connection_storm": {
        "least_per_s": (1.03, 1.04),
        "least_connections": (30, 31),
        "longest_s": (0.02, 0.019),
    },
    "rebalances": {"least_rounds": (5, 6)},
    "fetch_sessions_evicted": {"least_answers": (3, 4), "least_per_s": (1.49, 1.51)},
    "tiny_batches": {"largest_bytes": (100, 99), "least_per_s": (100.5, 100.6)},
    "wrong_protocol": {"least_connections": (2, 3)},
    "tls_failed": {"least_connections": (2, 3)},
    "tls_weak": {"least_connections": (2, 3)},
    "tls_certificate_expires": {"days": (12.5, 12.4)},
    "hot_partition": {
        "least_ratio": (5.45, 5.46),
        "least_share": (0.909, 0.91),
        "least_partitions": (6, 7),
        "least_bytes": (50_000, 50_001),
    },
    "hot_client": {
        "least_ratio": (5.76, 5.77),
        "least_clients": (6, 7),
        "least_bytes_per_s": (120_000, 120_001),
    },
    **{kind: {"least_requests": (3, 4)} for kind in REFUSALS},
}
"""Thresholds of a kind: the last at which its fault is found, and one at which it is not."""


@pytest.mark.parametrize("kind", sorted(set(FAULTS) - set(LIMITS)))
def test_rows_just_below_a_fault_give_no_finding(kind: str) -> None:
    assert not findings(*almost(kind), only=[kind])


@pytest.mark.few(15)
@pytest.mark.parametrize(
    ("kind", "name"), [(k, name) for k in sorted(LIMITS) for name in LIMITS[k]]
)
def test_rows_beyond_a_threshold_give_no_finding(kind: str, name: str) -> None:
    reached, missed = ({f"{kind}.{name}": limit} for limit in LIMITS[kind][name])
    with tables_of(*FAULTS[kind][0]()) as database:
        assert findings_of(database, kinds_of(kind), reached)
        assert not findings_of(database, kinds_of(kind), missed)


@pytest.mark.parametrize("kind", ["hot_partition", "hot_client"])
def test_a_share_of_zero_bytes_is_no_finding(kind: str) -> None:
    parts = [made.partition("orders", number, record_bytes=0) for number in range(6)]
    empty = [
        request(client_id=f"c{n}", request_bytes=0, response_bytes=0, partitions=parts)
        for n in range(6)
    ]
    none = {f"{kind}.{name}": 0 for name in LIMITS[kind]}
    assert not findings(empty, only=[kind], **none)
    assert findings(*FAULTS[kind][0](), only=[kind], **none)


@pytest.mark.parametrize(("size", "count"), [(49_999, 0), (50_000, 1)])
def test_a_client_that_sends_for_a_moment_is_hot_if_that_is_much(size: int, count: int) -> None:
    sizes = [("hot", size), *((f"cool-{n}", 100) for n in range(6))]
    rows = [request(client_id=name, request_bytes=each, response_bytes=0) for name, each in sizes]
    assert len(findings(rows, only=["hot_client"])) == count


def test_one_long_round_is_a_finding() -> None:
    lines = [event("join", 0, "a", 1), event("sync", 9.999, "a", 1)]
    assert (
        findings((), (), (), lines)[0].what
        == "0 rounds after the first in 10.0 s; the longest took 10.0 s"
    )
    assert not findings((), (), (), lines, **{"rebalances.longest_round_s": 10.01})


@pytest.mark.parametrize("back_s", [40, 600])
def test_a_member_that_comes_back_to_its_round_makes_that_no_longer(back_s: int) -> None:
    lines = [*joined(0, 1, "a", "b"), *joined(back_s, 1, "b-again")]
    assert not findings((), (), (), lines)
    # One that joined with the others and is late to sync does.
    lines.append(event("sync", back_s, "a", 1))
    [finding] = findings((), (), (), lines)
    assert finding.what.endswith(f"; the longest took {back_s}.0 s")


def test_new_connectors_are_no_rebalances_of_kafka_connect() -> None:
    connect = {"protocol_type": "connect", "subscribed_topics": ()}
    added = [line for n in range(6) for line in joined(10 * n, n + 1, "a", "b", **connect)]
    assert findings((), (), (), added, only=["rebalances"]) == []
    restless = [line for n in range(6) for line in joined(10 * n, n + 1, "a", f"b{n}", **connect)]
    [finding] = findings((), (), (), restless, only=["rebalances"])
    assert "5 as members joined" in finding.what
    consumers = [line for n in range(6) for line in joined(10 * n, n + 1, "a", "b")]
    assert len(findings((), (), (), consumers, only=["rebalances"])) == 1


def test_the_worst_comes_first_with_options_that_show_its_rows() -> None:
    rows = [
        failed(0, 10, "MESSAGE_TOO_LARGE", "a*b", api_name="Produce", client_id="it's [me]"),
        request(api_key=1, api_name="Fetch", api_version=3, request_packet=7),
    ]
    worst, second = findings(rows)
    assert (worst.name, second.name) == ("too_large", "refused_by_kafka_4")
    assert worst.options == (
        *("--client-id", "it's [[]me]", "--api", "Produce", "--topic", "a[*]b", "--errors"),
    )
    assert second.first_packet == 7


def test_a_threshold_can_be_given_and_an_unknown_one_is_an_error() -> None:
    rows, connections = tiny_batches()
    assert "tiny_batches" not in names(
        findings(rows, connections, **{"tiny_batches.least_per_s": 200})
    )
    with pytest.raises(UsageError, match=r"unknown threshold: 'tiny_batches\.least'"):
        findings(rows, connections, **{"tiny_batches.least": 1})


@pytest.mark.parametrize(
    ("description", "problem"),
    [
        ("severity: 1\nsure: yes\nwhy: because.", "has no "),
        ("severity: high\nsure: yes\nwhy: a.\nrepair: b.", "has no severity"),
        ("severity: 1\nsure: yes\nwhy: a.\nrepair: b.", "does not have all parameters"),
        (
            (
                "severity: 1\nsure: yes\nwhy: a.\nrepair: b.\nsee: tabels\n"
                "parameter least = 1: minimum"
            ),
            "reports have no section 'tabels'",
        ),
    ],
)
def test_a_query_without_a_complete_head_is_no_finding(description: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        kind_of_finding(Query("x", "X.", description, ("least",), "SELECT $least"))


def test_findings_of_missing_requests_are_skipped_if_a_filter_drops_requests() -> None:
    """Without its heartbeats in the rows, a member would seem to be silent."""
    heartbeats, lag = kinds_of("late_heartbeats", "growing_lag")
    dropping = {"api": ["JoinGroup"], "client_id": ["a"], "errors": True}
    assert unfiltered_only(heartbeats, dropping) == ["api", "errors"]
    assert unfiltered_only(heartbeats, {"client_id": ["a"], "group": ["g"]}) == []
    assert unfiltered_only(lag, dropping) == []
    for filters in ({"api": ["JoinGroup", "SyncGroup"]}, {}):
        assert kanalyze.report(path("groups"), **filters)["findings"] == []
