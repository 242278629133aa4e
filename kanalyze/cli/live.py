"""``kanalyze live``."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from kanalyze.api.inputs import make_filter, read_topic_ids
from kanalyze.cli.analyze import filters_of, names_in, query_folders, zone_named_in
from kanalyze.cli.console import print_message
from kanalyze.cli.live_feed import GivenUpReporter, key_logs_of, open_feed
from kanalyze.cli.live_sinks import ShownRows, SinkOptions, make_sinks, message_writer
from kanalyze.cli.report import ReportLayout, write_report
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.live.privileges import give_up_root
from kanalyze.live.run import IDLE_NS, LiveRun
from kanalyze.live.window.snapshot import PIPE
from kanalyze.queries.findings import finding_kinds, with_thresholds
from kanalyze.queries.report_names import add_names
from kanalyze.render.json import summary_json
from kanalyze.render.report_tables import TableOrder
from kanalyze.runtime.memory import DEFAULT_MEMORY_BYTES
from kanalyze.runtime.pipeline import Analysis

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import FrameType

    from kanalyze.live.kept_rows import KeptRows
    from kanalyze.live.run import Sink
    from kanalyze.queries.findings import FindingKind
    from kanalyze.tables.filters import RowFilter

_TARGETS: Final = {"write": "folder", "save": "file", "json": "file"}
"""What the value of each option for files names."""
_OF_WRITE: Final = ("write_every", "write_size", "write_files")
_OF_METRICS: Final = ("metrics_host",)
_OF_SAVE: Final = ("with_secrets", "save_errors", "save_slower_than", "save_size", "save_files")
_MAX_BUFFER_BYTES: Final = 4 << 30
"""Maximum in bytes. With a larger buffer the kernel searches for memory for a minute."""


def live(arguments: argparse.Namespace) -> None:
    """Show the requests on an interface or in a pipe until it ends; then report them.

    Raises KanalyzeError and OSError.
    """
    from rich.console import Console

    from kanalyze.live.view.terminal import can_draw

    if arguments.interface == PIPE:
        arguments.interface = None  # as tshark and tcpdump take it
    console = Console(markup=False, emoji=False, highlight=False)
    output_format = arguments.format or ("view" if can_draw(console) else "jsonl")
    _check_arguments(arguments, output_format)
    if output_format == "view" and not can_draw(console):
        raise UsageError("--format view: there is no terminal to draw on")
    kinds = _finding_kinds(arguments, output_format)
    with ExitStack() as stack:
        warn = message_writer(output_format, stack)
        catalog = Catalog(arguments.definitions)
        names, zone = names_in(arguments), zone_named_in(arguments)
        row_filter = make_filter(catalog, names=names, **_filters(arguments))
        shown = ShownRows(
            *(output_format, console, row_filter.conditions, warn),
            zone=zone,
            names=names,
        )
        run = _prepared(arguments, shown, catalog, row_filter, stack)
        if kinds is None:
            run(None)
            return
        # Imported late: rows without a report do not need these.
        from kanalyze.live.kept_rows import FindingSearch, KeptRows

        kept_rows = KeptRows(FindingSearch(kinds, warn, row_filter.conditions))

        def report() -> dict[str, Any]:
            made = run(kept_rows) or {}
            add_names(made, names)
            return made

        if output_format == "view":
            write_report(arguments.json, report, layout=ReportLayout(TableOrder(zone=zone)))
        elif arguments.json is None:
            run(kept_rows)
        else:
            with OutputFile(arguments.json) as output:
                output.file.write(summary_json(report()).encode("ascii"))


def _check_arguments(arguments: argparse.Namespace, output_format: str) -> None:
    """Raise UsageError for arguments that contradict each other; ``output_format`` is in use."""
    _check_targets(arguments)
    _check_main_option(arguments, _OF_WRITE, "write", "writes rows")
    _check_main_option(arguments, _OF_METRICS, "metrics", "serves metrics")
    _check_main_option(arguments, _OF_SAVE, "save", "writes packets")
    if arguments.write_every is not None and arguments.write_every < 1:
        raise UsageError("--write-every: use at least 1 second")
    if arguments.interval is not None and output_format != "jsonl":
        raise UsageError(f"--interval needs --format jsonl; the format is {output_format}")
    if arguments.json == STANDARD_OUTPUT and output_format != "view":
        raise UsageError(
            f"--json - and --format {output_format} would both use standard output: use --json FILE"
        )
    if not 0 < arguments.buffer <= _MAX_BUFFER_BYTES:
        raise UsageError("--buffer: use more than 0 and at most 4G")


def _check_targets(arguments: argparse.Namespace) -> None:
    for name, kind in _TARGETS.items():
        target = getattr(arguments, name)
        is_stream = target == STANDARD_OUTPUT and name != "json"
        # An empty name comes from a shell variable that is not set.
        if target == "" or is_stream:
            raise UsageError(f"--{name}: not the name of a {kind}: {target!r}")


def _check_main_option(
    arguments: argparse.Namespace, names: tuple[str, ...], main_option: str, effect: str
) -> None:
    """Raise UsageError for an option of ``names`` without the option that it belongs to."""
    if getattr(arguments, main_option) is not None:
        return
    for name in names:
        if getattr(arguments, name) not in (None, False, []):
            raise UsageError(f"--{name.replace('_', '-')} needs --{main_option}, which {effect}")


def _prepared(
    arguments: argparse.Namespace,
    output_rows: ShownRows,
    catalog: Catalog,
    row_filter: RowFilter,
    stack: ExitStack,
) -> Callable[[KeptRows | None], dict[str, Any] | None]:
    """Do all steps that need root, then return the function that runs.

    Files are created later, by that function.
    """
    # Wrong arguments are reported before anything is opened.
    sink_options = SinkOptions.of(arguments)
    topic_ids = read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None
    # As root: the user who called sudo may not be allowed to read the key logs.
    keys = key_logs_of(arguments, output_rows.warn)
    if keys is not None:
        stack.callback(keys.close)
    given_up_reporter = GivenUpReporter(output_rows.warn)
    is_interface = arguments.interface is not None
    opened = open_feed(arguments, output_rows.output_format, stack) if is_interface else None
    message = give_up_root(may_capture=is_interface)
    if message is not None:
        print_message(message)

    def run(kept: KeptRows | None) -> dict[str, Any] | None:
        signals = _StopSignals(arguments.duration)
        with ExitStack() as stack:
            stack.enter_context(signals.handled())
            feed, name, filters = opened or open_feed(arguments, output_rows.output_format, stack)
            stack.callback(given_up_reporter.end)
            shown_rows = output_rows._replace(key_log=None if keys is None else keys.log)
            sinks = _sinks(make_sinks(arguments, sink_options, shown_rows, stack))
            watch = None
            if kept is not None and (
                sink_options.has_metrics or shown_rows.output_format != "rows"
            ):
                from kanalyze.live.kept_rows import FindingsWatch  # imported late, as above

                watch = FindingsWatch(kept)
            live_run = LiveRun(
                feed,
                name,
                sinks,
                clock_ns=time.monotonic_ns,
                is_over=lambda: signals.is_over,
                should_roll=signals.should_roll,
                now_ns=time.time_ns(),
                conditions=_conditions(arguments),
                kept=kept,
                watch=watch,
                has_report=output_rows.output_format == "view" or arguments.json is not None,
                keys=keys,
                filters=filters,
                on_given_up=given_up_reporter.add,
            )
            analysis = Analysis(
                (),
                source=live_run.source,
                row_filter=row_filter,
                ports=arguments.port,
                brokers=arguments.broker,
                topic_ids=topic_ids,
                catalog=catalog,
                max_memory_bytes=DEFAULT_MEMORY_BYTES
                if arguments.max_memory is None
                else arguments.max_memory,
                idle_ns=IDLE_NS,
                on_tokens=live_run.redact,
                keylog=None if keys is None else keys.log,
            )
            return live_run.run(analysis)

    return run


def _finding_kinds(arguments: argparse.Namespace, output_format: str) -> list[FindingKind] | None:
    """Return the findings to search for; None if nothing shows them. Raises UsageError."""
    shown = (arguments.json, arguments.metrics, arguments.otlp)
    if output_format == "rows" and shown == (None, None, None):
        for name in ("queries", "threshold"):
            if getattr(arguments, name):
                raise UsageError(f"--{name}: --format rows shows no findings: use --json as well")
        return None
    return with_thresholds(finding_kinds(*query_folders(arguments)), dict(arguments.threshold))


def _sinks(new_sinks: Iterator[Sink]) -> list[Sink]:
    """Return all sinks; if one cannot be made, close the others."""
    sinks: list[Sink] = []
    with ExitStack() as closing:
        for sink in new_sinks:
            closing.callback(sink.close)
            sinks.append(sink)
        closing.pop_all()  # the run closes them from now on
    return sinks


def _conditions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the filters of packets, for the report."""
    filters = {"port": arguments.port, "host": arguments.host, "filter": arguments.filter}
    return {name: value for name, value in filters.items() if value}


