"""Decoders made for a message, a version and selected fields."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.errors import UsageError
from kanalyze.kafka.codec import opcodes as op
from kanalyze.kafka.codec.compiler import Decoders, Projection, compile_decoder, program_of, select
from kanalyze.kafka.codec.interpreter import read_message
from kanalyze.kafka.schema.loader import load_messages
from kanalyze.kafka.wire import Malformed, MissingBytes, Truncated, WireError
from tests.support.batches import batch
from tests.support.cases import examples
from tests.support.messages import (
    Generator,
    Writer,
    every_message,
    leaf_paths,
    projected,
    random_projection,
)
from tests.support.sources import frame_in_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec, Struct


FETCHED = Projection.of(
    "ThrottleTimeMs",
    "ErrorCode",
    "SessionId",
    "Responses.Topic",
    "Responses.TopicId",
    "Responses.Partitions.PartitionIndex",
    "Responses.Partitions.ErrorCode",
    "Responses.Partitions.HighWatermark",
    "Responses.Partitions.Records",
)


# Agreement with the reference.


def check_against_reference(message: MessageSpec, version: int, samples: int, seed: str) -> None:
    random = Random(f"{message.name} {version} {seed}")
    projection = random_projection(message, random)
    selection = select(message, projection)
    everything = compile_decoder(message, version, Projection.ALL)
    nothing = compile_decoder(message, version, Projection.of())
    some = compile_decoder(message, version, projection)
    for _ in range(samples):
        values = Generator(message, version, random).values()
        body = Writer(message, version).write(values)
        case = (message.name, version, projection)
        assert read_message(message, version, body) == (values, len(body)), case
        assert everything(memoryview(b"--" + body), 2) == (values, len(body) + 2), case
        assert nothing(body, 0) == ((), len(body)), case
        expected = projected(message, version, values, selection)
        assert some(body, 0) == (expected, len(body)), case


def test_every_version_of_every_message_is_read_as_the_reference_reads_it(
    catalog: Catalog,
) -> None:
    count = 0
    for message, version in every_message(catalog):
        check_against_reference(message, version, 2, "short")
        count += 1
    assert count > 750


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_messages_are_read_as_the_reference_reads_them(catalog: Catalog, seed: int) -> None:
    for message, version in every_message(catalog):
        check_against_reference(message, version, 12, f"long {seed}")


def oldest_and_newest_versions(catalog: Catalog) -> list[tuple[MessageSpec, int]]:
    """Give each message in its oldest and newest version."""
    return [
        (message, version)
        for message, version in every_message(catalog)
        if version in (message.valid_versions.lowest, message.valid_versions.highest)
    ]


def sample(message: MessageSpec, version: int, most: int = 400) -> bytes:
    """Return the longest of some bodies that is not longer than ``most``, if there is one."""
    random = Random(f"{message.name} {version}")
    bodies = [
        Writer(message, version).write(Generator(message, version, random).values())
        for _ in range(12)
    ]
    fitting = [body for body in bodies if len(body) <= most]
    return max(fitting, key=len) if fitting else min(bodies, key=len)


def check_prefixes(message: MessageSpec, version: int, most: int) -> None:
    body = sample(message, version, most)
    random = Random(0)
    projections = (Projection.ALL, Projection.of(), random_projection(message, random))
    for projection in projections:
        decode = compile_decoder(message, version, projection)
        for end in range(len(body)):
            with pytest.raises(Truncated):
                decode(body[:end], 0)


def test_a_message_cut_at_any_byte_is_truncated(catalog: Catalog) -> None:
    for message, version in oldest_and_newest_versions(catalog):
        check_prefixes(message, version, examples(160))


@pytest.mark.long
def test_a_long_message_of_any_version_cut_at_any_byte_is_truncated(catalog: Catalog) -> None:
    for message, version in every_message(catalog):
        check_prefixes(message, version, 2000)


def outcome(decode: Any, body: bytes) -> Any:
    try:
        return decode(body)
    except WireError:
        return None


def check_mutations(message: MessageSpec, version: int, count: int, seed: str) -> None:
    """Compare the results of a body with a wrong byte; no other error than WireError is allowed."""
    random = Random(f"{message.name} {version} {seed}")
    everything = compile_decoder(message, version, Projection.ALL)
    nothing = compile_decoder(message, version, Projection.of())
    body = sample(message, version)
    for _ in range(count if body else 0):
        wrong = bytearray(body)
        at = random.randrange(len(wrong))
        wrong[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, wrong[at] ^ 1, random.randrange(256)))
        mutated = bytes(wrong)
        expected = outcome(lambda view: read_message(message, version, view), mutated)
        result = outcome(lambda view: everything(view, 0), mutated)
        assert repr(result) == repr(expected), (message.name, version, mutated)
        stepped = outcome(lambda view: nothing(view, 0), mutated)
        if expected is not None:
            assert stepped == ((), expected[1]), (message.name, version, mutated)


def test_a_wrong_byte_gives_what_the_reference_gives_or_a_wire_error(catalog: Catalog) -> None:
    for message, version in oldest_and_newest_versions(catalog):
        check_mutations(message, version, examples(20), "short")


@pytest.mark.long
def test_many_wrong_bytes_give_what_the_reference_gives(catalog: Catalog) -> None:
    for message, version in every_message(catalog):
        check_mutations(message, version, 300, "long")


# Values that a decoder returns.


def fetch_body(catalog: Catalog, version: int, *records: bytes | None) -> bytes:
    partitions = [
        {
            "partitionIndex": index,
            "errorCode": 0,
            "highWatermark": 100,
            "lastStableOffset": 100,
            "logStartOffset": 0,
            "abortedTransactions": None,
            "preferredReadReplica": -1,
            "records": content,
        }
        for index, content in enumerate(records)
    ]
    topic = {"topic": "t", "topicId": b"\1" * 16, "partitions": partitions}
    values = {"throttleTimeMs": 9, "errorCode": 0, "sessionId": 3, "responses": [topic]}
    return Writer(catalog.message(1, "response"), version).write(values)


def test_a_field_the_version_lacks_is_its_default(catalog: Catalog) -> None:
    message = catalog.message(0, "response")
    projection = Projection.of(
        "Responses.PartitionResponses.LogStartOffset",
        "Responses.PartitionResponses.RecordErrors",
        "Responses.PartitionResponses.CurrentLeader",
        "Responses.PartitionResponses.ErrorMessage",
        "ThrottleTimeMs",
        "NodeEndpoints.Host",
    )
    body = struct.pack(">ih1siihq", 1, 1, b"t", 1, 0, 0, 5)
    decoded, _ = compile_decoder(message, 0, projection)(body, 0)
    assert decoded == ([([(-1, [], None, (-1, -1))],)], 0, [])


@pytest.mark.parametrize(
    "tags",
    [
        b"\x02\x01\x08" + bytes(8) + b"\x01\x08" + bytes(8),
        b"\x02\x02\x01\x01\x01\x08" + bytes(8),
        b"\x01\x01\x07" + bytes(7),
        b"\x01\x01\x09" + bytes(9),
    ],
)
def test_tags_in_wrong_order_or_of_wrong_size_are_malformed(catalog: Catalog, tags: bytes) -> None:
    message = catalog.message(18, "response")
    body = struct.pack(">hBi", 0, 1, 0) + tags + bytes(20)
    for projection in (Projection.ALL, Projection.of("FinalizedFeaturesEpoch")):
        with pytest.raises(Malformed):
            compile_decoder(message, 3, projection)(body, 0)


def test_unknown_tags_are_kept_or_stepped_over(catalog: Catalog) -> None:
    message = catalog.message(18, "request")
    body = b"\x02a\x02b\x02\x05\x01x\x07\x00"
    values, end = compile_decoder(message, 3, Projection.ALL)(body, 0)
    assert values == {
        "clientSoftwareName": "a",
        "clientSoftwareVersion": "b",
        "_taggedFields": [(5, b"x"), (7, b"")],
    }
    assert end == len(body)
    decode = compile_decoder(message, 3, Projection.of("ClientSoftwareVersion"))
    assert decode(body, 0) == (("b",), len(body))


def test_text_that_is_not_utf8_is_escaped(catalog: Catalog) -> None:
    decode = compile_decoder(catalog.message(10, "request"), 0, Projection.of("Key"))
    assert decode(b"\x00\x03a\xff\x80", 0)[0] == ("a\\xff\\x80",)


@pytest.mark.parametrize("raw", [False, True])
def test_records_are_a_summary_or_bytes_or_none(catalog: Catalog, raw: bool) -> None:
    projection = Projection.of("Responses.Partitions.Records", raw_records=raw)
    for version in (4, 12):
        body = fetch_body(catalog, version, batch(3), None, b"")
        decode = compile_decoder(catalog.message(1, "response"), version, projection)
        ((([(some,), (null,), (empty,)],),),), end = decode(body, 0)
        assert end == len(body)
        assert null is None
        assert (some == batch(3)) if raw else (some.record_count == 3)
        assert (empty == b"") if raw else (empty.record_bytes == 0)


# Making decoders.


def test_a_decoder_is_made_once(catalog: Catalog) -> None:
    decoders = Decoders(catalog)
    one = decoders.get(0, "request", 3, Projection.of("Acks"))
    assert decoders.get(0, "request", 3, Projection.of("Acks")) is one
    assert decoders.get(0, "request", 9, Projection.of("Acks")) is not one


def with_fields(struct: Struct, values: dict[str, Any], selection: Any) -> dict[str, Any]:
    """Return the selected ones of the values of a struct."""
    selected: dict[str, Any] = {}
    for field in struct.fields:
        if field.name not in selection or field.json_name not in values:
            continue
        value = values[field.json_name]
        if field.struct is not None and value is not None:
            below, inner = selection[field.name], field.struct
            if field.is_array:
                value = [with_fields(inner, item, below) for item in value]
            else:
                value = with_fields(inner, value, below)
        selected[field.json_name] = value
    return selected


def test_what_was_saved_before_fields_were_selected_has_their_defaults(catalog: Catalog) -> None:
    decoders = Decoders(catalog)
    differing = 0
    for message, version in every_message(catalog):
        kind: Any = message.kind
        if message.api_key is None or kind not in ("request", "response"):
            continue
        random = Random(f"{message.name} {version}")
        paths = random_projection(message, random).paths
        newer = frozenset(path for path in paths if random.random() < 0.3)
        old_paths = [path for path in paths if path not in newer]
        before = Projection.of(*old_paths, raw_records=True)
        now = Projection.of(*paths, raw_records=True, newer=newer)
        body = sample(message, version)
        saving = decoders.get(message.api_key, kind, version, before)
        saving(body, 0)
        state = saving.take(None).state()
        older = decoders.older(message.api_key, kind, version, now, is_superseded=False)
        found = older.fields_from_state(state).values()
        everything, _ = decoders.get(message.api_key, kind, version, Projection.ALL)(body, 0)
        selection = select(message, now)
        old = select(message, before)
        known = with_fields(message.struct, everything, old)
        assert found == projected(message, version, known, selection)
        differing += found != projected(message, version, everything, selection)
    assert differing > 100


def test_decoders_of_one_table_of_programs_do_not_disturb_each_other(catalog: Catalog) -> None:
    decoders = Decoders(catalog)
    number = decoders.get(26, "response", 5, Projection.of("ThrottleTimeMs"))
    uuid = decoders.get(71, "request", 0, Projection.of("ClientInstanceId"))
    body = bytes(range(1, 17)) + b"\0"
    assert number(body, 0) == ((0x01020304,), 17)
    assert uuid(body, 0) == ((body[:16],), 17)


def test_default_lists_are_not_shared_between_tables_of_decoders(catalog: Catalog) -> None:
    # In version 4 there are no forgotten topics: the default is a list, a new one for each call.
    projection = Projection.of("ForgottenTopicsData")
    body = bytes(64)
    one, other = (Decoders(catalog).get(1, "request", 4, projection) for _ in range(2))
    ((forgotten,), _), ((same,), _) = one(body, 0), other(body, 0)
    assert (forgotten, same) == ([], [])
    forgotten.append("mine")
    assert (same, one(body, 0)[0]) == ([], ([],))


@pytest.mark.parametrize(
    ("key", "version", "path", "reason"),
    [
        (1000, 0, "Acks", "no API has the key 1000"),
        (0, 14, "Acks", "ProduceRequest has no version 14; there are: 0-13"),
        (0, -1, "Acks", "has no version -1"),
        (0, 3, "Ack", "has no field 'Ack'"),
    ],
)
def test_an_unknown_api_version_or_field_has_no_decoder(
    catalog: Catalog, key: int, version: int, path: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        Decoders(catalog).get(key, "request", version, Projection.of(path))


def test_every_single_field_can_be_selected_alone(catalog: Catalog) -> None:
    for key in (0, 1, 3, 9, 18, 55):
        message = catalog.message(key, "response")
        version = message.valid_versions.highest
        values = Generator(message, version, Random(key)).values()
        body = Writer(message, version).write(values)
        for path in leaf_paths(message.struct):
            projection = Projection.of(path, raw_records=True)
            expected = projected(message, version, values, select(message, projection))
            assert compile_decoder(message, version, projection)(body, 0)[0] == expected


def test_types_that_kafka_hardly_uses_are_read() -> None:
    text = """{ "type": "data", "name": "Rare", "validVersions": "0-1", "flexibleVersions": "1+",
      "fields": [
        { "name": "Flags", "type": "[]bool", "versions": "0+" },
        { "name": "Ids", "type": "[]uuid", "versions": "0+" },
        { "name": "Blobs", "type": "[]bytes", "versions": "0+" },
        { "name": "Ratio", "type": "float64", "versions": "0+", "default": "1.5" },
        { "name": "Wide", "type": "uint32", "versions": "0+" },
        { "name": "Hidden", "type": "records", "versions": "1+", "nullableVersions": "1+",
          "tag": 0, "taggedVersions": "1+" },
        { "name": "Maybe", "type": "Pair", "versions": "0+", "nullableVersions": "0+", "fields": [
          { "name": "Left", "type": "bytes", "versions": "0+", "nullableVersions": "0+" },
          { "name": "Right", "type": "[]Pairs", "versions": "0+", "fields": [
            { "name": "X", "type": "float64", "versions": "0+" } ]} ]},
        { "name": "Empty", "type": "[]Nothing", "versions": "0+", "fields": [
          { "name": "Later", "type": "int8", "versions": "1+" } ]}
      ]}"""
    (message,) = load_messages(text, "rare")
    for version in (0, 1):
        check_rare(message, version)


def check_rare(message: MessageSpec, version: int) -> None:
    for seed in range(40):
        check_like_reference_with_room(message, version, seed)


def check_like_reference_with_room(message: MessageSpec, version: int, seed: int) -> None:
    """Compare with bytes after the body: elements of no size count as one byte each."""
    random = Random(seed)
    projection = random_projection(message, random)
    values = Generator(message, version, random).values()
    body = Writer(message, version).write(values)
    view = body + bytes(200)
    assert read_message(message, version, view) == (values, len(body))
    decode = compile_decoder(message, version, Projection.ALL)
    assert decode(view, 0) == (values, len(body))
    expected = projected(message, version, values, select(message, projection))
    assert compile_decoder(message, version, projection)(view, 0)[0] == expected
    assert compile_decoder(message, version, Projection.of())(view, 0)[1] == len(body)


# Hostile bodies.

HUGE = 2**31 - 1


def hostile_bodies() -> list[tuple[int, str, int, bytes]]:
    """Give API key, kind, version and body of messages with false counts and lengths."""
    nested = struct.pack(">ihi", 1000, 0, 1000) + bytes(3000)
    huge_varint = b"\xff\xff\xff\xff\x07"
    return [
        (1, "response", 4, struct.pack(">ii", 0, HUGE) + bytes(5000)),
        (1, "response", 4, struct.pack(">ii", 0, 1000) + nested),
        (1, "response", 12, struct.pack(">ihi", 0, 0, 0) + huge_varint + bytes(5000)),
        (1, "response", 4, struct.pack(">iihi", 0, 1, 0, HUGE) + bytes(5000)),
        (3, "request", 1, struct.pack(">i", HUGE) + bytes(5000)),
        (3, "request", 9, huge_varint + b"\x01" * 5000),
        (3, "response", 1, struct.pack(">i", HUGE) + bytes(5000)),
        (4, "request", 1, struct.pack(">iiiHH", 0, 0, HUGE, 0, 0) + bytes(5000)),
        (8, "request", 2, struct.pack(">hihqi", 0, 0, 0, 0, HUGE) + bytes(5000)),
        (18, "response", 3, b"\0\0\x01\0\0\0\0" + huge_varint + bytes(5000)),
        (18, "response", 3, b"\0\0\x01\0\0\0\0\x01\x00" + huge_varint + bytes(5000)),
        (0, "request", 3, struct.pack(">h", 32767) + bytes(100)),
        (0, "request", 3, struct.pack(">hhiihii", -1, 1, 0, 1, 0, 1, 0) + b"\x7f\xff\xff\xff"),
    ]


@contextmanager
def at_most_bytes(limit: int) -> Iterator[None]:
    """Fail if the block takes more memory than ``limit`` at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("key", "kind", "version", "body"), hostile_bodies())
