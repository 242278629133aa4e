"""Our JSON matches Kafka's own: the log of a real broker, and the converters of its serializer."""

from __future__ import annotations

import json
import struct
from collections import defaultdict

import pytest

from kanalyze.decoding.bodies import (
    EVERYTHING,
    DecodedExchange,
    DecodedMessage,
)
from kanalyze.decoding.secrets import HIDDEN
from kanalyze.kafka.codec.compiler import compile_decoder
from tests.support.captures import CHOSEN, NAMES, often, request_log, truth
from tests.support.decoding import CATALOG, READER, exchange, exchanges_of, frame, json_of, sized
from tests.support.rows import START_NS, row
from tests.support.vectors import definition_of, read_vectors

ENCRYPTED, CUT = "tls", "snaplen"
LOGGED = [name for name in NAMES if request_log(name) and name not in (ENCRYPTED, CUT)]
PARTS = ("requestHeader", "request", "response")
RENAMED = {("TXN_OFFSET_COMMIT", "request"): {"generationId": "generationIdOrMemberEpoch"}}
"""Fields with another name in Kafka 4.3.1, which made the captures: that name, and the name in
the newest definitions."""
BEFORE_THE_LOG = {17, 18, 36}
"""SaslHandshake, ApiVersions and SaslAuthenticate: on listeners with a login, the broker answers
them before it logs requests."""


def test_the_comparison_finds_differences():
    assert is_same({"a": [1, HIDDEN]}, {"a": [1, "x"]})
    assert not is_same({"a": 1}, {"a": True})
    assert not is_same({"a": [1]}, {"a": [1, 2]})
    assert not is_same({"a": 1}, {"a": 1, "b": 2})
    assert not is_same({"a": HIDDEN}, {"a": None})


def written(request: bytes | None, response: bytes | None = None, **changes):
    made = exchange(request, response, **changes)
    return json.loads(json_of(made, row()))


def written_body(message: DecodedMessage):
    """Return the JSON of a decoded response."""
    made = exchange(None, frame(12, 0, "response", {"errorCode": 0}))
    return json.loads(json_of(made, row(), DecodedExchange(None, message, None)))["response"]


def key_of(entry, client: str, *, forwarded: bool):
    header = entry["requestHeader"]
    return client, header["correlationId"], header["requestApiKey"], forwarded


def written_by_key(name: str):
    """Return the written objects of a capture by client, correlation id and API."""
    found = defaultdict(list)
    for exchange_, its_row in exchanges_of(name):
        made = json.loads(json_of(exchange_, its_row))
        found[key_of(made, made["client"], forwarded=False)].append(made)
        if "forwarded" in made:
            inner = made["forwarded"] | {"responsePacket": made["responsePacket"]}
            found[key_of(inner, made["client"], forwarded=True)].append(inner)
    return found


def logged(entry, part: str):
    """Return a part of the broker's entry, with the names of the newest definitions."""
    names = RENAMED.get((entry["requestHeader"]["requestApiKeyName"], part), {})
    found = entry[part]
    return {names.get(name, name): value for name, value in found.items()} if names else found


def without_records(found):
    """Return a ShareFetch response without records, which the broker logs as an empty text."""
    if isinstance(found, list):
        return [without_records(item) for item in found]
    if not isinstance(found, dict):
        return found
    assert found.get("records", "") in ("", None)
    return {
        name: without_records(value)
        for name, value in found.items()
        if name not in ("records", "recordsSizeInBytes")
    }


def is_same(made, expected) -> bool:
    """Return true if both are equal except for hidden values."""
    if made == HIDDEN:
        return expected is not None
    if isinstance(made, dict) and isinstance(expected, dict):
        return made.keys() == expected.keys() and all(
            is_same(value, expected[name]) for name, value in made.items()
        )
    if isinstance(made, list) and isinstance(expected, list):
        return len(made) == len(expected) and all(map(is_same, made, expected))
    return type(made) is type(expected) and made == expected


def unsent(made) -> bool:
    """Return true if the client closed before the broker sent a response, which is not captured."""
    return made.get("status") == "unanswered" and made["responsePacket"] is None


def unknown_to_the_broker(entry) -> bool:
    """Return true if this is an ApiVersions request of a version that the broker did not know."""
    is_api_versions = entry["requestHeader"]["requestApiKeyName"] == "API_VERSIONS"
    return is_api_versions and entry["response"]["errorCode"] == UNSUPPORTED_VERSION


