"""One pass over captures: reads them, makes rows, and counts. Every run is this loop.

In: open captures, settings, the tables to make. Out: rows, then a
:class:`~kanalyze.tables.quality.CaptureQuality`.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.model.anomalies import NET_ANOMALIES
from kanalyze.model.packets import PacketBatch
from kanalyze.runtime.counting import count_captures, count_packets
from kanalyze.runtime.stages import Stages
from kanalyze.runtime.table_rows import RECORDS, RowMaker, first_request_id
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kanalyze.kafka.codec.compiler import Projection
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.stages import BatchEvents, Captures
    from kanalyze.runtime.table_rows import TableRows, Tables
    from kanalyze.tables.cluster.reader import ClusterReader
    from kanalyze.tables.quality import CaptureQuality
    from kanalyze.tables.requests.topic_names import TopicNames


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
            settings: the settings.
            tables: the tables to make.
            names: names of topics; those that are learned are added.
            quality: the counts are added here; it is complete at the end.
            checks_crc: whether the CRCs of batches of records are checked; None if a table has
                anomalies, or rows come with exchanges that have them.
            with_ids: see :meth:`.RowAssembler.drain`.
        """
        if checks_crc is None:
            checks_crc = tables.anomalies or (tables.exchanges and tables.exchanges_have_crcs)
        self._captures = captures
        self._quality = quality
        self._is_first = settings.shard.is_first
        catalog = settings.catalog
        self.extractors = Extractors(catalog, _fields_of(tables))
        self.stages = Stages(
            MessageReader(
                catalog, Decoders(catalog), self.extractors.needed_fields, checks_crc=checks_crc
            ),
            catalog,
            is_broker=settings.is_broker,
            keep=_keep(settings.keep, tables),
            memory=settings.memory.of_shard(settings.shard.count),
            connections=tables.connections,
            every_anomaly=tables.anomalies,
            shard=settings.shard,
            idle_ns=settings.idle_ns,
            keylog=settings.keylog,
        )
        first_list = first_request_id(settings.shard.index) if tables.session_lists else None
        self.assembler = RowAssembler(catalog, self.extractors, captures, names, first_list)
        self._maker = RowMaker(
            settings,
            tables,
            self.stages,
            captures,
            self.assembler,
            self._cluster_reader(catalog, tables),
            with_ids=with_ids,
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
        quality, is_first = self._quality, self._is_first
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

    def _cluster_reader(self, catalog: Catalog, tables: Tables) -> ClusterReader | None:
        """Return a reader of the facts that some tables need; None if none does."""
        if not tables.more:
            return None
        from kanalyze.tables.cluster.reader import ClusterReader  # imported late: for other tables

        return ClusterReader(catalog, self.extractors, tables.more, commits=tables.commits)

    def _count_stages(self, quality: CaptureQuality) -> None:
        stages = self.stages
        outcomes = stages.tls.outcomes(stages.counts.tls)
        quality.count_stages(stages.net, stages.counts, outcomes)


def _fields_of(tables: Tables) -> Mapping[tuple[int, str], Projection]:
    """Return the fields that tables need whose lines belong to requests."""
    if not tables.more:
        return {}
    from kanalyze.tables.cluster.reader import fields_of  # imported late: for other tables

    return fields_of(tables.more, commits=tables.commits)


def _keep(keep: KeepsBytes | None, tables: Tables) -> KeepsBytes | None:
    """Return which messages keep their bytes, for the caller or for some tables."""
    if RECORDS not in tables.more:
        return keep
    from kanalyze.tables.records.rows import has_records  # imported late: for other tables

    return has_records if keep is None else lambda key: has_records(key) or keep(key)


def _count_events(quality: CaptureQuality, events: BatchEvents) -> None:
    for tcp in events.closed_connections:
        quality.count_connection(tcp)
    # Those of one kind together: many follow one another, and a constant has a slow hash.
    for kind, anomalies in groupby(events.anomalies, key=attrgetter("kind")):
        # The net stage counts the anomalies of packets and TCP.
        if kind not in NET_ANOMALIES:
            sizes = [anomaly.length or 0 for anomaly in anomalies]
            quality.count_anomaly(kind, sum(sizes), len(sizes))
