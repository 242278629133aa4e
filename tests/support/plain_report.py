"""A second way to compute the figures of the report: plain Python over rows, figure by figure."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kanalyze.common.times import round_width_ns
from kanalyze.model.tcp import Endpoint
from kanalyze.queries.files import built_in
from kanalyze.spec import report as spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.spec.rows.requests import PartitionItem, Row

PRODUCE = ("Produce", "MultiProduce")
FETCH = ("Fetch", "MultiFetch", "ShareFetch")
SIDES = (("produce", "produced", PRODUCE), ("fetch", "fetched", FETCH))
PARTS = tuple(part.name for part in spec.PARTS)
STATUSES = ("ok", "error", "one_way", "unanswered", "orphan_response", "malformed")


def plain_report(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the tables of the report on rows."""
    requests = [row for row in rows if row.status != "orphan_response"]
    return {
        "totals": totals(rows),
        "apis": apis(rows),
        "errors": [
            {**line, "other": False}
            for line in codes(rows, "api_name", "error_code", "error_name", "topic")
        ],
        "clients": [
            client(client_id, of_client)
            for client_id, of_client in by_requests(requests, lambda row: (row.client_id,))
        ],
        "topics": topics(rows),
        "groups": [
            {
                "group_id": key[0],
                "other": False,
                "requests": len(requests_of(members)),
                "joins": sum(row.api_name == "JoinGroup" for row in requests_of(members)),
                "syncs": sum(row.api_name == "SyncGroup" for row in requests_of(members)),
                **rebalance_times(members),
                "errors": failed(members),
                "unread": unread(members),
            }
            for key, members in by_requests(rows, lambda row: (row.group_id,))
            if key[0] is not None
        ],
        "brokers": [
            {"broker": str(Endpoint(*key)), "other": False, **traffic(of_broker)}
            for key, of_broker in by_requests(rows, lambda row: (row.broker_ip, row.broker_port))
        ],
        "client_apis": [
            {
                **dict(zip(("client_id", "api_name"), key, strict=True)),
                "unanswered": sum(row.status == "unanswered" for row in of_pair),
                **traffic(of_pair),
            }
            for key, of_pair in by_requests(requests, lambda row: (row.client_id, row.api_name))
        ],
        "inventory": inventory(requests),
        "client_errors": codes(rows, "client_id", "api_name", "error_code", "error_name"),
        "topic_latency": topic_latency(rows),
        "partitions": partitions(rows),
        "codecs": codecs(rows),
        "latency_parts": latency_parts(rows),
        "throughput": throughput(rows),
        "latency": latency(rows),
        "slowest": slowest(rows),
    }


CONTROLLER_APIS = (4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73)
REPLICA_APIS = (27, 83, 84, 85, 86, 87)
OF_REPLICA = re.compile(r"broker-\d+-fetcher-\d+|AddPartitionsManager-client-\d+")
FIRST_VERSIONS = {
    int(key): int(version)
    for key, version in re.findall(r"\((\d+), (\d+)\)", built_in("tables")["removed_versions"].sql)
}


def inner_traffic(row: Row) -> str | None:
    client_id = row.client_id or ""
    if row.wire != "kafka":
        return None
    if row.api_key in CONTROLLER_APIS or re.fullmatch(r"raft-client-\d+", client_id):
        return "controller"
    is_replica = row.api_key in REPLICA_APIS or OF_REPLICA.fullmatch(client_id)
    return "replica" if is_replica else None


def inventory(requests: Sequence[Row]) -> list[dict[str, Any]]:
    def identity(row: Row) -> tuple[str | None, ...]:
        software = (row.client_software_name, row.client_software_version)
        return row.client_id, row.client_ip, row.principal, *software

    lines = []
    for key in {identity(row) for row in requests}:
        of_client = [row for row in requests if identity(row) == key]
        traffic = min(filter(None, map(inner_traffic, of_client)), default="client")
        client_id, ip, principal, name, version = key
        line = {
            "traffic": traffic,
            "client_id": client_id,
            "client_ip": ip,
            "principal": principal,
            "software": None if name is None else f"{name} {version or ''}".strip() or None,
            "requests": len(of_client),
            "errors": sum(row.status == "error" for row in of_client),
            **spoken("versions", of_client),
            **spoken("refused", [row for row in of_client if row.error_code == 35]),
            **spoken("kafka_4_refuses", filter(removed_by_kafka_4, of_client), counts=False),
        }
        nulls_first = ((text is not None, text or "") for text in key[2:])
        order = (client_id is None, client_id or "", ip, *nulls_first)
        lines.append(((traffic != "client", traffic, -len(of_client), *order), line))
    return [line for _, line in sorted(lines, key=itemgetter(0))]