def _filters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the filters of rows; a port is a filter of packets."""
    return {name: value for name, value in filters_of(arguments).items() if name != "port"}


class _StopSignals:
    """Records whether signals or ``--duration`` end the run, and whether to start new files."""

    def __init__(self, duration_s: float | None) -> None:
        self._until = None if duration_s is None else time.monotonic() + duration_s
        self._is_stopped = False
        self._should_roll = False
        self._had_terminal = False
        """True if the run must end when its terminal is closed."""

    @property
    def is_over(self) -> bool:
        """True if the run has to end."""
        return self._is_stopped or (self._until is not None and time.monotonic() >= self._until)

    def should_roll(self) -> bool:
        """Return true if new files were asked for since the last call."""
        should_roll, self._should_roll = self._should_roll, False
        return should_roll

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals during the block; a second signal interrupts the end of the run."""
        kinds = [signal.SIGINT, signal.SIGTERM]
        before = {kind: signal.signal(kind, self._end) for kind in kinds}
        if hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
            # If nohup started the run, it continues without the terminal.
            self._had_terminal = before[signal.SIGHUP] != signal.SIG_IGN and _has_terminal()
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler
        if self._is_stopped:
            raise KeyboardInterrupt
        self._is_stopped = True

    def _hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as above
        # SIGHUP means either that the user wants new files, or that the terminal was closed.
        if self._had_terminal and not _has_terminal():
            self._is_stopped = True
        else:
            self._should_roll = True


def _has_terminal() -> bool:
    """Return true if the process has a terminal, even if none of its streams is one."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
