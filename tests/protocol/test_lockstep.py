from __future__ import annotations

import struct
import time
import tracemalloc
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.analysis.extract import Extractors
from kanalyze.errors import UsageError
from kanalyze.protocol.batches import RecordSet
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import compile_decoder
from kanalyze.protocol.language import ZERO_UUID
from kanalyze.protocol.loader import load_messages
from kanalyze.protocol.lockstep import (
    CODECS,
    MOST_ELEMENTS,
    MOST_TAGS,
    NO_CODEC,
    PLAIN,
    Elements,
    Fields,
    Ids,
    LockstepDecoder,
    Numbers,
    RecordSets,
    Texts,
    Values,
)
from kanalyze.protocol.lockstep_records import MOST_BATCHES
from kanalyze.protocol.projection import Projection, Selection, select
from kanalyze.protocol.records import RecordsSummary
from kanalyze.protocol.wire import WireError
from tests.support.batches import batch
from tests.support.batches import message as old_message
from tests.support.effort import took_soon
from tests.support.messages import Generator, Writer, leaf_paths, random_projection, unsigned_varint
from tests.support.records_summary import peek_records
from tests.support.vectors import definition_of, read_vectors, records_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kanalyze.protocol.language import Field, Message, Struct

CATALOG = Catalog()
PRODUCE, FETCH = 0, 1
GARBAGE = b"\xff\x00\x7f\x80\x01"
HUGE = 2**31 - 1


# Columns, as the tuples that the compiled decoder gives.


def values_at(
    data: bytes, struct_: Struct, selection: Selection, fields: Fields, at: int
) -> tuple[Any, ...]:
    """Return the values of one entry as the compiled decoder has them, records in short."""
    assert list(fields) == [field.name for field in struct_.fields if field.name in selection]
    return tuple(
        value_at(data, field, selection[field.name], fields[field.name], at)
        for field in struct_.fields
        if field.name in selection
    )


def value_at(data: bytes, field: Field, selection: Selection, column: Values, at: int) -> Any:
    if not isinstance(column, Elements):
        return plain_at(data, field, column, at)
    count = int(column.count[at])
    found = elements_at(data, field, selection, column, at)
    assert len(found) == max(count, 0)
    if count < 0:
        return None
    return found if field.is_array else found[0]


def elements_at(
    data: bytes, field: Field, selection: Selection, column: Elements, at: int
) -> list[Any]:
    low, high = np.searchsorted(column.owner, [at, at + 1])
    if field.struct is None:
        return [plain_at(data, field, column.fields[PLAIN], k) for k in range(low, high)]
    inner = field.struct
    return [values_at(data, inner, selection, column.fields, k) for k in range(low, high)]


def plain_at(data: bytes, field: Field, column: Values, at: int) -> Any:
    match column:
        case Numbers(values):
            assert values.dtype == np.int64
            return int(values[at])
        case Ids(start):
            place = int(start[at])
            return ZERO_UUID if place < 0 else data[place : place + 16]
        case Texts(start, length):
            place, size = int(start[at]), int(length[at])
            if size < 0:
                return None
            content = data[place : place + size]
            assert len(content) == size
            is_text = field.element_type == "string"
            return str(content, "utf-8", "backslashreplace") if is_text else content
        case RecordSets():
            return records_at(column, at)
        case _:
            raise AssertionError(column)


def records_at(column: RecordSets, at: int) -> Any:
    codec = int(column.codec[at])
    if column.is_null[at]:
        assert (codec, column.record_bytes[at]) == (NO_CODEC, 0)
        return None
    return (
        int(column.record_bytes[at]),
        int(column.record_count[at]),
        None if codec == NO_CODEC else int(column.base_offset[at]),
        None if codec == NO_CODEC else CODECS[codec],
    )


def in_short(value: Any) -> Any:
    """Return what the compiled decoder gives with records as :func:`records_at` has them."""
    if isinstance(value, RecordsSummary):
        return (value.record_bytes, value.record_count, value.base_offset, value.codec)
    if isinstance(value, list | tuple):
        return type(value)(map(in_short, value))
    return value


# Comparing.


