"""Makes the analysis that arguments ask for: the common part of commands that read captures.

In: parsed arguments. Out: an analysis; messages.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from kanalyze.api.inputs import make_filter, read_key_logs, read_topic_ids
from kanalyze.cli.console import print_message
from kanalyze.cli.output_checks import output_files
from kanalyze.common import paths
from kanalyze.common.paths import saved_files
from kanalyze.common.zones import LOCAL, UTC, Zone, zone_of
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spec.filters import FILTERS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Container, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.api.tables import OpenedTables
    from kanalyze.cli.progress import Progress
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.names import AddressNames
    from kanalyze.tls.keylog import KeyLog

_CAPTURE_ONLY_OPTIONS = ("port", "topic_ids", "definitions", "keylog")
"""Options that change how packets are read."""
_STANDARD_INPUT = "-"
KEY_LOG_VARIABLE = "SSLKEYLOGFILE"
_MAX_LEFT_OUT = 10
"""Maximum number of messages about files that cannot be read."""
_NOT_ONLY_KAFKA = ("connections", "anomalies")
"""Commands whose rows are not only about Kafka."""
_OF_REQUESTS = ("decode", "extract", "save")
"""Other commands whose items are requests."""


def analysis_of(
    arguments: argparse.Namespace,
    *,
    keep: KeepsBytes | None = None,
    catalog: Catalog | None = None,
    filtered: bool = True,
) -> Analysis:
    """Return the analysis that arguments ask for; raises UsageError and DefinitionError.

    ``keep`` selects messages whose bytes are kept, as in
    :class:`~kanalyze.runtime.pipeline.Analysis`. ``catalog`` is the catalog of
    ``arguments.definitions``; None to load it here. If not ``filtered``, the analysis yields all
    rows.
    """
    if _STANDARD_INPUT in arguments.captures and sys.stdin is not None and sys.stdin.isatty():
        command = f"kanalyze {arguments.command} {_STANDARD_INPUT}"
        raise UsageError(f"standard input is a terminal: pipe a capture into {command}")
    if catalog is None:
        catalog = catalog_of(arguments)
    row_filter = _filter_of(arguments, catalog, analysis_of) if filtered else None
    settings: dict[str, Any] = {
        "keep": keep,
        "catalog": catalog,
        "max_memory_bytes": arguments.max_memory,
        "jobs": _jobs(arguments),
        "keylog": key_log_of(arguments),
    }
    return Analysis(
        arguments.captures,
        row_filter=row_filter,
        ports=arguments.port,
        brokers=arguments.broker,
        topic_ids=read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None,
        leave_out=LeftOutReporter(),
        outputs=output_files(arguments),
        **{name: value for name, value in settings.items() if value is not None},
    )


def rows_of(arguments: argparse.Namespace) -> Analysis | SavedAnalysis:
    """Return the analysis of captures, or of saved files.

    Raises what :func:`analysis_of` raises, and UsageError for an option that has no effect on
    saved files.
    """
    files = saved_files(arguments.captures)
    if not files:
        return analysis_of(arguments)
    for option in _CAPTURE_ONLY_OPTIONS:
        if getattr(arguments, option):
            raise UsageError(
                f"--{option.replace('_', '-')} has no effect on the saved file {files[0]}, whose "
                "packets were already read: use it with kanalyze save"
            )
    from kanalyze.api.saved import SavedAnalysis  # imported late: it imports DuckDB
    from kanalyze.queries.database import DEFAULT_MEMORY_BYTES

    return SavedAnalysis(
        files,
        row_filter=_filter_of(arguments, None, rows_of),
        max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        threads=_jobs(arguments) or 1,
    )


def _filter_of(
    arguments: argparse.Namespace,
    catalog: Catalog | None,
    make_analysis: Callable[[argparse.Namespace], Analysis | SavedAnalysis],
) -> RowFilter:
    """Return the filter of the rows; ``make_analysis`` reads them for ``--finding``."""
    row_filter = make_filter(catalog, names=names_in(arguments), **filters_of(arguments))
    if not getattr(arguments, "finding", None):
        return row_filter
    from kanalyze.cli.found_rows import found_rows_of  # imported late: it imports DuckDB

    return row_filter.among(found_rows_of(arguments, make_analysis, _jobs(arguments)))


def opened_tables_of(
    arguments: argparse.Namespace,
    analysis: Analysis | SavedAnalysis,
    progress: Progress,
    tables: Iterable[str],
    names: Container[str] | None = None,
    *,
    usual_memory_bytes: int | None = None,
    session_lists: bool = False,
) -> AbstractContextManager[OpenedTables]:
    """Return the tables of an analysis, with the memory and the threads of the arguments.

    For the others see :func:`kanalyze.api.tables.opened_tables`; ``progress`` shows the reading.
    """
    from kanalyze.api.tables import opened_tables  # imported late: it imports DuckDB
    from kanalyze.queries.database import DEFAULT_MEMORY_BYTES

    return opened_tables(
        analysis,
        tables,
        names,
        max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        usual_memory_bytes=usual_memory_bytes,
        threads=worker_count(arguments),
        progress=progress.reading(analysis),
        session_lists=session_lists,
    )


class LeftOutReporter:
    """Reports the first files that cannot be read by name, then once that there are more."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, anomaly: Anomaly) -> None:
        """Report the file that an anomaly is about."""
        self._count += 1
        if self._count <= _MAX_LEFT_OUT:
            print_message(f"left out: {anomaly.detail}")
        elif self._count == _MAX_LEFT_OUT + 1:
            print_message(
                "more files are left out; kanalyze anomalies --kind capture_unreadable lists them"
            )


