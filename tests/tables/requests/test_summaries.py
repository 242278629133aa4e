"""Partitions by column equal the objects that were added, whatever their number."""

from __future__ import annotations

from random import Random

import pytest

from kanalyze.kafka.codec.values import SEEN_CODECS
from kanalyze.tables.requests.summaries import (
    FIELD_NUMBERS,
    ExchangeSummary,
    PartitionColumns,
    PartitionSummary,
)


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


def test_a_new_summary_has_no_values():
    summary = ExchangeSummary()
    names = {*FIELD_NUMBERS, "session", "delivery", "has_assignments", "first_group"}
    assert {name: getattr(summary, name) for name in names} == dict.fromkeys(names)
    assert (list(summary.partitions), summary.errors, summary.names) == ([], [], [])


def test_every_field_has_its_own_number():
    assert len({*FIELD_NUMBERS.values()}) == len(FIELD_NUMBERS)
