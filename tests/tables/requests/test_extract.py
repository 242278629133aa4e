"""Summaries of bodies, which are encoded from our definitions and decoded for the rows."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import TYPE_CHECKING, Any, Literal

import pytest

from kanalyze.kafka.codec.compiler import Decoders, compile_decoder
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.summaries import FIELD_NUMBERS, ExchangeSummary
from kanalyze.tables.requests.summaries import PartitionSummary as Part
from kanalyze.tables.requests.topic_names import topic_id_text
from tests.support.batches import batch
from tests.support.cases import for_each
from tests.support.decoding import exchange
from tests.support.messages import Generator, Writer
from tests.support.vectors import definition_of, read_vectors

if TYPE_CHECKING:
    from kanalyze.kafka.codec.values import EncodedFields
    from kanalyze.kafka.schema.schema_ast import Field, Struct

CATALOG = Catalog()
EXTRACTORS = Extractors(CATALOG)
TOPIC_ID = bytes(range(16))
NO_ID = bytes(16)
KINDS: tuple[Literal["request", "response"], ...] = ("request", "response")


def whole(struct: Struct, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a struct, with defaults for all fields that are left out."""
    fields = {field.json_name: field for field in struct.fields if field.is_present(version)}
    assert values.keys() <= {field.json_name for field in struct.fields} | {"_taggedFields"}
    made = dict(values)
    for name, field in fields.items():
        if name not in made and not field.is_tagged(version):
            made[name] = _default(field)
        if field.struct is not None and isinstance(made.get(name), list):
            made[name] = [whole(field.struct, version, item) for item in made[name]]
        elif field.struct is not None and isinstance(made.get(name), dict):
            made[name] = whole(field.struct, version, made[name])
    return made


def _default(field: Field) -> Any:
    if field.is_array or field.struct is not None:
        return [] if field.is_array else {}
    empty = {"string": "", "uuid": NO_ID, "records": None, "bytes": b"", "bool": False}
    return field.default or empty.get(field.type, 0)


def read(key: int, kind: str, version: int, values: dict[str, Any] | None) -> EncodedFields | None:
    """Return the values on the tape of a message, decoded with the fields that rows need."""
    if values is None:
        return None
    message = CATALOG.message(key, kind)  # type: ignore[arg-type]
    body = Writer(message, version).write(whole(message.struct, version, values))
    decode = compile_decoder(message, version, EXTRACTORS.needed_fields(key, kind))
    _, end = decode(body, 0)
    assert end == len(body)
    return decode.take(None)


def summary(
    key: int,
    version: int,
    request: dict[str, Any] | None = None,
    response: dict[str, Any] | None = None,
) -> ExchangeSummary:
    return summary_of(
        key, read(key, "request", version, request), read(key, "response", version, response)
    )


def summary_of(
    key: int, request: EncodedFields | None, response: EncodedFields | None
) -> ExchangeSummary:
    """Return the summary of an exchange with these bodies; None is one that was not decoded."""
    header = pack(">ihh", 4, key, 0)
    made = exchange(header, header)
    for message, encoded in ((made.request, request), (made.response, response)):
        assert message is not None
        message.encoded_fields = encoded
    return EXTRACTORS.of_exchange(made)


def values(found: ExchangeSummary, *names: str) -> tuple[int | str | None, ...]:
    """Return some of the fields of a summary that have a single value."""
    texts = {column.name for column in COLUMNS if column.type == "string"}
    return tuple(
        found.text(FIELD_NUMBERS[name]) if name in texts else found.number(FIELD_NUMBERS[name])
        for name in names
    )


def produced(records: bytes | None, **topic: Any) -> dict[str, Any]:
    partitions = [{"index": 4, "records": records}]
    topics = [{**(topic or {"name": "orders"}), "partitionData": partitions}]
    return {"transactionalId": "tx", "acks": -1, "topicData": topics}