def catalog_of(arguments: argparse.Namespace) -> Catalog | None:
    """Return the catalog with ``--definitions``, None without it. Raises DefinitionError."""
    return None if arguments.definitions is None else Catalog(arguments.definitions)


def filters_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of :func:`.make_filter` from the options of a command.

    Raises UsageError for an unknown time zone.
    """
    filters = {name: getattr(arguments, name) for name in FILTERS if hasattr(arguments, name)}
    zone = zone_named_in(arguments)
    if zone.name:
        of_zone = {name: f"{filters[name]}[{zone.name}]" for name in _TIMES if filters.get(name)}
        filters |= of_zone
    return filters


_TIMES = ("since", "until")


def names_in(arguments: argparse.Namespace) -> AddressNames | None:
    """Return the names of addresses of ``--names``; None without. The files are read once."""
    if not hasattr(arguments, "address_names"):
        files = getattr(arguments, "names", None)
        arguments.address_names = None
        if files:
            from kanalyze.api.name_files import read_names  # imported late: few commands have names

            arguments.address_names = read_names(files)
    names: AddressNames | None = arguments.address_names
    return names


def zone_named_in(arguments: argparse.Namespace) -> Zone:
    """Return the zone of times: that of ``--tz``, or else of this machine.

    Commands without the option have times in UTC. Raises UsageError for an unknown zone.
    """
    if not hasattr(arguments, "tz") or arguments.utc:
        return UTC
    return zone_of(LOCAL if arguments.tz is None else arguments.tz)


def query_folders(arguments: argparse.Namespace) -> list[Path]:
    """Return the folder of ``--queries``, if it is given."""
    from pathlib import Path  # imported late: few commands need it

    return [] if arguments.queries is None else [Path(arguments.queries)]


def report_unread(
    rows: int, arguments: argparse.Namespace, analysis: Analysis | SavedAnalysis
) -> None:
    """Print what the rows may lack: connections with TLS that could not be read, and times.

    If ``rows``, the number of rows that were written, is 0, print why; otherwise also what names
    are missing in them. Call it at the end of the captures.
    """
    if rows:
        report_unnamed_topics(analysis)
    if rows or not _report_none(arguments, analysis):
        report_undecrypted(analysis)
    if analysis.quality.untimed_packets:
        from kanalyze.render.header import untimed_texts  # imported late: all of the header

        for text in untimed_texts(vars(analysis.quality)):
            print_message(text)


def report_undecrypted(analysis: Analysis | SavedAnalysis, about: str = "") -> None:
    """Print how many connections with TLS could not be read, if there are any, and why.

    ``about`` is the beginning of the line.
    """
    quality = analysis.quality
    if not quality.tls_connections and not quality.tls_outcomes:
        return
    from kanalyze.render.missing import undecrypted_text  # imported late: for what is missing

    text = undecrypted_text(quality.tls_connections, quality.tls_outcomes)
    if text is not None:
        print_message(f"{about}{text}")


def _report_none(arguments: argparse.Namespace, analysis: Analysis | SavedAnalysis) -> bool:
    """Print why there are no rows; return whether that says all about connections with TLS."""
    quality, command = analysis.quality, arguments.command
    of_kafka = command not in _NOT_ONLY_KAFKA
    filters = _typed_filters(arguments)
    if of_kafka and not quality.kafka_connections:
        from kanalyze.render.missing import no_kafka_text

        counts = {**vars(quality), "snapped_bytes": quality.snapped_bytes}
        print_message(no_kafka_text(quality.packets, counts))
        return True
    items = "requests" if command in _OF_REQUESTS else command
    print_message(f"no {items} match {' '.join(filters)}" if filters else f"no {items} found")
    return False


def report_unnamed_topics(analysis: Analysis | SavedAnalysis) -> None:
    """Print how to name the topics that rows have only the id of, at the end of the captures."""
    names = getattr(analysis, "names", None)  # a saved file has no names beside its rows
    if names is not None and (names.never_named or names.named_late):
        from kanalyze.render.missing import unnamed_topics_text

        print_message(unnamed_topics_text(names.never_named, names.named_late))


def _typed_filters(arguments: argparse.Namespace) -> list[str]:
    """Return the filters as the user may have typed them."""
    words: list[str] = []
    for option in (*FILTERS, "kind", "finding"):
        value = getattr(arguments, option, None)
        flag = f"--{option.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value:
            import shlex  # imported late: needed only if nothing was found

            values = value if isinstance(value, list) else [value]
            words += [f"{flag} {shlex.quote(str(text))}" for text in values]
    if getattr(arguments, "search", None) is not None:
        words.append("--search")
    return words


def key_log_of(arguments: argparse.Namespace) -> KeyLog | None:
    """Return the secrets of ``--keylog``, or else those in the file that the environment names.

    The variable is meant for the programs that write the file. If the file cannot be used here,
    a message says so, and the command continues.
    """
    file = os.environ.get(KEY_LOG_VARIABLE, "")
    if not arguments.keylog and not paths.exists(file):
        return None
    from kanalyze.tls.keylog import require_ciphers

    if arguments.keylog:
        return read_key_logs(arguments.keylog)
    try:
        require_ciphers()
        return read_key_logs([file])
    except UsageError as error:
        print_message(f"{KEY_LOG_VARIABLE} is ignored: {error}")
        return None


def _jobs(arguments: argparse.Namespace) -> int | None:
    """Return the number of workers; None if the command has no workers."""
    return worker_count(arguments) if hasattr(arguments, "jobs") else None


def worker_count(arguments: argparse.Namespace) -> int:
    """Return ``--jobs``; by default the number of usable cores."""
    if arguments.jobs is not None:
        return int(arguments.jobs)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
