"""Finds exchanges with facts about groups or the cluster, and makes lines from them.

In: exchanges, with the block of their rows. Out: :class:`ClusterFacts`, which can be sent to
another process; then blocks of lines for the rows that passed a filter.
"""

from __future__ import annotations

import re
from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.spec.columns import columns_of
from kanalyze.spec.rows.cluster import (
    CARRIED_NAMES,
    REQUEST_ID,
    AssignedPartition,
    Change,
    ClientMetric,
    GroupEvent,
    MetadataEntry,
)
from kanalyze.tables.cluster.brokers import (
    METADATA_FIELDS,
    SAID_BY_RESPONSES,
    SeenMetadata,
    hinting,
    metadata_entries,
)
from kanalyze.tables.cluster.changes import CHANGE_FIELDS, IN_SYNC, changes
from kanalyze.tables.cluster.fields import BodyFields, more_fields
from kanalyze.tables.cluster.groups import (
    COMMIT_APIS,
    GROUP_FIELDS,
    HEARTBEAT,
    OFFSET_FIELDS,
    OffsetEvents,
    PartitionOffset,
    group_events,
)
from kanalyze.tables.columns.block import Ints, RowBlock, Words, columns_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.codec.compiler import Projection
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.tables.cluster.fields import FieldPaths
    from kanalyze.tables.columns.block import ColumnValues
    from kanalyze.tables.requests.extract import Extractors
    from kanalyze.tables.requests.topic_names import TopicNames

_GROUPS, _METADATA, _CHANGES = "groups", "metadata", "changes"
CLIENT_METRICS = "client_metrics"
"""The table that needs a package besides."""
_FIELDS: dict[str, FieldPaths] = {
    _GROUPS: GROUP_FIELDS,
    _METADATA: METADATA_FIELDS,
    _CHANGES: CHANGE_FIELDS,
}
CLUSTER_TABLES = frozenset(_FIELDS)
"""The tables that this module makes, without :data:`CLIENT_METRICS`."""
_PUSH_TELEMETRY = 72
_PUSH_FIELDS: FieldPaths = {
    _PUSH_TELEMETRY: (
        ("ClientInstanceId", "Terminating", "CompressionType", "Metrics"),
        ("ErrorCode",),
    )
}
_COLUMNS = {
    _METADATA: columns_of(MetadataEntry),
    _CHANGES: columns_of(Change),
    CLIENT_METRICS: columns_of(ClientMetric),
}
_OFFSET_AT = len(GroupEvent._fields) - len(OFFSET_FIELDS)
_EVENT_COLUMNS = columns_of(GroupEvent)[:_OFFSET_AT]
_OFFSET_COLUMNS = columns_of(GroupEvent)[_OFFSET_AT:]
_TOPIC = attrgetter("topic")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")

_Body: TypeAlias = "dict[str, Any] | None"
_Reader: TypeAlias = "Callable[[int, int, _Body, _Body], list[Any]]"
"""Returns the facts of an exchange by its API's key and version and its bodies."""
_NamedT = TypeVar("_NamedT", GroupEvent, AssignedPartition, PartitionOffset, MetadataEntry)
"""Values that may name a topic."""


_MOST_ANSWERS = 64
_LARGEST_KEPT_CELLS = 4096
"""How many different responses are kept with their facts, and how large they are at most: nearly
all connections ask for versions and metadata, and brokers of one cluster give one or a few answers.
"""
_Lines: TypeAlias = "tuple[array[int], dict[str, ColumnValues]]"
"""The row of each line in its block, and the columns of the lines."""


class ClusterFacts(NamedTuple):
    """The facts in one exchange, for one table."""

    row: int
    """Number of the exchange's row in its block, from 0."""
    table: str
    items: list[Any]
    """For ``groups``: :class:`GroupEvent` and :class:`OffsetEvents`; for ``metadata``: pairs of
    subject and values; for ``changes``: :class:`Change`; for ``client_metrics``:
    :class:`ClientMetric`."""


def fields_of(
    tables: Collection[str], *, commits: bool = True
) -> dict[tuple[int, str], Projection]:
    """Return the fields to decode for these tables in addition to those of rows.

    Names of other tables are ignored. Without ``commits``, ``groups`` has no
    lines of commits.
    """
    fields = _paths(commits=commits)
    return more_fields([fields[table] for table in sorted(fields.keys() & {*tables})])