def produce_answer(code: int, offset: int, **topic: Any) -> dict[str, Any]:
    partitions = [{"index": 4, "errorCode": code, "baseOffset": offset}]
    topics = [{**(topic or {"name": "orders"}), "partitionResponses": partitions}]
    return {"responses": topics, "throttleTimeMs": 9}


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_joins_partitions_of_request_and_response(version: int) -> None:
    topic = {"topicId": TOPIC_ID} if version >= 13 else {"name": "orders"}
    found = summary(0, version, produced(batch(5), **topic), produce_answer(0, 77, **topic))
    name, topic_id = topic.get("name", ""), topic.get("topicId", NO_ID)
    assert list(found.partitions) == [Part(name, topic_id, 4, 5, 161, 77, None, "none", 0)]
    assert values(found, "acks", "transactional_id", "throttle_time_ms") == (-1, "tx", 9)
    assert found.errors == []


@pytest.mark.parametrize("version", [3, 13])
def test_a_produce_has_the_producer_of_its_batch(version: int) -> None:
    topic = {"topicId": TOPIC_ID} if version >= 13 else {"name": "orders"}
    for written in ((1 << 40, 7, 5), (0, 0, 0)):
        found = summary(
            *(0, version, produced(batch(5, producer=written), **topic)),
            produce_answer(0, 77, **topic),
        )
        (part,) = found.partitions
        assert (part.producer_id, part.producer_epoch, part.base_sequence) == written
        assert (part.base_offset, part.last_offset, part.error_code) == (77, None, 0)


@pytest.mark.parametrize(
    ("version", "named", "expected"),
    [(11, 3, 3), (18, 0, 0), (12, -1, None), (16, -2, None), (10, None, None)],
)
def test_a_fetch_has_the_replica_that_the_leader_names(
    version: int, named: int | None, expected: int | None
) -> None:
    topic = {"topicId": TOPIC_ID} if version >= 13 else {"topic": "orders"}
    told = {} if named is None else {"preferredReadReplica": named}
    other = {"partitionIndex": 5, "records": batch(2, producer=(9, 8, 7))}
    partitions = [{"partitionIndex": 4, "highWatermark": 30, **told}, other]
    found = summary(1, version, None, {"responses": [{**topic, "partitions": partitions}]})
    first, second = found.partitions
    assert (first.partition, first.high_watermark, first.preferred_read_replica) == (
        4,
        30,
        expected,
    )
    assert first.producer_id is None
    # What is not told is -1 by default.
    assert second.preferred_read_replica is None
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == (9, 8, 7)


WRITTEN = (123_456_789_012, 4321, 987_654)
PREFERRED = 7654
"""Numbers that no other cell has."""


@pytest.mark.parametrize("key", [0, 1])
def test_bodies_in_states_of_the_format_before_have_neither_producer_nor_replica(key: int) -> None:
    reader = MessageReader(CATALOG, Decoders(CATALOG), EXTRACTORS.needed_fields)
    records, kind = batch(5, producer=WRITTEN), ("request", "response")[key]
    partition = {"partitionIndex": 4, "preferredReadReplica": PREFERRED, "records": records}
    body = (
        produced(records),
        {"responses": [{"topic": "orders", "partitions": [partition, {"partitionIndex": 5}]}]},
    )[key]
    encoded = read(key, kind, (9, 11)[key], body)
    assert encoded is not None
    cells, texts = encoded.state()
    at = cells.index(WRITTEN[0])
    assert cells[at : at + 3] == WRITTEN
    older = [*cells[:at], *cells[at + 3 :]]
    if key == 1:
        # The last cells are those of the second partition: no replica, and null for records.
        older.remove(PREFERRED)
        assert older[-2:] == [-1, -1]
        del older[-1]
    header = pack(">ihh", 4, key, (9, 11)[key])
    made = exchange(header, header)
    message = (made.request, made.response)[key]
    assert message is not None
    message.version = (9, 11)[key]
    states = [(False, (tuple(older), texts))]
    for _ in range(2):  # what was loaded is saved again
        reader.load_body_state(message, states[-1], key, kind)
        part, *_ = EXTRACTORS.of_exchange(made).partitions
        assert part[-4:] == (None, None, None, None)
        expected = Part("orders", NO_ID, 4, 5, 161, codec="none")
        assert part._replace(base_offset=None, high_watermark=None, error_code=None) == expected
        states.append(reader.body_state(message, key, kind))
    with pytest.raises(ValueError, match="cells"):
        reader.load_body_state(message, (False, (cells, texts)), key, kind)


