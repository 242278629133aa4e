"""The library: captures in, typed rows, pandas, Arrow or a report out.

In: what a user writes. Out: rows and summaries. This module must not know how anything is done;
it puts the pipeline and the exports together for people who call them from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.analysis.filters import RowFilter
from kanalyze.analysis.statistics import Statistics
from kanalyze.pipeline import Analysis
from kanalyze.protocol.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd
    import pyarrow as pa

    from kanalyze.analysis.quality import CaptureQuality
    from kanalyze.analysis.row import Row
    from kanalyze.pipeline import CaptureInput

__all__ = ["Requests", "make_filter", "report", "requests"]


class Requests:
    """The rows of captures. Each iteration, and each conversion, reads the captures anew.

    ``quality`` says what the captures were like, once a reading has come to its end.
    """

    def __init__(
        self,
        captures: Sequence[CaptureInput],
        row_filter: RowFilter,
        ports: Sequence[int],
        brokers: Sequence[str],
    ) -> None:
        """Keep what is to be read; nothing is opened yet."""
        self._captures = captures
        self._filter = row_filter
        self._ports = ports
        self._brokers = brokers
        self.quality: CaptureQuality | None = None

    def __iter__(self) -> Iterator[Row]:
        """Give the rows one by one; raises CaptureError where an input is no capture."""
        for rows in self.batches():
            yield from rows

    def batches(self) -> Iterator[list[Row]]:
        """Give the rows in lists, as they are found."""
        analysis = Analysis(
            self._captures, row_filter=self._filter, ports=self._ports, brokers=self._brokers
        )
        yield from analysis.row_batches()
        self.quality = analysis.quality

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with the columns of the row contract."""
        from kanalyze.export.arrow import table_of

        return table_of(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a DataFrame; integers that may be null are nullable ``Int64``.

        Raises ImportError when pandas is not installed (``pip install kanalyze[pandas]``).
        """
        from kanalyze.export.arrow import frame_of

        return frame_of(self)


def requests(
    *captures: CaptureInput,
    api: str | Iterable[str] = (),
    client_id: str | Iterable[str] = (),
    client_ip: str | Iterable[str] = (),
    broker: str | Iterable[str] = (),
    topic: str | Iterable[str] = (),
    group: str | Iterable[str] = (),
    errors: bool = False,
    slower_than: str | None = None,
    since: str | None = None,
    until: str | None = None,
    port: Iterable[int] = (),
) -> Requests:
    """Return the requests in captures, one row each.

    Args:
        captures: paths, folders, globs, ``-``, or open binary files.
        api: API names or keys.
        client_id: globs.
        client_ip: addresses, or networks such as ``10.0.0.0/8``.
        broker: ``IP`` or ``IP:PORT``; these ends are also taken for brokers whatever their bytes
            look like.
        topic: globs on topic names.
        group: globs on group ids.
        errors: only rows with an error code.
        slower_than: only rows with a latency above it, such as ``"10ms"``.
        since: only requests from that time on, ISO 8601 or Unix seconds.
        until: only requests before that time.
        port: ends with one of these TCP ports are taken for brokers.

    Raises:
        UsageError: a filter makes no sense.
    """
    brokers = _texts(broker)
    row_filter = make_filter(
        apis=_texts(api),
        client_ids=_texts(client_id),
        client_ips=_texts(client_ip),
        brokers=brokers,
        topics=_texts(topic),
        groups=_texts(group),
        errors_only=errors,
        slower_than=slower_than,
        since=since,
        until=until,
    )
    return Requests(captures, row_filter, tuple(port), brokers)


def report(*captures: CaptureInput, **filters: Any) -> dict[str, Any]:
    """Return the summary that ``kanalyze report --json`` writes; filters as in :func:`requests`.

    Raises:
        CaptureError: an input is missing or is no capture.
        UsageError: a filter makes no sense.
    """
    found = requests(*captures, **filters)
    statistics = Statistics()
    for rows in found.batches():
        statistics.add(rows)
    if found.quality is None:
        raise RuntimeError("the captures were not read to their end")
    return statistics.summary(found.quality)


def make_filter(**conditions: Any) -> RowFilter:
    """Return a filter that knows the names of Kafka's APIs; arguments as ``RowFilter.parse``."""
    names = {api.name: api.key for api in Catalog().apis}
    return RowFilter.parse(api_names=names, **conditions)


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
