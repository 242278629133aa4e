"""All stages one after another: a capture in, rows out, and rows written."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING

from kanalyze.decoding.bodies import BodyReader
from kanalyze.errors import CaptureError
from kanalyze.export.kip673 import LogLines
from kanalyze.export.text_files import CsvWriter, JsonLinesWriter
from kanalyze.kafka.records.types import DecompressionLimits
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.render.tree import TreeText
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.rows.records import RECORD_COLUMNS
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.records.rows import RecordReader
from tests.fuzz.invariant import holds
from tests.fuzz.targets.common import CATALOG, DECODERS, decoders_made_before
from tests.support.exchange_batches import exchange_batches
from tests.support.record_rows import record_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.quality import CaptureQuality

_LIMITS = DecompressionLimits(most_bytes=1 << 18, most_ratio=64, free_bytes=1 << 14)
_STATUSES = {"ok", "error", "one_way", "unanswered", "orphan_response", "malformed"}
_MIN_FRAME_BYTES = 4


def _exchanges(
    data: bytes, *, keep: bool
) -> tuple[list[tuple[Exchange, Row]], CaptureQuality] | None:
    """Run the stages; return None if the data is no capture."""
    run = Analysis([io.BytesIO(data)], catalog=CATALOG, keep=(lambda _: True) if keep else None)
    try:
        with decoders_made_before():
            found = [pair for pairs in exchange_batches(run) for pair in pairs]
    except CaptureError:
        return None
    return found, run.quality


def make_rows(data: bytes) -> None:
    """Make the rows of a capture; they can be written, and agree with its quality."""
    found = _exchanges(data, keep=False)
    if found is None:
        return
    pairs, quality = found
    rows = [row for _, row in pairs]
    holds(len(rows) * _MIN_FRAME_BYTES <= quality.captured_bytes, "more rows than bytes")
    for row in rows:
        _check_row(row, quality)
    unseen = (quality.unreadable_packets, quality.not_tcp_packets, quality.skipped_bytes)
    holds(min(unseen) >= 0, "a negative count")
    seen = quality.tcp_packets + quality.not_tcp_packets + quality.unreadable_packets
    holds(seen <= quality.packets, "more packets counted than there are")
    # One fragment of each datagram is counted as the packet that they hold together.
    holds(quality.packets <= seen + quality.fragment_packets, "packets that are counted nowhere")
    _write(rows)
    _read_again(data, rows, quality)


def _read_again(data: bytes, rows: list[Row], quality: CaptureQuality) -> None:
    """Read a capture once more, with decoders that have read others: results are the same.

    Except for CRCs, which are not checked where nothing but rows is made.
    """
    run = Analysis([io.BytesIO(data)], catalog=CATALOG)
    with decoders_made_before():
        found = [row for block in run.batches() for row in block.rows()]
    holds(found == list(map(_unchecked, rows)), "other rows the second time")
    first, second = map(_without_checks, (quality, run.quality))
    holds(first == second, "another quality the second time")


def _unchecked(row: Row) -> Row:
    """Return a row as it is where CRCs are not checked."""
    kinds = [kind for kind in row.anomalies if kind != AnomalyKind.WRONG_CRC]
    return row._replace(anomalies=kinds)


def _without_checks(quality: CaptureQuality) -> dict[str, object]:
    counts = {**quality.to_dict(), "record_batches": 0, "checked_batches": 0, "wrong_batches": 0}
    anomalies = {
        kind: count for kind, count in counts["anomalies"].items() if kind != AnomalyKind.WRONG_CRC
    }
    return {**counts, "anomalies": anomalies}


def _check_row(row: Row, quality: CaptureQuality) -> None:
    holds(row.status in _STATUSES, f"status {row.status}")
    first, last = quality.first_time_ns or 0, quality.last_time_ns or 0
    times = (
        row.request_start_ns,
        row.request_end_ns,
        row.response_start_ns,
        row.response_end_ns,
    )
    holds(all(time is None or first <= time <= last for time in times), "a time outside")
    for packet in (row.request_packet, row.response_packet):
        holds(packet is None or 1 <= packet <= quality.packets, "a packet that is not there")
    holds(
        row.request_packet is not None or row.response_packet is not None, "a row without packets"
    )
    for number in (row.record_count, row.record_bytes, row.request_bytes, row.response_bytes):
        holds(number is None or number >= 0, "a negative number")


def _write(rows: Sequence[AnyRow], columns: Sequence[Column] | None = None) -> None:
    """Write rows as CSV and JSON Lines to the null device."""
    more = () if columns is None else (columns,)
    for make in (CsvWriter, JsonLinesWriter):
        with make(os.devnull, *more) as writer:
            writer.write(rows)


def show_messages(data: bytes) -> None:
    """Decode every message of a capture as JSON and as a tree, and read its records."""
    found = _exchanges(data, keep=True)
    if found is None:
        return
    pairs, _ = found
    reader = BodyReader(CATALOG, DECODERS)
    log, tree = LogLines(CATALOG), TreeText(reader)
    for exchange, row in pairs:
        decoded = reader.exchange(exchange)
        (line,) = log.lines([exchange], RowBlock.of_rows([row]), [decoded])
        holds("\n" not in line, "a JSON object over several lines")
        json.loads(line)
        for text in tree.lines(exchange, row, decoded):
            holds(text.isprintable(), "control characters from the wire reach the terminal")
    records = RecordReader(CATALOG, DECODERS, values_as="base64", limits=_LIMITS)
    for rows in record_batches(records, pairs):
        _write(rows, RECORD_COLUMNS)
