from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.records import RECORD_COLUMNS, HeaderItem, RecordRow
from kanalyze.tables.filters import RowFilter
from kanalyze.tables.records.rows import RecordReader, has_records
from tests.support.captures import path
from tests.support.record_exchanges import (
    exchange_of,
    fetched,
    message,
    produced,
    tools,
)
from tests.support.record_rows import record_batches
from tests.support.record_sets import (
    ITEMS,
    TIME_MS,
    batch_of,
    changed,
    compressed,
    messages_of,
    with_flags,
)
from tests.support.rows import START_NS, fetch, partition, row
from tests.support.uncompiled import uncompiled

CATALOG, DECODERS = tools()
PLACE = ("orders", 2)


def rows_of(*pairs, **options) -> list[RecordRow]:
    reader = RecordReader(CATALOG, DECODERS, **options)
    return [row for rows in record_batches(reader, pairs) for row in rows]


def shown(key=b"k", value=b"v", headers=(), **options) -> RecordRow:
    data = batch_of([(0, TIME_MS, key, value, list(headers))])
    options.setdefault("values_as", "base64")
    (found,) = rows_of(fetched({PLACE: data}), **options)
    return found


def test_a_produced_record_has_the_offset_from_the_response() -> None:
    data = batch_of(codec=4, transactional=True, producer=(77, 3, 9))
    found = rows_of(produced({PLACE: data}))
    expected = {
        "capture": "x.pcap",
        "connection": "10.0.0.1:40000>10.0.0.9:9092",
        "connection_number": 1,
        "packet": 4,
        "time_ns": START_NS + 7,
        "api_name": "Produce",
        "client_id": "app",
        "topic": "orders",
        "partition": 2,
        "error_code": 0,
        "record_index": 2,
        "offset": 502,
        "timestamp_ms": TIME_MS - 70_000,
        "timestamp_type": "create",
        "key_bytes": 4,
        "header_count": 0,
        "headers": [],
        "codec": "zstd",
        "magic": 2,
        "batch_base_offset": 0,
        "batch_bytes": len(data),
        "batch_record_count": 5,
        "partition_leader_epoch": found[2].partition_leader_epoch,
        "producer_id": 77,
        "producer_epoch": 3,
        "sequence": 11,
        "is_transactional": True,
        "is_control": False,
        "crc_ok": True,
        "header_names": [],
    }
    made = found[2]._asdict()
    assert {name: value for name, value in made.items() if value is not None} == expected
    assert [record.offset for record in found] == [500, 501, 502, 503, 504]


@pytest.mark.parametrize("values_as", [None, "base64"])
def test_schemas_and_traces_are_read_with_and_without_values(values_as) -> None:
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = [("a", None), ("traceparent", trace), ("__key_schema_id", b"\1" + bytes(range(16)))]
    items = [
        (0, TIME_MS, b"\0\0\0\0\7k", b"\0\0\1\0\0v", []),
        (1, TIME_MS, b"k", b"v", headers),
        (2, TIME_MS, None, None, []),
    ]
    for made in (produced({PLACE: batch_of(items)}), fetched({PLACE: batch_of(items)})):
        first, second, last = rows_of(made, values_as=values_as)
        assert (first.key_schema_id, first.value_schema_id) == (7, 65536)
        assert (first.trace_id, first.header_names) == (None, [])
        assert second.trace_id == "0af7651916cd43dd8448eb211c80319c"
        assert second.parent_span_id == "b7ad6b7169203331"
        assert second.key_schema_guid == "00010203-0405-0607-0809-0a0b0c0d0e0f"
        assert (second.key_schema_id, second.value_schema_guid) == (None, None)
        assert second.header_names == ["a", "traceparent", "__key_schema_id"]
        assert (last.key_schema_id, last.value_schema_id, last.header_names) == (None, None, [])


def test_names_of_headers_that_are_not_utf_8_are_escaped() -> None:
    data = batch_of([(0, TIME_MS, None, None, [("name", b"1"), ("name", None)])])
    wrong = changed(data.replace(b"name", b"\xffame"), ">i", 12, 0)
    (found,) = rows_of(fetched({PLACE: wrong}))
    assert found.header_names == ["\\xffame", "\\xffame"]


def test_without_an_assigned_offset_a_produced_record_has_none() -> None:
    found = rows_of(produced({PLACE: batch_of()}, base_offset=None))
    assert {record.offset for record in found} == {None}
    assert [record.record_index for record in found] == [0, 1, 2, 3, 4]


def test_produced_messages_of_magic_0_and_1_get_consecutive_offsets() -> None:
    found = rows_of(produced({PLACE: messages_of(1)}))
    assert [record.offset for record in found] == [500, 501, 502, 503, 504]


