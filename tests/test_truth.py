"""Our rows, compared with what broker and clients counted while the captures were made.

Nothing here was computed by this project: ``*.truth.json`` holds JMX counters, request-log counts
and the clients' own counts, ``*.broker.jsonl.gz`` the broker's log of every request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.support.captures import WHOLE, analysis, often, request_log, truth
from tests.support.cases import for_each
from tests.support.summaries import summary_of

ENVELOPE = 58
ENCRYPTED_OR_CUT = {"tls", "snaplen"}
READABLE = [name for name in WHOLE if name not in ENCRYPTED_OR_CUT]
WITH_BROKER = [name for name in READABLE if "broker_requests" in truth(name)]


def test_there_are_captures() -> None:
    assert len(WHOLE) >= 8
    assert {"basics", "tls", "mock", "errors", "waits"} <= set(WHOLE)


@for_each("name", WHOLE)
def test_every_packet_is_counted(name: str) -> None:
    _, quality = analysis(name)
    assert quality.packets == truth(name)["packets"]
    assert truth(name)["dropped_by_kernel"] == 0


@for_each("name", WITH_BROKER)
def test_requests_by_api_and_version_are_those_the_broker_counted(name: str) -> None:
    rows, _ = analysis(name)
    ours: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.request_packet is not None and row.api_name is not None:
            ours[row.api_name][str(row.api_version)] += 1
    assert ours == truth(name)["broker_requests"]


@for_each("name", WITH_BROKER)
def test_errors_are_those_the_broker_counted(name: str) -> None:
    rows, _ = analysis(name)
    ours: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.api_key != ENVELOPE:
            ours[row.api_name or ""].update(item.name for item in row.errors)
    theirs = truth(name)["broker_errors"]
    assert {api: dict(names) for api, names in ours.items() if names} == theirs


def parts_of(rows: Any, api_name: str) -> list[Any]:
    """The partitions of all requests of an API."""
    return [part for row in rows if row.api_name == api_name for part in row.partitions]


def sums_by_topic(rows: Any, api_name: str, column: str = "record_count") -> dict[str, int]:
    found: Counter[str] = Counter()
    for part in parts_of(rows, api_name):
        if getattr(part, column):
            found[part.topic or str(part.topic_id)] += getattr(part, column)
    return dict(found)


@for_each("name", WITH_BROKER)
def test_records_produced_are_those_the_broker_appended(name: str) -> None:
    rows, _ = analysis(name)
    ours: dict[str, Counter[str]] = defaultdict(Counter)
    for part in parts_of(rows, "Produce"):
        if not part.error_code and part.topic is not None:
            ours[part.topic][str(part.partition)] += part.record_count or 0
    assert ours == truth(name)["produced_records"]


@for_each("name", WITH_BROKER)
def test_records_and_bytes_fetched_are_those_the_broker_sent(name: str) -> None:
    rows, _ = analysis(name)
    assert sums_by_topic(rows, "Fetch") == truth(name)["fetched_records"]
    assert sums_by_topic(rows, "Fetch", "record_bytes") == truth(name)["fetched_bytes"]


@pytest.mark.parametrize("name", [n for n in READABLE if "client_consumed" in truth(n)])
def test_clients_received_the_records_that_we_saw_fetched(name: str) -> None:
    rows, _ = analysis(name)
    ours = sums_by_topic(rows, "Fetch")
    # Where compressed messages of magic 0 and 1 hide their number, a row has none (and the test
    # of the records themselves counts them).
    hidden = {
        part.topic
        for part in parts_of(rows, "Fetch")
        if part.record_bytes and part.record_count is None
    }
    theirs = {
        topic: count
        for topic, count in truth(name)["client_consumed"].items()
        if topic not in hidden
    }
    assert {topic: ours.get(topic, 0) for topic in theirs} == theirs


def test_a_share_group_fetches_what_the_broker_let_it_acquire() -> None:
    rows, _ = analysis("next-groups")
    acquired = sum(
        part_of["lastOffset"] - part_of["firstOffset"] + 1
        for entry in request_log("next-groups")
        if entry["requestHeader"]["requestApiKeyName"] == "SHARE_FETCH"
        for topic in entry["response"]["responses"]
        for partition in topic["partitions"]
        for part_of in partition["acquiredRecords"]
    )
    assert acquired > 0
    assert sums_by_topic(rows, "ShareFetch") == {"next-shared": acquired}


@for_each("name", WITH_BROKER)
def test_no_byte_is_left_undecoded(name: str) -> None:
    _, quality = analysis(name)
    assert quality.kafka_bytes > 0
    assert quality.decoded_bytes == quality.kafka_bytes
    assert quality.undecoded_bytes == quality.skipped_bytes == quality.lost_bytes == 0


@for_each("name", WITH_BROKER)
def test_connections_and_bytes_are_those_the_brokers_sockets_counted(name: str) -> None:
    rows, _ = analysis(name)
    for listener, counted in truth(name)["broker_listeners"].items():
        port = truth(name)["ports"][listener]
        here = [row for row in rows if row.broker_port == port]
        assert len({row.connection for row in here}) == counted["connections"]
        if "requests" not in counted:
            continue  # a listener that went on while the broker shut down
        assert sum(row.request_bytes or 0 for row in here) == counted["request_bytes"]
        assert sum(row.response_bytes or 0 for row in here) == counted["response_bytes"]
        assert len(here) == counted["requests"]
        assert sum(row.response_packet is not None for row in here) == counted["responses"]


@for_each("name", WITH_BROKER)
def test_bytes_and_records_sent_are_those_of_the_request_log_and_the_clients(name: str) -> None:
    rows, _ = analysis(name)
    assert Counter(sums_by_topic(rows, "Produce")) == truth(name)["sent_records"]
    sent_bytes = sums_by_topic(rows, "Produce", "record_bytes")
    assert Counter(sent_bytes) == truth(name)["produced_bytes"]


@for_each("name", WITH_BROKER)
def test_requests_without_a_response_are_one_way_or_unanswered(name: str) -> None:
    rows, _ = analysis(name)
    without = [row for row in rows if row.response_packet is None]
    assert {row.status for row in without} <= {"one_way", "unanswered"}
    assert all(row.acks == 0 for row in without if row.status == "one_way")
    if "requests_without_response" in truth(name):
        assert len(without) == truth(name)["requests_without_response"]


@for_each("name", WITH_BROKER)
def test_acks_are_those_in_the_request_log(name: str) -> None:
    rows, _ = analysis(name)
    ours = Counter(str(row.acks) for row in rows if row.api_name == "Produce")
    assert ours == truth(name)["produce_requests_by_acks"]


@for_each("name", WITH_BROKER)
def test_client_ids_and_software_are_those_in_the_request_log(name: str) -> None:
    ours = Counter(row.client_id for row in own_requests(name) if row.request_packet is not None)
    assert ours == truth(name)["requests_by_client_id"]


def own_requests(name: str) -> list[Any]:
    """Our rows without Envelopes: the broker's log has the requests inside them instead."""
    return [row for row in analysis(name)[0] if row.api_key != ENVELOPE]


