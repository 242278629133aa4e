"""The library: captures in, typed rows, pandas, Arrow or a report out.

In: what a user writes. Out: rows and summaries. This module must not know how anything is done;
it puts the pipeline and the exports together for people who call them from Python.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kanalyze import paths
from kanalyze.analysis.block import RowBlock, columns_of_rows
from kanalyze.analysis.filters import RowFilter
from kanalyze.analysis.given import (
    duration_text,
    path_text,
    ports,
    size_bytes,
    texts,
    time_text,
    truth,
)
from kanalyze.analysis.row import COLUMNS
from kanalyze.errors import UsageError
from kanalyze.pipeline import Analysis
from kanalyze.protocol.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from kanalyze.analysis.anomalies import AnomalyRow
    from kanalyze.analysis.connections import ConnectionRow
    from kanalyze.analysis.given import Duration, Moment, Ports, Texts
    from kanalyze.analysis.quality import CaptureQuality
    from kanalyze.analysis.row import Column, Row
    from kanalyze.pipeline import CaptureInput

__all__ = [
    "Rows",
    "anomalies",
    "connections",
    "make_filter",
    "read_topic_ids",
    "report",
    "requests",
]

RowT = TypeVar("RowT", bound=tuple[Any, ...])
_Batch = TypeVar("_Batch")

_LARGEST_TOPIC_IDS_BYTES = 256 * 1024 * 1024


class Rows(Generic[RowT]):
    """The rows of captures. Each iteration, and each conversion, reads the captures anew.

    ``quality`` says what the captures were like, once a reading has come to its end.
    """

    def __init__(
        self,
        analysis: Callable[[], Analysis],
        batches: Callable[[Analysis], Iterator[list[RowT]]],
        columns: tuple[Column, ...],
        blocks: Callable[[Analysis], Iterator[RowBlock]] | None = None,
    ) -> None:
        """Keep what is to be read; nothing is opened yet.

        Args:
            analysis: makes an analysis of the captures.
            batches: runs one.
            columns: those of its rows.
            blocks: runs one that gives the rows by column; None where there is none.
        """
        self._analysis = analysis
        self._batches = batches
        self._blocks = blocks
        self.columns = columns
        self.quality: CaptureQuality | None = None
        self.conditions: dict[str, Any] = {}
        """By what rows are filtered, known as :attr:`quality` is."""

    def __iter__(self) -> Iterator[RowT]:
        """Give the rows one by one; raises CaptureError where an input is no capture."""
        for rows in self.batches():
            yield from rows

    def batches(self) -> Iterator[list[RowT]]:
        """Give the rows in lists, as they are found."""
        yield from self._run(self._batches)

    def _found_blocks(self) -> Iterator[RowBlock]:
        """Give the rows by column, as they are found."""
        if self._blocks is not None:
            yield from self._run(self._blocks)
            return
        for rows in self.batches():
            yield RowBlock(len(rows), columns_of_rows(rows, self.columns))

    def _run(self, batches: Callable[[Analysis], Iterator[_Batch]]) -> Iterator[_Batch]:
        analysis = self._analysis()
        yield from batches(analysis)
        self.quality, self.conditions = analysis.quality, analysis.row_filter.conditions

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        from kanalyze.export.arrow import table_of

        return table_of(self._found_blocks(), self.columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a DataFrame; integers that may be null are nullable ``Int64``.

        Raises ImportError when pandas is not installed (``pip install kanalyze[pandas]``).
        """
        from kanalyze.export.arrow import frame_of

        return frame_of(self._found_blocks(), self.columns)


def requests(
    *captures: CaptureInput,
    api: int | Iterable[int | str] | Texts = None,
    client_id: Texts = None,
    client_ip: Texts = None,
    broker: Texts = None,
    topic: Texts = None,
    group: Texts = None,
    errors: bool = False,
    slower_than: Duration = None,
    since: Moment = None,
    until: Moment = None,
    port: Ports = None,
    topic_ids: str | Path | None = None,
    definitions: str | Path | None = None,
    max_memory_bytes: int | str | None = None,
    jobs: int = 1,
) -> Rows[Row]:
    """Return the requests in captures, one row each.

    Args:
        captures: paths, folders, globs, ``-``, or open binary files.
        api: API names or keys; as of all that may be several, one or any number of them, and
            None for no condition.
        client_id: globs.
        client_ip: addresses, or networks such as ``10.0.0.0/8``.
        broker: ``IP`` or ``IP:PORT``; these ends are also taken for brokers whatever their bytes
            look like.
        topic: globs on topic names.
        group: globs on group ids.
        errors: only rows with an error code.
        slower_than: only rows with a latency above it, such as ``"10ms"``, or a timedelta.
        since: only requests from that time on, ISO 8601 or Unix seconds; or a time of day such as
            ``"22:46"``, of the day of the first packet. A datetime without a zone is UTC.
        until: only requests before that time.
        port: the TCP ports of brokers; ends with one of them are also taken for brokers whatever
            their bytes look like.
        topic_ids: a file with names of topics by id, for those that the captures tell none; see
            :func:`read_topic_ids`.
        definitions: a folder of message definitions to add to the built-in ones; see
            :class:`~kanalyze.protocol.catalog.Catalog`.
        max_memory_bytes: how much may be held of open connections, a number or such as ``"2G"``;
            None for 1 GiB. What has to be dropped is an anomaly.
        jobs: how many processes may read, for files of some size; the rows are the same. They are
            forked: leave it at 1 in a program with threads.

    Raises:
        DefinitionError: a definition breaks a rule, or the folder cannot be read.
        UsageError: a filter, the jobs or the file of topic ids make no sense.
    """
    brokers, broker_ports = texts("broker", broker), ports(port)
    folder = path_text("definitions", definitions)
    catalog = None if folder is None else Catalog(folder)
    row_filter = make_filter(
        catalog,
        apis=texts("api", api, numbers=True),
        client_ids=texts("client_id", client_id),
        client_ips=texts("client_ip", client_ip),
        brokers=brokers,
        ports=broker_ports,
        topics=texts("topic", topic),
        groups=texts("group", group),
        errors_only=truth("errors", errors),
        slower_than=duration_text("slower_than", slower_than),
        since=time_text("since", since),
        until=time_text("until", until),
    )
    file = path_text("topic_ids", topic_ids)
    names = None if file is None else read_topic_ids(file)
    given: dict[str, Any] = {"topic_ids": names, "catalog": catalog, "jobs": jobs}
    make = _analysis(captures, row_filter, broker_ports, brokers, max_memory_bytes, **given)
    return Rows(make, Analysis.row_batches, COLUMNS, Analysis.batches)


