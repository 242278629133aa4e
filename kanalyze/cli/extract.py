"""``kanalyze extract``: the packets of requests, as a capture."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kanalyze.api.filters import make_filter
from kanalyze.cli.analyze import (
    analysis_of,
    catalog_of,
    filters_of,
    key_log_of,
    report_unread,
    worker_count,
)
from kanalyze.cli.arguments import parser
from kanalyze.cli.console import print_message
from kanalyze.cli.progress import progress_of
from kanalyze.common.texts import known_or_similar
from kanalyze.common.times import parse_duration_ns
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.extraction.extract import Extent, Selected, extract_packets
from kanalyze.render.units import counted
from kanalyze.spec.filters import FILTERS
from kanalyze.tls.keylog import KeyLog

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from kanalyze.cli.progress import Progress
    from kanalyze.extraction.extract import Extracted
    from kanalyze.tables.filters import RowFilter

__all__ = ["extract", "rows_of_finding"]

_WITH_VALUE: Final = {
    "--kind",
    *(flag for each in FILTERS.values() if each.value is not None for flag in each.flags),
}
"""Options of findings that have a value."""


def extract(arguments: argparse.Namespace) -> None:
    """Write the packets of requests to a capture; raises KanalyzeError and OSError."""
    catalog = catalog_of(arguments)
    around_ns = parse_duration_ns(arguments.around) if arguments.around else 0
    extent = Extent(around_ns, arguments.with_handshake, arguments.whole_connections)
    # The packets have users' data, so only the owner may read the file.
    output = partial(OutputFile, arguments.output, private=True, replaces_captures=arguments.force)
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    if arguments.finding:
        selected = _of_findings(arguments, progress)
    else:
        selected = Selected([make_filter(catalog, **filters_of(arguments))])
    analysis = analysis_of(arguments, catalog=catalog, filtered=False)
    with closing(analysis), progress.shown(), progress.reading(analysis, "finding requests"):
        extracted = extract_packets(
            analysis,
            selected,
            output,
            extent,
            key_log=_second_key_log(arguments) if arguments.with_secrets else None,
            watched=partial(progress.reading, phase="writing packets"),
        )
    report_unread(extracted.connections, arguments, analysis)
    if extracted.connections and extracted.untimed:
        print_message(f"{extracted.untimed:,} that match have no times: their packets are left out")
    if extracted.connections and arguments.output != STANDARD_OUTPUT:
        sys.stdout.write(f"{_text(extracted, arguments.output)}\n")
    if extracted.decrypted_connections and not arguments.with_secrets:
        print_message(
            f"{arguments.output}: TLS packets stay encrypted; "
            "--with-secrets adds the secrets that decrypt them"
        )


def _second_key_log(arguments: argparse.Namespace) -> KeyLog:
    """Read the key log of the arguments again; return an empty one if there is none."""
    return key_log_of(arguments) or KeyLog()


def _of_findings(arguments: argparse.Namespace, progress: Progress) -> Selected:
    """Search for findings, and return the filters of their rows.

    Raises UsageError for a finding that does not exist or has no packets.
    """
    from kanalyze.api.reports import names_of, report_on, tables_of
    from kanalyze.api.tables import opened_tables
    from kanalyze.queries.database import DEFAULT_MEMORY_BYTES
    from kanalyze.queries.engine import QueryError
    from kanalyze.queries.findings import finding_kinds

    names = set(arguments.finding)
    kinds = finding_kinds()
    kind_names = sorted(kind.query.name for kind in kinds)
    for name in sorted(names.difference(kind_names)):
        raise UsageError(f"no finding is named {name!r}{known_or_similar(name, kind_names)}")
    kinds = [kind for kind in kinds if kind.query.name in names]
    for kind in kinds:
        if kind.command == "anomalies":
            raise UsageError(
                f"finding {kind.query.name!r} is about data that the capture lacks: there are no "
                "packets to extract; kanalyze anomalies shows where data is missing"
            )
    analysis = analysis_of(arguments)
    tables = opened_tables(
        analysis,
        tables_of(kinds),
        names_of(kinds, has_page=False),
        max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        threads=worker_count(arguments),
        progress=progress.reading(analysis),
    )
    with progress.shown(), tables as filled:
        progress.begin("searching for findings")
        report = report_on(filled, kinds)
    for line in report.get("failed_queries", ()):
        if line["kind"] == "finding":
            raise QueryError(line["reason"], line["name"])
    findings = report["findings"]
    of_requests, of_connections = (
        [rows_of_finding(finding) for finding in findings if finding["command"] == command]
        for command in ("requests", "connections")
    )
    return Selected(of_requests, of_connections)


def rows_of_finding(finding: Mapping[str, Any]) -> RowFilter:
    """Return the filter of the rows that a finding of a report is about, in its span of time.

    All rows that the finding counted match it; others of the same client or API may match too.
    """
    words = _joined(finding["options"])
    options = parser().parse_args([finding["command"], *words, "CAPTURE"])
    row_filter = make_filter(**filters_of(options))
    return row_filter.between(finding["first_time_ns"], finding["last_time_ns"])


def _joined(options: Sequence[str]) -> list[str]:
    """Join options with their values, because a value may begin with a dash."""
    joined: list[str] = []
    for word in options:
        if joined and joined[-1] in _WITH_VALUE:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _text(extracted: Extracted, destination: str) -> str:
    requests, connections = extracted.requests, extracted.connections
    text = f"{destination}: {extracted.packets:,} of {extracted.all_packets:,} packets, of "
    if requests:
        text += f"{counted(requests, 'request')} on "
    text += counted(connections, "connection")
    if extracted.uncommented_requests:
        text += f"; {extracted.uncommented_requests:,} requests are beyond the limit of comments"
    return text
