"""Messages that Kafka's own serializer wrote are compared with Kafka's own JSON of them."""

from __future__ import annotations

import time
import tracemalloc
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.kafka.codec.compiler import Projection, compile_decoder
from kanalyze.kafka.codec.interpreter import read_message, trace_message
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.schema.schema_ast import PRIMITIVES
from kanalyze.kafka.wire import Truncated, WireError
from tests.support.effort import took_soon
from tests.support.messages import every_message
from tests.support.vector_table import VECTORS, cells_of, compare, summary, table
from tests.support.vectors import (
    Vector,
    definition_of,
    paths_of,
    read_vectors,
    seen_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec

NAMES = sorted({message.name for message, _ in every_message(Catalog())})
MAX_COMPARED_BYTES = 1000
"""Longer messages that decode are not given to the reference reader, which would take long."""


@pytest.fixture(scope="module")
def by_message(catalog: Catalog) -> dict[str, list[Vector]]:
    """All vectors, by the name of our definition."""
    vectors: dict[str, list[Vector]] = defaultdict(list)
    for vector in read_vectors():
        vectors[definition_of(vector, catalog).name].append(vector)
    return vectors


@pytest.fixture(scope="module")
def one_per_version(by_message: dict[str, list[Vector]]) -> list[Vector]:
    """One vector of each version of each message; an empty one only if there is no other."""
    random = Random(4)
    by_version: dict[tuple[str, int], list[Vector]] = defaultdict(list)
    for name, vectors in by_message.items():
        for vector in vectors:
            by_version[name, vector.version].append(vector)
    return [
        random.choice([vector for vector in vectors if vector.content] or vectors)
        for vectors in by_version.values()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_messages_that_kafka_wrote_decode_equal_to_its_own_json(
    name: str,
    by_message: dict[str, list[Vector]],
    catalog: Catalog,
    record_property: Callable[[str, object], None],
) -> None:
    outcomes = compare(by_message[name], catalog)
    record_property(VECTORS, [[*cell, differences] for cell, differences in outcomes.items()])
    assert [text for differences in outcomes.values() for text in differences] == []


def test_every_version_of_every_request_and_response_has_a_vector(
    by_message: dict[str, list[Vector]], catalog: Catalog
) -> None:
    expected = {(message.name, version) for message, version in every_message(catalog)}
    found = {(name, vector.version) for name, some in by_message.items() for vector in some}
    assert found == expected
    assert cells_of(catalog) < found
    assert len(cells_of(catalog)) == 2 * sum(len(api.versions.each()) for api in catalog.apis)


def test_vectors_have_every_field_with_a_value_empty_and_null(
    by_message: dict[str, list[Vector]], catalog: Catalog
) -> None:
    not_seen = []
    for name, vectors in by_message.items():
        message = definition_of(vectors[0], catalog)
        seen_by_version = defaultdict(set)
        for vector in vectors:
            values, _ = read_message(message, vector.version, vector.content)
            seen_by_version[vector.version].update(seen_in(message.struct, values))
        not_seen += [
            (name, version, path, kind)
            for version, seen in seen_by_version.items()
            for path, field in paths_of(message.struct, version)
            for kind in _kinds_of_values(field, version)
            if (path, kind) not in seen
        ]
    assert not_seen == []


def _kinds_of_values(field: Field, version: int) -> Iterator[str]:
    """Yield the kinds of values that a field must have once; tagged defaults are not written."""
    yield "value"
    if not field.is_tagged(version):
        if field.is_nullable(version):
            yield "null"
        if field.is_array or field.type in PRIMITIVES & {"string", "bytes", "records"}:
            yield "empty"


def test_every_flexible_version_has_unknown_tags(
    by_message: dict[str, list[Vector]], catalog: Catalog
) -> None:
    with_tags = {
        (name, vector.version)
        for name, vectors in by_message.items()
        for vector in vectors
        if vector.unknown_tags
    }
    flexible = {
        (message.name, version)
        for message, version in every_message(catalog)
        if message.is_flexible(version)
    }
    assert with_tags == flexible


def test_a_difference_is_seen(by_message: dict[str, list[Vector]], catalog: Catalog) -> None:
    vector = next(v for v in by_message["MetadataResponse"] if v.version == 12 and v.unknown_tags)
    for changed, reason in (
        (vector._replace(json={**vector.json, "throttleTimeMs": True}), "is not"),
        (vector._replace(content=vector.content + b"\0"), "1 bytes left over"),
        (vector._replace(content=vector.content[:-1]), "not decoded"),
        (vector._replace(unknown_tags=vector.unknown_tags[1:]), "other unknown tags"),
        (vector._replace(records=(b"x",)), "other records"),
    ):
        outcomes = compare([changed], catalog)
        (found,) = outcomes["MetadataResponse", 12]
        assert reason in found
        assert "X" in "".join(table(outcomes, catalog)[5])
    assert summary(compare([vector], catalog), catalog).startswith("1 of ")


# Cut bytes.


def check_cut(
    vector: Vector, message: MessageSpec, decode: BodyDecoder, lengths: Iterable[int]
) -> None:
    names = {field.name for field in message.struct.fields} | {"_taggedFields"}
    for length in lengths:
        cut = vector.content[:length]
        with pytest.raises(Truncated):
            decode(cut, 0)
        failure = trace_message(message, vector.version, cut).failure
        assert failure is not None, (vector.name, vector.version, length)
        assert failure.path.split(".")[0].split("[")[0] in names, failure.path


def test_a_cut_vector_is_truncated_in_a_field(
    one_per_version: list[Vector], catalog: Catalog
) -> None:
    random = Random(5)
    for vector in one_per_version:
        message = definition_of(vector, catalog)
        decode = compile_decoder(message, vector.version, Projection.ALL)
        size = len(vector.content)
        check_cut(vector, message, decode, random.sample(range(size), min(4, size)))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_of_every_vector_is_truncated_in_a_field(
    name: str, by_message: dict[str, list[Vector]], catalog: Catalog
) -> None:
    for vector in by_message[name]:
        message = definition_of(vector, catalog)
        decode = compile_decoder(message, vector.version, Projection.ALL)
        check_cut(vector, message, decode, range(len(vector.content)))


# Changed bytes.


def check_changed(message: MessageSpec, version: int, decode: BodyDecoder, changed: bytes) -> None:
    """Decoding soon gives a value or a WireError, as the reference reader does."""
    began = time.thread_time()
    result = outcome(lambda: decode(changed, 0))
    assert took_soon(time.thread_time() - began, 1)
    if type(result) is tuple and len(changed) > MAX_COMPARED_BYTES:
        return
    expected = outcome(lambda: read_message(message, version, changed))
    # By their texts: a NaN is not equal to itself.
    assert result == expected or repr(result) == repr(expected), (message.name, version, changed)


def outcome(read: Any) -> Any:
    try:
        return read()
    except WireError:
        return "refused"


def changed_at(content: bytes, position: int, value: int) -> bytes:
    return content[:position] + bytes((value,)) + content[position + 1 :]


def test_a_changed_byte_gives_a_value_or_a_wire_error_soon(
    one_per_version: list[Vector], catalog: Catalog
) -> None:
    random = Random(6)
    for vector in one_per_version:
        message = definition_of(vector, catalog)
        decode = compile_decoder(message, vector.version, Projection.ALL)
        for position in random.choices(range(len(vector.content)), k=4 if vector.content else 0):
            value = random.choice((0, 0x7F, 0x80, 0xFF, random.randrange(256)))
            changed = changed_at(vector.content, position, value)
            check_changed(message, vector.version, decode, changed)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_changed_byte_of_every_vector_gives_a_value_or_a_wire_error_soon(
    name: str, by_message: dict[str, list[Vector]], catalog: Catalog
) -> None:
    """Each byte takes every value in vectors of up to 32 bytes, and two values in longer ones."""
    random = Random(name)
    for vector in by_message[name]:
        message = definition_of(vector, catalog)
        decode = compile_decoder(message, vector.version, Projection.ALL)
        content = vector.content
        for position in range(len(content)):
            some = (0x00, 0x80, 0xFF, random.randrange(256))
            for value in range(256) if len(content) <= 32 else random.sample(some, 2):
                check_changed(message, vector.version, decode, changed_at(content, position, value))


def test_a_changed_byte_takes_no_memory_out_of_proportion(
    one_per_version: list[Vector], catalog: Catalog
) -> None:
    random = Random(7)
    some = random.sample([vector for vector in one_per_version if vector.content], 150)
    for vector in some:
        message = definition_of(vector, catalog)
        decode = compile_decoder(message, vector.version, Projection.ALL)
        position = random.randrange(len(vector.content))
        for value in (0x7F, 0xFF):
            changed = changed_at(vector.content, position, value)
            assert peak_bytes(decode, changed) < 20_000 + 500 * len(changed), vector.name


def peak_bytes(decode: BodyDecoder, content: bytes) -> int:
    tracemalloc.start()
    try:
        kept = outcome(lambda: decode(content, 0))
        peak = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    return peak
