"""The truth of a capture: what broker and clients counted, never what a packet analyzer saw."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab import requestlog
from lab.errors import RecorderError
from lab.jmx import bean, rise
from lab.requestlog import Batch, Exchange, Fetched

Counts = Mapping[str, float]

# Sent by the node to its own controller on a clock: the two readings and the log's mark are not
# taken at one instant, so these may differ by one and prove nothing.
CLOCKED = frozenset({"BrokerHeartbeat"})

# Kafka counts every Fetch a second time, by who asks.
COUNTED_TWICE = frozenset({"FetchConsumer", "FetchFollower"})

# What JMX calls requests of a kind that it counts apart from the others of their API.
COUNTED_APART = {"AddPartitionsToTxnVerification": "AddPartitionsToTxn"}

# What the broker says of a frame whose size can't be; TLS spoken to a plaintext port looks so.
REFUSED = "frames refused because of their size"

SOCKET = {
    "connection-creation-total": "connections",
    "incoming-byte-total": "request_bytes",
    "outgoing-byte-total": "response_bytes",
    # The selector is a client's: what it calls requests are sent, and a broker sends responses.
    "response-total": "requests",
    "request-total": "responses",
    "failed-authentication-total": "failed_handshakes",
}


@dataclass(frozen=True)
class Observed:
    """All that was read from the broker for one recording.

    ``exchanges`` are those completed between the two readings of its counters, ``later`` those of
    its shutdown, when it can't be asked any more.
    """

    before: Counts
    after: Counts
    exchanges: list[Exchange]
    topic_ids: Mapping[str, str]
    batches: Mapping[str, list[Batch]]
    listeners: tuple[str, ...]
    warnings: Mapping[str, int] = field(default_factory=dict)
    later: list[Exchange] = field(default_factory=list)
    rejected: Mapping[str, int] = field(default_factory=dict)
    handshakes: Mapping[str, int] = field(default_factory=dict)
    uncounted: bool = False

    @property
    def recorded(self) -> list[Exchange]:
        """The exchanges that went over a recorded listener."""
        return [one for one in (*self.exchanges, *self.later) if one["listener"] in self.listeners]


def broker_truth(seen: Observed) -> dict[str, Any]:
    """The broker's part of a truth file."""
    grown = rise(seen.before, seen.after)
    _agree(grown, seen.exchanges)
    recorded = seen.recorded
    sockets = {name: table for name, table in listeners(grown).items() if name in seen.listeners}
    _complete(seen, sockets)
    appended = produced(grown, seen.batches)
    names = {ident: name for name, ident in seen.topic_ids.items()}
    rejected = requestlog.sent_again(recorded, names, seen.batches) | dict(seen.rejected)
    fetched = Fetched(names, seen.batches)
    for exchange in recorded:
        if requestlog.api(exchange) == "Fetch":
            fetched.add(exchange)
    of_requests: dict[str, Any] = {"broker_requests": requestlog.by_version(recorded)}
    if any("SASL" in name for name in seen.listeners):
        # Not all requests on the wire, so not under the name that says so.
        of_requests = {
            "authenticated_requests": of_requests["broker_requests"],
            "handshake_requests": dict(seen.handshakes),
            "principals": requestlog.principals(recorded),
        }
    if seen.uncounted:
        of_requests = {
            "completed_requests": of_requests["broker_requests"],
            "refused_requests": sum(table["requests"] for table in sockets.values())
            - len(recorded),
        }
    told = {
        **of_requests,
        "broker_requests_by_listener": by_listener(recorded),
        "broker_errors": requestlog.errors(recorded),
        "broker_errors_by_jmx": jmx_errors(grown),
        "broker_listeners": _final(sockets, seen),
        "requests_without_response": sum(
            table["requests"] - table["responses"] for table in sockets.values()
        ),
        "encrypted_listeners": [name for name in seen.listeners if "SSL" in name],
        "tls_connections": _tls(sockets, seen.warnings),
        "produce_requests_by_acks": requestlog.acks(recorded),
        "requests_by_client_id": requestlog.client_ids(recorded),
        "connections_by_software": requestlog.software(recorded),
        "produced_records": appended,
        "rejected_records": rejected,
        "sent_records": {
            topic: sum(appended.get(topic, {}).values()) + rejected.get(topic, 0)
            for topic in sorted(appended.keys() | rejected.keys())
        },
        "produced_batches": {part: len(found) for part, found in sorted(seen.batches.items())},
        "produced_batches_by_codec": by_codec(seen.batches),
        "produced_bytes": requestlog.produced_bytes(recorded, names),
        **fetched.result(),
        "topic_ids": dict(sorted(seen.topic_ids.items())),
        "broker_warnings": dict(seen.warnings),
    }
    if seen.uncounted:
        for name in ("produced_records", "sent_records"):
            del told[name]
    return told