def test_a_refused_produce_has_its_error_and_no_offset() -> None:
    found = summary(0, 3, produced(batch(5)), produce_answer(10, -1))
    assert found.errors == [("orders", NO_ID, 4, 10)]
    (part,) = found.partitions
    assert (part.base_offset, part.error_code) == (None, 10)


def metadata(*topics: dict[str, Any], code: int = 0) -> dict[str, Any]:
    return {"topics": [*topics], "errorCode": code}


ORDERS = {
    "name": "orders",
    "topicId": TOPIC_ID,
    "partitions": [{"errorCode": 5, "partitionIndex": 2}],
}
GONE = {"errorCode": 3, "name": "gone"}


def test_metadata_shows_names_and_errors_at_every_level() -> None:
    found = summary(3, 13, None, metadata(ORDERS, GONE, code=41))
    assert found.names == [(TOPIC_ID, "orders")]
    assert found.errors == [
        ("orders", TOPIC_ID, 2, 5),
        ("gone", NO_ID, None, 3),
        (None, NO_ID, None, 41),
    ]


def fetch_of(*partitions: int) -> dict[str, Any]:
    topics = [{"topic": "orders", "partitions": [{"partition": index} for index in partitions]}]
    return {"maxWaitMs": 500, "minBytes": 1, "topics": topics}


@pytest.mark.parametrize("count", [1, 8, 9, 700])
def test_many_partitions_of_a_fetch_are_joined_as_few_are(count: int) -> None:
    order = Random(count).sample(range(count), count)
    answered = order[::2]
    topics = [{"topic": "orders", "partitions": [{"partitionIndex": at} for at in answered]}]
    found = summary(1, 4, fetch_of(*range(count), 0), {"responses": topics})
    left_out = [at for at in [*range(count), 0] if at not in answered]
    assert [part.partition for part in found.partitions] == answered + left_out
    assert [part.error_code for part in found.partitions] == [0] * len(answered) + [None] * len(
        left_out
    )


@pytest.mark.parametrize("count", [1, 8, 9, 700])
def test_a_produce_without_a_request_has_the_last_answer_of_each_partition(count: int) -> None:
    codes = [*range(count), *range(count)]
    answers = [{"index": at, "errorCode": code} for code, at in enumerate(codes)]
    topics = [{"name": "orders", "partitionResponses": answers}]
    found = summary(0, 3, None, {"responses": topics})
    expected = [(at, count + at) for at in range(count)]
    assert [(part.partition, part.error_code) for part in found.partitions] == expected


def markers(*codes: list[int]) -> dict[str, Any]:
    def marker(codes: list[int]) -> dict[str, Any]:
        partitions = [{"partitionIndex": 1, "errorCode": code} for code in codes]
        return {"topics": [{"name": "a", "partitions": partitions}]}

    return {"markers": list(map(marker, codes))}


COMMITTED = {"partitionIndex": 4, "committedOffset": 70}
COMMIT = {"topics": [{"name": "orders", "partitions": [COMMITTED]}]}
STATES = {"partitionStates": [{"partitionIndex": 3}]}
TRANSACTION = {"topics": [{"name": "a", "partitions": [0, 2]}, {"name": "b", "partitions": [0]}]}
ANSWERED = [
    {"partitionIndex": 2, "partitionErrorCode": 0},
    {"partitionIndex": 0, "partitionErrorCode": 55},
]