def _paths(*, commits: bool) -> dict[str, FieldPaths]:
    """Return the fields to decode of the APIs that each table has lines of."""
    events = {
        api: paths for api, paths in GROUP_FIELDS.items() if commits or api not in COMMIT_APIS
    }
    return {**_FIELDS, _GROUPS: events, CLIENT_METRICS: _PUSH_FIELDS}


def push_reader() -> Callable[[_Body, _Body], list[ClientMetric]]:
    """Return what reads pushes of metrics; raises UsageError without OpenTelemetry's classes."""
    try:
        from kanalyze.tables.cluster.telemetry import client_metrics  # imported late: few need it
    except ImportError as error:
        raise UsageError(
            "client_metrics needs opentelemetry-proto: pip install 'kanalyze[otlp]'"
        ) from error
    return client_metrics


class ClusterReader:
    """Reads the facts about groups and the cluster in exchanges, for some tables."""

    def __init__(
        self,
        catalog: Catalog,
        extractors: Extractors,
        tables: Collection[str],
        *,
        commits: bool = True,
    ) -> None:
        """Make one; ``extractors`` must decode the fields of :func:`fields_of`."""
        self._bodies = BodyFields(catalog, extractors)
        readers: dict[str, _Reader] = {
            _GROUPS: lambda key, _, *bodies: list(group_events(key, *bodies)),
            _METADATA: metadata_entries,
            _CHANGES: lambda key, _, *bodies: changes(key, *bodies),
        }
        if CLIENT_METRICS in tables:
            read_push = push_reader()
            readers[CLIENT_METRICS] = lambda _key, _version, *bodies: read_push(*bodies)
        self._readers = {
            api: (table, readers[table])
            for table, paths in _paths(commits=commits).items()
            if table in tables
            for api in paths
        }
        """By API: the table that it has facts for, and what reads them."""
        self._answers: dict[tuple[int, int, int | None, object], list[Any]] = {}

    def read(self, exchanges: Iterable[Exchange], block: RowBlock) -> list[ClusterFacts]:
        """Return the facts in exchanges, in their order; ``block`` has their rows."""
        if not self._readers:
            return []
        status = block.columns["status"]
        assert isinstance(status, Words)
        failed, fine = (
            status.words.index(word) if word in status.words else -2 for word in ("error", "ok")
        )
        facts: list[ClusterFacts] = []
        for row, exchange in enumerate(exchanges):
            key = exchange.key
            if key not in self._readers or exchange.wire != "kafka":
                continue
            # Most exchanges are of these APIs: only those with errors name leaders, and heartbeats
            # without an error have no lines.
            if hinting(key) and status.codes[row] != failed:
                continue
            if key == HEARTBEAT and status.codes[row] == fine:
                continue
            table, read = self._readers[key]
            if key in SAID_BY_RESPONSES:
                items = self._of_response(exchange)
            else:
                request = self._bodies.values(exchange.request, key, "request")
                response = self._bodies.values(exchange.response, key, "response")
                items = read(key, exchange.key_version, request, response)
            if items:
                facts.append(ClusterFacts(row, table, items))
        return facts

    def _of_response(self, exchange: Exchange) -> list[Any]:
        """Return the facts of an exchange that depend on its response and versions alone."""
        response = exchange.response
        encoded = None if response is None else response.encoded_fields
        if response is None or encoded is None:
            return []
        key, version = exchange.key, exchange.key_version
        answer = None
        if encoded.cells <= _LARGEST_KEPT_CELLS:
            answer = (key, version, response.version, encoded.state())
            items = self._answers.get(answer)
            if items is not None:
                return items
        items = metadata_entries(key, version, None, self._bodies.values(response, key, "response"))
        if answer is not None and len(self._answers) < _MOST_ANSWERS:
            self._answers[answer] = items
        return items