def by_listener(found: Iterable[Exchange]) -> dict[str, dict[str, int]]:
    """``{listener: {api: requests}}``."""
    table: dict[str, Counter[str]] = {}
    for exchange in found:
        table.setdefault(exchange["listener"], Counter())[requestlog.on_wire(exchange)[0]] += 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(table.items())}


def listeners(grown: Counts) -> dict[str, dict[str, int]]:
    """What the socket server counted on each listener; frames with their size prefix."""
    table: dict[str, Counter[str]] = {}
    for name, value in grown.items():
        keys, attribute = bean(name)
        if keys.get("type") != "socket-server-metrics" or "networkProcessor" not in keys:
            continue
        if attribute in SOCKET and "clientSoftwareName" not in keys:
            table.setdefault(keys["listener"], Counter())[SOCKET[attribute]] += round(value)
    return {name: dict(sorted(counts.items())) for name, counts in sorted(table.items())}


def produced(
    grown: Counts, batches: Mapping[str, list[Batch]] | None = None
) -> dict[str, dict[str, int]]:
    """Records appended: by how much each partition's log end offset rose.

    What ends a transaction is in the log too, but no client sent it.
    """
    markers = {
        part: sum(batch["count"] for batch in found if batch["control"])
        for part, found in (batches or {}).items()
    }
    table: dict[str, dict[str, int]] = {}
    for name, value in sorted(grown.items()):
        keys, _ = bean(name)
        if keys.get("name") != "LogEndOffset" or keys["topic"].startswith("__") or value == 0:
            continue
        own = markers.get(f"{keys['topic']}-{keys['partition']}", 0)
        table.setdefault(keys["topic"], {})[keys["partition"]] = round(value) - own
    return table


def by_codec(found: Mapping[str, list[Batch]]) -> dict[str, dict[str, dict[str, int]]]:
    """``{topic: {codec: {"batches": n, "records": n}}}`` of what is in the log."""
    table: dict[str, dict[str, dict[str, int]]] = {}
    for part, batches in sorted(found.items()):
        topic = table.setdefault(part.rpartition("-")[0], {})
        for batch in (one for one in batches if not one["control"]):
            sums = topic.setdefault(batch["codec"].lower(), {"batches": 0, "records": 0})
            sums["batches"] += 1
            sums["records"] += batch["count"]
    return table


def jmx_errors(grown: Counts) -> dict[str, dict[str, int]]:
    """ErrorsPerSec: all listeners, and once for each partition or resource with the error."""
    table: dict[str, dict[str, int]] = {}
    for name, value in sorted(grown.items()):
        keys, attribute = bean(name)
        if keys.get("name") != "ErrorsPerSec" or attribute != "Count" or value == 0:
            continue
        if keys["error"] != "NONE" and keys["request"] not in COUNTED_TWICE:
            table.setdefault(keys["request"], {})[keys["error"]] = round(value)
    return table


def jmx_requests(grown: Counts) -> dict[str, int]:
    """RequestsPerSec: all listeners, with those forwarded to the controller counted again."""
    total: Counter[str] = Counter()
    for name, value in grown.items():
        keys, attribute = bean(name)
        if keys.get("name") != "RequestsPerSec" or attribute != "Count":
            continue
        if value and keys["request"] not in COUNTED_TWICE:
            name_of_api = COUNTED_APART.get(keys["request"], keys["request"])
            total[f"{name_of_api} v{keys['version']}"] += round(value)
    return dict(sorted(total.items()))