def laid_out(
    bodies: Iterable[bytes], between: bytes = GARBAGE
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    data = bytearray(between)
    pos, end = [], []
    for body in bodies:
        pos.append(len(data))
        data += body
        end.append(len(data))
        data += between
    return bytes(data), np.array(pos, np.int64), np.array(end, np.int64)


def expected_of(decode: Any, body: bytes) -> Any:
    """Return what the compiled decoder gives for exactly this body; None when it does not."""
    try:
        values, end = decode(body, 0, 0, None)
    except WireError:
        return None
    return in_short(values) if end == len(body) else None


def check(
    message: Message,
    version: int,
    projection: Projection,
    bodies: list[bytes],
    between: bytes = GARBAGE,
) -> list[bool]:
    """Compare with the compiled decoder wherever the lock-step one is sound; return where."""
    compiled = compile_decoder(message, version, projection)
    data, pos, end = laid_out(bodies, between)
    fields, sound = LockstepDecoder(message, version, projection)(
        np.frombuffer(data, np.uint8), pos, end
    )
    selection = select(message, projection)
    assert sound.dtype == np.bool_
    assert len(sound) == len(bodies)
    for at, body in enumerate(bodies):
        if sound[at]:
            found = values_at(data, message.struct, selection, fields, at)
            what = (message.name, version, projection, body.hex())
            assert found == expected_of(compiled, body), what
    check_harmless(fields, sound, len(data))
    return [bool(one) for one in sound]


def check_harmless(fields: Fields, keep: NDArray[np.bool_], size: int) -> None:
    """See that no place points out of the data, and that who is not sound has no elements."""
    for column in fields.values():
        match column:
            case Elements(owner=owner, count=count, fields=inner):
                assert (np.repeat(np.arange(len(count)), np.maximum(count, 0)) == owner).all()
                assert len(count) == len(keep)
                assert not count[~keep].any()
                check_harmless(inner, np.ones(len(owner), np.bool_), size)
            case Texts(start, length):
                assert (start >= 0).all()
                assert (start + np.maximum(length, 0) <= size).all()
            case Ids(start):
                assert ((start == -1) | (start + 16 <= size)).all()
            case _:
                pass


def row_projection(message: Message) -> Projection:
    """Return what a row wants; of what is no request or response, all fields."""
    if message.api_key is None:
        return Projection.of(*(field.name for field in message.struct.fields))
    return Extractors(CATALOG).wanted(message.api_key, message.kind)


# Kafka's own vectors.

Bodies = dict[tuple[str, int], tuple["Message", list[bytes]]]


@pytest.fixture(scope="module")
def vectors() -> Bodies:
    """The bodies of each version of each message."""
    found: Bodies = {}
    for vector in read_vectors():
        message = definition_of(vector, CATALOG)
        _, bodies = found.setdefault((message.name, vector.version), (message, []))
        bodies.append(vector.content)
    return found


def is_usual(message: Message, version: int, body: bytes) -> bool:
    """Tell whether a body has nothing in it that the lock-step decoder leaves to the other."""
    values, _ = compile_decoder(message, version, Projection.ALL)(body, 0, 0, None)
    return is_usual_struct(message.struct, values) and all(
        is_usual_records(content) for content in records_in(message.struct, values)
    )


def is_usual_struct(struct_: Struct, values: dict[str, Any]) -> bool:
    if "_taggedFields" in values:
        return False
    for field in struct_.fields:
        value = values.get(field.json_name)
        if isinstance(value, list) and len(value) > MOST_ELEMENTS:
            return False
        if field.struct is not None and value is not None:
            items = value if field.is_array else [value]
            if not all(is_usual_struct(field.struct, item) for item in items):
                return False
        elif field.json_name in values and field.tag is not None:
            return False
    return True


def is_usual_records(content: bytes) -> bool:
    summary = peek_records(content, 0, len(content), 0, None)
    is_plain = all(one.magic == 2 for one in RecordSet(content))
    return is_plain and not summary.malformed and summary.batch_count <= MOST_BATCHES


def test_vectors_give_what_the_compiled_decoder_gives(vectors: Bodies) -> None:
    sound: list[bool] = []
    for (name, version), (message, bodies) in vectors.items():
        found = check(message, version, row_projection(message), bodies)
        for body, is_sound in zip(bodies, found, strict=True):
            if not is_sound and is_usual(message, version, body):
                # Too long beside the others it may be, but not among its like.
                again = check(message, version, row_projection(message), [body] * 40)
                assert all(again), (name, version)
        sound += found
    assert len(sound) > 5000
    assert sum(sound) / len(sound) > 0.95


def test_vectors_of_other_fields_give_what_the_compiled_decoder_gives(vectors: Bodies) -> None:
    random = Random(1)
    sound: list[bool] = []
    for (_, version), (message, bodies) in vectors.items():
        everything = Projection.of(*leaf_paths(message.struct))
        others = (Projection.of(), random_projection(message, random))
        projection = random.choice((everything, everything, *others))
        sound += check(message, version, projection, bodies)
    assert sum(sound) / len(sound) > 0.9


def test_cut_and_changed_vectors_are_not_sound_or_as_the_compiled_decoder_says(
    vectors: Bodies,
) -> None:
    random = Random(2)
    for (name, version), (message, bodies) in vectors.items():
        body = random.choice([body for body in bodies if len(body) <= 600] or bodies)[:2000]
        some = random.sample(range(len(body)), min(len(body), 20))
        between = random.choice((GARBAGE, b""))
        projection = row_projection(message)
        cut = check(message, version, projection, [body[:end] for end in some], between)
        assert not any(cut), (name, version)
        check(message, version, projection, changed(body, random, 20), between)


@pytest.mark.parametrize("key", [PRODUCE, FETCH])
def test_messages_with_records_cut_and_changed_anywhere(key: int, vectors: Bodies) -> None:
    random = Random(3)
    for message, version in versions_of(key):
        whole = min(vectors[message.name, version][1], key=lambda body: abs(len(body) - 500))
        bodies = [whole, made(key, message, version, [[batch(3), None], [batch(1) + batch(2)]])]
        for body in bodies:
            cut = [body[:end] for end in range(len(body))]
            for projection in (row_projection(message), Projection.of()):
                assert not any(check(message, version, projection, cut)), (message.name, version)
                check(message, version, projection, changed(body, random, 300))


def changed(body: bytes, random: Random, count: int) -> list[bytes]:
    """Return the body with one byte changed, some times, and itself."""
    found = [body]
    for _ in range(count if body else 0):
        wrong = bytearray(body)
        at = random.randrange(len(wrong))
        wrong[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, wrong[at] ^ 1, random.randrange(256)))
        found.append(bytes(wrong))
    return found