def own_log(name: str) -> list[dict[str, Any]]:
    """The broker's log without requests that came inside an Envelope."""
    return [entry for entry in request_log(name) if not entry["isForwarded"]]


def log_key(entry: dict[str, Any]) -> tuple[Any, ...]:
    header = entry["requestHeader"]
    return (
        entry["client"],
        header["correlationId"],
        header["requestApiKey"],
        header["requestApiVersion"],
    )


@for_each("name", WITH_BROKER)
def test_each_request_of_the_brokers_log_has_its_row(name: str) -> None:
    ours = Counter(
        (row.connection.partition(">")[0], row.correlation_id, row.api_key, row.api_version)
        for row in own_requests(name)
    )
    assert ours == Counter(map(log_key, own_log(name)))


def test_forwarded_requests_came_in_an_envelope() -> None:
    envelopes = [row for row in analysis("controller")[0] if row.api_key == ENVELOPE]
    assert len(envelopes) == len(request_log("controller")) - len(own_log("controller")) > 0


def rows_by_key(name: str) -> dict[tuple[Any, ...], Any]:
    """Our rows by the first values of :func:`log_key`."""
    return {
        (row.connection.partition(">")[0], row.correlation_id, row.api_key): row
        for row in own_requests(name)
    }


@for_each("name", WITH_BROKER)
def test_throttle_times_and_top_level_codes_agree_with_the_log(name: str) -> None:
    by_key = rows_by_key(name)
    for entry in own_log(name):
        row, answer = by_key[log_key(entry)[:3]], entry.get("response") or {}
        if row.response_packet is None:
            continue
        assert row.throttle_time_ms == answer.get("throttleTimeMs")
        if answer.get("errorCode"):
            assert answer["errorCode"] in {item.code for item in row.errors}


