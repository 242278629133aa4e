"""The broker's request log, read: what it completed, for whom, with which errors.

Each line is a time and Kafka's own JSON of one exchange (KIP-673). Nothing here looks at packets.
"""

import ipaddress
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Exchange = dict[str, Any]
Batch = dict[str, Any]
PREFIX = "Completed request:"

_FACTS = Path(__file__).parents[3] / "tests" / "kafka" / "facts" / "errors.txt"
_ROWS = [line.split() for line in _FACTS.read_text().splitlines() if line[0] != "#"]
ERROR_NAMES = {int(code): name for code, name, *_ in _ROWS}


def exchanges(lines: Iterable[str]) -> list[Exchange]:
    """The log's lines as objects, with the time of completion and both ends' addresses."""
    found: list[Exchange] = []
    for line in lines:
        time, _, rest = line.partition(" ")
        if not rest.startswith(PREFIX):
            continue
        exchange: Exchange = {"completedMs": int(time)}
        exchange.update(json.loads(rest[len(PREFIX) :]))
        exchange["broker"], exchange["client"] = ends(exchange["connection"])
        found.append(exchange)
    return found


def ends(connection: str) -> tuple[str, str]:
    """The broker's and the client's address of a connection's name in the log."""
    # One number follows, or since 4.0 two.
    broker, client = connection.split("-")[:2]
    return _address(broker), _address(client)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    ip = ipaddress.ip_address(host.strip("[]"))
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"


def api(exchange: Exchange) -> str:
    """``Produce`` for ``PRODUCE``, ``ApiVersions`` for ``API_VERSIONS``."""
    name: str = exchange["requestHeader"]["requestApiKeyName"]
    return "".join(part.capitalize() for part in name.split("_"))


def on_wire(exchange: Exchange) -> tuple[str, int]:
    """Name and version of the request on the wire.

    A broker hands what only the controller may do over to it: the log names the request inside,
    the wire has an Envelope, of which there is only version 0.
    """
    if exchange["isForwarded"]:
        return "Envelope", 0
    return api(exchange), int(exchange["requestHeader"]["requestApiVersion"])


def by_version(found: Iterable[Exchange]) -> dict[str, dict[str, int]]:
    """``{api: {version: requests}}``."""
    counts: Counter[tuple[str, int]] = Counter(on_wire(exchange) for exchange in found)
    table: dict[str, dict[str, int]] = {}
    for (name, version), number in sorted(counts.items()):
        table.setdefault(name, {})[str(version)] = number
    return table


def errors(found: Iterable[Exchange]) -> dict[str, dict[str, int]]:
    """``{api: {error name: fields}}`` of every error code in a response that is not 0.

    Those inside Envelopes are left out: the broker gives them to the client once more.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for exchange in (one for one in found if not one["isForwarded"]):
        for code in _codes(exchange.get("response")):
            if code != 0:
                counts[api(exchange)][ERROR_NAMES.get(code, str(code))] += 1
    return {name: dict(sorted(table.items())) for name, table in sorted(counts.items())}


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.lower().endswith("errorcode"):
                yield inner
            else:
                yield from _codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _codes(inner)


def acks(found: Iterable[Exchange]) -> dict[str, int]:
    """Produce requests by ``acks``; those of ``0`` got no response."""
    counts = Counter(str(one["request"]["acks"]) for one in found if api(one) == "Produce")
    return dict(sorted(counts.items()))


def client_ids(found: Iterable[Exchange]) -> dict[str, int]:
    """Requests by client id; Envelopes, whose own id the log does not tell, are left out."""
    counts = Counter(
        str(one["requestHeader"].get("clientId")) for one in found if not one["isForwarded"]
    )
    return dict(sorted(counts.items()))


def principals(found: Iterable[Exchange]) -> dict[str, str]:
    """``{client address: principal}`` of every connection on which something was asked."""
    return {one["client"]: one["principal"] for one in found}


def software(found: Iterable[Exchange]) -> dict[str, int]:
    """Connections by what the client said of its software."""
    said: dict[str, str] = {}
    for exchange in found:
        about = exchange.get("clientInformation", {})
        name = f"{about.get('softwareName')} {about.get('softwareVersion')}"
        said[exchange["connection"]] = name
    return dict(sorted(Counter(said.values()).items()))


def produced_bytes(found: Iterable[Exchange], names: Mapping[str, str]) -> dict[str, int]:
    """Bytes of record batches in Produce requests, by topic; rejected ones are in it."""
    total: Counter[str] = Counter()
    for exchange in found:
        if api(exchange) != "Produce":
            continue
        for topic in exchange["request"]["topicData"]:
            for part in topic["partitionData"]:
                total[_topic(topic, names)] += part.get("recordsSizeInBytes", 0)
    return dict(sorted(total.items()))


def sent_again(
    found: Iterable[Exchange], names: Mapping[str, str], batches: Mapping[str, list[Batch]]
) -> dict[str, int]:
    """Records of batches that were refused at first and are in the log after all, by topic.

    The log tells a batch's bytes: a batch of so many bytes is in the partition's segments.
    """
    total: Counter[str] = Counter()
    for exchange in (one for one in found if api(one) == "Produce"):
        sizes = {
            (_topic(topic, names), part["index"]): part.get("recordsSizeInBytes", 0)
            for topic in exchange["request"]["topicData"]
            for part in topic["partitionData"]
        }
        for topic in (exchange.get("response") or {}).get("responses", []):
            for part in topic["partitionResponses"]:
                place = (_topic(topic, names), part["index"])
                if part["errorCode"]:
                    same = batches.get(f"{place[0]}-{place[1]}", [])
                    counts = {one["count"] for one in same if one["size"] == sizes[place]}
                    total[place[0]] += counts.pop() if len(counts) == 1 else 0
    return {topic: number for topic, number in sorted(total.items()) if number}


def _topic(topic: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """A topic's name, from its id where the version carries ids."""
    for key in ("name", "topic"):
        if topic.get(key):
            return str(topic[key])
    return names.get(str(topic.get("topicId")), str(topic.get("topicId")))


