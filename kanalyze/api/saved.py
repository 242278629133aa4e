"""Reads files of ``kanalyze save``: the same rows as an analysis of the captures.

In: saved files, a filter. Out: rows; databases. This module must not know who calls it.

A :class:`SavedAnalysis` can be used like an :class:`~kanalyze.runtime.pipeline.Analysis` wherever
rows are read. It filters rows with the same code. A filter that was used when the file was saved
still applies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import parse_time_ns
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.export.arrow_blocks import block_of
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.saved import ID_COLUMN, REQUEST_ID, SavedFileError
from kanalyze.runtime.table_run import TableRows
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.tables.columns.block import Ints, RowBlock
from kanalyze.tables.connections import CONNECTION_COLUMNS, ConnectionRow
from kanalyze.tables.filters import RowFilter
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.registry import ALWAYS, TABLES
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.registry import TableSpec
    from kanalyze.tables.row import Column, Row

__all__ = ["SavedAnalysis", "SavedConditions", "header_of"]

_CONDITIONS = {
    "api": "apis",
    "client_id": "client_ids",
    "client_ip": "client_ips",
    "broker": "brokers",
    "port": "ports",
    "topic": "topics",
    "partition": "partitions",
    "group": "groups",
    "status": "statuses",
    "error": "error_codes",
    "errors": "errors_only",
    "since": "since",
    "until": "until",
}
"""Conditions in a report, and the arguments of ``RowFilter.parse`` for each."""
_ORDER = (*list(_CONDITIONS)[:-2], "slower_than_ns", "since", "until")
"""Maps names of conditions in a report to those of ``RowFilter.conditions``."""


class SavedConditions(NamedTuple):
    """The filters of rows: when they were saved, and now."""

    conditions: dict[str, Any]


class SavedAnalysis:
    """Rows of saved files, one file after the other; has the methods of an analysis for rows."""

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
        self.quality = CaptureQuality()
        """The quality of the captures; known once the files are open."""
        self._filter = RowFilter() if row_filter is None else row_filter
        self._saved: dict[str, Any] = {}
        self._limits: dict[str, Any] = {"max_memory_bytes": max_memory_bytes, "threads": threads}
        self._database: Database | None = None

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and the total, which is None because it is unknown."""
        return 0, None

    @property
    def row_filter(self) -> SavedConditions:
        """The active filters: that of this analysis, and those of the saved files."""
        return SavedConditions(_combined(self._saved, self._filter.conditions))

    @property
    def is_whole(self) -> bool:
        """True if all rows of the files are selected."""
        return self._filter.passes_all

    def start(self) -> None:
        """Open the files if they are not open yet.

        Raises:
            SavedFileError: a file cannot be read, or was not written by ``kanalyze save``.
            UsageError: the files were saved with different filters.
        """
        if self._database is not None:
            return
        database = Database(**self._limits)
        try:
            database.attach(self.files)
            self._take_in(database.headers)
            self._check_brokers(database)
        except BaseException:
            database.close()
            raise
        self._database = database

    def close(self) -> None:
        """Close the files; may be called at any time."""
        if self._database is not None:
            self._database.close()

    def batches(self) -> Iterator[RowBlock]:
        """Yield the rows of requests that match the filter, by column; no block is empty.

        Raises:
            SavedFileError: see :meth:`start`; or a file is damaged.
        """
        for block, _ in self._requests():
            yield block

    def row_batches(self) -> Iterator[list[Row]]:
        """Yield the rows as objects; otherwise like :meth:`batches`."""
        for block in self.batches():
            for piece in block.pieces():
                yield piece.rows()

    def connection_batches(self) -> Iterator[list[ConnectionRow]]:
        """Yield the rows of connections that match the filter; otherwise like :meth:`batches`."""
        for block in self._blocks("connections", CONNECTION_COLUMNS):
            rows = map(ConnectionRow._make, zip(*block.values(CONNECTION_COLUMNS), strict=True))
            if kept := self._matching(rows, self._filter.matches_connection):
                yield kept

    def anomaly_batches(self) -> Iterator[list[AnomalyRow]]:
        """Yield the rows of anomalies that match the filter; otherwise like :meth:`batches`."""
        for block in self._blocks("anomalies", ANOMALY_COLUMNS):
            rows = map(AnomalyRow._make, zip(*block.values(ANOMALY_COLUMNS), strict=True))
            if kept := self._matching(rows, self._filter.matches_anomaly):
                yield kept

    def table_rows(self, more: Collection[str] = (), *, others: bool = True) -> Iterator[TableRows]:
        """Yield the rows of several tables that match the filter.

        See :meth:`kanalyze.runtime.pipeline.Analysis.table_rows` for the arguments. Raises what
        :meth:`batches` raises, and UsageError for a table that the files do not have.
        """
        kept = array("q")
        for block, numbers in self._requests():
            if any(after <= before for before, after in pairwise([*kept[-1:], *numbers])):
                raise self._damaged()
            kept.extend(numbers)
            yield TableRows([block], [], [])
        if others:
            for connections in self.connection_batches():
                yield TableRows([], connections, [])
            for anomalies in self.anomaly_batches():
                yield TableRows([], [], anomalies)
        for table in more:
            for block in self._lines(table, kept):
                yield TableRows([], [], [], lines=[(table, block)])

    def line_blocks(self, table: str) -> Iterator[RowBlock]:
        """Yield the lines of one table whose lines belong to requests."""
        for rows in self.table_rows([table], others=False):
            for _, block in rows.lines:
                yield block

    def tables(self, asked: Collection[str]) -> tuple[TableSpec, ...]:
        """Return the tables asked for, and all others of the files whose lines can be selected.

        Raises:
            UsageError: the files do not have a table.
        """
        self.check_tables(asked)
        found = [TABLES[name] for name in self._opened.attached]
        return tuple(
            table
            for table in found
            if table.name in (*asked, *ALWAYS) or ID_COLUMN.name in {x.name for x in table.columns}
        )

    def check_tables(self, tables: Collection[str]) -> None:
        """Raise UsageError for a table that the files do not have."""
        for table in tables:
            if table not in self._opened.attached:
                raise UsageError(f"{self.files[0]}: has no table {table}: it was not saved")

    # -- what is in the files ---------------------------------------------------------------------

    @property
    def _opened(self) -> Database:
        self.start()
        assert self._database is not None
        return self._database

    def _take_in(self, headers: Sequence[Mapping[str, Any]]) -> None:
        """Read the headers of the files."""
        first_ns: list[int] = []
        for path, header in zip(self.files, headers, strict=True):
            try:
                self.quality.merge(CaptureQuality.from_values(header["quality"]))
                conditions = _filter_of(header["filter"]).conditions
                if header["first_packet_ns"] is not None:
                    first_ns.append(int(header["first_packet_ns"]))
            except (KeyError, TypeError, ValueError, UsageError):
                raise SavedFileError(f"{path}: has a damaged header") from None
            if path == self.files[0]:
                self._saved = conditions
            elif conditions != self._saved:
                raise UsageError(
                    f"{path}: was saved with another filter than {self.files[0]}: "
                    "give files with the same filter"
                )
        if self._filter.needs_day and first_ns:
            self._filter = self._filter.on_day_of(min(first_ns))

    def _check_brokers(self, database: Database) -> None:
        """Raise UsageError if a broker of the filter would change how the captures are read.

        ``--broker`` makes the reader treat its connections as Kafka, whatever their bytes look
        like. If they were saved as Kafka anyway, it is only a filter of rows.
        """
        for broker in self._filter.brokers:
            ((others,),) = database.values(
                "SELECT count(*) FROM connections WHERE client_payload_bytes + broker_payload_bytes"
                " > 0 AND CASE WHEN broker_ip = $ip AND broker_port = coalesce($port, broker_port)"
                " THEN protocol NOT LIKE 'kafka%'"
                " ELSE client_ip = $ip AND client_port = $port END",
                {"ip": broker.ip, "port": broker.port},
            )
            if others:
                raise UsageError(
                    f"{broker}: {others} of its connections were not taken for Kafka when they "
                    f"were saved: save the captures again with --broker {broker}"
                )

    def _requests(self) -> Iterator[tuple[RowBlock, Sequence[int]]]:
        """Yield the requests that match the filter, and the number of each."""
        for block in self._blocks("requests", (ID_COLUMN, *COLUMNS)):
            ids = block.columns.pop(REQUEST_ID)
            assert isinstance(ids, Ints)
            places: Sequence[int] = range(len(block))
            if not self._filter.passes_all:
                try:
                    places = self._filter.numbers(block)
                except ValueError:  # an invalid address in the file
                    raise self._damaged() from None
            if len(places) == len(block):
                yield block, ids.values
            elif places:
                yield block.take(places), [ids.values[place] for place in places]

    def _lines(self, table: str, kept: array[int]) -> Iterator[RowBlock]:
        """Yield the lines of the selected requests, with the new numbers of these requests."""
        self.check_tables([table])
        columns = TABLES[table].columns
        if self._filter.passes_all:
            yield from self._blocks(table, columns)
            return
        if all(column.name != REQUEST_ID for column in columns):
            raise UsageError(f"saved lines of {table} cannot be filtered by requests")
        for block in self._blocks(table, columns):
            ids = block.columns[REQUEST_ID]
            assert isinstance(ids, Ints)
            found = [(place, bisect_left(kept, number)) for place, number in enumerate(ids.values)]
            found = [
                (place, at)
                for place, at in found
                if at < len(kept) and kept[at] == ids.values[place]
            ]
            if found:
                lines = block.take([place for place, _ in found])
                numbers = Ints(array("q", [at + 1 for _, at in found]), None)
                yield RowBlock(len(lines), {**lines.columns, REQUEST_ID: numbers})

    def _blocks(self, table: str, columns: Sequence[Column]) -> Iterator[RowBlock]:
        """Yield all rows of a table; no block is empty."""
        names = [column.name for column in columns]
        try:
            for batch in self._opened.batches(table, names):
                if batch.num_rows:
                    yield block_of(batch, columns)
        except (ValueError, KanalyzeError) as error:
            if isinstance(error, UsageError | SavedFileError) and self._database is None:
                raise
            raise self._damaged() from error

    def _matching(self, rows: Any, holds: Any) -> list[Any]:
        try:
            return list(rows) if self._filter.passes_all else [row for row in rows if holds(row)]
        except ValueError:  # an invalid address in the file
            raise self._damaged() from None

    def _damaged(self) -> SavedFileError:
        return SavedFileError(f"{' '.join(self.files)}: the file is damaged")


