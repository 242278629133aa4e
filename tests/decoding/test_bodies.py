from __future__ import annotations

import random
import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.decoding.bodies import json_path
from kanalyze.kafka.records.types import RecordsSummary
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.tree import TreeText
from tests.support.cases import examples, for_each
from tests.support.decoding import (
    CATALOG,
    READER,
    decoded,
    exchange,
    frame,
    json_of,
    message,
    sized,
)
from tests.support.messages import Generator
from tests.support.rows import row

HEARTBEAT = frame(12, 0, "request", {"groupId": "g", "generationId": 1, "memberId": "m"})


def test_all_fields_of_both_messages_are_read():
    found = decoded(HEARTBEAT, frame(12, 0, "response", {"errorCode": 27}))
    assert found.request.values == {"groupId": "g", "generationId": 1, "memberId": "m"}
    assert found.response.values == {"errorCode": 27}
    assert found.request.problem is found.response.problem is found.forwarded is None


def test_a_body_that_ends_early_is_reported_with_field_and_offset():
    cut = sized(HEARTBEAT[4:-1])
    problem = decoded(cut).request.problem
    assert problem.kind == AnomalyKind.MALFORMED_BODY
    assert problem.field_path == "memberId"
    assert problem.frame_offset + problem.size_in_bytes == len(cut)
    assert decoded(cut).request.values is None


def test_the_path_of_a_failure_has_the_names_of_kafkas_json():
    assert json_path("TopicData[0].PartitionData[2].Index") == "topicData[0].partitionData[2].index"
    assert json_path("_taggedFields.ClusterId") == "_taggedFields.clusterId"
    assert json_path("MetadataRequest") == "metadataRequest"


def test_bytes_after_a_message_are_counted_and_the_message_is_kept():
    found = decoded(sized(HEARTBEAT[4:] + b"\0\0\0")).request
    assert found.values["groupId"] == "g"
    assert found.problem[:3] == (AnomalyKind.TRAILING_BYTES, len(HEARTBEAT), 3)


def test_the_body_of_an_unknown_api_has_an_offset_and_a_size():
    data = sized(struct.pack(">hhi", 999, 3, 1) + b"\0\3app" + b"body")
    problem = decoded(data).request.problem
    assert problem[:3] == (AnomalyKind.UNKNOWN_API, len(data) - 4, 4)


def newest(api_key: int) -> int:
    return CATALOG.api(api_key).versions.highest


def test_a_newer_version_is_read_as_the_newest_known_one_when_that_fits_exactly():
    version = newest(12)
    values = {
        "groupId": "g",
        "generationId": 1,
        "memberId": "m",
        "groupInstanceId": None,
    }
    known = frame(12, version, "request", values)
    newer = known[:6] + struct.pack(">h", version + 1) + known[8:]
    assert decoded(newer).request.values == values
    assert decoded(newer).request.version == version
    longer = sized(newer[4:] + b"\0")
    found = decoded(longer).request
    assert found.values is None
    assert found.problem.kind == AnomalyKind.UNKNOWN_API_VERSION
    assert found.problem.size_in_bytes > 0


def test_a_response_with_error_35_has_a_version_0_body():
    request = frame(18, 3, "request", {"clientSoftwareName": "x", "clientSoftwareVersion": "1"})
    request = request[:6] + struct.pack(">h", 90) + request[8:]
    values = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]}
    found = decoded(request, frame(18, 0, "response", values)).response
    assert (found.version, found.values, found.problem) == (0, values, None)


def test_a_message_with_missing_bytes_has_its_size():
    made = exchange(HEARTBEAT)
    made.response = message(None, 5000)
    problem = READER.exchange(made).response.problem
    assert problem.kind == AnomalyKind.MISSING_BYTES
    assert problem.size_in_bytes == 5000


def test_an_orphan_response_has_only_its_size():
    made = exchange(None, frame(12, 0, "response", {"errorCode": 0}))
    found = READER.exchange(made)
    assert found.request is None
    assert found.response.problem.kind == AnomalyKind.ORPHAN_RESPONSE