# Messages with records.


def versions_of(key: int) -> list[tuple[Message, int]]:
    """Give the versions whose records are batches, of requests and responses."""
    first = {PRODUCE: 3, FETCH: 4}[key]
    messages = [CATALOG.message(key, "request"), CATALOG.message(key, "response")]
    return [
        (message, version)
        for message in messages
        for version in range(first, message.valid_versions.highest + 1)
    ]


def made(key: int, message: Message, version: int, topics: list[list[bytes | None]]) -> bytes:
    """Return a message with a topic for each list, and in it a partition for each records."""
    partitions = [
        [partition_of(index, records) for index, records in enumerate(topic)] for topic in topics
    ]
    if message.kind == "request":
        # There it is a tagged field, in elements of fixed size.
        for partition in chain.from_iterable(partitions):
            del partition["highWatermark"]
    values = {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 1000,
        "throttleTimeMs": 7,
        "errorCode": 0,
        "sessionId": 5,
        "sessionEpoch": 2,
        "replicaId": -1,
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 1 << 20,
        "isolationLevel": 0,
        "rackId": "r" * 130,
        "forgottenTopicsData": [
            {"topic": "gone", "topicId": b"\2" * 16, "partitions": list(range(at))}
            for at in range(len(topics) % 3)
        ],
    }
    for name, inner in (
        ("topicData", "partitionData"),
        ("topics", "partitions"),
        ("responses", "partitionResponses" if key == PRODUCE else "partitions"),
    ):
        values[name] = [
            {"name": f"topic {at}", "topic": f"topic {at}", "topicId": b"\1" * 16, inner: some}
            for at, some in enumerate(partitions)
        ]
    return Writer(message, version).write(values)


def partition_of(index: int, records: bytes | None) -> dict[str, Any]:
    return {
        "index": index,
        "partition": index,
        "partitionIndex": index,
        "errorCode": index % 5,
        "baseOffset": index << 33,
        "logAppendTimeMs": -1,
        "logStartOffset": 3,
        "recordErrors": [
            {"batchIndex": at, "batchIndexErrorMessage": "no"} for at in range(index % 3)
        ],
        "errorMessage": "not so",
        "currentLeaderEpoch": 4,
        "fetchOffset": 1 << 40,
        "lastFetchedEpoch": -1,
        "partitionMaxBytes": 1 << 20,
        "highWatermark": (1 << 40) + index,
        "lastStableOffset": 100,
        "abortedTransactions": None
        if index % 2
        else [{"producerId": at, "firstOffset": at} for at in range(index % 4)],
        "preferredReadReplica": -1,
        "records": records,
    }


