"""The row assembler and its blocks, compiled and uncompiled, with any exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler
from tests.support import kafka as k
from tests.support import topic_ids as t
from tests.support.building import OneCapture, rows_of_exchanges
from tests.support.captures import path
from tests.support.exchange_batches import exchange_batches
from tests.support.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import SimpleNamespace

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.columns.block import RowBlock

CATALOG = Catalog()


def builder_of(core: SimpleNamespace | None = None) -> RowAssembler:
    make = RowAssembler if core is None else core.row_assembler.RowAssembler
    extractors = (Extractors if core is None else core.extract.Extractors)(CATALOG)
    made: RowAssembler = make(CATALOG, extractors, OneCapture("x.pcap"))
    return made


def exchanges_of(name: str) -> Iterator[Exchange]:
    for pairs in exchange_batches(Analysis([str(path(name))])):
        for exchange, _ in pairs:
            yield exchange


def plain(block: RowBlock) -> dict[str, Any]:
    """Return the contents of a block as plain values; of shared words, only those in use."""
    return {name: _plain(values) for name, values in block.columns.items()}


def _plain(values: Any) -> Any:
    kind = type(values).__name__
    if kind == "Lists":
        fields = {name: _plain(field) for name, field in values.fields.items()}
        return list(values.offsets), fields
    if kind == "Words":
        return [None if code < 0 else values.words[code] for code in values.codes]
    return list(values.values), None if values.valid is None else list(values.valid)


@pytest.mark.parametrize(
    "name", ["waits", "groups", "next-groups", "errors", "sasl", "old-0-9-0-1"]
)
def test_compiled_and_uncompiled_rows_are_equal(
    name: str, compiled: SimpleNamespace, uncompiled_rows: SimpleNamespace
) -> None:
    exchanges = list(exchanges_of(name))
    blocks = []
    for core in (compiled, uncompiled_rows):
        builder = builder_of(core)
        drained = []
        for number, exchange in enumerate(exchanges):
            builder.add(core.given(exchange))
            if number % 50 == 0:
                drained.append(plain(builder.drain()))
        blocks.append([*drained, plain(builder.drain())])
    assert blocks[0] == blocks[1]


def test_a_block_has_every_column_in_its_declared_type(core: SimpleNamespace) -> None:
    builder = builder_of(core)
    for rows in (0, 1):
        for exchange in Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).exchanges:
            if rows:
                builder.add(core.given(exchange))
        assert len(builder) == rows
        block = builder.drain()
        assert (len(block), len(builder)) == (rows, 0)
        assert list(block.columns) == [column.name for column in COLUMNS]
        for column in COLUMNS:
            values: Any = block.columns[column.name]
            if column.type.startswith("list<"):
                assert list(values.fields) == [part.name for part in column.fields] or [""]
                assert len(values.offsets) == rows + 1
            elif column.type == "string":
                assert values.codes.typecode == "i"
                assert len(values.codes) == rows
            else:
                assert values.values.typecode == "q"
                assert len(values.values) == rows


def heartbeats(count: int) -> list[Exchange]:
    talk = Talk()
    for number in range(count):
        talk.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    return talk.exchanges


def test_blocks_share_their_words(core: SimpleNamespace) -> None:
    builder = builder_of(core)
    one, two = heartbeats(2)
    builder.add(core.given(one))
    first = builder.drain()
    builder.add(core.given(two))
    second = builder.drain()
    for name in ("client_id", "api_name", "connection", "status"):
        words: list[Any] = [block.columns[name] for block in (first, second)]
        assert words[0].words is words[1].words
    assert [row.client_id for block in (first, second) for row in block.rows()] == ["test", "test"]


def test_words_are_dropped_when_there_are_many(
    core: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk()
    for number in range(40):
        talk.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    expected = builder_of()
    rows = rows_of_exchanges(expected, talk.exchanges)
    monkeypatch.setattr(core.row_assembler, "_MAX_WORDS", 3)
    builder = builder_of(core)
    found = []
    for exchange in talk.exchanges:
        builder.add(core.given(exchange))
        found += builder.drain().rows()
    assert found == rows


def test_an_assembler_is_full_at_the_memory_limit(
    core: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core.row_assembler, "_MAX_BYTES", 1300)
    builder = builder_of(core)
    exchanges = list(map(core.given, heartbeats(20)))
    sizes, first = [], 0
    while first < len(exchanges):
        first = builder.add_until_full(exchanges, first)
        sizes.append(len(builder.drain()))
    assert sizes == [4] * 5


def quiet_session(partitions: int, fetches: int) -> list[Exchange]:
    talk = Talk()
    talk.client(t.fetch(1, 0, 0, {"a": list(range(partitions))})).broker(t.fetch_answer(1, 77))
    for number in range(fetches):
        talk.client(t.fetch(number + 2, 77, number + 1)).broker(t.fetch_answer(number + 2, 77))
    return talk.exchanges


def test_partitions_of_a_session_are_listed_from_block_to_block(core: SimpleNamespace) -> None:
    builder = builder_of(core)
    for exchange in quiet_session(5, 3):
        builder.add(core.given(exchange))
        (row,) = builder.drain().rows()
        assert [(part.topic, part.partition) for part in row.partitions] == [
            ("a", number) for number in range(5)
        ]


def test_a_block_does_not_change_when_more_rows_are_added(core: SimpleNamespace) -> None:
    builder = builder_of(core)
    one, two = heartbeats(2)
    builder.add(core.given(one))
    block = builder.drain()
    rows = block.rows()
    builder.add(core.given(two))
    assert block.rows() == rows


FIRST_RECORDS = """
    SELECT connection, packet, topic, "partition", producer_id, producer_epoch, sequence
    FROM records
    WHERE api_name IN ('Produce', 'Fetch')
    WINDOW field AS (PARTITION BY connection, packet, topic, "partition")
    QUALIFY batch_base_offset = min(batch_base_offset) OVER field AND record_index = 0
"""
HEADS = """
    SELECT
        connection, if(api_name = 'Produce', request_packet, response_packet) AS packet, topic,
        "partition", producer_id, producer_epoch, base_sequence
    FROM partitions
    WHERE api_name IN ('Produce', 'Fetch') AND record_bytes > 0
"""


@pytest.mark.parametrize("name", ["basics", "transactions"])
def test_the_producer_of_a_partition_is_that_of_its_first_record(name: str) -> None:
    """Records are read by other code than the columns of partitions."""
    file = str(path(name))
    found, read = (
        {tuple(line.values()) for line in kanalyze.sql(file, query).to_pylist()}
        for query in (
            f"SELECT * FROM ({each}) WHERE producer_id IS NOT NULL"
            for each in (HEADS, FIRST_RECORDS)
        )
    )
    assert len(found) >= 10
    assert found == read
