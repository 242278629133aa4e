"""Exchanges made of two frames, and exchanges of captures, with their decoded messages."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.decoding.bodies import BodyReader, DecodedExchange
from kanalyze.export.kip673 import LogLines
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.runtime.pipeline import Analysis
from kanalyze.tables.columns.block import RowBlock
from tests.support.captures import path
from tests.support.exchange_batches import exchange_batches
from tests.support.messages import Writer, unsigned_varint
from tests.support.rows import START_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.spec.rows.requests import Row

CATALOG = Catalog()
READER = BodyReader(CATALOG, Decoders(CATALOG))
LINES = LogLines(CATALOG)
CORRELATION_ID = 77


def frame(
    api_key: int,
    version: int,
    kind: Kind,
    values: dict[str, Any],
    *,
    header_tags: list[tuple[int, bytes]] | None = None,
) -> bytes:
    """A whole frame of a message of that API and version."""
    body = Writer(CATALOG.message(api_key, kind), version).write(values)
    tags = unsigned_varint(len(header_tags or []))
    for tag, content in header_tags or []:
        tags += unsigned_varint(tag) + unsigned_varint(len(content)) + content
    if kind == "request":
        header_version = CATALOG.request_header_version(api_key, version)
        head = struct.pack(">hhi", api_key, version, CORRELATION_ID)
        head += b"" if header_version == 0 else struct.pack(">h", 3) + b"app"
        head += tags if header_version == 2 else b""
    else:
        head = struct.pack(">i", CORRELATION_ID)
        head += tags if CATALOG.response_header_version(api_key, version) == 1 else b""
    return sized(head + body)


def sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def message(data: bytes | None, length: int = 0) -> Message:
    """A message with its frame, or (None) a message of ``length`` bytes that are missing."""
    size = length - 4 if data is None else len(data) - 4
    made = Message(Frame(size, 0, START_NS, 1))
    made.data = data
    return made


def exchange(request: bytes | None, response: bytes | None = None, **changes: Any) -> Exchange:
    """An exchange of these frames; key and version are those of the request's header."""
    ends = (Endpoint("10.0.0.1", 40000), Endpoint("10.0.0.9", 9092))
    tcp = TcpConnection(1, ends, 1, 0, START_NS, START_NS)
    key, version = struct.unpack_from(">hh", request, 4) if request else (None, None)
    made = Exchange(
        Peers(tcp, *ends),
        message(request) if request else None,
        message(response) if response else None,
        key,
        version,
        CORRELATION_ID,
        "app",
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def json_of(made: Exchange, its_row: Row, found: DecodedExchange | None = None) -> str:
    """The line of JSON of an exchange."""
    read = READER.exchange(made) if found is None else found
    (line,) = LINES.lines([made], RowBlock.of_rows([its_row]), [read])
    return line


def decoded(request: bytes | None, response: bytes | None = None) -> DecodedExchange:
    return READER.exchange(exchange(request, response))


def exchanges_of(name: str) -> Iterator[tuple[Exchange, Row]]:
    """The exchanges of one of the captures, with their bytes."""
    for pairs in exchange_batches(Analysis([str(path(name))], keep=lambda _: True)):
        yield from pairs