BATCHES = st.builds(
    lambda count, attributes, payload, offset: batch(
        count, attributes=attributes, payload=payload, base_offset=offset
    ),
    st.integers(0, 14),
    st.sampled_from((0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0x10, 0x20, 0x30, 0x21)),
    st.sampled_from((100, 101, 300)),
    st.sampled_from((0, 1, 1 << 40, -1)),
)


@st.composite
def records_fields(draw: st.DrawFn) -> bytes | None:
    """Null, nothing, or batches, the last maybe cut."""
    batches = draw(st.none() | st.lists(BATCHES, max_size=4))
    if batches is None:
        return None
    content = b"".join(batches)
    last = len(batches[-1]) if batches else 0
    cut = draw(st.just(0) | st.integers(0, max(last - 1, 0)))
    return content[: len(content) - cut]


TOPICS = st.lists(st.lists(records_fields(), max_size=4), max_size=4)


@settings(max_examples=40, deadline=None)
@given(bodies=st.lists(TOPICS, min_size=1, max_size=12), seed=st.integers(0, 1 << 20))
@pytest.mark.parametrize("key", [PRODUCE, FETCH])
def test_built_messages_are_all_sound(
    key: int, bodies: list[list[list[bytes | None]]], seed: int
) -> None:
    message, version = Random(seed).choice(versions_of(key))
    some = [made(key, message, version, topics) for topics in bodies]
    for projection in (row_projection(message), Projection.of()):
        assert all(check(message, version, projection, some))


@pytest.mark.parametrize("key", [PRODUCE, FETCH])
def test_up_to_64_partitions_or_topics_are_sound(key: int) -> None:
    for message, version in versions_of(key):
        for shape in ([[batch(1)] * 64], [[batch(1)]] * 64, [[batch(1)] * 3, []] * 2):
            bodies = [made(key, message, version, shape)] * 12
            assert all(check(message, version, row_projection(message), bodies))


def test_more_elements_of_variable_size_are_not_sound() -> None:
    message = CATALOG.message(FETCH, "response")
    many = made(FETCH, message, 11, [[None] * (MOST_ELEMENTS + 1)])
    few = made(FETCH, message, 11, [[None] * MOST_ELEMENTS])
    found = check(message, 11, row_projection(message), [few, many] + [few] * 8)
    assert found == [True, False] + [True] * 8


def test_elements_of_fixed_size_may_be_many() -> None:
    message = CATALOG.message(FETCH, "request")
    for version in (11, 16):
        bodies = [made(FETCH, message, version, [[None] * 1000, [], [None]]) for _ in range(3)]
        assert all(check(message, version, row_projection(message), bodies))


RECORDS = Projection.of("Responses.Partitions.Records")


def summaries(*contents: bytes | None) -> tuple[RecordSets, NDArray[np.bool_]]:
    message = CATALOG.message(FETCH, "response")
    bodies = [made(FETCH, message, 12, [[content]]) for content in contents]
    data, pos, end = laid_out(bodies)
    check(message, 12, RECORDS, bodies)
    decode = LockstepDecoder(message, 12, RECORDS)
    fields, sound = decode(np.frombuffer(data, np.uint8), pos, end)
    column = fields["Responses"]
    assert isinstance(column, Elements)
    inner = column.fields["Partitions"]
    assert isinstance(inner, Elements)
    found = inner.fields["Records"]
    assert isinstance(found, RecordSets)
    return found, sound


def test_records_in_numbers() -> None:
    found, sound = summaries(
        None,
        b"",
        batch(3, base_offset=9),
        batch(3, attributes=1, base_offset=9)[:-1],
        batch(3, attributes=4) + batch(2, attributes=4) + batch(9)[:60],
        batch(3, attributes=1) + batch(2, attributes=2) + batch(1, attributes=1),
        batch(1, attributes=0x20, base_offset=-1),
        batch(1, attributes=5),
    )
    assert sound.all()
    assert found.is_null.tolist() == [True] + [False] * 7
    assert found.record_count.tolist() == [0, 0, 3, 0, 5, 6, 0, 1]
    assert found.record_bytes.tolist() == [0, 0, 161, 160, 382, 483, 161, 161]
    assert found.base_offset.tolist() == [0, 0, 9, 0, 0, 0, -1, 0]
    names = [None if codec == NO_CODEC else CODECS[codec] for codec in found.codec]
    assert names == [None, None, "none", None, "zstd", "mixed", "none", "unknown"]


