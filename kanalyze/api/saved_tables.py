"""The tables of saved files, unfiltered.

In: the paths of saved files. Out: facts about their captures, and rows by column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.known import of_known
from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.export.arrow import block_of
from kanalyze.queries.database import Database
from kanalyze.queries.saved import SavedFileError
from kanalyze.spec.filters import FILTERS
from kanalyze.tables.filters import RowFilter
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.filters import BrokerAddress

__all__ = ["SavedTables"]


class SavedTables:
    """The tables of saved files, one file after the other.

    Attributes:
        files: the paths.
        quality: the quality of the captures; known once the files are open.
        conditions: the filter of the saved rows, as in a report; the same in all files.
        first_packet_ns: Unix time of the first packet in ns; None if there was none.
    """

    def __init__(self, files: list[str], limits: Mapping[str, Any]) -> None:
        """Store the arguments; nothing is opened yet. ``limits`` are arguments of ``Database``."""
        self.files = files
        self.quality = CaptureQuality()
        self.conditions: dict[str, Any] = {}
        self.first_packet_ns: int | None = None
        self._limits = limits
        self._database: Database | None = None

    @property
    def is_open(self) -> bool:
        """Whether the files are open, or were."""
        return self._database is not None

    @property
    def names(self) -> Collection[str]:
        """The names of the tables that the files have."""
        return self._opened.attached

    def open(self, brokers: Sequence[BrokerAddress]) -> None:
        """Open the files.

        Args:
            brokers: the brokers whose rows will be selected; empty for all.

        Raises:
            SavedFileError: a file cannot be read, or was not written by ``kanalyze save``.
            UsageError: the files were saved with different filters, or without the brokers.
        """
        database = Database(**self._limits)
        try:
            database.attach(self.files)
            self._read_headers(database.headers)
            self._check_brokers(database, brokers)
        except BaseException:
            database.close()
            raise
        self._database = database

    def close(self) -> None:
        """Close the files; may be called at any time."""
        if self._database is not None:
            self._database.close()

    def check(self, tables: Collection[str]) -> None:
        """Raise UsageError for a table that the files do not have."""
        for table in tables:
            if table not in self.names:
                raise UsageError(f"{self.files[0]}: has no table {table}: it was not saved")

    def blocks(self, table: str, columns: Sequence[Column]) -> Iterator[RowBlock]:
        """Yield all rows of a table; no block is empty.

        Raises:
            SavedFileError: a file is damaged.
        """
        names = [column.name for column in columns]
        try:
            for batch in self._opened.batches(table, names):
                if batch.num_rows:
                    yield block_of(batch, columns)
        except (ValueError, KanalyzeError) as error:
            raise self.damaged() from error

    def damaged(self) -> SavedFileError:
        """Return the error for files that are damaged."""
        return SavedFileError(f"{' '.join(self.files)}: the file is damaged")

    @property
    def _opened(self) -> Database:
        assert self._database is not None
        return self._database

    def _read_headers(self, headers: Sequence[Mapping[str, Any]]) -> None:
        """Read the headers of the files."""
        for path, header in zip(self.files, headers, strict=True):
            try:
                self.quality.merge(CaptureQuality.from_values(header["quality"]))
                conditions = _filter_of(header["filter"]).conditions
                first_ns = header["first_packet_ns"]
                if first_ns is not None:
                    self.first_packet_ns = of_known(min, self.first_packet_ns, int(first_ns))
            except (KeyError, TypeError, ValueError, UsageError):
                raise SavedFileError(f"{path}: has a damaged header") from None
            if path == self.files[0]:
                self.conditions = conditions
            elif conditions != self.conditions:
                raise UsageError(
                    f"{path}: was saved with another filter than {self.files[0]}: "
                    "give files with the same filter"
                )

    @staticmethod
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