UNSUPPORTED_VERSION = 35


@pytest.mark.few(4)
@pytest.mark.parametrize("name", often(LOGGED, CHOSEN))
def test_every_entry_of_the_brokers_request_log_is_written_the_same(name):
    found = written_by_key(name)
    compared = 0
    for entry in request_log(name):
        key = key_of(entry, entry["client"], forwarded=entry["isForwarded"])
        made = found[key].pop(0)
        for part in PARTS:
            if part == "response" and unsent(made):
                assert made[part] is None
                continue
            actual, expected = made[part], logged(entry, part)
            if part == "request" and unknown_to_the_broker(entry):
                assert expected == {}
                continue
            if entry["requestHeader"]["requestApiKeyName"] == "SHARE_FETCH":
                actual, expected = without_records(actual), without_records(expected)
            assert is_same(actual, expected), (actual, expected)
        compared += 1
    assert compared == len(request_log(name)) > 0
    # The log lacks only Envelopes of forwarded requests, logins, and requests that the broker
    # could not read.
    not_logged = [
        made
        for (_, _, api_key, _), remaining in found.items()
        for made in remaining
        if "forwarded" not in made and api_key not in BEFORE_THE_LOG
    ]
    assert len(not_logged) == truth(name).get("refused_requests", 0)


def test_whole_messages_of_a_snapped_capture_match_the_brokers_log():
    found = written_by_key(CUT)
    compared = 0
    for entry in request_log(CUT):
        made = found[key_of(entry, entry["client"], forwarded=False)].pop(0)
        assert made["requestHeader"] == entry["requestHeader"]
        for part in ("request", "response"):
            if made[part] is not None:
                assert made[part] == logged(entry, part)
                compared += 1
            else:
                assert unsent(made) or made[f"{part}Problem"]["kind"] == "missing_bytes"
    assert compared > 10


