"""Keys and values by the schemas of a registry, in Confluent's wire format."""

from __future__ import annotations

import json
import struct
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO

import fastavro
import pytest
from google.protobuf import duration_pb2
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.api.inputs import read_schemas
from kanalyze.errors import UsageError
from kanalyze.tables.records.rows import RecordReader
from kanalyze.tables.records.schemas import SchemaColumns, parse_schemas
from tests.support.record_exchanges import fetched, tools
from tests.support.record_rows import record_batches
from tests.support.record_sets import TIME_MS, batch_of

CATALOG, DECODERS = tools()
GUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
# The example of the specification of Avro 1.12: {"a": 27, "b": "foo"} is 36 06 66 6f 6f.
RECORD = {
    "type": "record",
    "name": "test",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
}
LIST = {
    "type": "record",
    "name": "List",
    "fields": [{"name": "next", "type": ["null", "List"]}],
}


def registered(schema, number=7, subject="orders-value", **more):
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return {"id": number, "subject": subject, "version": 1, "schema": text, **more}


def columns_of(*schemas) -> SchemaColumns:
    return SchemaColumns(parse_schemas("all.json", json.dumps(schemas)))


def framed(data, number=7):
    return struct.pack(">bi", 0, number) + data


def read(schemas, value, key=None, headers=(), values_as="base64", longest=None):
    reader = RecordReader(
        *(CATALOG, DECODERS), values_as=values_as, longest_value=longest, schemas=schemas
    )
    data = batch_of([(0, TIME_MS, key, value, list(headers))])
    ((row,),) = record_batches(reader, [fetched({("orders", 2): data})])
    return row


def test_avro_is_written_as_json() -> None:
    schemas = columns_of(registered(RECORD))
    row = read(schemas, framed(b"\x36\x06foo"), key=b"42")
    assert (row.value, row.value_encoding) == ('{"a":27,"b":"foo"}', "avro")
    assert (row.value_schema_subject, row.value_schema_version) == ("orders-value", 1)
    assert (row.key, row.key_encoding, row.key_schema_subject) == ("42", "text", None)
    assert list(schemas.problems()) == []


def test_without_values_schemas_have_names() -> None:
    row = read(columns_of(registered(RECORD)), framed(b"\x36\x06foo"), values_as=None)
    assert (row.value, row.value_encoding) == (None, None)
    assert (row.value_schema_subject, row.value_schema_version) == ("orders-value", 1)


def test_of_several_subjects_the_one_of_the_topic_counts() -> None:
    others = [
        registered(RECORD, subject=name) for name in ("a-value", "orders-key", "orders-value")
    ]
    row = read(columns_of(*others), framed(b"\x36\x06foo"), key=framed(b"\x36\x06foo"))
    assert (row.key_schema_subject, row.value_schema_subject) == ("orders-key", "orders-value")
    row = read(columns_of(*others[:2]), framed(b"\x36\x06foo"))
    assert row.value_schema_subject == "a-value"


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
         Decimal("12.50"), '"12.50"'),
        ({"type": "long", "logicalType": "timestamp-millis"},
         datetime(2026, 1, 31, 9, 30, tzinfo=UTC), '"2026-01-31T09:30:00+00:00"'),
        ({"type": "string", "logicalType": "uuid"}, GUID, f'"{GUID}"'),
        ({"type": "bytes"}, b"\x00\xff", '"AP8="'),
        ({"type": "double"}, float("nan"), '"NaN"'),
        ({"type": "double"}, float("-inf"), '"-Infinity"'),
        ({"type": "string"}, "\u00e9\x1b[31m\u202e", '"\\u00e9\\u001b[31m\\u202e"'),
        ({"type": "string"}, "\u00e9", '"\u00e9"'),
        (["null", "long"], -(1 << 63), str(-(1 << 63))),
        ({"type": "map", "values": "int"}, {"a": 1}, '{"a":1}'),
    ],
)  # fmt: skip
def test_what_json_lacks_is_text(schema, value, shown) -> None:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    row = read(columns_of(registered(schema)), framed(stream.getvalue()))
    assert (row.value, row.value_encoding) == (shown, "avro")


def test_references_of_references_are_read_first() -> None:
    inner = registered({"type": "enum", "name": "E", "symbols": ["x"]}, 1, "e")
    middle = registered(
        {"type": "record", "name": "M", "fields": [{"name": "e", "type": "E"}]},
        *(2, "m"),
        references=[{"name": "E", "subject": "e", "version": 1}],
    )
    outer = registered(
        {"type": "record", "name": "O", "fields": [{"name": "m", "type": "M"}]},
        references=[{"name": "M", "subject": "m", "version": 1}],
    )
    row = read(columns_of(outer, middle, inner), framed(b"\x00"))
    assert row.value == '{"m":{"e":"x"}}'
    assert read(columns_of(outer, middle), framed(b"\x00")).value_encoding == "base64"