@for_each(
    "case",
    [
        # Without a response, a produce has the partitions of the request.
        (0, 3, produced(batch(5)), None, [Part("orders", NO_ID, 4, 5, 161, codec="none")]),
        # Null records are no records.
        (0, 3, produced(None), None, [Part("orders", NO_ID, 4, 0, 0)]),
        # A fetch lists the partitions that its response leaves out.
        (
            *(1, 4, fetch_of(0, 1)),
            {
                "responses": [
                    {
                        "topic": "orders",
                        "partitions": [
                            {
                                "partitionIndex": 1,
                                "highWatermark": 30,
                                "records": batch(2, base_offset=28),
                            }
                        ],
                    }
                ]
            },
            [Part("orders", NO_ID, 1, 2, 161, 28, 30, "none", 0), Part("orders", NO_ID, 0)],
        ),
        # ListOffsets 0 answers with a list.
        (
            *(2, 0, None),
            {
                "topics": [
                    {
                        "name": "orders",
                        "partitions": [{"partitionIndex": 0, "oldStyleOffsets": [90, 40]}],
                    }
                ]
            },
            [Part("orders", NO_ID, 0, base_offset=90, error_code=0)],
        ),
        # A metadata request names topics, the response their partitions too.
        (
            *(3, 12, {"topics": [{"name": "orders"}, {"name": "gone"}]}, metadata(GONE, ORDERS)),
            [
                Part("orders", NO_ID, None),
                Part("gone", NO_ID, None, error_code=3),
                Part("orders", TOPIC_ID, 2, error_code=5),
            ],
        ),
        # A name means the same topic, whether a message has its id or not.
        (
            *(19, 7, {"topics": [{"name": "new", "numPartitions": 3}]}),
            {"topics": [{"name": "new", "topicId": TOPIC_ID, "errorCode": 36}]},
            [Part("new", TOPIC_ID, None, error_code=36)],
        ),
        # A topic has a name in the request, and only its id in the response.
        (
            *(4, 5, {"topicStates": [{"topicName": "orders", "topicId": TOPIC_ID, **STATES}]}),
            {
                "topics": [
                    {
                        "topicId": TOPIC_ID,
                        "partitionErrors": [{"partitionIndex": 3, "errorCode": 11}],
                    }
                ]
            },
            [Part("orders", TOPIC_ID, 3, error_code=11)],
        ),
        # A commit has its offset from the request, its error from the response.
        (
            *(28, 0, COMMIT),
            {
                "topics": [
                    {"name": "orders", "partitions": [{"partitionIndex": 4, "errorCode": 16}]}
                ]
            },
            [Part("orders", NO_ID, 4, base_offset=70, error_code=16)],
        ),
        # Partitions may be a list of numbers.
        (
            *(24, 4, {"transactions": [TRANSACTION]}),
            {
                "resultsByTransaction": [
                    {"topicResults": [{"name": "a", "resultsByPartition": ANSWERED}]}
                ]
            },
            [
                Part("a", NO_ID, 0, error_code=55),
                Part("a", NO_ID, 2, error_code=0),
                Part("b", NO_ID, 0),
            ],
        ),
        # A repeated partition has the error code that is not 0.
        (27, 1, None, markers([0], [49]), [Part("a", NO_ID, 1, error_code=49)]),
        (27, 1, None, markers([49], [0]), [Part("a", NO_ID, 1, error_code=49)]),
        (27, 1, None, markers([0, 49]), [Part("a", NO_ID, 1, error_code=49)]),
        # Partitions that leave a share session are not listed.
        (
            *(78, 1, {"forgottenTopicsData": [{"topicId": TOPIC_ID, "partitions": [7]}]}),
            {
                "responses": [
                    {
                        "topicId": TOPIC_ID,
                        "partitions": [
                            {
                                "partitionIndex": 1,
                                "acknowledgeErrorCode": 121,
                                "records": batch(2, base_offset=28),
                            }
                        ],
                    }
                ]
            },
            [Part(None, TOPIC_ID, 1, 2, 161, 28, None, "none", 121)],
        ),
    ],
)
def test_an_exchange_has_the_partitions_of_both_messages(case: Any) -> None:
    *messages, expected = case
    assert list(summary(*messages).partitions) == expected


_BY_HAND = {0, 1, 2, 9}
"""APIs whose summaries list only partitions, no topic without one."""


def named_in(fields: tuple[Field, ...], value: dict[str, Any], topic: str = "") -> set[Any]:
    """(topic or id, partition) in Kafka's JSON of a message; None for a topic by itself."""
    ours = {field.json_name: field for field in fields}
    names = [
        item
        for name, item in value.items()
        if name in ours and ours[name].entity_type == "topicName" and isinstance(item, str) and item
    ]
    own = names[0] if names else value.get("topicId", "")
    own = "" if own == NO_ID_TEXT else own
    topic = own or topic
    found: set[Any] = set()
    others: set[Any] = set()
    for name, item in value.items():
        field = ours.get(name)
        if field is None or name == "forgottenTopicsData":
            continue
        if field.type == "[]string" and field.entity_type == "topicName":
            others |= {(topic_name, None) for topic_name in item or () if topic_name}
        elif topic and field.type == "[]int32" and name in ("partitions", "partitionIndexes"):
            found |= {(topic, index) for index in item or ()}
        elif field.struct is not None and name not in ("cursor", "nextCursor"):
            for inner in item or () if field.is_array else [item] if item else []:
                found |= named_in(field.struct.fields, inner, topic)
        elif topic and field.type == "int32" and name in PARTITION_NAMES:
            return {(topic, item)}
    codes = [code for name, code in value.items() if name.lower().endswith("errorcode")]
    if own and (not found or any(codes)):
        found.add((own, None))
    return found | others