def spoken(name: str, rows: Iterable[Row], *, counts: bool = True) -> dict[str, Any]:
    found = Counter(
        f"{row.api_name or ''} v{'' if row.api_version is None else row.api_version}"
        for row in rows
    )
    texts = sorted(f"{api}: {count}" if counts else api for api, count in found.items())
    return {name: texts, f"more_{name}": False}


def removed_by_kafka_4(row: Row) -> bool:
    """As the fields of messages say that Apache Kafka 4.0 has."""
    return row.wire == "kafka-0.7" or (
        row.api_key in FIRST_VERSIONS and row.api_version < FIRST_VERSIONS[row.api_key]
    )


def requests_of(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.status != "orphan_response"]


def failed(rows: Iterable[Row]) -> int:
    return sum(row.status == "error" for row in rows)


def unread(rows: Iterable[Row]) -> int:
    """Rows with a response of which no code was read, other than orphans."""
    return sum(
        row.status == "malformed" and row.response_start_ns is not None and row.error_code is None
        for row in rows
    )


def rebalance_times(rows: Iterable[Row]) -> dict[str, int | None]:
    took: dict[str | None, list[int]] = {"JoinGroup": [], "SyncGroup": []}
    for row in rows:
        if row.api_name in took and row.total_time_ns is not None:
            took[row.api_name].append(row.total_time_ns)
    joins, syncs = took["JoinGroup"], took["SyncGroup"]
    return {
        "rebalance_time_ns": sum(joins + syncs) if joins or syncs else None,
        "longest_join_ns": max(joins, default=None),
        "longest_sync_ns": max(syncs, default=None),
    }


def total(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)


def nulls_last(key: Iterable[Any]) -> tuple[Any, ...]:
    return tuple((part is None, part if part is not None else 0) for part in key)


def by_requests(
    rows: Iterable[Row], key_of: Callable[[Row], tuple[Any, ...]]
) -> list[tuple[Any, list[Row]]]:
    """Rows by key, most requests first."""
    groups = defaultdict(list)
    for row in rows:
        groups[key_of(row)].append(row)
    return sorted(
        groups.items(), key=lambda item: (-len(requests_of(item[1])), nulls_last(item[0]))
    )


def bin_of(value: int) -> int:
    """Bins are e^(1/252) wide."""
    size = math.floor(math.log(abs(value) + 1) * 252)
    return size if value >= 0 else -size