def test_a_fetched_record_has_the_offset_of_its_batch() -> None:
    data = changed(batch_of(), ">q", 0, 1000) + changed(batch_of(), ">q", 0, 2000)
    found = rows_of(fetched({PLACE: data}))
    assert [record.offset for record in found][3:7] == [1003, 1004, 2000, 2001]
    assert [record.record_index for record in found] == list(range(10))
    assert {(record.api_name, record.packet) for record in found} == {("Fetch", 6)}


def test_every_partition_has_its_records() -> None:
    data = {("a", 0): batch_of(ITEMS[:1]), ("b", 7): batch_of(ITEMS[:2]), ("c", 1): None}
    for made in (produced(data), fetched(data)):
        found = [(record.topic, record.partition) for record in rows_of(made)]
        assert found == [("a", 0), ("b", 7), ("b", 7)]


def test_keys_and_values_are_left_out_unless_requested() -> None:
    found = shown(b"secret", b"secret", [("h", b"secret")], values_as=None)
    assert "secret" not in str(found)
    assert (found.key_bytes, found.value_bytes, found.header_count) == (6, 6, 1)


def test_keys_values_and_headers_have_columns_of_their_own() -> None:
    found = shown(b"a", b"b\xff", [("h", b"d")], longest_value=9)
    assert (found.key, found.key_encoding, found.key_bytes) == ("a", "text", 1)
    assert (found.value, found.value_encoding, found.value_bytes) == ("Yv8=", "base64", 2)
    assert found.headers == [HeaderItem("h", "d", "text")]
    assert shown(value=b"abc", longest_value=2).value == "ab"
    found = shown(None, None, [("h", None)])
    assert (found.key, found.key_encoding, found.key_bytes) == (None, None, None)
    assert (found.value, found.value_encoding, found.value_bytes) == (None, None, None)
    assert found.headers == [HeaderItem("h", None, None)]


def test_a_control_record_is_named() -> None:
    names = [
        "abort",
        "commit",
        "leader_change",
        "snapshot_header",
        "snapshot_footer",
        "kraft_version",
        "kraft_voters",
        "unknown",
    ]
    items = [(n, TIME_MS, struct.pack(">hh", 0, n), b"", []) for n in range(8)]
    items += [(8, TIME_MS, None, b"", []), (9, TIME_MS, b"\0", b"", [])]
    found = rows_of(fetched({PLACE: with_flags(batch_of(items), 0x20 | 0x10)}))
    assert [record.control_type for record in found] == [*names, "unknown", "unknown"]
    assert all(record.is_control and record.is_transactional for record in found)
    assert {record.control_type for record in rows_of(fetched({PLACE: batch_of()}))} == {None}


def test_a_wrong_checksum_is_in_the_row_of_every_record() -> None:
    data = bytearray(batch_of())
    data[18] ^= 1
    found = rows_of(fetched({PLACE: bytes(data)}))
    assert [record.crc_ok for record in found] == [False] * 5


def test_a_cut_last_batch_is_legal_in_a_fetch_only() -> None:
    data = batch_of() + batch_of()[:-3]
    assert [record.problem for record in rows_of(fetched({PLACE: data}))] == [None] * 5
    found = rows_of(produced({PLACE: data}))
    assert [record.problem for record in found] == [None] * 5 + ["cut_batch"]
    assert (found[-1].topic, found[-1].record_index, found[-1].offset) == ("orders", None, None)


def test_an_unreadable_batch_gives_a_row_with_the_problem() -> None:
    data = compressed(1, b"no gzip", count=3) + compressed(6, b"", count=3) + batch_of()
    found = rows_of(fetched({PLACE: data}))
    assert [record.problem for record in found] == [
        "bad_compression",
        "unknown_codec",
        *[None] * 5,
    ]
    assert [record.codec for record in found][:3] == ["gzip", "unknown", "none"]
    assert (found[0].batch_record_count, found[0].crc_ok, found[0].offset) == (3, True, None)
    assert [record.record_index for record in found][:3] == [None, None, 0]


def test_only_records_of_the_selected_partitions_are_returned() -> None:
    data = {("orders", 0): batch_of(ITEMS[:1]), ("orders", 1): batch_of(ITEMS[:2])}
    for row_filter in (
        RowFilter.parse(partition=["1"]),
        RowFilter.parse(partition=["o*-1", "clicks-0"]),
        RowFilter.parse(topic=("ord*",), partition=["1"]),
    ):
        found = rows_of(fetched(data), produced(data), row_filter=row_filter)
        assert [record.partition for record in found] == [1, 1, 1, 1]