class ClusterLines:
    """Makes lines from the facts in the exchanges of the selected requests."""

    _NOT_SAVED = ("_names",)

    def __init__(self, names: TopicNames) -> None:
        """Begin without metadata; ``names`` are the known names of topics."""
        self._names = names
        self._seen = SeenMetadata()

    def state(self, connections: Collection[tuple[str, int]]) -> State:
        """Return what :meth:`seen_from_state` takes: the latest metadata of some connections."""
        return self._seen.state(connections)

    @staticmethod
    def seen_from_state(state: object) -> SeenMetadata:
        """Return the latest metadata from a state; raises ValueError for any other value."""
        return SeenMetadata.from_state(state)

    def load_state(self, metadata: SeenMetadata) -> None:
        """Continue with the result of :meth:`seen_from_state`, before the first line."""
        self._seen = metadata

    def blocks(
        self, block: RowBlock, facts: Sequence[ClusterFacts], first_id: int
    ) -> Iterator[tuple[str, RowBlock]]:
        """Yield (table, lines) for each table that has lines.

        Args:
            block: rows of requests.
            facts: the facts of these rows, with the number of the row in the block.
            first_id: the number of the block's first row, over all blocks.
        """
        for table in sorted({fact.table for fact in facts}):
            of_table = [fact for fact in facts if fact.table == table]
            if table == _GROUPS:
                rows, item_columns = self._group_lines(of_table)
            else:
                rows, item_columns = self._lines(table, of_table, block)
            if rows:
                carried = block.only(CARRIED_NAMES).take(rows).columns
                numbers = Ints(array("q", [first_id + row for row in rows]), None)
                columns = {REQUEST_ID.name: numbers, **carried, **item_columns}
                yield table, RowBlock(len(rows), columns)

    def _lines(self, table: str, facts: Sequence[ClusterFacts], block: RowBlock) -> _Lines:
        """Return the lines of a table other than ``groups``."""
        rows, lines = array("q"), list[Any]()
        for fact in facts:
            items: Iterable[Any] = fact.items
            if table == _METADATA:
                changed = self._seen.changes(_connection(block, fact.row), fact.items)
                items = map(self._named, changed)
            elif table == _CHANGES:
                items = map(self._named_change, fact.items)
            before = len(lines)
            lines += items
            rows.extend([fact.row] * (len(lines) - before))
        return rows, columns_of_rows(lines, _COLUMNS[table])

    def _named_change(self, change: Change) -> Change:
        """Return a change with the name of its topic, if the request has the id alone."""
        if change.resource_type != IN_SYNC or change.resource is None:
            return change
        topic_id, _, partition = change.resource.rpartition("-")
        is_id = _TOPIC_ID.fullmatch(topic_id) is not None
        name = self._names.name_of_text(topic_id) if is_id else None
        return change if name is None else change._replace(resource=f"{name}-{partition}")

    def _group_lines(self, facts: Sequence[ClusterFacts]) -> _Lines:
        """Return the lines of events; columns that offsets share are made of the events alone."""
        rows, repeats = array("q"), array("q")
        events: list[GroupEvent] = []
        offsets: list[PartitionOffset] = []
        for fact in facts:
            for item in fact.items:
                before = len(offsets)
                if isinstance(item, OffsetEvents):
                    events.append(item.event)
                    has_names = None not in map(_TOPIC, item.offsets)
                    offsets += item.offsets if has_names else map(self._named, item.offsets)
                else:
                    events.append(self._named_event(item))
                    offsets.append(PartitionOffset._make(events[-1][_OFFSET_AT:]))
                lines = len(offsets) - before
                rows.extend([fact.row] * lines)
                repeats.extend([len(events) - 1] * lines)
        shared = RowBlock.of_rows(events, _EVENT_COLUMNS).take(repeats)
        return rows, {**shared.columns, **columns_of_rows(offsets, _OFFSET_COLUMNS)}

    def _named_event(self, event: GroupEvent) -> GroupEvent:
        """Return an event with the topic names that are known for its topic ids."""
        if event.assigned and event.assigned[0].topic is None:
            event = event._replace(assigned=tuple(map(self._named, event.assigned)))
        return self._named(event)

    def _named(self, item: _NamedT) -> _NamedT:
        if item.topic is not None or item.topic_id is None:
            return item
        name = self._names.name_of_text(item.topic_id)
        return item if name is None else item._replace(topic=name)


def _connection(block: RowBlock, row: int) -> tuple[str, int]:
    connection, number = block.columns["connection"], block.columns["connection_number"]
    assert isinstance(connection, Words)
    assert isinstance(number, Ints)
    return connection.words[connection.codes[row]], number.values[row]
