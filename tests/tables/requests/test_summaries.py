"""Partitions by column equal the objects that were added, whatever their number."""

from __future__ import annotations

from random import Random

import pytest

from kanalyze.kafka.codec.values import SEEN_CODECS
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.summaries import FIELD_NUMBERS, PartitionColumns, PartitionSummary


def some_part(random: Random) -> PartitionSummary:
    def number() -> int | None:
        return random.choice([None, 0, -1, random.getrandbits(63), -(2**63), 2**63 - 1])

    topic = random.choice([None, "", "orders"])
    codec = random.choice([None, *SEEN_CODECS])
    before, after = [number() for _ in range(5)], [number() for _ in range(2)]
    return PartitionSummary(topic, random.randbytes(16), *before, codec, *after)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 100])
def test_partitions_come_out_as_they_were_added(count):
    random, columns = Random(count), PartitionColumns()
    partitions = [some_part(random) for _ in range(count)]
    for part in partitions:
        columns.add_partition(part)
    assert len(columns) == count
    assert list(columns) == partitions


def test_every_field_keeps_its_own_value_until_the_summary_is_cleared():
    summary = Extractors(Catalog()).summary(None, None, None)
    texts = {name for name, field in FIELD_NUMBERS.items() if field < FIELD_NUMBERS["max_wait_ms"]}
    for name, field in FIELD_NUMBERS.items():
        assert (summary.number(field), summary.text(field)) == (None, None)
        if name in texts:
            summary.set_text(field, name)
        else:
            summary.set_number(field, -field)
    for name, field in FIELD_NUMBERS.items():
        assert name in texts or summary.number(field) == -field
        assert name not in texts or summary.text(field) == name