def header_of(analysis: Analysis, options: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the header of a saved file for an analysis that was read to its end.

    Args:
        analysis: the analysis whose rows are in the file.
        options: options of the analysis as plain values, for information.
        version: version of kanalyze.
    """
    return {
        "kanalyze_version": version,
        "options": dict(options),
        "filter": analysis.row_filter.conditions,
        "first_packet_ns": analysis.first_time_ns,
        "quality": analysis.quality.to_values(),
    }


def _filter_of(conditions: Mapping[str, Any]) -> RowFilter:
    """Return the filter with these conditions; raises UsageError, TypeError or ValueError."""
    given = dict(conditions)
    slower_ns = given.pop("slower_than_ns", None)
    arguments = {_CONDITIONS[name]: value for name, value in given.items()}
    if slower_ns is not None:
        arguments["slower_than"] = f"{int(slower_ns)}ns"
    return RowFilter.parse(**arguments)


def _in_order(value: int | str) -> int:
    return parse_time_ns(value) if isinstance(value, str) else value


def _combined(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Combine conditions; ``saved`` is a condition of its own if they cannot be merged."""
    found = {**saved, **given}
    apart = {}
    for name in saved.keys() & given.keys():
        if name in ("since", "slower_than_ns"):
            found[name] = max(saved[name], given[name], key=_in_order)
        elif name == "until":
            found[name] = min(saved[name], given[name], key=_in_order)
        elif saved[name] != given[name]:
            apart[name] = saved[name]
    ordered = {name: found[name] for name in _ORDER if name in found}
    return {**ordered, "saved": apart} if apart else ordered