@for_each("name", WITH_BROKER)
def test_latency_is_at_least_the_time_the_broker_says_it_took(name: str) -> None:
    by_key = rows_by_key(name)
    compared = 0
    for entry in own_log(name):
        row = by_key[log_key(entry)[:3]]
        if row.latency_ns is None:
            continue
        busy_ms = entry["requestQueueTimeMs"] + entry["localTimeMs"] + entry["remoteTimeMs"]
        # The broker's clock starts when it has read the request, ours when the last packet came.
        assert row.latency_ns / 1e6 >= busy_ms - 0.1
        compared += 1
    assert compared > 0


@for_each("name", WITH_BROKER)
def test_a_fetch_that_waited_is_one_the_broker_held_in_purgatory(name: str) -> None:
    """Or one that came while another was held: a broker serves one request a connection."""
    rows, _ = analysis(name)
    log = {log_key(entry)[:3]: entry for entry in request_log(name)}
    held_until: dict[str, int] = {}
    fetches = [row for row in rows if row.api_name == "Fetch" and row.waited is not None]
    for row in sorted(fetches, key=lambda row: row.request_packet or 0):
        entry = log[row.connection.partition(">")[0], row.correlation_id, row.api_key]
        queued = (row.request_end_ns or 0) < held_until.get(row.connection, 0)
        is_held = entry["remoteTimeMs"] > 0
        if is_held:
            held_until[row.connection] = row.response_start_ns or 0
        # One that took longer than max_wait was held too, but did not wait as a whole.
        was_held = row.waited or bool(row.waited_ns)
        assert was_held == (is_held or queued), (row.request_packet, entry["remoteTimeMs"])


def test_a_tls_connection_gives_no_row_but_is_counted() -> None:
    rows, quality = analysis("tls")
    encrypted = sum(truth("tls")["tls_connections"].values())
    assert quality.tls_connections == encrypted > 0
    ports = {row.broker_port for row in rows}
    assert ports.isdisjoint(truth("tls")["encrypted_listeners"])


def test_requests_to_the_mock_cluster_are_those_the_client_counted() -> None:
    rows, _ = analysis("mock")
    ours = Counter(row.api_name for row in rows)
    theirs = truth("mock")["client_requests"]
    assert {api: ours[api] for api in theirs} == theirs
    assert {"Produce", "Fetch"} <= set(theirs)


