"""Records: batches, message sets, summaries from their headers, codecs, and Kafka 0.7."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.records.batches import RecordSet
from kanalyze.kafka.records.compression import decompress
from kanalyze.kafka.records.types import DecompressionLimits, RecordProblem
from kanalyze.kafka.v07.messages import (
    COUNTING_LIMITS,
    MessageSet07Records,
    fits_request,
    may_fit,
    parse_messages,
    parse_request,
    parse_response,
)
from kanalyze.kafka.wire import WireError
from tests.fuzz.invariant import holds, sizes_of
from tests.support.records_summary import peek_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.records.batches import RecordBatch

_LIMITS = DecompressionLimits(most_bytes=1 << 18, most_ratio=64, free_bytes=1 << 14)
_MIN_BATCH_BYTES = 26
_MIN_MESSAGE07_BYTES = 9
_MIN_RECORD_BYTES = 7
_EXPAND_LIMITS = (0, 100, 1 << 16)
_SNAPPY_RATIO, _DEFLATE_RATIO, _LZ4_RATIO = 22, 1032, 256
_RATIOS = {0: 1, 1: _DEFLATE_RATIO, 2: _SNAPPY_RATIO, 3: _LZ4_RATIO}


def read_records(data: bytes) -> None:
    """Read every record; the summary from the headers of batches agrees."""
    found = RecordSet(data, _LIMITS)
    batches = list(found)
    holds(len(batches) * _MIN_BATCH_BYTES <= len(data), "more batches than bytes")
    holds(sum(batch.batch_bytes for batch in batches) <= len(data), "batches that overlap")
    holds(len(found.problems) <= 1, "more than one reason to stop")
    counts = [_read_batch(batch, len(data), _MIN_RECORD_BYTES) for batch in batches]
    summary = peek_records(data, 0, len(data))
    holds(summary.record_bytes == len(data), "a summary of another length")
    holds(summary.batch_count == len(batches), "batches read and batches counted differ")
    if batches:
        last = summary.last_offset
        first = summary.base_offset if last is None else last
        holds(first == batches[0].base_offset, "offsets differ")
    if summary.record_count is None or summary.malformed:
        return
    plain = all(batch.codec == "none" and not batch.problems for batch in batches)
    if plain and not summary.has_control:
        holds(summary.record_count == sum(counts), "records read and records counted differ")


def _read_batch(batch: RecordBatch, length: int, least_record: int) -> int:
    """Read a batch's records; they fit into the most bytes that the codec may give."""
    count, size = 0, 0
    for record in batch.records():
        count += 1
        size += len(record.key or b"") + len(record.value or b"") + 2 * len(record.headers)
        size += sum(len(header.key) + len(header.value or b"") for header in record.headers)
        holds(-(1 << 63) <= record.offset < 1 << 63, "an offset beyond 64 bits")
        holds(-(1 << 63) <= (record.timestamp_ms or 0) < 1 << 63, "a time beyond 64 bits")
        batch.sequence(record.offset)
    most = length if batch.codec == "none" else _LIMITS.allowed(length)
    holds(count * least_record <= most, f"{count} records of {length} bytes")
    holds(size <= most, f"{size} bytes of records of {length} bytes")
    holds(len(batch.problems) <= len(RecordProblem), "an unbounded number of problems")
    return count


def expand(data: bytes) -> None:
    """Decompress; never more than the limit, and a smaller limit gives the beginning."""
    codec, payload = (data[0] & 7 if data else 0), data[1:]
    largest = decompress(codec, payload, _EXPAND_LIMITS[-1], wrong_lz4_checksum=bool(len(data) % 2))
    ratio = _RATIOS.get(codec)
    if ratio is not None:
        holds(len(largest.data) <= ratio * len(payload), "more than the codec can give")
    for limit in _EXPAND_LIMITS:
        found = decompress(codec, payload, limit, wrong_lz4_checksum=bool(len(data) % 2))
        holds(len(found.data) <= limit, f"{len(found.data)} bytes where {limit} are allowed")
        # The data before damage depends on how much was requested at once.
        alike = min(len(found.data), len(largest.data))
        holds(found.data[:alike] == largest.data[:alike], "another limit gives other bytes")
        holds(alike == len(found.data) or largest.problem, "a smaller limit gives more")
        if found.problem is None and largest.problem is None:
            holds(found == largest, "whole results differ")


# -- Kafka 0.7 ------------------------------------------------------------------------------------


def read_messages07(data: bytes) -> None:
    """Read Kafka 0.7's messages, and count them."""
    found = MessageSet07Records(data, first_offset=1 << 40, limits=_LIMITS)
    batches = list(found)
    holds(len(batches) * _MIN_MESSAGE07_BYTES <= len(data), "more messages than bytes")
    # Messages within an empty payload take 9 bytes; content that is no record takes none.
    counts = [_read_batch(batch, len(data), 0) for batch in batches]
    problems = [problem for batch in batches for problem in batch.problems]
    try:
        summary = parse_messages(data, _LIMITS)
    except WireError:
        holds(found.problems, "counting refuses what can be read")
        return
    holds(summary.record_bytes == len(data), "a summary of another length")
    holds(0 <= summary.whole_bytes <= len(data), "whole messages beyond the field")
    if summary.record_count is not None and not problems:
        holds(summary.record_count == sum(counts), "messages read and messages counted differ")


def read_frames07(data: bytes) -> None:
    """Read a request of Kafka 0.7, and the bytes after it as its response."""
    size = int.from_bytes(data[:4], "big", signed=True)
    holds(fits_request(data, size) in (True, False, None), "no verdict")
    holds(may_fit(data, size) in (True, False), "no verdict")
    end = size + 4 if 0 <= size <= len(data) - 4 else len(data)
    frame, answer = data[:end], data[end:]
    try:
        request = parse_request(frame, COUNTING_LIMITS)
    except WireError:
        return
    _check_proportion(request, len(frame))
    try:
        response = parse_response(answer, request, COUNTING_LIMITS)
    except WireError:
        return
    # A response may have one error for all parts of the request.
    _check_proportion(response, len(answer) + len(frame))


def _check_proportion(found: Iterable[object], length: int) -> None:
    objects, _ = sizes_of(found)
    holds(objects <= 4 * length + 32, f"{objects} objects of {length} bytes")
