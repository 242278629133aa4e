"""Summarizes an exchange of Kafka 0.7 for its row.

In: the values of a request and its response, decoded by :mod:`kanalyze.kafka.v07.messages`. Out: an
:class:`~kanalyze.tables.requests.summaries.ExchangeSummary`.

Kafka 0.7 has no API keys and no versions: rows have the request type as the key, and version 0.
Type 2 is MultiFetch, not ListOffsets as in later versions; only ``wire`` distinguishes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.v07.messages import FetchPart07, OffsetsPart07, RequestType
from kanalyze.tables.requests.extract import FETCH, LIST_OFFSETS, PRODUCE
from kanalyze.tables.requests.summaries import ExchangeSummary, PartitionSummary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.v07.messages import MessageSet07, Part07, Request07

__all__ = ["api_name_07", "like_07", "summary_07"]

_NO_ID = bytes(16)
_LIKE = {
    RequestType.PRODUCE: PRODUCE,
    RequestType.FETCH: FETCH,
    RequestType.MULTIFETCH: FETCH,
    RequestType.MULTIPRODUCE: PRODUCE,
    RequestType.OFFSETS: LIST_OFFSETS,
}


def api_name_07(kind: int | None) -> str | None:
    """Return the API name of a request type; None for None (an orphan response)."""
    return None if kind is None else RequestType(kind).api_name


def like_07(kind: int | None) -> int | None:
    """Return the key of the later API that corresponds to a request type; None for None."""
    return None if kind is None else _LIKE[RequestType(kind)]


def summary_07(request: Request07 | None, response: Any) -> ExchangeSummary:
    """Return the summary of an exchange; a message that was not decoded is None."""
    summary = ExchangeSummary()
    if request is None:
        return summary
    answers = response if isinstance(response, tuple) else ()
    if isinstance(response, OffsetsPart07):
        parts = [_offsets(part, response) for part in request.parts]
    else:
        parts = list(_parts(request.parts, answers))
    for part in parts:
        summary.partitions.add_partition(part)
        if part.error_code:
            summary.errors.append((part.topic, _NO_ID, part.partition, part.error_code))
    return summary


def _parts(
    requested: tuple[Part07, ...], answers: tuple[FetchPart07, ...]
) -> Iterator[PartitionSummary]:
    for index, part in enumerate(requested):
        answer = answers[index] if index < len(answers) else None
        messages = part.messages if answer is None else answer.messages
        code = None if answer is None else answer.error_code
        yield _part(part, messages, code)


def _part(part: Part07, messages: MessageSet07 | None, code: int | None) -> PartitionSummary:
    return PartitionSummary(
        part.topic,
        _NO_ID,
        part.partition,
        None if messages is None else messages.record_count,
        None if messages is None else messages.record_bytes,
        part.offset,
        None,
        None if messages is None else messages.codec,
        code,
    )


def _offsets(part: Part07, answer: OffsetsPart07) -> PartitionSummary:
    newest = answer.offsets[0] if answer.offsets else None
    return PartitionSummary(
        part.topic, _NO_ID, part.partition, base_offset=newest, error_code=answer.error_code
    )