def test_messages_of_kafka_07_are_not_read_by_definitions():
    found = READER.exchange(exchange(HEARTBEAT, wire="kafka-0.7", api_version=None))
    assert found.request.values is None
    assert found.request.problem.size_in_bytes == len(HEARTBEAT) - 4


def test_tagged_fields_of_headers_are_kept():
    version = newest(12)
    response_values = {"throttleTimeMs": 0, "errorCode": 0}
    values = {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None}
    found = decoded(
        frame(12, version, "request", values, header_tags=[(5, b"hi")]),
        frame(12, version, "response", response_values, header_tags=[(6, b"ho")]),
    )
    assert found.request.header_tags == [(5, b"hi")]
    assert found.response.header_tags == [(6, b"ho")]
    assert found.request.values == values
    assert found.response.values == response_values


def test_a_header_without_client_id_is_read():
    found = decoded(frame(7, 0, "request", {"brokerId": 3})).request
    assert found.values == {"brokerId": 3}


def test_the_messages_inside_an_envelope_are_decoded():
    inner_request = frame(12, 0, "request", {"groupId": "g", "generationId": 1, "memberId": "m"})
    inner_response = frame(12, 0, "response", {"errorCode": 16})
    request = {
        "requestData": inner_request[4:],
        "requestPrincipal": None,
        "clientHostAddress": b"\1",
    }
    response = {"responseData": inner_response[4:], "errorCode": 0}
    found = decoded(frame(58, 0, "request", request), frame(58, 0, "response", response))
    assert found.forwarded.request.values["groupId"] == "g"
    assert found.forwarded.response.values == {"errorCode": 16}
    assert found.request.values["requestData"] == "[hidden]"


def test_an_envelope_that_holds_no_request_has_no_forwarded_exchange():
    request = {"requestData": b"\0", "requestPrincipal": None, "clientHostAddress": b"\1"}
    found = decoded(frame(58, 0, "request", request))
    assert found.forwarded is None
    assert found.request.problem is None


def all_outputs(made) -> str:
    found = READER.exchange(made)
    lines = TreeText(READER).lines(made, row(), found)
    return "\n".join([json_of(made, row(), found), *lines])


SAMPLES = [
    (api.key, version, kind)
    for api in CATALOG.apis
    for version in {api.versions.lowest, api.versions.highest}
    for kind in ("request", "response")
]


@given(
    st.sampled_from(SAMPLES),
    st.integers(0, 10**9),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    st.integers(0, 10**6),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_mutation_of_a_frame_is_decoded_or_reported(sample, seed, changes, cut):
    api_key, version, kind = sample
    chance = random.Random(seed)
    values = Generator(CATALOG.message(api_key, kind), version, chance).values()
    data = bytearray(frame(api_key, version, kind, values))
    for position, value in changes:
        data[4 + position % (len(data) - 4)] = value
    end = len(data) - cut % (len(data) - 8) if cut % 2 else len(data)
    broken = sized(bytes(data[4:end]))
    made = exchange(broken) if kind == "request" else exchange(None, broken)
    if kind == "response":
        made.api_key, made.api_version = api_key, version
    found = READER.exchange(made)
    body = found.request or found.response
    assert (body.values is None) <= (body.problem is not None)
    assert ("not decoded" in all_outputs(made)) == (body.problem is not None) or found.forwarded


@for_each("sample", SAMPLES)
def test_a_message_of_every_api_is_decoded_as_it_was_written(sample):
    api_key, version, kind = sample
    message_ = CATALOG.message(api_key, kind)
    values = Generator(message_, version, random.Random(api_key)).values()
    found = READER.message(frame(api_key, version, kind, values), api_key, version, kind)
    assert found.problem is None
    if not READER.redactor(api_key, kind).plan:
        assert with_sizes(found.values) == with_sizes(values)


def with_sizes(value: Any) -> Any:
    """Return values with each records field replaced by its size in bytes."""
    if isinstance(value, list):
        return [with_sizes(item) for item in value]
    if not isinstance(value, dict):
        return value.record_bytes if isinstance(value, RecordsSummary) else value
    made = {name: with_sizes(inner) for name, inner in value.items()}
    if isinstance(made.get("records"), bytes):
        made["records"] = len(made["records"])
    return made
