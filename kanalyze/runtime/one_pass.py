"""One pass over captures: reads them, makes rows, and counts. Every run is this loop.

In: open captures, settings, the tables to make. Out: rows, then a
:class:`~kanalyze.tables.quality.CaptureQuality`.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kanalyze.common.int_columns import bounds, total
from kanalyze.model.anomalies import NET_ANOMALIES
from kanalyze.model.packets import NO_TIME, PacketBatch
from kanalyze.runtime.table_rows import RowMaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures
    from kanalyze.runtime.table_rows import TableRows, Tables
    from kanalyze.tables.quality import CaptureQuality
    from kanalyze.tables.requests.topic_names import TopicNames

__all__ = ["OnePass", "count_captures", "count_packets"]


class OnePass:
    """Reads the connections of one shard, in this process."""

    def __init__(
        self,
        captures: Captures,
        settings: AnalysisSettings,
        tables: Tables,
        names: TopicNames,
        quality: CaptureQuality,
        *,
        checks_crc: bool | None = None,
        with_ids: bool = False,
    ) -> None:
        """Make the stages; nothing is read yet.

        Args:
            captures: the open captures.
            settings: the settings; those of the tables are added.
            tables: the tables to make.
            names: names of topics; those that are learned are added.
            quality: the counts are added here; it is complete at the end.
            checks_crc: whether the CRCs of batches of records are checked; None if a table has
                anomalies, or rows come with exchanges that have them.
            with_ids: see :meth:`.RowAssembler.drain`.
        """
        settings = settings.with_tables(tables.more, offsets=tables.offsets)
        if checks_crc is None:
            checks_crc = tables.anomalies or (tables.exchanges and tables.exchanges_have_crcs)
        self.settings = settings
        self._captures = captures
        self._quality = quality
        self.stages = settings.stages(
            connections=tables.connections, every_anomaly=tables.anomalies, checks_crc=checks_crc
        )
        self.assembler = settings.row_assembler(captures, names)
        self._maker = RowMaker(
            settings, tables, self.stages, captures, self.assembler, with_ids=with_ids
        )

    def steps(
        self, *, close_connections: bool = True
    ) -> Iterator[tuple[BatchEvents, Iterator[TableRows]]]:
        """Read the captures to their end; yield each batch's events, and an iterator of its rows.

        The rows must be read before the next batch. At the end come those of the connections that
        are still open; without ``close_connections``, these stay open and are not counted yet.
        Then the quality is complete. Packets and anomalies without a connection are counted with
        the first shard.

        Raises CaptureError as :meth:`~kanalyze.capture.merge.MergedCaptures.batches` does.
        """
        quality, is_first = self._quality, self.settings.shard.is_first
        for batch, events in self.stages.run(self._captures, close_connections=close_connections):
            if isinstance(batch, PacketBatch) and is_first and len(batch):
                count_packets(quality, batch)
            _count_events(quality, events)
            yield events, self._maker.rows(events)
        if is_first:
            count_captures(quality, self._captures)
        self._count_stages(quality)

    def close(self, quality: CaptureQuality) -> Iterator[TableRows]:
        """Close all open connections, count them in ``quality``; return an iterator of the rows."""
        self.stages.reset_counts()
        events = self.stages.finish()
        _count_events(quality, events)
        self._count_stages(quality)
        return self._maker.rows(events)

    def _count_stages(self, quality: CaptureQuality) -> None:
        stages = self.stages
        outcomes = stages.tls.outcomes(stages.counts.tls)
        quality.count_stages(stages.net, stages.counts, outcomes)


def count_packets(quality: CaptureQuality, batch: PacketBatch) -> None:
    """Count the packets of a batch that is not empty."""
    quality.packets += len(batch)
    quality.captured_bytes += total(batch.captured_bytes)
    quality.wire_bytes += total(batch.wire_bytes)
    earliest_ns, latest_ns = bounds(batch.time_ns)
    if earliest_ns == NO_TIME:
        timed = [time_ns for time_ns in batch.time_ns if time_ns != NO_TIME]
        quality.untimed_packets += len(batch) - len(timed)
        if not timed:
            return
        earliest_ns = min(timed)
    quality.count_times(earliest_ns, latest_ns)


def _count_events(quality: CaptureQuality, events: BatchEvents) -> None:
    for tcp in events.closed_connections:
        quality.count_connection(tcp)
    # Those of one kind together: many follow one another, and a constant has a slow hash.
    for kind, anomalies in groupby(events.anomalies, key=attrgetter("kind")):
        # The net stage counts the anomalies of packets and TCP.
        if kind not in NET_ANOMALIES:
            sizes = [anomaly.length or 0 for anomaly in anomalies]
            quality.count_anomaly(kind, sum(sizes), len(sizes))


def count_captures(quality: CaptureQuality, captures: Captures) -> None:
    """Count captures that were read to their end."""
    quality.captures.extend(captures.names)
    quality.dropped_packets = captures.dropped_packets
    if captures.description is not None:
        quality.count_description(captures.description)
    for anomaly in captures.anomalies:
        quality.count_anomaly(anomaly.kind, anomaly.length or 0)
