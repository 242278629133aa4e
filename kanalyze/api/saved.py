"""Reads files of ``kanalyze save``: the same rows as an analysis of the captures.

In: saved files, a filter. Out: rows; databases.

A :class:`SavedAnalysis` can be used like an :class:`~kanalyze.runtime.pipeline.Analysis` wherever
rows are read. It filters rows with the same code. A filter that was used when the file was saved
still applies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import parse_time_ns
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.export.arrow import block_of
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.saved import ID_COLUMN, REQUEST_ID, SavedFileError
from kanalyze.runtime.table_rows import RECORDS, RowSource, TableRows
from kanalyze.spec.filters import FILTERS
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS, ConnectionRow
from kanalyze.spec.rows.tables import ALWAYS, TABLES, stored_columns
from kanalyze.tables.columns.block import Ints, RowBlock
from kanalyze.tables.filters import RowFilter
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.tables import TableSpec
    from kanalyze.tables.filters import BrokerAddress


class SavedConditions(NamedTuple):
    """The filter of the saved rows and that of the analysis, as one."""

    conditions: dict[str, Any]


class SavedAnalysis(RowSource):
    """Rows of saved files, one file after the other; has the methods of an analysis for rows."""

    is_saved = True

    def __init__(
        self,
        files: Sequence[str],
        *,
        row_filter: RowFilter | None = None,
        max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
        threads: int = 1,
    ) -> None:
        """Store the arguments; nothing is opened yet.

        Args:
            files: paths of saved files.
            row_filter: selects rows; None for all.
            max_memory_bytes: memory in bytes for reading.
            threads: number of threads for reading.
        """
        self.files = list(files)
        """The paths of the files."""
        self.quality = CaptureQuality()
        """The quality of the captures; known once the files are open."""
        self._conditions: dict[str, Any] = {}
        """The filter of the saved rows, as in a report; the same in all files."""
        self._first_packet_ns: int | None = None
        self._limits: dict[str, Any] = {"max_memory_bytes": max_memory_bytes, "threads": threads}
        self._filter = RowFilter() if row_filter is None else row_filter
        self._database: Database | None = None

    @property
    def progress(self) -> tuple[int, int | None]:
        """As of an analysis: bytes read so far and in all. Both are unknown: 0 and None."""
        return 0, None

    @property
    def row_filter(self) -> SavedConditions:
        """The active filters: that of this analysis, and those of the saved files."""
        return SavedConditions(_combined(self._conditions, self._filter.conditions))

    @property
    def is_whole(self) -> bool:
        """True if all rows of the files are selected."""
        return self._filter.passes_all

    @property
    def has_several_captures(self) -> bool:
        """Return true if the files have several captures; known once they are open."""
        return len(self.quality.captures) > 1

    def start(self) -> None:
        """Open the files if they are not open yet.

        Raises:
            SavedFileError: a file cannot be read, or was not written by ``kanalyze save``.
            UsageError: the files were saved with different filters, or without the brokers of
                this one.
        """
        if self._database is not None:
            return
        database = Database(**self._limits)
        try:
            database.attach(self.files)
            self._read_headers(database.headers)
            _check_brokers(database, self._filter.get("broker", ()))
        except BaseException:
            database.close()
            raise
        self._database = database
        if self._filter.needs_day:
            last_ns = self.quality.last_time_ns
            # Without a time: any day.
            self._filter = self._filter.on_day_of(self._first_packet_ns or 0, last_ns)

    def close(self) -> None:
        """Close the files; may be called at any time."""
        if self._database is not None:
            self._database.close()

    def batches(self) -> Iterator[RowBlock]:
        """Return the rows of requests that match the filter, by column; no block is empty.

        The files are opened at once.

        Raises:
            SavedFileError: see :meth:`start`; or a file is damaged.
        """
        self.start()
        return (block for block, _ in self._requests())

    def connection_batches(self) -> Iterator[list[ConnectionRow]]:
        """Return the rows of connections that match the filter; otherwise like :meth:`batches`."""
        return self._matching(
            "connections", ConnectionRow, CONNECTION_COLUMNS, self._filter.matches_connection
        )

    def anomaly_batches(self) -> Iterator[list[AnomalyRow]]:
        """Return the rows of anomalies that match the filter; otherwise like :meth:`batches`."""
        return self._matching(
            "anomalies", AnomalyRow, ANOMALY_COLUMNS, self._filter.matches_anomaly
        )

    def table_rows(
        self,
        more: Collection[str] = (),
        *,
        others: bool = True,
        commits: bool = True,  # noqa: ARG002 - they are in the file
    ) -> Iterator[TableRows]:
        """Yield the rows of several tables that match the filter.

        See :meth:`kanalyze.runtime.pipeline.Analysis.table_rows` for the arguments; lines of
        commits come in any case. Raises what :meth:`batches` raises, and UsageError for a table
        that the files do not have.
        """
        request_ids = array("q")
        for block, numbers in self._requests():
            if any(after <= before for before, after in pairwise([*request_ids[-1:], *numbers])):
                raise self._damaged()
            request_ids.extend(numbers)
            yield TableRows([block], [], [])
        if others:
            for connections in self.connection_batches():
                yield TableRows([], connections, [])
            for anomalies in self.anomaly_batches():
                yield TableRows([], [], anomalies)
        for table in more:
            for block in self._lines(table, request_ids):
                yield TableRows([], [], [], lines=[(table, block)])

    def tables(self, selected: Collection[str]) -> tuple[TableSpec, ...]:
        """Return the selected tables, those of every run, and those with lines of requests.

        Raises:
            UsageError: the files do not have a table.
        """
        self.check_tables(selected)
        specs = [TABLES[name] for name in self._opened.attached]
        return tuple(
            table
            for table in specs
            if table.name in (*selected, *ALWAYS)
            or ID_COLUMN.name in {column.name for column in table.columns}
        )

    def check_tables(self, tables: Collection[str]) -> None:
        """Raise UsageError for a table that the files do not have."""
        for table in tables:
            if table not in self._opened.attached:
                how = ": save the captures again with --records" if table == RECORDS else ""
                raise UsageError(f"{self.files[0]}: has no table {table}: it was not saved{how}")

    @property
    def _opened(self) -> Database:
        self.start()
        assert self._database is not None
        return self._database

    def _blocks(self, table: str, columns: Sequence[Column]) -> Iterator[RowBlock]:
        """Yield all rows of a table; no block is empty. Raises SavedFileError."""
        database, names = self._opened, [column.name for column in columns]
        try:
            for batch in database.batches(table, names):
                if batch.num_rows:
                    yield block_of(batch, columns)
        except (ValueError, KanalyzeError) as error:
            raise self._damaged() from error

    def _damaged(self) -> SavedFileError:
        return SavedFileError(f"{' '.join(self.files)}: the file is damaged")

    def _requests(self) -> Iterator[tuple[RowBlock, Sequence[int]]]:
        """Yield the requests that match the filter, and the request id of each."""
        for block in self._blocks("requests", stored_columns("requests")):
            ids = block.columns.pop(REQUEST_ID)
            assert isinstance(ids, Ints)
            indices: Sequence[int] = range(len(block))
            if not self._filter.passes_all:
                try:
                    indices = self._filter.numbers(block)
                except ValueError:  # an invalid address
                    raise self._damaged() from None
            if len(indices) == len(block):
                yield block, ids.values
            elif indices:
                yield block.take(indices), [ids.values[index] for index in indices]

    def _lines(self, table: str, selected_ids: array[int]) -> Iterator[RowBlock]:
        """Yield the lines of the selected requests, with the new numbers of these requests."""
        self.check_tables([table])
        columns = TABLES[table].columns
        if self._filter.passes_all:
            yield from self._blocks(table, columns)
            return
        if all(column.name != REQUEST_ID for column in columns):
            raise UsageError(
                f"the saved table {table} cannot be filtered: it is not about requests"
            )
        for block in self._blocks(table, columns):
            ids = block.columns[REQUEST_ID]
            assert isinstance(ids, Ints)
            matches = []
            for row, number in enumerate(ids.values):
                index = bisect_left(selected_ids, number)
                if index < len(selected_ids) and selected_ids[index] == number:
                    matches.append((row, index))
            if matches:
                lines = block.take([row for row, _ in matches])
                numbers = Ints(array("q", [index + 1 for _, index in matches]), None)
                yield RowBlock(len(lines), {**lines.columns, REQUEST_ID: numbers})

    def _matching(
        self, table: str, row_type: Any, columns: Sequence[Column], matches: Callable[[Any], bool]
    ) -> Iterator[list[Any]]:
        """Yield the rows of a table that match the filter; no list is empty."""
        for block in self._blocks(table, columns):
            rows = block.rows(row_type, columns)
            try:
                kept = rows if self._filter.passes_all else list(filter(matches, rows))
            except ValueError:  # an invalid address
                raise self._damaged() from None
            if kept:
                yield kept

    def _read_headers(self, headers: Sequence[Mapping[str, Any]]) -> None:
        """Read the headers of the files."""
        for path, header in zip(self.files, headers, strict=True):
            try:
                self.quality.merge(CaptureQuality.from_values(header["quality"]))
                conditions = _filter_of(header["filter"]).conditions
                first_ns = header["first_packet_ns"]
                if first_ns is not None:
                    self._first_packet_ns = of_known(min, self._first_packet_ns, int(first_ns))
            except (KeyError, TypeError, ValueError, UsageError):
                raise SavedFileError(f"{path}: has a damaged header") from None
            if path == self.files[0]:
                self._conditions = conditions
            elif conditions != self._conditions:
                raise UsageError(
                    f"{path}: was saved with another filter than {self.files[0]}: "
                    "give files with the same filter"
                )


def header_of(analysis: Analysis, options: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the header of a saved file for an analysis that was read to its end.

    Args:
        analysis: the analysis whose rows are in the file.
        options: options of the analysis as plain values, for information.
        version: version of kanalyze.
    """
    return {
        "kanalyze_version": version,
        "options": {**options, "key_logs": analysis.key_logs},
        "filter": analysis.row_filter.conditions,
        "first_packet_ns": analysis.first_time_ns,
        "quality": analysis.quality.to_values(),
    }


