"""``kanalyze save``: writes the tables of captures to a file."""

from __future__ import annotations

import signal
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from kanalyze.api.saving import save_tables
from kanalyze.cli.analyze import analysis_of, report_if_none
from kanalyze.cli.console import print_message
from kanalyze.cli.progress import progress_of
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["save"]


def save(arguments: argparse.Namespace) -> None:
    """Write the tables of captures to a file; raises KanalyzeError and OSError."""
    analysis = analysis_of(arguments)
    progress = progress_of(arguments)
    with _exit_on_sigterm(), closing(analysis), progress.shown(), progress.reading(analysis):
        requests = save_tables(
            analysis,
            arguments.output,
            _options(arguments),
            max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        )
    print_message(f"{arguments.output}: has all tables but records, which are users' data")
    report_if_none(requests, arguments, analysis)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that change how captures are read, to be stored in the file."""
    return {name: getattr(arguments, name) for name in ("port", "topic_ids", "definitions")}


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process like an error, so that unfinished files are removed."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