def test_false_counts_and_lengths_take_little_memory(
    catalog: Catalog, key: int, kind: Any, version: int, body: bytes
) -> None:
    message = catalog.message(key, kind)
    some = random_projection(message, Random(key))
    for projection in (Projection.ALL, Projection.of(), some):
        decode = compile_decoder(message, version, projection)
        frame = frame_in_pieces(body, (0, len(body)))
        with at_most_bytes(64 * 1024), pytest.raises(WireError):
            decode(body, 0)
        with at_most_bytes(64 * 1024), pytest.raises(WireError):
            decode.of_frame(frame, 0)


def test_many_elements_of_no_bytes_are_refused() -> None:
    text = """{ "type": "data", "name": "N", "validVersions": "0-1", "flexibleVersions": "none",
      "fields": [ { "name": "E", "type": "[]Nothing", "versions": "0+", "fields": [
        { "name": "Later", "type": "int8", "versions": "1+" } ]} ]}"""
    (message,) = load_messages(text, "n")
    for projection in (Projection.ALL, Projection.of(), Projection.of("E.Later")):
        with pytest.raises(Truncated):
            compile_decoder(message, 0, projection)(struct.pack(">i", HUGE), 0)


# Frames in pieces.


def sparse_fetch(
    catalog: Catalog, version: int, base: int = 8
) -> tuple[bytes, list[tuple[int, int]], BodyDecoder]:
    """Return a frame, its ranges without record data, and its decoder."""
    contents = [batch(n, payload=500) for n in (1, 2, 3)]
    body = fetch_body(catalog, version, *contents)
    frame = b"8 before"[:base] + body
    ranges, start = [], 0
    for content in contents:
        at = frame.index(content, start)
        ranges.append((start, at + 61))
        start = at + len(content)
    ranges.append((start, len(frame)))
    return frame, ranges, compile_decoder(catalog.message(1, "response"), version, FETCHED)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_frame_is_decoded_without_its_record_data(catalog: Catalog, version: int) -> None:
    frame, ranges, decode = sparse_fetch(catalog, version)
    values, end = decode(frame, 8)
    assert end == len(frame)
    assert decode.of_frame(frame_in_pieces(frame, *ranges), 8) == values
    assert decode.end == end
    nothing = compile_decoder(catalog.message(1, "response"), version, Projection.of())
    assert nothing.of_frame(frame_in_pieces(frame, *ranges), 8) == ()
    assert nothing.end == end


