"""``kanalyze extract`` and ``anonymize``: commands that write captures.

Each imports only what it needs, because imports take most of a short command's time.
"""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kanalyze.api.inputs import make_filter
from kanalyze.cli.analyze import (
    LeftOutReporter,
    analysis_of,
    catalog_of,
    filters_of,
    key_log_of,
    opened_tables_of,
    report_unread,
    worker_count,
)
from kanalyze.cli.arguments import parser
from kanalyze.cli.console import print_message
from kanalyze.cli.output_checks import output_files
from kanalyze.cli.progress import progress_of
from kanalyze.common.paths import regular_bytes
from kanalyze.common.texts import known_or_similar
from kanalyze.common.times import parse_duration_ns
from kanalyze.errors import UsageError, reason_of
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.units import counted
from kanalyze.spec.filters import FILTERS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from kanalyze.anonymization.anonymize import Anonymized
    from kanalyze.cli.progress import Progress
    from kanalyze.extraction.extract import Extracted, Selected
    from kanalyze.tables.filters import RowFilter

__all__ = ["anonymize", "extract", "rows_of_finding"]

_WITH_VALUE: Final = {
    "--kind",
    *(flag for each in FILTERS.values() if each.value is not None for flag in each.flags),
}
"""Options of findings that have a value."""


def extract(arguments: argparse.Namespace) -> None:
    """Write the packets of requests to a capture; raises KanalyzeError and OSError."""
    from kanalyze.extraction.extract import Extent, Selected, extract_packets
    from kanalyze.tls.keylog import KeyLog

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
            key_log=(key_log_of(arguments) or KeyLog()) if arguments.with_secrets else None,
            watched=partial(progress.reading, phase="writing packets"),
        )
    report_unread(extracted.connections, arguments, analysis)
    if extracted.connections and extracted.untimed:
        print_message(f"{extracted.untimed:,} that match have no times: their packets are left out")
    if extracted.connections and arguments.output != STANDARD_OUTPUT:
        sys.stdout.write(f"{_extracted_text(extracted, arguments.output)}\n")
    if extracted.decrypted_connections and not arguments.with_secrets:
        print_message(
            f"{arguments.output}: TLS packets stay encrypted; "
            "--with-secrets adds the secrets that decrypt them"
        )


def _of_findings(arguments: argparse.Namespace, progress: Progress) -> Selected:
    """Search for findings, and return the filters of their rows.

    Raises UsageError for a finding that does not exist or has no packets.
    """
    from kanalyze.api.reports import names_of, report_on, tables_of
    from kanalyze.extraction.extract import Selected
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
    columns = names_of(kinds, has_page=False)
    tables = opened_tables_of(arguments, analysis, progress, tables_of(kinds), columns)
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


def _extracted_text(extracted: Extracted, destination: str) -> str:
    requests, connections = extracted.requests, extracted.connections
    text = f"{destination}: {extracted.packets:,} of {extracted.all_packets:,} packets, of "
    if requests:
        text += f"{counted(requests, 'request')} on "
    text += counted(connections, "connection")
    if extracted.uncommented_requests:
        text += f"; {extracted.uncommented_requests:,} requests are beyond the limit of comments"
    return text


DIFFERENT = 1
_FILE = "@"


def anonymize(arguments: argparse.Namespace) -> int:
    """Write a capture without names, addresses and contents; raises KanalyzeError and OSError.

    Returns 1 if more than names differs in it, else 0.
    """
    from kanalyze.anonymization.anonymize import Anonymization, key_of

    limits = {} if arguments.max_memory is None else {"max_memory_bytes": arguments.max_memory}
    anonymization = Anonymization(
        arguments.captures,
        key_of(_key(arguments.key)),
        strips_records=arguments.strip_records,
        ports=arguments.port,
        catalog=catalog_of(arguments),
        leave_out=LeftOutReporter(),
        outputs=output_files(arguments),
        jobs=worker_count(arguments),
        **limits,
    )
    # Times and sizes may still say something about a network to those who know it, so only the
    # owner may read the file.
    output = partial(OutputFile, arguments.output, private=True, replaces_captures=arguments.force)
    progress = progress_of(arguments, arguments.output, is_streamed=True)
    with progress.shown(), progress.reading(anonymization, "reading and writing"):
        done = anonymization.run(output)
        if regular_bytes(arguments.output) is not None:
            check = anonymization.check(arguments.output)
            with progress.reading(check, "comparing"):
                done = done._replace(differences=check.differences())
    if arguments.output != STANDARD_OUTPUT:
        sys.stdout.write(f"{_anonymized_text(done, arguments.output)}\n")
    if done.differences is None:
        print_message(f"{arguments.output}: not compared with the captures: it is no file")
    for line in done.differences or ():
        print_message(f"{arguments.output}: more than names differs: {line}")
    return DIFFERENT if done.differences else 0


def _key(text: str | None) -> bytes | None:
    """Return the key: the text of ``--key``, or the content of the file that it names."""
    if text is None or not text.startswith(_FILE):
        return None if text is None else text.encode("utf-8", "surrogateescape")
    try:
        return Path(text[1:]).read_bytes().strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"--key: {text[1:]}: {reason_of(error)}") from error


def _anonymized_text(done: Anonymized, destination: str) -> str:
    text = (
        f"{destination}: {counted(done.packets, 'packet')}, {counted(done.messages, 'message')} on "
        f"{counted(done.connections, 'Kafka connection')}"
    )
    if done.unread_messages:
        text += f"; {done.unread_messages:,} could not be read to the end: their rest is blanked"
    if done.unread_batches:
        text += f"; {done.unread_batches:,} batches of records are blanked completely"
    return text