def durations(values: Iterable[int | None]) -> dict[str, Any]:
    """Count, smallest, quantiles, largest, mean."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {"count": 0, **dict.fromkeys(("min", "p50", "p90", "p99", "max", "mean"))}

    def percentile(percent: int) -> int:
        """By nearest rank; of three or more values in a bin, inner ones count as its middle."""
        exact = known[math.ceil(len(known) * percent / 100) - 1]
        alike = [value for value in known if bin_of(value) == bin_of(exact)]
        place = math.ceil(len(known) * percent / 100) - 1 - known.index(alike[0])
        if place in (0, len(alike) - 1):
            return exact
        middle = alike[0] + (alike[-1] - alike[0]) // 2
        assert abs(middle - exact) <= 0.004 * abs(exact)
        return middle

    return {
        "count": len(known),
        "min": known[0],
        "p50": percentile(50),
        "p90": percentile(90),
        "p99": percentile(99),
        "max": known[-1],
        "mean": sum(known) // len(known),
    }


def traffic(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "requests": len(requests_of(rows)),
        "errors": failed(rows),
        "unread": unread(rows),
        "request_bytes": total(row.request_bytes for row in rows),
        "response_bytes": total(row.response_bytes for row in rows),
        "latency_ns": durations(row.latency_ns for row in rows if not row.waited),
    }


def refused(row: Row) -> list[PartitionItem]:
    """Partitions that the broker refused."""
    return [item for item in row.partitions if row.status == "error" and item.error_code]


def records_of(row: Row) -> int:
    """Records that were not refused, as far as they are known."""
    return (row.record_count or 0) - total(item.record_count for item in refused(row))


def record_bytes_of(row: Row) -> int:
    return (row.record_bytes or 0) - total(item.record_bytes for item in refused(row))


def is_uncounted(row: Row) -> bool:
    """There were records, but their number is not known."""
    if row.record_count is not None:
        return False
    if row.api_name in PRODUCE:
        return bool(row.partitions) or row.status == "malformed"
    return row.status != "unanswered"


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    produced = [row for row in rows if row.api_name in PRODUCE]
    answered = [row for row in produced if row.status in ("ok", "error")]
    fetched = [row for row in rows if row.api_name in FETCH]
    statuses = Counter(row.status for row in rows)
    return {
        "rows": len(rows),
        "requests": len(requests_of(rows)),
        "responses": sum(row.response_start_ns is not None for row in rows),
        **{status: statuses[status] for status in STATUSES},
        "request_bytes": total(row.request_bytes for row in rows),
        "response_bytes": total(row.response_bytes for row in rows),
        "produced_records": sum(map(records_of, produced)),
        "produced_record_bytes": sum(map(record_bytes_of, produced)),
        "produced_records_known": not any(map(is_uncounted, produced)),
        "unread": unread(rows),
        "refused_records": total(item.record_count for row in produced for item in refused(row)),
        "acknowledged_records": sum(map(records_of, answered)),
        "acknowledged_record_bytes": sum(map(record_bytes_of, answered)),
        "unanswered_records": sum(records_of(x) for x in produced if x.status == "unanswered"),
        "one_way_records": sum(records_of(x) for x in produced if x.status == "one_way"),
        "fetched_records": sum(map(records_of, fetched)),
        "fetched_record_bytes": sum(map(record_bytes_of, fetched)),
        "fetched_records_known": not any(map(is_uncounted, fetched)),
        "throttled": sum(bool(row.throttle_time_ms) for row in rows),
        "throttle_time_ms": total(row.throttle_time_ms for row in rows),
    }


def apis(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found = []
    for key, of_api in by_requests(rows, lambda row: (row.wire, row.api_key, row.api_name)):
        carries = key[2] in PRODUCE + FETCH
        waited = [row for row in of_api if row.waited]
        versions = Counter(row.api_version for row in requests_of(of_api))
        found.append(
            {
                **dict(zip(("wire", "api_key", "api_name"), key, strict=True)),
                **traffic(of_api),
                "other": False,
                "responses": sum(row.response_start_ns is not None for row in of_api),
                "versions": {str(version): versions[version] for version in sorted(versions)},
                "statuses": Counter(row.status for row in of_api),
                "record_count": sum(map(records_of, of_api)) if carries else None,
                "record_bytes": sum(map(record_bytes_of, of_api)) if carries else None,
                "record_count_known": not any(map(is_uncounted, of_api)) if carries else None,
                "throttled": sum(bool(row.throttle_time_ms) for row in of_api),
                "throttle_time_ms": total(row.throttle_time_ms for row in of_api),
                "total_time_ns": durations(x.total_time_ns for x in of_api if not x.waited),
                "waited": {
                    "requests": len(requests_of(waited)),
                    "errors": failed(waited),
                    "request_bytes": total(row.request_bytes for row in waited),
                    "response_bytes": total(row.response_bytes for row in waited),
                    "record_count": sum(map(records_of, waited)) if carries else None,
                    "latency_ns": durations(row.latency_ns for row in waited),
                    "total_time_ns": durations(row.total_time_ns for row in waited),
                },
            }
        )
    return found


def codes(rows: Iterable[Row], *names: str) -> list[dict[str, Any]]:
    """Every error code in a response, by some of the row's or the error's fields."""
    times = defaultdict(list)
    for row in rows:
        for error in row.errors:
            facts = {
                "client_id": row.client_id,
                "api_name": row.api_name,
                "topic": error.topic,
                "error_code": error.code,
                "error_name": error.name,
            }
            times[tuple(facts[name] for name in names)].append(row.response_start_ns)
    found = []
    for key, of_code in times.items():
        known = [time for time in of_code if time is not None]
        found.append(
            {
                **dict(zip(names, key, strict=True)),
                "count": len(of_code),
                "first_time_ns": min(known, default=None),
                "last_time_ns": max(known, default=None),
            }
        )
    order = [name for name in names if name != "error_name"]
    return sorted(found, key=lambda x: (-x["count"], nulls_last(x[name] for name in order)))


def client(key: tuple[str | None], rows: Sequence[Row]) -> dict[str, Any]:
    software = {
        f"{row.client_software_name} {row.client_software_version or ''}".strip()
        for row in rows
        if row.client_software_name is not None
    }
    ips = {row.client_ip for row in rows}
    principals = {row.principal for row in rows if row.principal is not None}
    found: dict[str, Any] = {"client_id": key[0], "other": False, **traffic(rows)}
    for name, texts in (("software", software), ("client_ips", ips), ("principals", principals)):
        found[name] = sorted(texts)[:8]
        found[f"more_{name}"] = len(texts) > 8
    return found


def topic_of(item: PartitionItem) -> tuple[str | None, str | None]:
    return item.topic, item.topic_id if item.topic is None else None


def amounts(
    parts: Iterable[tuple[Row, PartitionItem]], word: str, past: str, names: Sequence[str]
) -> tuple[dict[str, Any], list[tuple[Row, PartitionItem]]]:
    """Requests, records and bytes of one side, and its partitions that were not refused."""
    own = [(row, item) for row, item in parts if row.api_name in names]
    taken = [(row, item) for row, item in own if not item.error_code]
    return {
        f"{word}_requests": len({id(row) for row, _ in own}),
        f"{past}_records": total(item.record_count for _, item in taken),
        f"{past}_bytes": total(item.record_bytes for _, item in taken),
    }, taken


def topics(rows: Iterable[Row]) -> list[dict[str, Any]]:
    parts = defaultdict(list)
    codes: Counter[str] = Counter()
    for row in rows:
        codes.update(error.topic for error in row.errors if error.topic is not None)
        for item in row.partitions if row.api_name in PRODUCE + FETCH else ():
            parts[topic_of(item)].append((row, item))
    for topic in codes:
        parts.setdefault((topic, None), [])
    found = []
    for (topic, topic_id), of_topic in parts.items():
        line: dict[str, Any] = {"topic": topic, "topic_id": topic_id, "other": False}
        for word, past, names in SIDES:
            sums, taken = amounts(of_topic, word, past, names)
            line |= sums
            line[f"{past}_records_known"] = not any(
                item.record_count is None and is_uncounted(row) for row, item in taken
            )
            if word == "produce":
                acked = [item for row, item in taken if row.status in ("ok", "error")]
                line["acknowledged_records"] = total(item.record_count for item in acked)
                line["acknowledged_bytes"] = total(item.record_bytes for item in acked)
                for status in ("unanswered", "one_way"):
                    line[f"{status}_records"] = total(
                        item.record_count for row, item in taken if row.status == status
                    )
        line["errors"] = codes[topic] if topic is not None else 0
        found.append(line)
    return sorted(
        found,
        key=lambda x: (
            -(x["produced_bytes"] + x["fetched_bytes"]),
            -(x["produce_requests"] + x["fetch_requests"]),
            nulls_last((x["topic"], x["topic_id"])),
        ),
    )


def topic_latency(rows: Iterable[Row]) -> list[dict[str, Any]]:
    values = defaultdict(list)
    for row in rows:
        if row.api_name in PRODUCE + FETCH and row.latency_ns is not None and not row.waited:
            for topic in set(map(topic_of, row.partitions)):
                values[*topic, row.api_name].append(row.latency_ns)
    names = ("topic", "topic_id", "api_name")
    return [
        {**dict(zip(names, key, strict=True)), "latency_ns": durations(of_topic)}
        for key, of_topic in sorted(values.items(), key=lambda x: (-len(x[1]), nulls_last(x[0])))
    ]


def partitions(rows: Iterable[Row]) -> list[dict[str, Any]]:
    parts = defaultdict(list)
    for row in rows:
        for item in row.partitions if row.api_name in PRODUCE + FETCH else ():
            if not item.error_code and item.partition is not None:
                parts[*topic_of(item), item.partition].append((row, item))
    found = []
    for key, of_partition in parts.items():
        line: dict[str, Any] = dict(zip(("topic", "topic_id", "partition"), key, strict=True))
        for word, past, names in SIDES:
            line |= amounts(of_partition, word, past, names)[0]
        marks = [x.high_watermark for _, x in of_partition if x.high_watermark is not None]
        line["high_watermark"] = max(marks, default=None)
        found.append(line)
    return sorted(
        found,
        key=lambda x: (
            -(x["produced_bytes"] + x["fetched_bytes"]),
            nulls_last((x["topic"], x["topic_id"], x["partition"])),
        ),
    )


def codecs(rows: Iterable[Row]) -> list[dict[str, Any]]:
    packed = defaultdict(list)
    for row in rows:
        for item in row.partitions if row.api_name in PRODUCE else ():
            if item.codec is not None:
                packed[row.client_id, item.codec].append((row, item))
    found = []
    for (client_id, codec), of_client in packed.items():
        items = [item for _, item in of_client]
        counts = [item.record_count for item in items if item.record_count is not None]
        found.append(
            {
                "client_id": client_id,
                "codec": codec,
                "requests": len({id(row) for row, _ in of_client}),
                "batches": len(items),
                "records": sum(counts) if counts else None,
                "bytes": total(item.record_bytes for item in items),
                "bytes_p50": durations(item.record_bytes for item in items)["p50"],
                "records_p50": durations(item.record_count for item in items)["p50"],
            }
        )
    return sorted(found, key=lambda x: (-x["bytes"], nulls_last((x["client_id"], x["codec"]))))


def buckets_of(rows: Iterable[Row]) -> tuple[int, int, int]:
    """Width of the buckets of time, number of the first, how many."""
    times = []
    for row in rows:
        if row.request_start_ns is not None and row.status != "orphan_response":
            times.append(row.request_start_ns)
        if row.response_start_ns is not None:
            times.append(row.response_start_ns)
    width = 1_000_000
    if not times:
        return width, 0, 0
    while max(times) // width - min(times) // width >= 240:
        width = round_width_ns(width + 1)
    return width, min(times) // width, max(times) // width - min(times) // width + 1


def throughput(rows: Sequence[Row]) -> dict[str, Any]:
    width, first, count = buckets_of(rows)
    sums = {name: [0] * count for name in ("requests", "errors", "request_bytes", "response_bytes")}
    for row in rows:
        if row.request_start_ns is not None and row.status != "orphan_response":
            bucket = row.request_start_ns // width - first
            sums["requests"][bucket] += 1
            sums["request_bytes"][bucket] += row.request_bytes or 0
        if row.response_start_ns is not None:
            bucket = row.response_start_ns // width - first
            sums["errors"][bucket] += row.status == "error"
            sums["response_bytes"][bucket] += row.response_bytes or 0
    return {"start_ns": first * width if count else None, "bucket_ns": width, **sums}


def latency(rows: Sequence[Row]) -> dict[str, Any]:
    width, first, count = buckets_of(rows)
    values: list[list[int | None]] = [[] for _ in range(count)]
    for row in requests_of(rows):
        if row.request_start_ns is not None and not row.waited:
            values[row.request_start_ns // width - first].append(row.latency_ns)
    figures = [durations(of_bucket) for of_bucket in values]
    return {
        "start_ns": first * width if count else None,
        "bucket_ns": width,
        **{name: [each[name] for each in figures] for name in ("p50", "p90", "p99", "max")},
    }


def latency_parts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    known = [
        row
        for row in rows
        if None not in (row.total_time_ns, row.broker_time_ns, row.response_send_ns)
        and not row.waited
    ]
    found = []
    for key, of_key in by_requests(
        known, lambda row: (row.api_name, row.broker_ip, row.broker_port, row.capture_point)
    ):
        times = [(row.total_time_ns or 0) - (row.waited_ns or 0) for row in of_key]
        whole = sum(times) // 1000
        line = {
            **dict(
                zip(("api_name", "broker_ip", "broker_port", "capture_point"), key, strict=True)
            ),
            "requests": len(of_key),
            "with_retransmissions": sum(bool(row.retransmitted_packets) for row in of_key),
            "with_zero_windows": sum(bool(row.zero_windows) for row in of_key),
            "total_time_ns": {"mean": durations(times)["mean"]},
            "client_network_ns": {
                "mean": durations(row.client_network_ns for row in of_key)["mean"]
            },
        }
        for name in PARTS:
            values = [getattr(row, name) for row in of_key]
            line[name] = {
                "mean": durations(values)["mean"],
                "per_mille": total(values) // whole if whole else None,
            }
        found.append(line)
    return found


def slowest(rows: Iterable[Row]) -> list[dict[str, Any]]:
    timed = [row for row in rows if row.latency_ns is not None and not row.waited]
    timed.sort(
        key=lambda row: (
            -(row.latency_ns or 0),
            row.request_start_ns or 0,
            row.request_packet or 0,
            row.capture,
            row.connection,
            row.connection_number,
            row.correlation_id or 0,
        )
    )
    names = {field.name for field in spec.TABLES["slowest"].fields} - {"topics", "more_topics"}
    found = []
    for row in timed[:10]:
        topics = sorted({name for x in row.partitions if (name := x.topic or x.topic_id)})
        entry = {name: getattr(row, name) for name in names}
        found.append({**entry, "topics": topics[:3], "more_topics": len(topics) > 3})
    return found