def test_nothing_is_read_after_the_records_that_end_a_frame(catalog: Catalog) -> None:
    # Before version 12 the records of the last partition are the last bytes of the frame.
    frame, ranges, decode = sparse_fetch(catalog, 11)
    assert ranges[-1] == (len(frame), len(frame))
    decode.of_frame(frame_in_pieces(frame, *ranges), 8)
    assert decode.end == len(frame)


def test_a_hole_where_the_decoder_must_read_is_missing_bytes(catalog: Catalog) -> None:
    frame, ranges, decode = sparse_fetch(catalog, 12)
    with pytest.raises(MissingBytes):
        decode.of_frame(frame_in_pieces(frame, *ranges[:2]), 8)


def test_a_field_may_cross_the_end_of_a_window(catalog: Catalog) -> None:
    frame, _, decode = sparse_fetch(catalog, 11)
    for cut in range(9, len(frame)):
        in_two = frame_in_pieces(frame, (0, cut), (cut, len(frame)))
        assert decode.of_frame(in_two, 8) == decode(frame, 8)[0]


def test_a_count_may_exceed_the_window_but_not_the_frame(
    catalog: Catalog,
) -> None:
    contents = [batch(1, payload=500) for _ in range(30)]
    body = fetch_body(catalog, 11, *contents)
    decode = compile_decoder(catalog.message(1, "response"), 11, FETCHED)
    ranges, start = [], 0
    for content in contents:
        at = body.index(content, start)
        ranges.append((start, at + 61))
        start = at + len(content)
    assert decode.of_frame(frame_in_pieces(body, *ranges), 0) == decode(body, 0)[0]
    count_at = 14 + 2 + 1
    assert body[count_at : count_at + 4] == struct.pack(">i", 30)
    false_body = body[:count_at] + struct.pack(">i", 30_000) + body[count_at + 4 :]
    with pytest.raises(Truncated):
        decode.of_frame(frame_in_pieces(false_body, *ranges), 0)


