"""``kanalyze extract`` and ``anonymize``: commands that write captures.

Each imports only what it needs, because imports take most of a short command's time.
"""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanalyze.api.inputs import make_filter
from kanalyze.cli.analyze import (
    LeftOutReporter,
    analysis_of,
    catalog_of,
    filters_of,
    key_log_of,
    names_in,
    report_unread,
    worker_count,
)
from kanalyze.cli.console import print_message
from kanalyze.cli.output_checks import output_files
from kanalyze.cli.progress import progress_of
from kanalyze.common.paths import regular_bytes
from kanalyze.common.times import parse_duration_ns
from kanalyze.errors import UsageError, reason_of
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.units import counted

if TYPE_CHECKING:
    import argparse

    from kanalyze.anonymization.anonymize import Anonymized
    from kanalyze.extraction.extract import Extracted, Selected
    from kanalyze.tables.filters import RowFilter


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
    row_filter = make_filter(catalog, names=names_in(arguments), **filters_of(arguments))
    selected = _of_findings(arguments, row_filter) if arguments.finding else Selected([row_filter])
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


def _of_findings(arguments: argparse.Namespace, row_filter: RowFilter) -> Selected:
    """Return the filters of the rows of findings; of a connection's finding, all packets.

    Raises what :func:`~kanalyze.cli.found_rows.found_rows_of` raises.
    """
    from kanalyze.cli.found_rows import found_rows_of
    from kanalyze.extraction.extract import Selected
    from kanalyze.tables.filters import FoundRows

    found = found_rows_of(arguments, analysis_of, worker_count(arguments))
    nothing: frozenset[Any] = frozenset()
    of_requests = found._replace(connections=nothing)
    of_connections = FoundRows(nothing, found.connections, found.connections)
    return Selected([row_filter.among(of_requests)], [row_filter.among(of_connections)])


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
