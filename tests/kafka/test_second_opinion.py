"""kio, an independent implementation made from Kafka's own definitions, reads the same."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.codec.compiler import Projection, compile_decoder
from tests.support.messages import Writer, every_message
from tests.support.second_opinion import (
    TameGenerator,
    as_values,
    kio_reads,
    kio_schema,
    kio_writes,
    with_defaults,
)

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import MessageSpec


def compare(message: MessageSpec, version: int, seeds: range) -> bool:
    """Compare both ways; False when kio doesn't have the message."""
    schema = kio_schema(message, version)
    if schema is None:
        return False
    decode = compile_decoder(message, version, Projection.ALL)
    for seed in seeds:
        random = Random(f"{message.name} {version} {seed}")
        values = TameGenerator(message, version, random).values()
        body = Writer(message, version).write(values)
        full = with_defaults(message.struct, version, values)
        entity = kio_reads(schema, body)
        assert as_values(message.struct, version, entity) == full, (message.name, version)
        kio_body = kio_writes(schema, entity)
        found, end = decode(kio_body, 0)
        assert end == len(kio_body)
        assert with_defaults(message.struct, version, found) == full, (message.name, version)
    return True


def count_compared(catalog: Catalog, seeds: range) -> int:
    return sum(
        compare(message, version, seeds)
        for message, version in every_message(catalog)
        if message.api_key is not None
    )


def test_kio_reads_and_writes_what_we_read(catalog: Catalog) -> None:
    assert count_compared(catalog, range(1)) >= 600


@pytest.mark.long
def test_kio_reads_and_writes_what_we_read_at_length(catalog: Catalog) -> None:
    assert count_compared(catalog, range(1, 30)) >= 600
