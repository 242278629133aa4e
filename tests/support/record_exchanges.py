"""Exchanges that hold records, with their rows; made by hand."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.support import kafka
from tests.support.rows import START_NS, fetch, partition, row

if TYPE_CHECKING:
    from kanalyze.spec.rows.requests import Row

PRODUCE_VERSION, FETCH_VERSION = 3, 4
Records = dict[tuple[str, int], bytes | None]
"""By topic and partition."""


def message(data: bytes | None, version: int | None, length: int = 100) -> Message:
    frame = Frame(length, 0, START_NS + 7, 4)
    frame.end_with(START_NS, 5)
    made = Message(frame)
    made.data, made.version = data, version
    made.values = None if version is None else ()
    return made


def array(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def data_of(records: bytes | None) -> bytes:
    return struct.pack(">i", -1) if records is None else struct.pack(">i", len(records)) + records


def topics_of(records: Records, head: bytes) -> bytes:
    """Topics with their partitions; ``head`` stands between a partition's index and its records."""
    return array(
        [
            kafka.string(topic) + array([struct.pack(">i", index) + head + data_of(value)])
            for (topic, index), value in records.items()
        ]
    )


def items_of(records: Records, **changes: Any) -> list[Any]:
    return [
        partition(topic, index, record_bytes=len(value or b""), **changes)
        for (topic, index), value in records.items()
    ]


def produced(records: Records, *, base_offset: int | None = 500) -> tuple[Exchange, Row]:
    """A Produce request of version 3, answered with that base offset."""
    body = kafka.string(None) + struct.pack(">hi", -1, 1000) + topics_of(records, b"")
    data = kafka.request(kafka.PRODUCE, PRODUCE_VERSION, 1, body)
    exchange = exchange_of(kafka.PRODUCE, PRODUCE_VERSION)
    exchange.request = message(data, PRODUCE_VERSION)
    return exchange, row(partitions=items_of(records, base_offset=base_offset))


def fetched(records: Records) -> tuple[Exchange, Row]:
    """A Fetch response of version 4."""
    # error code, high watermark, last stable offset, aborted transactions
    body = struct.pack(">i", 0) + topics_of(records, struct.pack(">hqqi", 0, 9, 9, -1))
    exchange = exchange_of(kafka.FETCH, FETCH_VERSION)
    exchange.response = message(kafka.response(1, body), FETCH_VERSION)
    return exchange, fetch(partitions=items_of(records))


def exchange_of(api_key: int, version: int) -> Exchange:
    client, broker = Endpoint("10.0.0.1", 50_000), Endpoint("10.0.0.2", 9092)
    peers = Peers(TcpConnection(1, (client, broker), 1, None, 0, 0), client, broker)
    return Exchange(peers, None, None, api_key, version, 1, "app")


def tools() -> tuple[Catalog, Decoders]:
    catalog = Catalog()
    return catalog, Decoders(catalog)