class Fetched:
    """What Fetch responses carried, worked out from the log and from the broker's segments.

    The log tells the bytes of a partition's records and the segments tell which batches those are,
    once it is known from which offset they were asked: the request says so, or an earlier request
    of the same fetch session did.
    """

    def __init__(self, names: Mapping[str, str], batches: Mapping[str, list[Batch]]) -> None:
        self.names = names
        self.batches = batches
        self.records: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.batch_count: Counter[str] = Counter()
        self.cut_batches: Counter[str] = Counter()
        self.control_batches: Counter[str] = Counter()
        self.responses = Counter[str]()
        self._sessions: dict[tuple[str, int], dict[tuple[str, int], int]] = {}

    def add(self, exchange: Exchange) -> None:
        """Take one Fetch exchange into the sums."""
        request, response = exchange["request"], exchange.get("response")
        connection = exchange["connection"]
        session = (connection, int(request.get("sessionId", 0)))
        epoch = int(request.get("sessionEpoch", -1))
        offsets = dict(self._sessions.get(session, {})) if epoch > 0 else {}
        for topic in request["topics"]:
            for part in topic["partitions"]:
                offsets[_topic(topic, self.names), part["partition"]] = part["fetchOffset"]
        if not isinstance(response, dict):
            return
        if epoch >= 0:
            self._sessions[connection, int(response.get("sessionId", 0))] = offsets
        self._response(response, offsets)

    def _response(self, response: Any, offsets: Mapping[tuple[str, int], int]) -> None:
        size = 0
        for topic in response["responses"]:
            name = _topic(topic, self.names)
            for part in topic["partitions"]:
                length = max(0, part.get("recordsSizeInBytes", 0))
                size += length
                if length:
                    index = part["partitionIndex"]
                    self._part(name, index, offsets[name, index], length)
        self.responses["with_records" if size else "empty"] += 1

    def _part(self, topic: str, index: int, offset: int, size: int) -> None:
        self.bytes[topic] += size
        for batch in self.batches.get(f"{topic}-{index}", []):
            if batch["lastOffset"] < offset:
                continue
            if size <= 0:
                return
            if size < batch["size"]:
                self.cut_batches[topic] += 1
                return
            size -= batch["size"]
            self.batch_count[topic] += 1
            if batch["control"]:
                self.control_batches[topic] += 1
            else:
                self.records[topic] += batch["count"]

    def result(self) -> dict[str, Any]:
        """The sums, by topic."""
        return {
            "fetched_records": dict(sorted(self.records.items())),
            "fetched_batches": dict(sorted(self.batch_count.items())),
            "fetched_bytes": dict(sorted(self.bytes.items())),
            "fetched_control_batches": dict(sorted(self.control_batches.items())),
            "fetched_cut_batches": dict(sorted(self.cut_batches.items())),
            "fetch_responses": dict(sorted(self.responses.items())),
        }
