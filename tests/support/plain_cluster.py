"""A second way to make the tables groups and metadata: plain Python over messages as JSON.

In: the objects that `kanalyze decode` writes, or a broker's own request log. Out: lines as dicts,
without the columns that they take from the row of their request.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.kafka.schema.error_codes import error_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Body: TypeAlias = "dict[str, Any]"
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
LISTS = ("protocols", "subscribed_topics", "assigned")
GROUP_COLUMNS = [
    *("event", "group_id", "member_id", "group_instance_id", "generation_id", "member_epoch"),
    *("sent_member_epoch", "protocol_type", "protocol_name", "protocols", "leader", "is_leader"),
    *("member_count", "session_timeout_ms", "rebalance_timeout_ms", "heartbeat_interval_ms"),
    *("subscribed_count", "subscribed_topics", "subscribed_regex", "owned_count"),
    *("assigned_count", "assigned", "reason", "topic", "topic_id", "partition"),
    *("committed_offset", "committed_leader_epoch", "error_code", "error_name"),
]
METADATA_COLUMNS = [
    *("kind", "cluster_id", "node_id", "host", "port", "rack", "is_controller", "is_fenced"),
    *("key_type", "key", "topic", "topic_id", "partition", "leader_id", "leader_epoch"),
    *("replica_count", "isr_count", "offline_count", "error_code", "error_name"),
    "announced",
]


def topic_names(messages: Iterable[Body]) -> dict[str, str]:
    """Every topic's name by its id, from every place that has both."""
    found = {"AAAAAAAAAAAAAAAAAAAAAQ": "__cluster_metadata"}

    def look(value: Any) -> None:
        if isinstance(value, dict):
            name = value.get("name") or value.get("topicName")
            if name and value.get("topicId", NO_ID) != NO_ID:
                found[value["topicId"]] = name
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    for message in messages:
        look(message["request"])
        look(message["response"])
    return found


def plain_groups(messages: list[Body], names: dict[str, str]) -> list[tuple[int, Body]]:
    """The number of each message about a group, from 1, and its lines."""
    lines = []
    for number, message in enumerate(messages, 1):
        make = GROUPS.get(message["requestHeader"].get("requestApiKeyName"))
        if make is None or message["wire"] != "kafka" or message["request"] is None:
            continue
        version = message["requestHeader"]["requestApiVersion"]
        for event in make(message["request"], message["response"], version):
            line = {name: [] if name in LISTS else None for name in GROUP_COLUMNS} | event
            line["topic"] = line["topic"] or names.get(line["topic_id"])
            for item in line["assigned"]:
                item["topic"] = item["topic"] or names.get(item["topic_id"])
            line["assigned"] = line["assigned"][:1000]
            if line["error_code"] is not None:
                line["error_name"] = error_name(line["error_code"])
            lines.append((number, line))
    return lines