def test_a_message_with_missing_bytes_gives_a_row_per_known_partition() -> None:
    exchange = exchange_of(1, 4)
    exchange.response = message(None, 4)
    parts = [partition("a", 1), partition("b", 2, record_bytes=0), partition("c", 3)]
    found = rows_of((exchange, fetch(partitions=parts)))
    assert [(record.topic, record.partition, record.problem) for record in found] == [
        ("a", 1, "missing_bytes"),
        ("c", 3, "missing_bytes"),
    ]
    found = rows_of((exchange, fetch(partitions=parts)), row_filter=RowFilter.parse(topic=("c",)))
    assert [record.topic for record in found] == ["c"]


def test_a_message_without_known_fields_gives_one_row() -> None:
    exchange = exchange_of(0, 3)
    exchange.request = message(None, None)
    (found,) = rows_of((exchange, row(partitions=[])))
    assert (found.problem, found.topic, found.partition) == ("missing_bytes", None, None)
    exchange.request = message(b"\0\0\0\0", None)
    (found,) = rows_of((exchange, row(partitions=[])))
    assert found.problem == "malformed_body"


def test_a_message_without_records_gives_no_row() -> None:
    exchange = exchange_of(1, 4)
    exchange.response = message(None, 4)
    assert rows_of((exchange, fetch(partitions=[partition(record_bytes=0)]))) == []
    assert rows_of((exchange_of(1, 4), fetch())) == []  # unanswered
    assert rows_of((exchange_of(3, 1), row(api_key=3))) == []
    assert rows_of(fetched({PLACE: b""})) == []


def test_bytes_of_another_message_give_a_problem() -> None:
    exchange, made = produced({PLACE: batch_of()})
    assert exchange.request is not None
    whole = exchange.request.data or b""
    for size in range(0, len(whole), 7):
        exchange.request.data = whole[:size]
        assert [record.problem for record in rows_of((exchange, made))] == ["malformed_body"]


def test_the_name_of_a_topic_id_is_that_in_the_row() -> None:
    # Produce 13: flexible, with topic ids.
    topic_id = bytes(range(16))
    text = base64.urlsafe_b64encode(topic_id)[:22].decode()
    records = batch_of(ITEMS[:1])
    size = len(records) + 1
    body = b"\x00" + struct.pack(">hi", -1, 1000) + b"\x02" + topic_id + b"\x02"
    body += struct.pack(">i", 2) + bytes((size & 0x7F | 0x80, size >> 7)) + records + b"\0\0\0"
    frame = struct.pack(">hhih", 0, 13, 1, -1) + b"\0" + body
    exchange = exchange_of(0, 13)
    exchange.request = message(struct.pack(">i", len(frame)) + frame, 13)
    named = row(partitions=[partition("orders", 2, topic_id=text, base_offset=9)])
    (found,) = rows_of((exchange, named))
    assert (found.topic, found.topic_id, found.partition, found.offset) == ("orders", text, 2, 9)
    (found,) = rows_of((exchange, row(partitions=[])))
    assert (found.topic, found.topic_id, found.offset) == (None, text, None)
    assert (
        len(rows_of((exchange, row(partitions=[])), row_filter=RowFilter.parse(topic=(text,)))) == 1
    )


def test_lists_of_rows_are_bounded_in_number_and_in_bytes() -> None:
    items = [(n, TIME_MS, None, b"", []) for n in range(5000)]
    reader = RecordReader(CATALOG, DECODERS)
    sizes = [len(rows) for rows in record_batches(reader, [fetched({PLACE: batch_of(items)})])]
    assert sizes == [2048, 2048, 904]
    items = [(n, TIME_MS, None, bytes(3 << 20), []) for n in range(4)]
    sizes = [len(rows) for rows in record_batches(reader, [fetched({PLACE: batch_of(items)})])]
    assert sizes == [3, 1]


@settings(deadline=None)
@given(st.sampled_from([produced, fetched]), st.integers(0, 4), st.data())
def test_any_change_to_a_message_gives_rows(made, codec: int, draw: st.DataObject) -> None:
    exchange, row_ = made({PLACE: batch_of(codec=codec), ("other", 1): messages_of(1)})
    found = exchange.request or exchange.response
    assert found is not None
    data = bytearray(found.data or b"")
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    found.data = bytes(data)
    limits = DecompressionLimits(most_bytes=1 << 16)
    for record in rows_of((exchange, row_), values_as="base64", limits=limits):
        assert len(record) == len(RECORD_COLUMNS)
        assert (record.problem is None) == (record.record_index is not None)