@pytest.mark.parametrize(
    "content",
    [
        old_message(0),
        old_message(1),
        batch(1) + old_message(1),
        batch(1, magic=3),
        batch(1, magic=1)[:40],
        batch(1, length=48),
        batch(1, length=-1),
        batch(-1),
        batch(1000),
        batch(1) + batch(1000) + batch(1),
        batch(1, payload=0) * (MOST_BATCHES + 1),
    ],
)
def test_records_with_trouble_are_not_sound_and_disturb_nobody(content: bytes) -> None:
    found, sound = summaries(batch(2), content, batch(4))
    assert sound.tolist() == [True, False, True]
    assert found.record_count.tolist() == [2, 4]


def test_as_many_batches_as_may_be() -> None:
    found, sound = summaries(*[batch(1) * MOST_BATCHES] * 8)
    assert sound.all()
    assert found.record_count.tolist() == [MOST_BATCHES] * 8
    found, sound = summaries(batch(1), batch(1) * 5, batch(1) * 4)
    assert sound.tolist() == [True, False, True]


# Numbers of variable size, tags, structs that may be null.


@pytest.mark.parametrize(
    ("length", "is_sound"),
    [
        (b"\x04", True),
        (b"\x84\x00", True),
        (b"\x84\x80\x80\x80\x00", True),
        (b"\x84\x80\x80\x80\x80\x00", False),
        (b"\x84\x80\x80\x80\x08", False),
        (b"\x84\x80\x80\x80\x10", False),
        (b"\x00", False),
        (b"\x05", False),
        (b"\x84", False),
        (b"\xff\xff\xff\xff\x07", False),
    ],
)
def test_varints(length: bytes, is_sound: bool) -> None:
    message = CATALOG.message(18, "request")
    projection = Projection.of("ClientSoftwareName", "ClientSoftwareVersion")
    usual = b"\x02a\x02b\x00"
    bodies = [usual, length + b"abc\x01\x00", usual]
    assert check(message, 3, projection, bodies) == [True, is_sound, True]
    assert check(message, 3, projection, bodies, b"") == [True, is_sound, True]
    for end in range(len(bodies[1])):
        assert not any(check(message, 3, projection, [bodies[1][:end]], b""))


def tag_section(tags: list[tuple[int, bytes]]) -> bytes:
    return unsigned_varint(len(tags)) + b"".join(
        unsigned_varint(tag) + unsigned_varint(len(content)) + content for tag, content in tags
    )


@pytest.mark.parametrize(
    ("tags", "is_sound"),
    [
        ([], True),
        ([(0, b"")], True),
        ([(7, b"x"), (300, b"y" * 300)], True),
        ([(tag, b"z") for tag in range(MOST_TAGS)], True),
        ([(tag, b"z") for tag in range(MOST_TAGS + 1)], False),
        ([(tag, b"z") for tag in range(200)], False),
        ([(7, b""), (7, b"")], False),
        ([(7, b""), (6, b"")], False),
    ],
)
def test_tags_that_nobody_wants_are_stepped_over(
    tags: list[tuple[int, bytes]], is_sound: bool
) -> None:
    message = CATALOG.message(18, "request")
    projection = Projection.of("ClientSoftwareName")
    head = b"\x02a\x02b"
    body = head + tag_section(tags)
    bodies = [head + b"\0", body, head + tag_section([(1, b"1"), (2, b"22")])]
    assert check(message, 3, projection, bodies) == [True, is_sound, True]
    cut = [body[:end] for end in range(len(body))]
    assert not any(check(message, 3, projection, cut, b""))


def test_a_tag_section_with_wanted_fields_is_sound_when_it_is_empty() -> None:
    message = CATALOG.message(18, "response")
    projection = Projection.of("FinalizedFeaturesEpoch", "ZkMigrationReady", "FinalizedFeatures")
    head = struct.pack(">hBi", 0, 1, 0)
    tagged = head + tag_section([(1, struct.pack(">q", 77))])
    assert check(message, 3, projection, [head + b"\0", tagged]) == [True, False]