def logged_parts(entry: dict[str, Any], names: dict[str, str]) -> set[tuple[Any, ...]]:
    """(topic, partition, offset, high watermark, error code) as in the broker's log."""
    name, answer = entry["requestHeader"]["requestApiKeyName"], entry["response"] or {}
    lists = {
        "PRODUCE": ("responses", "partitionResponses", "baseOffset"),
        "FETCH": ("responses", "partitions", None),
        "LIST_OFFSETS": ("topics", "partitions", "offset"),
    }
    if name == "OFFSET_FETCH":
        groups = answer.get("groups", [answer])
        topics = [topic for group in groups for topic in group.get("topics", [])]
        inner, offset = "partitions", "committedOffset"
    elif name in lists:
        outer, inner, offset_name = lists[name]
        topics, offset = answer.get(outer, []), offset_name or ""
    else:
        return set()
    found = set()
    for topic in topics:
        topic_name = topic.get("topic") or topic.get("name") or names.get(topic.get("topicId", ""))
        for part in topic[inner]:
            index = part.get("partitionIndex", part.get("index"))
            position = part.get(offset, -1)
            found.add(
                (
                    topic_name,
                    index,
                    None if position == -1 else position,
                    None if part.get("highWatermark", -1) == -1 else part["highWatermark"],
                    part["errorCode"],
                )
            )
    return found


@for_each("name", WITH_BROKER)
def test_partitions_are_those_in_the_brokers_log(name: str) -> None:
    by_key = rows_by_key(name)
    names = {topic_id: topic for topic, topic_id in truth(name)["topic_ids"].items()}
    compared = 0
    for entry in own_log(name):
        row = by_key[log_key(entry)[:3]]
        theirs = logged_parts(entry, names)
        if row.response_packet is None or not theirs:
            continue
        is_fetch = row.api_name == "Fetch"
        ours = {
            (
                part.topic,
                part.partition,
                None if is_fetch else part.base_offset,
                part.high_watermark,
                part.error_code,
            )
            for part in row.partitions
            if part.error_code is not None
        }
        assert ours == theirs, row.request_packet
        compared += 1
    logged = {"Produce", "Fetch", "ListOffsets", "OffsetFetch"} & set(
        truth(name)["broker_requests"]
    )
    assert bool(compared) == bool(logged)


TOPICS_BY_NAME = {
    *("topics", "topicData", "responses", "results", "topicResults", "v3AndBelowTopics"),
    *("resultsByTopicV3AndBelow", "topicPartitions"),
}
"""Lists whose elements have the name of a topic."""
NOT_REQUESTED = {"forgottenTopicsData", "cursor", "nextCursor"}


def named_in(value: Any, ids: dict[str, str], key: str = "", topic: str = "") -> set[Any]:
    """(topic, partition) of all that a body in the log names; None for a topic as a whole.

    Kafka's names of these fields differ from message to message.
    """
    if isinstance(value, list):
        if key in ("topicNames", "subscribedTopicNames"):
            return {(name, None) for name in value}
        if key in ("partitions", "partitionIndexes") and value and isinstance(value[0], int):
            return {(topic, index) for index in value}
        return {place for item in value for place in named_in(item, ids, key, topic)}
    if not isinstance(value, dict):
        return set()
    own = value.get("topic") or value.get("topicName")
    own = own or (value.get("name") if key in TOPICS_BY_NAME else None)
    own = own or ids.get(value.get("topicId", ""), value.get("topicId"))
    own = None if own == NO_TOPIC_ID else own
    topic = own or topic
    indexes = ("partitionIndex", "partition", "partitionId", "index")
    index = next((value[name] for name in indexes if name in value), None)
    if topic and index is not None:
        return {(topic, index)}
    found = {
        place
        for name, item in value.items()
        if name not in NOT_REQUESTED
        for place in named_in(item, ids, name, topic)
    }
    return found | {(own, None)} if own and (not found or value.get("errorCode")) else found


NO_TOPIC_ID = "A" * 22
PARTITIONS_ALONE = {"Produce", "Fetch", "ListOffsets", "OffsetFetch"}
"""APIs that name topics only together with partitions."""