def test_records_beyond_the_limit_give_a_row_with_the_problem() -> None:
    limits = DecompressionLimits(most_bytes=20)
    found = rows_of(fetched({PLACE: batch_of(codec=1)}), limits=limits)
    assert [record.problem for record in found] == [None, "decompressed_too_large"]
    limits = DecompressionLimits(most_records=2)
    found = rows_of(fetched({PLACE: batch_of(codec=1) + batch_of()}), limits=limits)
    assert [record.problem for record in found] == [None, None, "too_many_records"] * 2
    assert [record.batch_record_count for record in found] == [5] * 6


def test_lists_of_rows_are_bounded_by_the_memory_of_headers() -> None:
    items = [(n, TIME_MS, b"k", b"v", [("h" * 9, b"")] * 2000) for n in range(100)]
    reader = RecordReader(CATALOG, DECODERS, values_as="base64")
    sizes = [len(rows) for rows in record_batches(reader, [fetched({PLACE: batch_of(items)})])]
    assert sum(sizes) == 100
    assert max(sizes) < 50


# -- records that brokers write for themselves ----------------------------------------------------

SECRET = b"s4lted-passw0rd"


def metadata_record(api_key: int, body: bytes, version: int = 0) -> bytes:
    """Return a value of the controllers' log: frame version, API key, version, body."""
    return bytes([1, api_key, version]) + body


def compact(data: bytes) -> bytes:
    return bytes([len(data) + 1]) + data


def config_record(name: bytes, value: bytes) -> bytes:
    return metadata_record(4, b"\4" + compact(b"1") + compact(name) + compact(value) + b"\0")


SCRAM_RECORD = metadata_record(
    11, compact(b"alice") + b"\1" + compact(b"salt") + compact(SECRET) + compact(SECRET) + b"\0"
)


def shown_of(topic: str, value: bytes) -> tuple[str | None, str | None]:
    data = {(topic, 0): batch_of([(0, TIME_MS, None, value, [])])}
    exchange, row = fetched(data)
    (found,) = rows_of((exchange, row), values_as="escaped")
    assert found.value_bytes == len(value)
    return found.value, found.value_encoding


@pytest.mark.parametrize(
    "value",
    [
        SCRAM_RECORD,
        b"\1\x8b\0\0" + SCRAM_RECORD[3:],
        b"\x81\0\x0b\0" + SCRAM_RECORD[3:],
        metadata_record(11, SECRET, version=3),
        metadata_record(10, SECRET),
        metadata_record(99, SECRET),
        b"\2\2\0" + SECRET,
        SECRET,
        config_record(b"ssl.keystore.password", SECRET),
        config_record(b"registry.url", b"https://me:" + SECRET + b"@host"),
        config_record(b"x", SECRET)[:-6],
        metadata_record(4, SECRET),
    ],
)
@pytest.mark.parametrize("topic", ["__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"])
def test_credentials_of_the_controllers_log_are_hidden(topic: str, value: bytes) -> None:
    assert shown_of(topic, value) == ("[hidden]", "hidden")
    assert shown_of("user-topic", value)[1] == "escaped" or value == SECRET


@pytest.mark.parametrize(
    "value",
    [
        metadata_record(2, compact(b"orders") + bytes(17)),
        metadata_record(20, b"\0"),
        config_record(b"retention.ms", b"1000"),
    ],
)
def test_other_records_of_the_controllers_log_are_shown(value: bytes) -> None:
    assert shown_of("__cluster_metadata", value)[1] == "escaped"


def test_tombstones_and_values_that_were_not_requested_stay_null() -> None:
    exchange, row = fetched({("__cluster_metadata", 0): batch_of([(0, 1, b"k", None, [])])})
    (found,) = rows_of((exchange, row), values_as="escaped")
    assert (found.value, found.value_encoding) == (None, None)
    data = {("__cluster_metadata", 0): batch_of([(0, 1, None, SCRAM_RECORD, [])])}
    (found,) = rows_of(fetched(data))
    assert (found.value, found.value_encoding) == (None, None)


@pytest.mark.parametrize("name", ["codecs", "transactions", "old-0-9-0-1"])
@pytest.mark.parametrize("values_as", [None, "base64"])
def test_rows_of_a_capture_are_the_same(name, values_as):
    with uncompiled() as modules:
        pass
    catalog = Catalog()
    compiled_reader, uncompiled_reader = (
        reader_type(catalog, Decoders(catalog), values_as=values_as)
        for reader_type in (RecordReader, modules["kanalyze.tables.records.rows"].RecordReader)
    )
    compared = 0
    for exchanges, block in Analysis([str(path(name))], keep=has_records).exchange_blocks():
        blocks = [
            list(reader.blocks(exchanges, block)) for reader in (compiled_reader, uncompiled_reader)
        ]
        assert [made.columns for made in blocks[0]] == [made.columns for made in blocks[1]]
        compared += sum(map(len, blocks[0]))
    assert compared > 10