def test_records_longer_than_the_frame_are_truncated(catalog: Catalog) -> None:
    frame, ranges, decode = sparse_fetch(catalog, 11)
    length_at = frame.index(batch(3, payload=500)) - 4
    false_frame = frame[:length_at] + struct.pack(">i", 10_000) + frame[length_at + 4 :]
    with pytest.raises(Truncated):
        decode.of_frame(frame_in_pieces(false_frame, *ranges), 8)
    with pytest.raises(Truncated):
        decode(false_frame, 8)


def test_a_projection_is_the_set_of_its_paths() -> None:
    one, other = Projection.of("B", "A", "A"), Projection.of("A", "B")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Projection.of("A")
    assert one != Projection.of("A", "B", raw_records=True)
    assert Projection.of() != Projection.ALL


@pytest.mark.parametrize(
    ("path", "named_path"),
    [
        ("acks", "acks"),
        ("TopicData.Nope", "TopicData.Nope"),
        ("Acks.More", "Acks.More"),
        ("", ""),
        ("TopicData.", "TopicData."),
    ],
)
def test_an_unknown_path_is_refused(catalog: Catalog, path: str, named_path: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(catalog.message(0, "request"), Projection.of(path))
    assert f"ProduceRequest has no field {named_path!r}; there is: " in str(caught.value)


OPERANDS = {
    op.SKIP: 1,
    op.TEXT: 1,
    op.RECORDS: 1,
    op.ARRAY: 3,
    op.ELEMENTS: 2,
    op.LOOP: 1,
    op.NULLABLE: 2,
    op.JUMP: 1,
}


def instructions(words: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Divide words into instructions."""
    divided, at = [], 0
    while at < len(words):
        count = 2 + 2 * words[at + 2] if words[at] == op.TAGS else OPERANDS.get(words[at], 0)
        divided.append(tuple(words[at : at + 1 + count]))
        at += 1 + count
    return divided


def program(
    catalog: Catalog, key: int, kind: str, version: int, *paths: str
) -> list[tuple[int, ...]]:
    message = catalog.message(key, "request" if kind == "request" else "response")
    return instructions(program_of(message, version, Projection.of(*paths)).words)


@pytest.mark.parametrize("projection", [Projection.ALL, Projection.of()])
def test_every_program_has_valid_addresses_and_a_bounded_stack(
    catalog: Catalog, projection: Projection
) -> None:
    """Every address is that of an instruction, and the program ends with END."""
    count = 0
    for message, version in every_message(catalog):
        written = program_of(message, version, projection)
        starts, at = set(), 0
        for step in instructions(written.words):
            starts.add(at)
            at += len(step)
        assert all(written.words[index] in starts for index in written.relocations)
        assert written.words[-1] == op.END
        assert written.stack_cells <= 64
        count += 1
    assert count > 700


@pytest.mark.parametrize(
    ("projection", "selection"),
    [
        (Projection.of(), {}),
        (Projection.of("Acks", "TopicData.Name"), {"Acks": {}, "TopicData": {"Name": {}}}),
        (
            Projection.of("TopicData.PartitionData", "TopicData.PartitionData.Index"),
            {"TopicData": {"PartitionData": {"Index": {}, "Records": {}}}},
        ),
        (
            Projection.ALL,
            {
                "TransactionalId": {},
                "Acks": {},
                "TimeoutMs": {},
                "TopicData": {
                    "Name": {},
                    "TopicId": {},
                    "PartitionData": {"Index": {}, "Records": {}},
                },
            },
        ),
    ],
)
def test_paths_become_a_tree(
    catalog: Catalog, projection: Projection, selection: dict[str, Any]
) -> None:
    assert select(catalog.message(0, "request"), projection) == selection


def test_what_is_not_selected_takes_one_step(catalog: Catalog) -> None:
    assert program(catalog, 1, "request", 4, "Topics.Topic")[0] == (op.SKIP, 4 * 4 + 1)
    assert (op.ELEMENTS, op.WIDE, 22) in program(catalog, 2, "response", 1)
    steps = program(catalog, 1, "response", 11, "ErrorCode")
    assert not any(step[0] == op.TEXT and step[1] & op.WANTED for step in steps)