PROTO = """\
syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
message First { int64 a = 1; }
message Order {
  message Line { string item = 1; google.protobuf.Duration took = 2; }
}
"""


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x00\x08\x05", '{"a":"5"}'),  # the first message: 0 alone
        (b"\x02\x00\x08\x05", '{"a":"5"}'),
        (b"\x04\x02\x00\x0a\x03pen", '{"item":"pen"}'),  # the first within the second
    ],
)
def test_protobuf_is_written_as_its_json(data, shown) -> None:
    row = read(columns_of(registered(PROTO, schemaType="PROTOBUF")), framed(data))
    assert (row.value, row.value_encoding) == (shown, "protobuf")


def test_protobuf_knows_its_own_types_and_what_it_refers_to() -> None:
    took = duration_pb2.Duration(seconds=3).SerializeToString()
    data = b"\x04\x02\x00\x12" + bytes([len(took)]) + took
    schema = registered(PROTO, schemaType="PROTOBUF")
    assert read(columns_of(schema), framed(data)).value == '{"took":"3s"}'
    outer = registered(
        'syntax = "proto3"; import "shop/order.proto"; message O { shop.First f = 1; }',
        *(8, "o"),
        schemaType="PROTOBUF",
        references=[{"name": "shop/order.proto", "subject": "orders-value", "version": 1}],
    )
    row = read(columns_of(schema, outer), framed(b"\x00\x0a\x02\x08\x05", 8))
    assert row.value == '{"f":{"a":"5"}}'


# What the serializers of confluent-kafka 2.16.1 wrote with a registry of its own (mock://), and
# how they registered it: Protobuf as a descriptor in base64.
CONFLUENT = [
    {
        "id": 1,
        "guid": "3b88e052-2380-47b8-8406-523a807c2e5e",
        "subject": "orders-value",
        "version": 1,
        "schema": '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
        '{"name": "item", "type": ["null", "string"]}]}',
    },
    {
        "id": 2,
        "guid": "f479c419-c858-41a5-9902-ce1128348fb7",
        "subject": "lines-value",
        "version": 1,
        "schemaType": "PROTOBUF",
        "schema": "CgtvcmRlci5wcm90bxIEc2hvcCISCgVGaXJzdBIJCgFhGAEgASgDIj4KBU9yZGVyEh8KBWxpbmVzGAEg"
        "AygLMhAuc2hvcC5PcmRlci5MaW5lGhQKBExpbmUSDAoEaXRlbRgBIAEoCWIGcHJvdG8z",
    },
    {
        "id": 4,
        "subject": "jsons-value",
        "version": 1,
        "schemaType": "JSON",
        "schema": '{"title": "Order", "properties": {"id": {"type": "integer"}}}',
    },
]
IN_HEADER_1 = b"\x01;\x88\xe0R#\x80G\xb8\x84\x06R:\x80|.^"
IN_HEADER_2 = b"\x01\xf4y\xc4\x19\xc8XA\xa5\x99\x02\xce\x11(4\x8f\xb7\x04\x02\x00"


@pytest.mark.parametrize(
    ("value", "header", "shown"),
    [
        (b"\x00\x00\x00\x00\x016\x02\x06pen", None, '{"id":27,"item":"pen"}'),
        (b"\x00\x00\x00\x00\x02\x04\x02\x00\n\x03pen", None, '{"item":"pen"}'),
        (b"\x00\x00\x00\x00\x02\x00\x08\x05", None, '{"a":"5"}'),
        (b'\x00\x00\x00\x00\x04{"id":27}', None, '{"id":27}'),
        (b"6\x02\x06pen", IN_HEADER_1, '{"id":27,"item":"pen"}'),
        (b"\n\x03pen", IN_HEADER_2, '{"item":"pen"}'),
    ],
)
def test_what_confluents_serializers_write(value, header, shown) -> None:
    schemas = columns_of(*CONFLUENT)
    headers = [] if header is None else [("a", b"b"), ("__value_schema_id", header)]
    assert read(schemas, value, headers=headers).value == shown
    assert list(schemas.problems()) == []


def test_json_follows_its_prefix() -> None:
    schema = registered("{}", schemaType="JSON")
    row = read(columns_of(schema), framed(b'{ "a": [1, "\xc3\xa9"] }'))
    assert (row.value, row.value_encoding) == ('{"a":[1,"\u00e9"]}', "json")


def test_a_header_may_name_the_schema() -> None:
    schemas = columns_of(registered(RECORD, guid=str(GUID)))
    header = ("__value_schema_id", b"\x01" + GUID.bytes)
    row = read(schemas, b"\x36\x06foo", headers=[header])
    assert (row.value, row.value_schema_subject) == ('{"a":27,"b":"foo"}', "orders-value")
    row = read(schemas, b"\x36\x06foo", headers=[("__value_schema_id", b"\0\0\0\0\x07")])
    assert row.value == '{"a":27,"b":"foo"}'