def _final(sockets: Mapping[str, Mapping[str, int]], seen: Observed) -> dict[str, dict[str, int]]:
    """The listeners' counts; of one that went on afterwards only its connections are final."""
    going_on = {one["listener"] for one in seen.later}
    return {
        name: {"connections": table["connections"]} if name in going_on else dict(table)
        for name, table in sockets.items()
    }


def _tls(sockets: Mapping[str, Mapping[str, int]], warnings: Mapping[str, int]) -> dict[str, int]:
    """Connections that spoke TLS: all of the TLS listener's, and those refused elsewhere."""
    encrypted = {name: told["connections"] for name, told in sockets.items() if "SSL" in name}
    return encrypted and encrypted | {"PLAINTEXT": warnings.get(REFUSED, 0)}


def _complete(seen: Observed, sockets: Mapping[str, Mapping[str, int]]) -> None:
    """Every request that was received must have been logged, or the log is no truth.

    But for those that the broker cannot read: it logs none of them.
    """
    logged = Counter(one["listener"] for one in seen.exchanges)
    for name in seen.listeners:
        received = sockets[name]["requests"]
        if name != "CONTROLLER" and not seen.uncounted and logged[name] != received:
            raise RecorderError(f"{name} received {received} requests and logged {logged[name]}")


def _agree(grown: Counts, found: Iterable[Exchange]) -> None:
    """Log and JMX are two counters in the broker: they must say the same."""
    logged = Counter(
        f"{requestlog.api(one)} v{one['requestHeader']['requestApiVersion']}" for one in found
    )
    counted = Counter(jmx_requests(grown))
    for name in sorted(logged.keys() | counted.keys()):
        if name.split()[0] not in CLOCKED and logged[name] != counted[name]:
            raise RecorderError(
                f"the broker logged {logged[name]} {name} and counted {counted[name]} over JMX"
            )


def client_truth(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The clients' reports, summed by topic."""
    clients = list(found)
    isolated = by_isolation(clients)
    sums: dict[str, Counter[str]] = {
        "sent": Counter(),
        "acknowledged": Counter(),
        "consumed": Counter(),
    }
    if isolated:
        sums |= {"committed": Counter(), "aborted": Counter()}
    for client in clients:
        for what, counter in sums.items():
            for topic, parts in client.get(what, {}).items():
                counter[topic] += sum(parts.values())
    for topic in isolated:
        del sums["consumed"][topic]
    table: dict[str, Any] = {
        f"client_{what}": dict(sorted(counter.items())) for what, counter in sums.items()
    }
    return table | ({"client_consumed_by_isolation": isolated} if isolated else {})


def by_isolation(clients: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """``{topic: {isolation level: [records that each client was given]}}``.

    Of the topics that someone read with ``read_committed``: more records came to such a client than
    it handed out.
    """
    table: dict[str, dict[str, list[int]]] = {}
    for client in clients:
        level = client.get("isolation_level", "read_uncommitted")
        for topic, parts in client.get("consumed", {}).items():
            table.setdefault(topic, {}).setdefault(level, []).append(sum(parts.values()))
    return {topic: levels for topic, levels in sorted(table.items()) if "read_committed" in levels}


def consumed_records(clients: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records that clients kept, taken out of their reports, in order of place.

    Clients that read the same record must have read the same.
    """
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for client in clients:
        for record in client.pop("records", []):
            place = (record["topic"], record["partition"], record["offset"])
            if found.setdefault(place, record) != record:
                raise RecorderError(f"two clients read different records at {place}")
    return [found[place] for place in sorted(found)]


def mock_truth(found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What librdkafka's statistics say of its own mock cluster.

    Only APIs that are never spoken over a bootstrap connection are given: librdkafka drops such a
    connection's counts when it has learned which broker it is.
    """
    requests: Counter[str] = Counter()
    ports: dict[str, int] = {}
    for client in found:
        for number, port in client.get("mock_brokers", {}).items():
            ports[f"MOCK{number}"] = port
        for broker in client["statistics"]["brokers"].values():
            requests.update(broker["req"])
    certain = {api: requests[api] for api in ("Fetch", "ListOffsets", "Produce")}
    return {"ports": dict(sorted(ports.items())), "client_requests": certain}