def join(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    line = {
        "event": "join",
        "group_id": request["groupId"],
        "member_id": request["memberId"] or None,
        "group_instance_id": request.get("groupInstanceId"),
        "protocol_type": request["protocolType"],
        "protocols": [each["name"] for each in request["protocols"]],
        "session_timeout_ms": request["sessionTimeoutMs"],
        "rebalance_timeout_ms": request.get("rebalanceTimeoutMs"),
        "reason": request.get("reason") or None,
    }
    if request["protocolType"] == "consumer":
        topics, owned = subscription(base64.b64decode(request["protocols"][0]["metadata"]))
        line |= {
            "subscribed_topics": topics,
            "subscribed_count": len(topics),
            "owned_count": owned,
        }
    if response is not None:
        line["error_code"] = response["errorCode"]
        line["member_id"] = response["memberId"] or line["member_id"]
        line["protocol_name"] = response["protocolName"] or None
        if response["generationId"] != -1:
            line["generation_id"] = response["generationId"]
        if response["leader"]:
            line["leader"] = response["leader"]
            line["is_leader"] = response["leader"] == response["memberId"]
            if line["is_leader"] and response["members"]:
                line["member_count"] = len(response["members"])
    yield line


def sync(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    line = {
        "event": "sync",
        "group_id": request["groupId"],
        "member_id": request["memberId"],
        "group_instance_id": request.get("groupInstanceId"),
        "generation_id": request["generationId"],
        "protocol_type": request.get("protocolType"),
        "protocol_name": request.get("protocolName"),
        "is_leader": bool(request["assignments"]),
        "member_count": len(request["assignments"]) or None,
    }
    if response is not None:
        line["error_code"] = response["errorCode"]
        data = base64.b64decode(response["assignment"])
        # In the captures all members are consumers, even if a version does not show it.
        if response["errorCode"] == 0 and (data or version >= 5):
            line["assigned"] = assignment(data)
            line["assigned_count"] = len(line["assigned"])
    yield line


def heartbeat(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    if response is not None and response["errorCode"] != 0:
        yield {
            "event": "heartbeat",
            "group_id": request["groupId"],
            "member_id": request["memberId"] or None,
            "group_instance_id": request.get("groupInstanceId"),
            "generation_id": request["generationId"],
            "error_code": response["errorCode"],
        }


def leave(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    members = request["members"] if version >= 3 else [{"memberId": request["memberId"]}]
    for place, member in enumerate(members):
        code = None if response is None else response["errorCode"]
        if code == 0 and version >= 3:
            code = response["members"][place]["errorCode"]
        yield {
            "event": "leave",
            "group_id": request["groupId"],
            "member_id": member["memberId"],
            "group_instance_id": member.get("groupInstanceId"),
            "reason": member.get("reason"),
            "error_code": code,
        }


def commit(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    answers = [] if response is None else [p for t in response["topics"] for p in t["partitions"]]
    asked = [(topic, part) for topic in request["topics"] for part in topic["partitions"]]
    for place, (topic, part) in enumerate(asked):
        epoch = part.get("committedLeaderEpoch", -1)
        generation = request.get("generationIdOrMemberEpoch", -1)
        yield {
            "event": "commit",
            "group_id": request["groupId"],
            "member_id": request.get("memberId") or None,
            "group_instance_id": request.get("groupInstanceId"),
            "generation_id": None if generation == -1 else generation,
            "topic": topic.get("name"),
            "topic_id": topic.get("topicId"),
            "partition": part["partitionIndex"],
            "committed_offset": part["committedOffset"],
            "committed_leader_epoch": None if epoch == -1 else epoch,
            # Brokers answer in the order of the request.
            "error_code": answers[place]["errorCode"] if answers else None,
        }


def fetch_offsets(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    if response is None:
        return
    groups = response["groups"] if version >= 8 else [{**response, "groupId": request["groupId"]}]
    for place, group in enumerate(groups):
        asked = request["groups"][place] if version >= 8 else {}
        epoch = asked.get("memberEpoch", -1)
        of_group = {
            "event": "fetch_offsets",
            "group_id": group["groupId"],
            "member_id": asked.get("memberId"),
            "sent_member_epoch": None if epoch == -1 else epoch,
        }
        if group.get("errorCode", 0) != 0:
            yield of_group | {"error_code": group["errorCode"]}
        for topic in group["topics"]:
            for part in topic["partitions"]:
                offset, epoch = part["committedOffset"], part.get("committedLeaderEpoch", -1)
                yield of_group | {
                    "topic": topic.get("name"),
                    "topic_id": topic.get("topicId"),
                    "partition": part["partitionIndex"],
                    "committed_offset": None if offset == -1 else offset,
                    "committed_leader_epoch": None if epoch == -1 else epoch,
                    "error_code": part["errorCode"],
                }


def newer_heartbeat(request: Body, response: Body | None, version: int) -> Iterator[Body]:
    sent = request["memberEpoch"]
    topics, owned = request.get("subscribedTopicNames"), request.get("topicPartitions")
    regex = request.get("subscribedTopicRegex")
    assigned = None if response is None else response["assignment"]
    is_plain = topics is owned is regex is assigned is None
    if is_plain and sent > 0 and (response is None or response["memberEpoch"] == sent):
        return
    line = {
        "event": {0: "join", -1: "leave", -2: "leave"}.get(sent, "heartbeat"),
        "group_id": request["groupId"],
        "member_id": request["memberId"],
        "group_instance_id": request.get("instanceId"),
        "sent_member_epoch": sent,
        "subscribed_regex": regex or None,
    }
    if request.get("rebalanceTimeoutMs", -1) != -1:
        line["rebalance_timeout_ms"] = request["rebalanceTimeoutMs"]
    if topics is not None:
        line |= {"subscribed_topics": topics, "subscribed_count": len(topics)}
    if owned is not None:
        line["owned_count"] = sum(len(each["partitions"]) for each in owned)
    if response is not None:
        line["member_id"] = response["memberId"] or line["member_id"]
        line["error_code"] = response["errorCode"]
        line["heartbeat_interval_ms"] = response["heartbeatIntervalMs"] or None
        if response["errorCode"] == 0:
            line["member_epoch"] = response["memberEpoch"]
    if assigned is not None:
        line["assigned"] = [
            {"topic": None, "topic_id": topic["topicId"], "partition": partition}
            for topic in assigned["topicPartitions"]
            for partition in topic["partitions"]
        ]
        line["assigned_count"] = len(line["assigned"])
    yield line


GROUPS: dict[str | None, Callable[[Body, Body | None, int], Iterator[Body]]] = {
    "JOIN_GROUP": join,
    "SYNC_GROUP": sync,
    "HEARTBEAT": heartbeat,
    "LEAVE_GROUP": leave,
    "OFFSET_COMMIT": commit,
    "TXN_OFFSET_COMMIT": commit,
    "OFFSET_FETCH": fetch_offsets,
    "CONSUMER_GROUP_HEARTBEAT": newer_heartbeat,
    "SHARE_GROUP_HEARTBEAT": newer_heartbeat,
}


class Bytes:
    """Reads the consumer protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, kind: str) -> int:
        (found,) = struct.unpack_from(kind, self.data, self.at)
        self.at += struct.calcsize(kind)
        return int(found)

    def text(self) -> str:
        size = self.number(">h")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def skip(self) -> None:
        self.at += max(self.number(">i"), 0)

    def partitions(self) -> list[Body]:
        found = []
        for _ in range(self.number(">i")):
            topic = self.text()
            for _ in range(self.number(">i")):
                partition = self.number(">i")
                found.append({"topic": topic, "topic_id": None, "partition": partition})
        return found


def subscription(data: bytes) -> tuple[list[str], int | None]:
    found = Bytes(data)
    version = found.number(">h")
    topics = [found.text() for _ in range(found.number(">i"))]
    found.skip()
    return topics, len(found.partitions()) if version >= 1 else None


def assignment(data: bytes) -> list[Body]:
    if not data:
        return []
    found = Bytes(data)
    found.number(">h")
    return found.partitions()


# -- metadata -------------------------------------------------------------------------------------


def plain_metadata(messages: list[Body], names: dict[str, str]) -> list[tuple[int, Body]]:
    """The number of each message with something new for its connection, from 1, and its lines."""
    known: dict[Any, Any] = {}
    lines = []
    for number, message in enumerate(messages, 1):
        header, response = message["requestHeader"], message["response"]
        make = METADATA.get(header.get("requestApiKeyName"))
        if make is None or message["wire"] != "kafka" or not response:
            continue
        if make is hints and message["status"] != "error":
            continue
        connection = (message["connection"], message["connectionNumber"])
        entries = list(make(message["request"], response, header["requestApiVersion"]))
        keys = {key for key, _ in entries}
        topics = {key[:2] for key in keys if key[0] == "topic"}
        for place, key in list(known):
            # A fact about a topic that was no longer reported is new when it comes again.
            if place == connection and key[:2] in topics and key not in keys:
                del known[place, key]
        for key, line in entries:
            compared = {**line, "is_controller": None}
            if known.get((connection, key)) == compared:
                continue
            known[connection, key] = compared
            made = dict.fromkeys(METADATA_COLUMNS) | line
            made["topic"] = made["topic"] or names.get(made["topic_id"])
            if made["error_code"] is not None:
                made["error_name"] = error_name(made["error_code"])
            lines.append((number, made))
    return lines


Entries: TypeAlias = "Iterator[tuple[tuple[Any, ...], Body]]"
"""The key of a line, and the line."""


def metadata(request: Body | None, response: Body, version: int) -> Entries:
    for broker in response["brokers"]:
        line = node("broker", broker, broker["nodeId"])
        line["cluster_id"] = response.get("clusterId")
        if version >= 1 and response["controllerId"] >= 0:
            line["is_controller"] = response["controllerId"] == broker["nodeId"]
        yield ("metadata", broker["nodeId"]), line
    for topic in response["topics"]:
        topic_id = topic.get("topicId", NO_ID)
        named = {"topic": topic["name"], "topic_id": None if topic_id == NO_ID else topic_id}
        key = ("topic", (topic["name"], topic_id))
        if topic["errorCode"] or not topic["partitions"]:
            yield (*key, None), {"kind": "topic", **named, "error_code": topic["errorCode"]}
        for part in sorted(topic["partitions"], key=lambda part: part["partitionIndex"]):
            epoch, offline = part.get("leaderEpoch", -1), part.get("offlineReplicas")
            yield (
                (*key, part["partitionIndex"]),
                {
                    "kind": "partition",
                    **named,
                    "partition": part["partitionIndex"],
                    "leader_id": None if part["leaderId"] < 0 else part["leaderId"],
                    "leader_epoch": None if epoch < 0 else epoch,
                    "replica_count": len(part["replicaNodes"]),
                    "isr_count": len(part["isrNodes"]),
                    "offline_count": None if offline is None else len(offline),
                    "error_code": part["errorCode"],
                },
            )


def cluster(request: Body | None, response: Body, version: int) -> Entries:
    kind = "controller" if response.get("endpointType", 1) == 2 else "broker"
    for broker in response["brokers"]:
        line = node(kind, broker, broker["brokerId"])
        line["cluster_id"], line["is_fenced"] = response["clusterId"], broker.get("isFenced")
        if response["controllerId"] >= 0:
            line["is_controller"] = response["controllerId"] == broker["brokerId"]
        yield ("cluster", kind, broker["brokerId"]), line


def node(kind: str, broker: Body, node_id: int) -> Body:
    at = {"host": broker["host"], "port": broker["port"], "rack": broker.get("rack")}
    return {"kind": kind, "node_id": node_id, **at}


def coordinators(request: Body | None, response: Body, version: int) -> Entries:
    assert request is not None
    key_type = ("group", "transaction", "share")[request.get("keyType", 0)]
    found = response["coordinators"] if version >= 4 else [{**response, "key": request["key"]}]
    for each in found:
        line = {
            "kind": "coordinator",
            "key_type": key_type,
            "key": each["key"],
            "node_id": None if each["nodeId"] < 0 else each["nodeId"],
            "host": each["host"] or None,
            "port": None if each["port"] < 0 else each["port"],
            "error_code": each["errorCode"],
        }
        yield ("coordinator", key_type, each["key"]), line


def hints(request: Body | None, response: Body, version: int) -> Entries:
    for topic in response["responses"]:
        name, topic_id = topic.get("name", topic.get("topic")), topic.get("topicId")
        for part in topic.get("partitionResponses", topic.get("partitions")):
            leader, index = part.get("currentLeader"), part.get("index", part.get("partitionIndex"))
            if part["errorCode"] == 0 or leader is None:
                continue
            line = {
                "kind": "partition",
                "topic": name or None,
                "topic_id": topic_id,
                "partition": index,
                "leader_id": None if leader["leaderId"] < 0 else leader["leaderId"],
                "leader_epoch": None if leader["leaderEpoch"] < 0 else leader["leaderEpoch"],
                "error_code": part["errorCode"],
            }
            yield ("hint", name, topic_id, index), line
    for broker in response.get("nodeEndpoints", ()):
        yield ("hint", broker["nodeId"]), node("broker", broker, broker["nodeId"])


def versions(request: Body | None, response: Body, version: int) -> Entries:
    keys = [
        f"{api['apiKey']}:{api['minVersion']}-{api['maxVersion']}" for api in response["apiKeys"]
    ]
    if keys:
        yield ("versions",), {"kind": "versions", "announced": " ".join(keys)}


METADATA: dict[str | None, Callable[[Body | None, Body, int], Entries]] = {
    "METADATA": metadata,
    "DESCRIBE_CLUSTER": cluster,
    "FIND_COORDINATOR": coordinators,
    "PRODUCE": hints,
    "FETCH": hints,
    "API_VERSIONS": versions,
}