def test_a_struct_that_may_be_null_is_null_or_there() -> None:
    message = CATALOG.message(75, "response")
    projection = Projection.of("ThrottleTimeMs", "NextCursor")
    head = struct.pack(">iB", 5, 1)
    cursor = b"\x05name" + struct.pack(">iB", 3, 0)
    bodies = [
        head + b"\xff\0",
        head + b"\x01" + cursor + b"\0",
        head + b"\x02" + cursor + b"\0",
        head + b"\x00\0",
    ]
    for wanted in (projection, Projection.of()):
        assert check(message, 0, wanted, bodies) == [True, True, False, False]


RARE = """{ "type": "data", "name": "Rare", "validVersions": "0-2", "flexibleVersions": "1+",
  "fields": [
    { "name": "Flags", "type": "[]bool", "versions": "0+" },
    { "name": "Ids", "type": "[]uuid", "versions": "0+" },
    { "name": "Texts", "type": "[]string", "versions": "0+" },
    { "name": "Ratio", "type": "float64", "versions": "0+", "default": "1.5" },
    { "name": "Word", "type": "string", "versions": "2+", "default": "none" },
    { "name": "Wide", "type": "uint32", "versions": "0+" },
    { "name": "Pair", "type": "Pair", "versions": "0+", "fields": [
      { "name": "Left", "type": "bytes", "versions": "0+", "nullableVersions": "0+" },
      { "name": "Right", "type": "[]Pairs", "versions": "0+", "fields": [
        { "name": "Flag", "type": "bool", "versions": "0+" } ]} ]},
    { "name": "Maybe", "type": "Point", "versions": "1+", "nullableVersions": "1+",
      "fields": [ { "name": "X", "type": "int8", "versions": "0+" } ]},
    { "name": "Empty", "type": "[]Nothing", "versions": "0+", "fields": [
      { "name": "Later", "type": "int8", "versions": "2+" } ]}
  ]}"""


@pytest.mark.parametrize("version", [0, 1, 2])
def test_types_that_kafka_hardly_uses(version: int) -> None:
    (message,) = load_messages(RARE, "rare")
    random = Random(version)
    values = [Generator(message, version, random).values() for _ in range(60)]
    bodies = [Writer(message, version).write(one) for one in values]
    columns = [path for path in leaf_paths(message.struct) if path not in ("Ratio", "Word")]
    found = check(message, version, Projection.of(*columns), bodies)
    assert sum(found) > 10
    assert check(message, version, Projection.of("Pair.Left"), bodies) == found


@pytest.mark.parametrize("projection", [Projection.of("Ratio"), Projection.of("Word")])
def test_what_cannot_be_columns_is_never_sound(projection: Projection) -> None:
    (message,) = load_messages(RARE, "rare")
    for wanted in (projection, Projection.ALL):
        decode = LockstepDecoder(message, 0, wanted)
        body = Writer(message, 0).write(Generator(message, 0, Random(1)).values())
        data, pos, end = laid_out([body, body])
        fields, sound = decode(np.frombuffer(data, np.uint8), pos, end)
        assert fields == {}
        assert sound.tolist() == [False, False]