def connections(
    *captures: CaptureInput,
    client_id: Texts = None,
    client_ip: Texts = None,
    broker: Texts = None,
    since: Moment = None,
    until: Moment = None,
    port: Ports = None,
    max_memory_bytes: int | str | None = None,
) -> Rows[ConnectionRow]:
    """Return the TCP connections in captures, Kafka or not, one row each.

    Arguments as in :func:`requests`; of the times, a connection that was open between them counts.

    Raises:
        UsageError: a filter makes no sense.
    """
    brokers, broker_ports = texts("broker", broker), ports(port)
    row_filter = make_filter(
        None,
        client_ids=texts("client_id", client_id),
        client_ips=texts("client_ip", client_ip),
        brokers=brokers,
        ports=broker_ports,
        since=time_text("since", since),
        until=time_text("until", until),
    )
    make = _analysis(captures, row_filter, broker_ports, brokers, max_memory_bytes)
    from kanalyze.analysis.connections import CONNECTION_COLUMNS  # a table of its own

    return Rows(make, Analysis.connection_batches, CONNECTION_COLUMNS)


def anomalies(
    *captures: CaptureInput,
    client_ip: Texts = None,
    broker: Texts = None,
    since: Moment = None,
    until: Moment = None,
    port: Ports = None,
    max_memory_bytes: int | str | None = None,
) -> Rows[AnomalyRow]:
    """Return what is missing or wrong in captures, one row for each thing.

    Arguments as in :func:`requests`.

    Raises:
        UsageError: a filter makes no sense.
    """
    brokers, broker_ports = texts("broker", broker), ports(port)
    row_filter = make_filter(
        None,
        client_ips=texts("client_ip", client_ip),
        brokers=brokers,
        ports=broker_ports,
        since=time_text("since", since),
        until=time_text("until", until),
    )
    make = _analysis(captures, row_filter, broker_ports, brokers, max_memory_bytes)
    from kanalyze.analysis.anomalies import ANOMALY_COLUMNS  # a table of its own

    return Rows(make, Analysis.anomaly_batches, ANOMALY_COLUMNS)


def _analysis(
    captures: Sequence[CaptureInput],
    row_filter: RowFilter,
    broker_ports: tuple[int, ...],
    brokers: tuple[str, ...],
    max_memory_bytes: int | str | None,
    **given: Any,
) -> Callable[[], Analysis]:
    """Return what makes the same analysis each time."""
    most = size_bytes("max_memory_bytes", max_memory_bytes)
    if most is not None:
        given["max_memory_bytes"] = most
    make = partial(
        Analysis, captures, row_filter=row_filter, ports=broker_ports, brokers=brokers, **given
    )
    make()  # says what else makes no sense; nothing is opened
    return make


def report(*captures: CaptureInput, **filters: Any) -> dict[str, Any]:
    """Return the summary that ``kanalyze report --json`` writes; filters as in :func:`requests`.

    Raises:
        CaptureError: an input is missing or is no capture.
        UsageError: a filter makes no sense.
    """
    # The command line loads this module for rows too, which take no statistics.
    from kanalyze.analysis.statistics import Statistics

    found = requests(*captures, **filters)
    statistics = Statistics()
    for block in found._found_blocks():
        statistics.add_block(block)
    if found.quality is None:
        raise RuntimeError("the captures were not read to their end")
    return statistics.summary(found.quality, found.conditions)


def make_filter(catalog: Catalog | None = None, **conditions: Any) -> RowFilter:
    """Return a filter that knows the names of APIs: those of ``catalog``, or the built-in ones.

    Other arguments as ``RowFilter.parse``.
    """
    names = _api_names(catalog or Catalog()) if conditions.get("apis") else None
    return RowFilter.parse(api_names=names, **conditions)


def _api_names(catalog: Catalog) -> dict[str, int]:
    from kanalyze.protocol.kafka07 import RequestType  # only for those who name an API

    # Those of Kafka 0.7 by name only: its request types mean other APIs in later versions.
    names = {kind.api_name: int(kind) for kind in RequestType}
    return names | {api.name: api.key for api in catalog.apis}


def read_topic_ids(path: str | Path) -> dict[bytes, str]:
    """Return the names of topics by their 16-byte id that a file has.

    A line ``ID NAME`` each, or a JSON object; ids in Kafka's base64 or as UUIDs (see
    :func:`~kanalyze.analysis.topics.parse_topic_ids`).

    Raises:
        UsageError: the file cannot be read, or makes no sense; the text names it.
    """
    try:
        with io.TextIOWrapper(paths.opened(path), encoding="utf-8") as file:
            text = file.read(_LARGEST_TOPIC_IDS_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text") from error
    from kanalyze.analysis.topics import parse_topic_ids  # only for those who have some

    try:
        return parse_topic_ids(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