@for_each("name", WITH_BROKER)
def test_every_topic_and_partition_of_the_brokers_log_is_in_its_row(name: str) -> None:
    by_key = rows_by_key(name)
    ids = {topic_id: topic for topic, topic_id in truth(name)["topic_ids"].items()}
    compared = 0
    for entry in own_log(name):
        row = by_key[log_key(entry)[:3]]
        theirs = named_in(entry["request"], ids)
        if row.response_packet is not None:
            theirs |= named_in(entry["response"], ids)
        ours = {(part.topic or part.topic_id, part.partition) for part in row.partitions}
        if row.api_name in PARTITIONS_ALONE:
            theirs = {(topic, index) for topic, index in theirs if index is not None}
        if row.api_name == "Fetch":  # the log of a request lacks the partitions of its session
            theirs |= ours
        assert ours == theirs, (row.request_packet, row.api_name)
        compared += bool(theirs)
    assert compared


@for_each("name", WITH_BROKER)
def test_partitions_with_errors_are_among_the_partitions_of_the_row(name: str) -> None:
    for row in analysis(name)[0]:
        ours = {(part.topic, part.partition) for part in row.partitions}
        failed = {(item.topic, item.partition) for item in row.errors if item.topic is not None}
        assert failed <= ours, (row.request_packet, row.api_name)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", often(WITH_BROKER, ("codecs", "errors", "transactions")))
def test_the_report_counts_as_produced_what_the_broker_appended(name: str) -> None:
    rows, quality = analysis(name)
    summary = summary_of(list(rows), quality)
    appended = {
        topic: sum(counts.values()) for topic, counts in truth(name)["produced_records"].items()
    }
    assert summary["totals"]["produced_records"] == sum(appended.values())
    assert summary["totals"]["refused_records"] == sum(truth(name)["rejected_records"].values())
    # Share groups fetch by requests of their own, which the broker does not count among these.
    shared = sums_by_topic(rows, "ShareFetch")
    fetched = truth(name)["fetched_records"]
    assert summary["totals"]["fetched_records"] == sum(fetched.values()) + sum(shared.values())
    shown = {item["topic"]: item["produced_records"] for item in summary["topics"]}
    assert {topic: count for topic, count in shown.items() if count} == appended


def test_logins_are_those_the_broker_counted_and_no_secret_is_in_a_row() -> None:
    rows, quality = analysis("sasl")
    counted = truth("sasl")
    ours = Counter(row.api_name for row in rows)
    theirs = Counter(counted["handshake_requests"])
    for api, versions in counted["authenticated_requests"].items():
        theirs[api] += sum(versions.values())
    assert {api: ours[api] for api in theirs} == theirs
    refused = [row for row in rows if row.api_name == "SaslAuthenticate" and row.errors]
    assert len(refused) == counted["broker_listeners"]["SASL"]["failed_handshakes"]
    principals = {
        row.connection.partition(">")[0]: f"User:{row.principal}" for row in rows if row.principal
    }
    assert {client: principals.get(client) for client in counted["principals"]} == counted[
        "principals"
    ]
    assert quality.decoded_bytes == quality.kafka_bytes


def test_clients_of_a_cluster_and_its_replicas_are_distinguished_by_listener() -> None:
    rows, _ = analysis("cluster")
    counted = truth("cluster")
    ports = {port for name, port in counted["ports"].items() if name.startswith("PLAINTEXT")}
    ours: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.broker_port in ports and row.request_packet is not None:
            ours[row.api_name or ""][str(row.api_version)] += 1
    assert ours == counted["client_listeners"]["requests"]


def test_replicas_fetch_every_record_once_each() -> None:
    produced = sum(truth("cluster")["produced_records"]["cluster"].values())
    fetched = sum(
        part.record_count or 0
        for row in analysis("cluster")[0]
        if row.api_name == "Fetch"
        for part in row.partitions
        if part.topic == "cluster"
    )
    assert fetched == 3 * produced  # a consumer and two followers
