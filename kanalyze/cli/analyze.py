"""From arguments to rows: what all commands that read captures have in common.

In: parsed arguments. Out: batches of rows. This module must not know what is done with them.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kanalyze.api.library import make_filter, read_topic_ids
from kanalyze.cli.messages import print_message
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.render.nothing import no_kafka_text
from kanalyze.runtime.pipeline import Analysis

if TYPE_CHECKING:
    import argparse
    import threading
    from collections.abc import Iterator

    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.model.anomalies import Anomaly

__all__ = ["analysis_of", "catalog_of", "filters_of", "progress_bar", "tell_if_none"]

_FILTERS = {
    "apis": "api",
    "client_ids": "client_id",
    "client_ips": "client_ip",
    "brokers": "broker",
    "ports": "port",
    "topics": "topic",
    "groups": "group",
    "errors_only": "errors",
    "slower_than": "slower_than",
    "since": "since",
    "until": "until",
}
"""Conditions of a filter, and the arguments that give them."""
_MOST_TOLD = 10
_NOT_KAFKA_ALONE = ("connections", "anomalies")
"""Commands with rows of what is no Kafka too."""
_PATIENCE_S = 1.0
_REFRESH_S = 0.1


def analysis_of(
    arguments: argparse.Namespace, *, keep: KeepsBytes | None = None, catalog: Catalog | None = None
) -> Analysis:
    """Return the analysis that arguments ask for; raises UsageError and DefinitionError.

    ``keep`` tells whose messages' bytes are wanted, as in
    :class:`~kanalyze.runtime.pipeline.Analysis`; ``catalog`` is for those who made one with
    ``arguments.definitions`` before.
    """
    if catalog is None:
        catalog = catalog_of(arguments)
    row_filter = make_filter(catalog, **filters_of(arguments))
    given: dict[str, Any] = {
        "keep": keep,
        "catalog": catalog,
        "max_memory_bytes": arguments.max_memory,
        "jobs": _jobs(arguments),
    }
    return Analysis(
        arguments.captures,
        row_filter=row_filter,
        ports=arguments.port,
        brokers=arguments.broker,
        topic_ids=read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None,
        leave_out=_TellsOfFew(),
        **{name: value for name, value in given.items() if value is not None},
    )


class _TellsOfFew:
    """Tells of files that are left out, a line each, and of many that there are more."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, anomaly: Anomaly) -> None:
        self._told += 1
        if self._told <= _MOST_TOLD:
            print_message(f"left out: {anomaly.detail}")
        elif self._told == _MOST_TOLD + 1:
            print_message(
                "more files are left out; kanalyze anomalies --kind capture_unreadable lists them"
            )


def catalog_of(arguments: argparse.Namespace) -> Catalog | None:
    """Return what Kafka speaks where arguments add to it; raises DefinitionError."""
    return None if arguments.definitions is None else Catalog(arguments.definitions)


def filters_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what :func:`.make_filter` takes; not every command has all of it."""
    return {
        name: getattr(arguments, option)
        for name, option in _FILTERS.items()
        if hasattr(arguments, option)
    }


def tell_if_none(rows: int, arguments: argparse.Namespace, analysis: Analysis) -> None:
    """Say on standard error that nothing was written, and why; ``rows`` is how many were.

    To be called when all was read.
    """
    if rows:
        return
    quality, command = analysis.quality, arguments.command
    of_kafka = command not in _NOT_KAFKA_ALONE
    given = _given_filters(arguments)
    if of_kafka and not quality.kafka_connections:
        print_message(
            no_kafka_text(
                packets=quality.packets,
                connections=quality.connections,
                tls_connections=quality.tls_connections,
                other_connections=quality.other_connections,
                snapped_bytes=quality.snapped_bytes,
            )
        )
        return
    what = "requests" if command == "decode" else command
    print_message(f"no {what} match {' '.join(given)}" if given else f"no {what} found")


def _given_filters(arguments: argparse.Namespace) -> list[str]:
    """Return the filters as somebody would type them."""
    words: list[str] = []
    for option in (*_FILTERS.values(), "kind"):
        value = getattr(arguments, option, None)
        flag = f"--{option.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value:
            several = value if isinstance(value, list) else [value]
            words += [f"{flag} {_quoted(each)}" for each in several]
    return words


def _quoted(value: object) -> str:
    import shlex  # not for those who find something

    return shlex.quote(str(value))


def _jobs(arguments: argparse.Namespace) -> int | None:
    """Return how many workers are asked for; the cores that may be used where nobody said it."""
    if not hasattr(arguments, "jobs"):
        return None  # a command that has no use for more than one
    if arguments.jobs is not None:
        return int(arguments.jobs)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def progress_bar(analysis: Analysis, *, wanted: bool = True) -> Iterator[None]:
    """Show a bar on standard error while the block runs, from its second second on.

    There is none when it is not wanted or standard error is no terminal. A thread looks at the
    progress: a filter that lets few rows pass gives few occasions to.
    """
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    import threading  # slow to import, and only a terminal has a bar

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
