"""What rows say of exchanges of Kafka 0.7: names of APIs, partitions, fields with messages.

In: exchanges whose values :mod:`kanalyze.kafka.v07.messages` decoded. Out: plain values.

Kafka 0.7 has no API keys and no versions: rows have the request type as the key, and version 0.
Type 2 is MultiFetch, not ListOffsets as in later versions; only ``wire`` distinguishes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.v07.messages import OffsetsPart07, RequestType, error_name_07

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.v07.messages import FetchPart07, MessageSet07, Part07

__all__ = ["Api07", "MessagesField07", "Partition07", "api_07", "messages_fields", "partitions_07"]

_PRODUCE, _FETCH, _LIST_OFFSETS = 0, 1, 2
_LIKE = {
    RequestType.PRODUCE: _PRODUCE,
    RequestType.FETCH: _FETCH,
    RequestType.MULTIFETCH: _FETCH,
    RequestType.MULTIPRODUCE: _PRODUCE,
    RequestType.OFFSETS: _LIST_OFFSETS,
}


class Api07(NamedTuple):
    """A request type as rows have it; name and key are None for an orphan response."""

    name: str | None
    like: int | None
    """The key of the later API that corresponds to it."""
    error_name: Callable[[int], str]
    has_records: bool
    """Whether its requests or responses have messages."""
    is_produce: bool
    """Whether these are in requests."""


class Partition07(NamedTuple):
    """One partition of an exchange; None: not known, or not said."""

    topic: str
    partition: int
    record_count: int | None = None
    record_bytes: int | None = None
    base_offset: int | None = None
    codec: str | None = None
    error_code: int | None = None


class MessagesField07(NamedTuple):
    """The messages of one partition in one message."""

    topic: str
    partition: int
    error_code: int | None
    data: bytes
    offset: int | None
    """The position of its first byte in the log; Fetch only."""


def api_07(kind: int | None) -> Api07:
    """Return what rows say of a request type; None is that of an orphan response."""
    if kind is None:
        return Api07(None, None, error_name_07, has_records=False, is_produce=False)
    request_type = RequestType(kind)
    return Api07(
        request_type.api_name,
        _LIKE[request_type],
        error_name_07,
        has_records=request_type != RequestType.OFFSETS,
        is_produce=not request_type.is_answered,
    )


def partitions_07(exchange: Exchange) -> Iterator[Partition07]:
    """Yield the partitions of an exchange; none if its request was not decoded."""
    requested, response = _values(exchange)
    if isinstance(response, OffsetsPart07):
        newest = response.offsets[0] if response.offsets else None
        for part in requested:
            yield Partition07(
                part.topic, part.partition, base_offset=newest, error_code=response.error_code
            )
        return
    for part, messages, code in _with_messages(requested, response):
        found = Partition07(part.topic, part.partition, base_offset=part.offset, error_code=code)
        if messages is not None:
            found = found._replace(
                record_count=messages.record_count,
                record_bytes=messages.record_bytes,
                codec=messages.codec,
            )
        yield found


def messages_fields(exchange: Exchange) -> list[MessagesField07] | None:
    """Return the fields with messages of an exchange, as bytes; None if they were not decoded."""
    is_produce = api_07(exchange.api_key).is_produce
    message = exchange.request if is_produce else exchange.response
    if message is None or message.data is None or message.values is None:
        return None
    requested, response = _values(exchange)
    if exchange.request is None or isinstance(response, OffsetsPart07):
        return None
    return [
        MessagesField07(
            *(part.topic, part.partition, code, _bytes_of(message.data, messages), part.offset)
        )
        for part, messages, code in _with_messages(requested, () if is_produce else response)
        if messages is not None and messages.record_bytes
    ]


def _bytes_of(data: bytes, messages: MessageSet07) -> bytes:
    return data[messages.start : messages.start + messages.record_bytes]


def _values(
    exchange: Exchange,
) -> tuple[tuple[Part07, ...], tuple[FetchPart07, ...] | OffsetsPart07]:
    """Return the parts of the request, and the response; empty if a message was not decoded."""
    request, response = exchange.request, exchange.response
    requested = None if request is None else request.values
    answers = None if response is None else response.values
    return (() if requested is None else requested.parts), (() if answers is None else answers)


def _with_messages(
    requested: tuple[Part07, ...], answers: tuple[FetchPart07, ...]
) -> Iterator[tuple[Part07, MessageSet07 | None, int | None]]:
    """Yield each part of a request, its messages there or in the response, and its error code."""
    for index, part in enumerate(requested):
        answer = answers[index] if index < len(answers) else None
        if answer is None:
            yield part, part.messages, None
        else:
            yield part, answer.messages, answer.error_code
