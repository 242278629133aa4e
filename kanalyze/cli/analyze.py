"""From arguments to rows: what all commands that read captures have in common.

In: parsed arguments. Out: batches of rows. This module must not know what is done with them.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kanalyze.library import make_filter
from kanalyze.pipeline import Analysis

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kanalyze.analysis.row import Row

__all__ = ["analysis_of", "with_progress"]

_PATIENCE_S = 1.0
_REFRESH_S = 0.1


def analysis_of(arguments: argparse.Namespace) -> Analysis:
    """Return the analysis that arguments ask for; raises UsageError."""
    row_filter = make_filter(
        apis=arguments.api,
        client_ids=arguments.client_id,
        client_ips=arguments.client_ip,
        brokers=arguments.broker,
        topics=arguments.topic,
        groups=arguments.group,
        errors_only=arguments.errors,
        slower_than=arguments.slower_than,
        since=arguments.since,
        until=arguments.until,
    )
    return Analysis(
        arguments.captures,
        row_filter=row_filter,
        ports=arguments.port,
        brokers=arguments.broker,
    )


def with_progress(analysis: Analysis, *, wanted: bool = True) -> Iterator[list[Row]]:
    """Give an analysis's rows, with a progress bar on standard error once it takes a while.

    There is none when it is not wanted or standard error is no terminal.
    """
    if not (wanted and sys.stderr.isatty()):
        yield from analysis.row_batches()
        return
    with _bar(analysis):
        yield from analysis.row_batches()


@contextmanager
def _bar(analysis: Analysis) -> Iterator[None]:
    """Show a bar while the block runs, from its second second on.

    A thread looks at the progress: a filter that lets few rows pass gives few occasions to.
    """
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(analysis, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(analysis: Analysis, done: threading.Event) -> None:
    if done.wait(_PATIENCE_S):
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        # Standard output is for rows: nothing written there may go through the bar.
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        task = progress.add_task("")
        while not done.wait(_REFRESH_S):
            completed, total = analysis.progress
            progress.update(task, completed=completed, total=total)
