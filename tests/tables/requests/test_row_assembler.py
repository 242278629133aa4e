"""The row assembler and its blocks, compiled and uncompiled, with any exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.capture.merge import PacketRun
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


def builder_of(core: SimpleNamespace | None = None, locations: Any = None) -> RowAssembler:
    make = RowAssembler if core is None else core.row_assembler.RowAssembler
    extractors = (Extractors if core is None else core.extract.Extractors)(CATALOG)
    made: RowAssembler = make(CATALOG, extractors, locations or OneCapture("x.pcap"))
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
    sizes = []
    for exchange in heartbeats(20):
        builder.add(core.given(exchange))
        if builder.is_full:
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


# -- captures of packets --------------------------------------------------------------------------


class Captures:
    """Captures that begin with these packets; those before the first one have no place."""

    def __init__(self, *first: int) -> None:
        self._first = first

    def locate(self, number: int) -> tuple[str, int | None]:
        begun = [start for start in self._first if start <= number]
        if not begun:
            return "(unknown)", None
        return f"{len(begun)}.pcap", number - begun[-1] + 1

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        assert most > len(self._first)
        if low < self._first[0]:
            return None
        return [
            PacketRun(first, 1 - first, f"{index}.pcap")
            for index, first in enumerate(self._first, 1)
            if first <= high
        ]


@pytest.mark.parametrize("first", [(1,), (1, 4), (3,), (1, 2, 3, 4, 5, 6), (100,)])
def test_packets_are_numbered_in_their_captures(
    first: tuple[int, ...], core: SimpleNamespace
) -> None:
    captures = Captures(*first)
    builder = builder_of(core, captures)
    exchanges = heartbeats(3)
    rows = rows_of_exchanges(builder, map(core.given, exchanges))
    for exchange, row in zip(exchanges, rows, strict=True):
        assert exchange.request is not None
        assert exchange.response is not None
        located_request, response_packet = (
            captures.locate(exchange.request.start_packet),
            exchange.response.start_packet,
        )
        assert (row.capture, row.request_packet) == located_request
        assert row.response_packet == captures.locate(response_packet)[1]


def test_a_block_does_not_change_when_more_rows_are_added(core: SimpleNamespace) -> None:
    builder = builder_of(core)
    one, two = heartbeats(2)
    builder.add(core.given(one))
    block = builder.drain()
    rows = block.rows()
    builder.add(core.given(two))
    assert block.rows() == rows