def test_decoded_values_are_cut_like_others() -> None:
    row = read(columns_of(registered(RECORD)), framed(b"\x36\x06foo"), longest=8)
    assert (row.value, row.value_encoding) == ('{"a":27,', "avro")
    row = read(columns_of(registered(RECORD)), b"\xff" * 9, values_as="escaped", longest=2)
    assert (row.value, row.value_encoding) == (r"\xff\xff", "escaped")


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        (RECORD, b"\x36\x06fo", "Expected 3 bytes, read 2"),
        (RECORD, b"\x36\x06foo!", "1 bytes follow the value"),
        (["null"], b"\x08", "list index out of range"),
        (LIST, b"\x02" * 1_000_000 + b"\x00", "nested too deeply"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\x00", "take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, b"\0", "no bytes"),
        ({"type": "nonsense"}, b"", "not a schema of Avro"),
        ("{", b"", "not a schema of Avro"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            b"\xff" * 9 + b"\x01",
            "out of range",
        ),
    ],
)
def test_what_a_schema_does_not_describe_stays_bytes(schema, data, reason) -> None:
    schemas = columns_of(registered(schema))
    for _ in range(2):
        row = read(schemas, framed(data))
        assert row.value_encoding == "base64"
        assert row.value_schema_subject == "orders-value"
    (problem,) = schemas.problems()
    assert problem.startswith("schema 7 (orders-value, version 1): 2 values are not decoded: ")
    assert reason in problem


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x04\x02\x02", b"\x80" * 9, b"\x00\x08", b"\x7e"])
def test_no_message_of_a_protobuf_schema(data) -> None:
    schemas = columns_of(registered(PROTO, schemaType="PROTOBUF"))
    assert read(schemas, framed(data)).value_encoding == "base64"
    assert len(list(schemas.problems())) == 1


def test_a_proto_file_stays_in_its_folder(tmp_path) -> None:
    target = tmp_path / "outside.proto"
    inner = registered(PROTO, 1, "i", schemaType="PROTOBUF")
    for name in (str(target), "../outside.proto"):
        reference = {"name": name, "subject": "i", "version": 1}
        outer = registered(PROTO, schemaType="PROTOBUF", references=[reference])
        schemas = columns_of(inner, outer)
        assert read(schemas, framed(b"\x00")).value_encoding == "base64"
        assert "refers to" in next(schemas.problems())
    assert not target.exists()


@given(st.binary(max_size=60))
def test_no_bytes_raise(data) -> None:
    nested = {
        "type": "record",
        "name": "N",
        "fields": [
            {"name": "n", "type": ["null", "N", {"type": "array", "items": "N"}]},
            {"name": "m", "type": {"type": "map", "values": ["double", "string", "bytes"]}},
            {"name": "t", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    for kind, schema in (("AVRO", nested), ("JSON", "{}")):
        schemas = columns_of(registered(schema, schemaType=kind))
        row = read(schemas, framed(data))
        if row.value_encoding in ("avro", "json"):
            json.loads(row.value)
        else:
            assert len(list(schemas.problems())) == 1


def test_a_folder_has_files_of_a_registry(tmp_path) -> None:
    one = registered(RECORD)
    del one["id"]  # an answer of /schemas/ids/7
    (tmp_path / "7.json").write_text(json.dumps(one))
    lines = [registered(RECORD, number, f"s{number}") for number in (1, 2)]
    (tmp_path / "topic.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "9.avsc").write_text(json.dumps(RECORD))
    (tmp_path / "10.proto").write_text(PROTO)
    (tmp_path / "README.md").write_text("no schema")
    schemas = read_schemas(tmp_path)
    for number in (1, 2, 7, 9):
        assert read(schemas, framed(b"\x36\x06foo", number)).value == '{"a":27,"b":"foo"}'
    assert read(schemas, framed(b"\x00\x08\x05", 10)).value_encoding == "protobuf"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", "", "has no schema"),
        ("a.json", "[]", "has no schema"),
        ("a.json", "{", "not JSON"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json", '{"schema": 1}', "an object with the text"),
        ("a.json", '{"schema": "x", "id": 1, "schemaType": "XML"}', "unknown schemaType: 'XML'"),
        ("a.json", '{"schema": "x", "id": -1}', "is the schema's id"),
        ("a.json", '{"schema": "x", "id": 1, "references": [1]}', "a reference is"),
        ("orders.avsc", '"long"', "is the schema's id"),
        ("99999999999.proto", "", "is the schema's id"),
    ],
)
def test_a_wrong_file_is_named(name, text, reason, tmp_path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=name) as error:
        read_schemas(tmp_path)
    assert reason in str(error.value)


def test_a_folder_without_schemas(tmp_path) -> None:
    with pytest.raises(UsageError, match="no file ends in"):
        read_schemas(tmp_path)
    with pytest.raises(UsageError, match="missing"):
        read_schemas(tmp_path / "missing")