@pytest.mark.parametrize(
    ("version", "path", "reason"),
    [
        (14, "Acks", "ProduceRequest has no version 14; there are: 0-13"),
        (3, "Ack", "has no field 'Ack'"),
    ],
)
def test_what_is_not_known_has_no_decoder(version: int, path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        LockstepDecoder(CATALOG.message(PRODUCE, "request"), version, Projection.of(path))


# Buffers and places.


def test_no_messages_give_columns_of_nothing() -> None:
    message = CATALOG.message(FETCH, "response")
    nobody = np.zeros(0, np.int64)
    fields, sound = LockstepDecoder(message, 11, row_projection(message))(
        np.zeros(0, np.uint8), nobody, nobody
    )
    assert len(sound) == 0
    assert list(fields) == ["ThrottleTimeMs", "ErrorCode", "SessionId", "Responses"]
    check_harmless(fields, sound, 0)


@pytest.mark.parametrize("size", range(9))
def test_a_buffer_of_a_few_bytes(size: int) -> None:
    for key in (PRODUCE, FETCH):
        for message, version in versions_of(key):
            projection = row_projection(message)
            expected = expected_of(compile_decoder(message, version, projection), bytes(size))
            found = check(message, version, projection, [bytes(size)], b"")
            assert found == [expected is not None]
    message = CATALOG.message(18, "request")
    assert check(message, 0, Projection.of(), [bytes(size)], b"") == [size == 0]


def test_messages_may_be_in_any_order_and_the_buffer_read_only() -> None:
    message = CATALOG.message(FETCH, "response")
    bodies = [made(FETCH, message, 11, [[batch(count, payload=200)]]) for count in range(20)]
    data, pos, end = laid_out(bodies)
    order = np.random.default_rng(1).permutation(20)
    array = np.frombuffer(data, np.uint8)
    assert not array.flags.writeable
    before = pos.copy(), end.copy()
    decode = LockstepDecoder(message, 11, row_projection(message))
    fields, sound = decode(array, pos[order], end[order])
    assert sound.all()
    selection = select(message, row_projection(message))
    for at, count in enumerate(order):
        ((_, _, ((_, _, _, records),)),) = values_at(data, message.struct, selection, fields, at)[3]
        assert records[1] == count
    assert (before[0] == pos).all()
    assert (before[1] == end).all()


# Hostile bodies.


def hostile_bodies() -> list[tuple[int, str, int, bytes]]:
    """Give api key, kind, version and body of messages whose counts and lengths lie."""
    huge_varint = b"\xff\xff\xff\xff\x07"
    nested = struct.pack(">ihi", 60, 0, 1000)
    return [
        (FETCH, "response", 4, struct.pack(">ii", 0, HUGE) + bytes(500)),
        (FETCH, "response", 4, struct.pack(">ii", 0, 64) + nested + bytes(500)),
        (FETCH, "response", 12, struct.pack(">ihi", 0, 0, 0) + huge_varint + bytes(500)),
        (FETCH, "response", 4, struct.pack(">iihi", 0, 1, 0, 10) + b"\x7f" * 500),
        (FETCH, "request", 4, struct.pack(">iiiibi", 0, 0, 0, 0, 0, 64) + b"\0" * 500),
        (FETCH, "request", 12, bytes(25) + huge_varint + b"\x01" * 500),
        (PRODUCE, "request", 7, struct.pack(">hhii", -1, 1, 0, 1) + b"\x7f\xff" * 250),
        (PRODUCE, "request", 9, b"\0\0\1\0\0\0\0" + b"\x40" * 500),
        (3, "response", 1, struct.pack(">i", HUGE) + bytes(500)),
        (8, "request", 2, struct.pack(">hihqi", 0, 0, 0, 0, HUGE) + bytes(500)),
        (18, "response", 3, b"\0\0\x01\0\0\0\0" + huge_varint + bytes(500)),
        (18, "request", 3, b"\x01\x01" + huge_varint + bytes(500)),
    ]


@pytest.mark.parametrize(("key", "kind", "version", "body"), hostile_bodies())
def test_counts_that_lie_take_no_time_and_no_memory(
    key: int, kind: Any, version: int, body: bytes
) -> None:
    message = CATALOG.message(key, kind)
    projection = row_projection(message)
    assert not any(check(message, version, projection, [body] * 3))
    check_cost(message, version, projection, [body] * 2000)


def test_a_long_message_is_not_worth_the_rounds() -> None:
    message = CATALOG.message(PRODUCE, "response")
    short = made(PRODUCE, message, 11, [[None] * 3])
    for shape in ([[None] * 60] * 60, [[None] * 30], [[None]] * 30):
        long = made(PRODUCE, message, 11, shape)
        bodies = [short] * 300 + [long] + [short] * 300
        found = check(message, 11, row_projection(message), bodies)
        assert found == [True] * 300 + [False] + [True] * 300
        check_cost(message, 11, row_projection(message), bodies)


def check_cost(message: Message, version: int, projection: Projection, bodies: list[bytes]) -> None:
    """Look at time and memory, which are to go with the messages and their bytes."""
    data, pos, end = laid_out(bodies)
    decode = LockstepDecoder(message, version, projection)
    array = np.frombuffer(data, np.uint8)
    began = time.thread_time()
    decode(array, pos, end)
    assert took_soon(time.thread_time() - began, 1)
    tracemalloc.start()
    try:
        kept = decode(array, pos, end)
        peak = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    assert peak < 100_000 + 1000 * len(bodies) + 20 * len(data)
