"""``kanalyze extract``: the packets of requests, as a capture."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from kanalyze.api.filters import make_filter
from kanalyze.cli.analyze import (
    analysis_of,
    catalog_of,
    filters_of,
    progress_bar,
    report_if_none,
)
from kanalyze.common.times import parse_duration_ns
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.extract.extraction import Extent, extract_packets

if TYPE_CHECKING:
    import argparse

    from kanalyze.extract.extraction import Extracted

__all__ = ["extract"]


def extract(arguments: argparse.Namespace) -> None:
    """Write the packets of requests to a capture; raises KanalyzeError and OSError."""
    catalog = catalog_of(arguments)
    around_ns = parse_duration_ns(arguments.around) if arguments.around else 0
    extent = Extent(around_ns, arguments.with_handshake, arguments.whole_connections)
    # Only the owner may read packets: they have what others wrote.
    output = partial(OutputFile, arguments.output, private=True, replaces_captures=arguments.force)
    analysis = analysis_of(arguments, catalog=catalog, filtered=False)
    with closing(analysis), progress_bar(analysis, arguments.output):
        row_filter = make_filter(catalog, **filters_of(arguments))
        extracted = extract_packets(analysis, [row_filter], output, extent)
    report_if_none(extracted.requests, arguments, analysis)
    if extracted.requests and arguments.output != STANDARD_OUTPUT:
        sys.stdout.write(f"{_text(extracted, arguments.output)}\n")


def _text(extracted: Extracted, destination: str) -> str:
    requests, connections = extracted.requests, extracted.connections
    text = (
        f"{destination}: {extracted.packets:,} of {extracted.all_packets:,} packets, of "
        f"{requests:,} {'request' if requests == 1 else 'requests'} on "
        f"{connections:,} {'connection' if connections == 1 else 'connections'}"
    )
    if extracted.uncommented_requests:
        text += f"; {extracted.uncommented_requests:,} requests are too many for comments"
    return text