NO_ID_TEXT = "A" * 22
PARTITION_NAMES = {"partitionIndex", "partition", "partitionId", "index"}


def test_messages_of_kafkas_serializer_have_the_partitions_of_their_json() -> None:
    named = set()
    for vector in read_vectors():
        if vector.kind == "other" or vector.api_key is None:
            continue
        message = definition_of(vector, CATALOG)
        needed_fields = EXTRACTORS.needed_fields(vector.api_key, vector.kind)
        if not message.valid_versions.contains(vector.version):
            continue
        decode = compile_decoder(message, vector.version, needed_fields)
        decode(vector.content, 0)
        encoded = decode.take(None)
        pair = (encoded, None) if vector.kind == "request" else (None, encoded)
        found = summary_of(vector.api_key, *pair)
        # The message may contain the name of a topic id elsewhere.
        names = {topic_id_text(topic_id): name for topic_id, name in found.names}
        ours = {
            (part.topic or topic_id_text(part.topic_id) or "", part.partition)
            for part in found.partitions
        }
        theirs = {
            (names.get(topic, topic), partition)
            for topic, partition in named_in(message.struct.fields, vector.json)
        }
        if vector.api_key in _BY_HAND:
            ours = {place for place in ours if place[0]}
            theirs = {place for place in theirs if place[1] is not None}
        assert ours == theirs, (vector.name, vector.version)
        if theirs:
            named.add((vector.api_key, vector.kind))
    assert named == {
        (api.key, kind)
        for api in CATALOG.apis
        for kind in ("request", "response")
        if _has_topics(CATALOG.message(api.key, kind).struct.fields)  # type: ignore[arg-type]
    }


def _has_topics(fields: tuple[Field, ...]) -> bool:
    return any(
        field.entity_type == "topicName"
        or field.name == "TopicId"
        or (field.struct is not None and _has_topics(field.struct.fields))
        for field in fields
    )


def test_an_unknown_api_has_no_facts() -> None:
    found = summary_of(999, None, None)
    assert (list(found.partitions), found.errors) == ([], [])
    assert values(found, "group_id") == (None,)
    assert EXTRACTORS.needed_fields(999, "request").paths == ()


@for_each("version", [0, 3, 6])
def test_find_coordinator_names_the_group_or_the_transaction(version: int) -> None:
    for key_type, name in ((0, "group_id"), (1, "transactional_id"))[: version + 1]:
        request = {"keyType": key_type, "key": "it", "coordinatorKeys": ["it"]}
        assert values(summary(10, version, request), name) == ("it",)


def test_a_column_that_is_a_field_is_unknown_in_versions_without_the_field() -> None:
    for version, throttle_time_ms in ((0, None), (1, 9)):
        found = summary(0, version, None, {"throttleTimeMs": 9})
        assert values(found, "throttle_time_ms") == (throttle_time_ms,)


def test_every_message_that_a_column_names_has_the_field_and_gives_it_to_the_column() -> None:
    apis = {
        CATALOG.message(api.key, kind).name: (api, kind) for api in CATALOG.apis for kind in KINDS
    }
    declared = [
        (column, *path.split("."))
        for column in COLUMNS
        if column.field is not None
        for path in column.field.paths
        if not path.startswith("*.")
    ]
    assert len(declared) >= 5
    for column, name, field in declared:
        api, kind = apis[name]
        assert field in EXTRACTORS.needed_fields(api.key, kind).paths
        version = api.versions.highest
        message = Generator(CATALOG.message(api.key, kind), version, Random(1)).values()
        value = "17" if column.type == "string" else 17
        message[field[0].lower() + field[1:]] = value
        found = summary(api.key, version, **{kind: message})
        assert values(found, column.name) == (value,)