def without_unknown_tags(value):
    if isinstance(value, dict):
        return {
            name: without_unknown_tags(inner)
            for name, inner in value.items()
            if name != "unknownTaggedFields"
        }
    return [without_unknown_tags(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_every_message_kafkas_serializer_wrote_has_the_json_of_kafkas_converter(step):
    compared = set()
    for vector in read_vectors()[::step]:
        definition = definition_of(vector, CATALOG)
        decode = compile_decoder(definition, vector.version, EVERYTHING)
        decode.read(vector.content, 0)
        made = written_body(DecodedMessage(definition, vector.version, decode.take(None), [], None))
        assert without_unknown_tags(made) == vector.json, (vector.name, vector.version)
        compared.add((vector.api_key, vector.kind, vector.version))
    assert len(compared) > 700 // step


def test_a_request_without_a_response_has_an_empty_one():
    values = {"acks": 0, "timeoutMs": 1, "topicData": []}
    made = written(frame(0, 0, "request", values), one_way=True)
    assert made["request"] == values
    assert made["response"] == ""


def test_null_records_are_null_and_others_are_their_size():
    topic = {
        "name": "t",
        "partitionData": [{"index": n, "records": r} for n, r in enumerate((None, b"", b"xyz"))],
    }
    values = {"acks": 1, "timeoutMs": 1, "topicData": [topic]}
    (shown,) = written(frame(0, 0, "request", values))["request"]["topicData"]
    assert shown["partitionData"] == [
        {"index": 0, "records": None},
        {"index": 1, "recordsSizeInBytes": 0},
        {"index": 2, "recordsSizeInBytes": 3},
    ]


def test_a_tagged_field_at_its_default_is_left_out_even_when_it_was_sent():
    values = {
        "errorCode": 0,
        "apiKeys": [],
        "throttleTimeMs": 0,
        "supportedFeatures": [],
        "finalizedFeaturesEpoch": -1,
        "zkMigrationReady": True,
    }
    request = frame(18, 3, "request", {"clientSoftwareName": "", "clientSoftwareVersion": ""})
    made = written(request, frame(18, 3, "response", values))["response"]
    assert made == {"errorCode": 0, "apiKeys": [], "throttleTimeMs": 0, "zkMigrationReady": True}


def test_a_tagged_struct_at_its_default_is_left_out():
    partition = {
        "partitionIndex": 0,
        "errorCode": 0,
        "highWatermark": 0,
        "lastStableOffset": 0,
        "logStartOffset": 0,
        "abortedTransactions": None,
        "preferredReadReplica": -1,
        "records": b"",
        "divergingEpoch": {"epoch": -1, "endOffset": -1},
        "currentLeader": {"leaderId": 2, "leaderEpoch": -1},
    }
    topic = {"topic": "t", "partitions": [partition]}
    values = {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": [topic]}
    found = READER.message(frame(1, 12, "response", values), 1, 12, "response")
    made = written_body(found)["responses"][0]["partitions"][0]
    assert "divergingEpoch" not in made
    assert made["currentLeader"] == {"leaderId": 2, "leaderEpoch": -1}


def test_unknown_tagged_fields_are_kept_where_they_were():
    values = {
        "groupId": "g",
        "generationId": 1,
        "memberId": "m",
        "groupInstanceId": None,
        "_taggedFields": [(9, b"hi")],
    }
    made = written(frame(12, 4, "request", values, header_tags=[(7, b"")]))
    assert made["request"]["unknownTaggedFields"] == [{"tag": 9, "data": "aGk="}]
    assert made["requestHeader"]["unknownTaggedFields"] == [{"tag": 7, "data": ""}]
    assert "_taggedFields" not in made["request"]
    answer = frame(
        12, 4, "response", {"throttleTimeMs": 0, "errorCode": 0}, header_tags=[(8, b"x")]
    )
    made = written(frame(12, 4, "request", values), answer)
    assert made["responseHeader"] == {"unknownTaggedFields": [{"tag": 8, "data": "eA=="}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.5, 1.5), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (float("nan"), "NaN")],
)
def test_a_number_that_json_cannot_represent_is_a_text(value, expected):
    op = {"key": "k", "value": value, "remove": False}
    values = {"entries": [{"entity": [], "ops": [op]}], "validateOnly": False}
    made = written(frame(49, 0, "request", values))
    assert made["request"]["entries"][0]["ops"][0]["value"] == expected


def test_a_header_of_version_0_has_no_client_id():
    made = written(frame(7, 0, "request", {"brokerId": 1}))
    assert "clientId" not in made["requestHeader"]
    assert made["requestHeader"]["requestApiKeyName"] == "CONTROLLED_SHUTDOWN"


def test_an_unknown_api_has_a_header_without_a_name_and_a_problem():
    data = sized(struct.pack(">hhi", 999, 3, 1) + b"\0\3app" + b"body")
    made = written(data)
    assert made["requestHeader"]["requestApiKey"] == 999
    assert made["requestHeader"]["requestApiKeyName"] is None
    assert made["request"] is None
    assert made["requestProblem"] == {
        "kind": "unknown_api",
        "fieldPath": None,
        "frameOffset": len(data) - 4,
        "rawSizeInBytes": 4,
        "reason": "no definition has this API",
    }


def test_an_exchange_of_kafka_07_has_its_own_api_name():
    made = exchange(sized(b"\0\2" + bytes(20)), wire="kafka-0.7", api_version=None)
    found = json.loads(json_of(made, row(api_name="MultiFetch")))
    assert found["requestHeader"]["requestApiKeyName"] == "MULTI_FETCH"
    assert found["request"] is None


def test_an_orphan_response_has_nulls_for_the_request():
    made = written(None, frame(12, 0, "response", {"errorCode": 0}))
    assert made["requestHeader"]["requestApiKey"] is None
    assert made["requestHeader"]["correlationId"] == 77
    assert made["response"] is None
    assert made["responseProblem"]["kind"] == "orphan_response"


def test_facts_from_the_capture_have_additional_keys():
    values = {"groupId": "g", "generationId": 1, "memberId": "m"}
    made = written(frame(12, 0, "request", values))
    assert made["connection"] == "10.0.0.1:40000>10.0.0.9:9092"
    assert (made["client"], made["broker"]) == ("10.0.0.1:40000", "10.0.0.9:9092")
    assert made["requestStartNs"] == START_NS
    assert made["clientInformation"] == {"softwareName": "librdkafka", "softwareVersion": "2.5.0"}
    assert (made["requestPacket"], made["status"], made["anomalies"]) == (4, "ok", [])
