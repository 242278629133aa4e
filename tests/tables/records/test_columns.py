from __future__ import annotations

import uuid

import pytest

from kanalyze.kafka.records.batches import schema_id
from kanalyze.kafka.records.types import Header
from kanalyze.tables.records.columns import HeaderFacts, facts_of

# The example of the W3C recommendation "Trace Context".
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACE_PARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")


def facts(*headers: tuple[bytes, bytes | None]):
    return facts_of([Header(*header) for header in headers])


def test_the_ids_of_a_trace_are_read():
    found = facts((b"other", b"x"), (b"traceparent", TRACE_PARENT.encode()))
    assert (found.trace_id, found.parent_span_id) == (TRACE_ID, PARENT_ID)


def test_a_later_version_of_traceparent_may_have_more_fields():
    later = TRACE_PARENT.replace("00-", "cc-", 1) + "-what-the-future-will-be-like"
    assert facts((b"traceparent", later.encode())).trace_id == TRACE_ID


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        TRACE_PARENT.upper().encode(),
        TRACE_PARENT.encode() + b"-more",
        TRACE_PARENT.encode() + b"\n",
        TRACE_PARENT.replace("00-", "ff-", 1).encode(),
        f"00-{'0' * 32}-{PARENT_ID}-01".encode(),
        f"00-{TRACE_ID}-{'0' * 16}-01".encode(),
    ],
)
def test_an_invalid_traceparent_gives_no_ids(value):
    found = facts((b"traceparent", value))
    assert (found.trace_id, found.parent_span_id) == (None, None)


def test_the_last_of_repeated_headers_counts():
    other = TRACE_PARENT.replace(PARENT_ID, "00f067aa0ba902b7").encode()
    found = facts((b"traceparent", other), (b"traceparent", TRACE_PARENT.encode()))
    assert found.parent_span_id == PARENT_ID


def test_schema_guids_are_read_from_their_headers():
    found = facts(
        (b"__key_schema_id", b"\1" + GUID.bytes),
        (b"__value_schema_id", b"\1" + GUID.bytes + b"\0"),  # with indexes of messages (Protobuf)
    )
    assert found.key_schema_guid == found.value_schema_guid == str(GUID)
    assert (found.key_schema_id, found.value_schema_id) == (-1, -1)


def test_a_schema_header_may_have_an_id_of_4_bytes():
    found = facts((b"__value_schema_id", b"\0\0\0\1\x02"))
    assert (found.value_schema_id, found.value_schema_guid) == (258, None)


@pytest.mark.parametrize("value", [None, b"", b"\1", b"\1" + bytes(15), b"\2" + bytes(16)])
def test_schema_headers_of_other_formats_are_ignored(value):
    assert facts((b"__key_schema_id", value)) == HeaderFacts(None, None, -1, -1, None, None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, -1),
        (b"", -1),
        (b"\0\0\0\1", -1),
        (b"\0\0\0\0\0avro", -1),
        (b"\0\x80\0\0\1avro", -1),
        (b"\1\0\0\0\1avro", -1),
        (b"\0\0\0\0\1", 1),
        (b"\0\x7f\xff\xff\xffavro", (1 << 31) - 1),
    ],
)
def test_a_schema_id_is_a_zero_and_a_positive_number(data, expected):
    assert schema_id(data) == expected
