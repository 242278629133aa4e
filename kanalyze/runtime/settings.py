"""The settings of an analysis, and the stages that are made with them.

In: arguments of :class:`~kanalyze.runtime.pipeline.Analysis`. Out: new stages and row assemblers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.runtime.stages import Stages
from kanalyze.tables.filters import parse_broker
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Self

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.detection import BrokerSide
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.net.segment_columns import Shard
    from kanalyze.runtime.stages import Captures, MemoryBounds
    from kanalyze.tables.cluster.reader import ClusterReader
    from kanalyze.tables.requests.topic_names import NameReader, TopicNames
    from kanalyze.tls.keylog import KeyLog

__all__ = ["AnalysisSettings", "broker_side"]


class AnalysisSettings(NamedTuple):
    """The validated arguments of an analysis that its stages and row assemblers need."""

    catalog: Catalog
    extractors: Extractors
    is_broker: BrokerSide | None
    keep: KeepsBytes | None
    memory: MemoryBounds
    """Memory in bytes for all shards of the connections together."""
    shard: Shard
    """The connections that get rows."""
    idle_ns: int | None
    topic_ids: Mapping[bytes, str]
    keylog: KeyLog | None = None
    """The secrets that decrypt TLS; None for none. Its ``repr`` shows no secret."""

    def stages(
        self,
        *,
        connections: bool = False,
        every_anomaly: bool = False,
        checks_crc: bool = False,
    ) -> Stages:
        """Return new stages; ``checks_crc``: whether the CRCs of batches of records are checked."""
        decoders, needed_fields = Decoders(self.catalog), self.extractors.needed_fields
        return Stages(
            MessageReader(self.catalog, decoders, needed_fields, checks_crc=checks_crc),
            self.catalog,
            is_broker=self.is_broker,
            keep=self.keep,
            memory=self.memory.of_shard(self.shard.count),
            connections=connections,
            every_anomaly=every_anomaly,
            shard=self.shard,
            idle_ns=self.idle_ns,
            keylog=self.keylog,
        )

    def with_tables(self, tables: Collection[str]) -> Self:
        """Return settings that also decode the fields of tables whose lines belong to requests."""
        if not tables:
            return self
        from kanalyze.tables.cluster.reader import fields_of
        from kanalyze.tables.records.rows import has_records  # imported late: for other tables

        keep = self.keep
        if "records" in tables:
            user_keep = self.keep
            keep = has_records
            if user_keep is not None:
                keep = lambda key: has_records(key) or user_keep(key)  # noqa: E731
        extractors = Extractors(self.catalog, fields_of(tables))
        return self._replace(keep=keep, extractors=extractors)

    def cluster_reader(self, tables: Collection[str]) -> ClusterReader:
        """Return a reader of the facts that some tables need."""
        from kanalyze.tables.cluster.reader import ClusterReader  # imported late: for other tables

        return ClusterReader(self.catalog, self.extractors, tables)

    def name_stages(self, names: NameReader) -> Stages:
        """Return new stages that decode only the names of topics."""
        reader = MessageReader(self.catalog, Decoders(self.catalog), names.needed_fields)
        return Stages(
            reader,
            self.catalog,
            is_broker=self.is_broker,
            memory=self.memory,
            keylog=self.keylog,
        )

    def row_assembler(self, captures: Captures, names: TopicNames) -> RowAssembler:
        """Return a new row assembler.

        Args:
            captures: where packets are.
            names: names of topics; the assembler adds those that it learns.
        """
        return RowAssembler(self.catalog, self.extractors, captures, names)


def broker_side(ports: Sequence[int], brokers: Sequence[str]) -> BrokerSide | None:
    """Return a predicate that is true for the brokers that a user named; None if there are none.

    For the arguments see :class:`~kanalyze.runtime.pipeline.Analysis`.

    Raises:
        UsageError: a port or an address is invalid.
    """
    for port in ports:
        if not 0 < port < 65536:
            raise UsageError(f"not a TCP port: {port}")
    if not ports and not brokers:
        return None
    broker_ports = frozenset(ports)
    addresses = [parse_broker(text) for text in brokers]

    def is_broker(ip: str, port: int) -> bool:
        return port in broker_ports or any(
            ip == address.ip and address.port in (None, port) for address in addresses
        )

    return is_broker