def _as_ns(value: int | str) -> int:
    return parse_time_ns(value) if isinstance(value, str) else value


def _combined(saved: Mapping[str, Any], conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two filters; conditions of ``saved`` that cannot be merged are under ``saved``."""
    combined = {**saved, **conditions}
    unmerged = {}
    for name in saved.keys() & conditions.keys():
        if name in ("since", "slower_than_ns"):
            combined[name] = max(saved[name], conditions[name], key=_as_ns)
        elif name == "until":
            combined[name] = min(saved[name], conditions[name], key=_as_ns)
        elif saved[name] != conditions[name]:
            unmerged[name] = saved[name]
    ordered = {
        each.field: combined[each.field] for each in FILTERS.values() if each.field in combined
    }
    return {**ordered, "saved": unmerged} if unmerged else ordered


def _check_brokers(database: Database, brokers: Sequence[BrokerAddress]) -> None:
    """Raise UsageError if a broker of the filter would change how the captures are read.

    ``--broker`` makes the reader treat its connections as Kafka, whatever their bytes look
    like. If they were saved as Kafka anyway, it is only a filter of rows.
    """
    for broker in brokers:
        ((other_connections,),) = database.values(
            "SELECT count(*) FROM connections WHERE client_payload_bytes + broker_payload_bytes"
            " > 0 AND CASE WHEN broker_ip = $ip AND broker_port = coalesce($port, broker_port)"
            " THEN protocol NOT LIKE 'kafka%'"
            " ELSE client_ip = $ip AND client_port = $port END",
            {"ip": broker.ip, "port": broker.port},
        )
        if other_connections:
            raise UsageError(
                f"{broker}: {other_connections} of its connections were not taken for Kafka "
                f"when they were saved: save the captures again with --broker {broker}"
            )


def _filter_of(conditions: Mapping[str, Any]) -> RowFilter:
    """Return the filter with these conditions; raises UsageError or what wrong types raise."""
    names = {each.field: name for name, each in FILTERS.items()}
    texts: dict[str, Any] = {
        names[field]: f"{int(value)}ns" if field == "slower_than_ns" else value
        for field, value in conditions.items()
    }
    return RowFilter.parse(**texts)
