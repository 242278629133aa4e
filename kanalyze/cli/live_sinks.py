"""Makes the sinks of ``kanalyze live`` from its arguments.

In: arguments. Out: :class:`~kanalyze.live.run.Sink`.
"""

from __future__ import annotations

from collections import deque
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kanalyze.api.inputs import make_filter
from kanalyze.cli.console import print_message
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.live.window.windows import Windows
from kanalyze.spec.rows.names import NAME_COLUMNS, NAMED_ROWS
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from rich.console import Console

    from kanalyze.live.metrics_server import ListenAddress
    from kanalyze.live.run import FileSink, Sink
    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.names import AddressNames
    from kanalyze.tls.keylog import KeyLog

_NS_PER_S: Final = 1_000_000_000
_PROMETHEUS: Final = "prometheus_client: pip install 'kanalyze[live]'"
_INTERVAL_S: Final = 1.0
_MAX_MESSAGES: Final = 20
"""Maximum number of messages to show after the view ends: the newest."""


class SinkOptions(NamedTuple):
    """The parsed arguments of sinks."""

    save_filters: list[RowFilter]
    listen: ListenAddress | None
    metrics_hosts: Sequence[str]
    interval_ns: int
    otlp: str | None
    """The URL that spans and metrics are sent to."""

    @property
    def has_metrics(self) -> bool:
        """Whether metrics are served or sent."""
        return self.listen is not None or self.otlp is not None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> SinkOptions:
        """Parse arguments; raises UsageError."""
        interval_s = _INTERVAL_S if arguments.interval is None else arguments.interval
        interval_ns = int(interval_s * _NS_PER_S)
        if interval_ns < 1:
            raise UsageError("--interval: use more than 0 seconds")
        return cls(
            _save_filters(arguments),
            _listen(arguments.metrics),
            arguments.metrics_host,
            interval_ns,
            arguments.otlp,
        )


def _save_filters(arguments: argparse.Namespace) -> list[RowFilter]:
    slower_than, errors = arguments.save_slower_than, arguments.save_errors
    filters = [] if slower_than is None else [make_filter(slower_than=slower_than)]
    if errors or not filters:
        filters.append(make_filter(errors=True))
    return filters


def _listen(text: str | None) -> ListenAddress | None:
    if text is None:
        return None
    if find_spec("prometheus_client") is None:
        raise UsageError(f"--metrics needs {_PROMETHEUS}")
    from kanalyze.live.metrics_server import parse_listen

    return parse_listen(text)


class ShownRows(NamedTuple):
    """How rows are shown."""

    output_format: str
    console: Console
    filters: Mapping[str, Any]
    """The filter of rows."""
    warn: Callable[[str], None]
    """Receives messages; see :func:`message_writer`."""
    key_log: KeyLog | None = None
    """The secrets that TLS is decrypted with."""
    zone: Zone = UTC
    names: AddressNames | None = None
    """The names of addresses."""

    def with_names(self) -> Callable[[RowBlock], RowBlock] | None:
        """Return what adds the names to rows; None without names."""
        if self.names is None:
            return None
        from kanalyze.tables.name_columns import NameColumns  # imported late: few runs have names

        return NameColumns(self.names, NAMED_ROWS["requests"]).named

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of rows in files."""
        return COLUMNS if self.names is None else (*COLUMNS, *NAME_COLUMNS)


def make_sinks(
    arguments: argparse.Namespace, options: SinkOptions, shown_rows: ShownRows, stack: ExitStack
) -> Iterator[Sink]:
    """Yield the sinks, the one that shows rows last.

    Their files and servers are open until ``stack`` ends. Raises KanalyzeError and OSError.
    """
    if arguments.write is not None:
        yield _rows_files(arguments, shown_rows)
    if arguments.save is not None:
        yield _packets_files(arguments, options.save_filters, shown_rows)
    if options.has_metrics:
        yield from _metrics(options, shown_rows, stack)
    yield _output(shown_rows, options.interval_ns, stack)


def message_writer(output_format: str, stack: ExitStack) -> Callable[[str], None]:
    """Return a function that writes messages: at once, or after a view when ``stack`` ends."""
    if output_format != "view":
        return print_message
    messages: deque[str] = deque(maxlen=_MAX_MESSAGES)

    def print_all() -> None:
        for line in messages:
            print_message(line)

    stack.callback(print_all)
    return messages.append


def _rows_files(arguments: argparse.Namespace, shown_rows: ShownRows) -> FileSink:
    from kanalyze.live.recorder.files import RollingParquet
    from kanalyze.live.run import ParquetSink

    return ParquetSink(
        RollingParquet(
            arguments.write,
            **_set_limits(
                every_s=None if arguments.write_every is None else int(arguments.write_every),
                max_bytes=arguments.write_size,
                max_files=arguments.write_files,
            ),
            columns=shown_rows.columns,
        ),
        shown_rows.warn,
        shown_rows.with_names(),
    )


def _packets_files(
    arguments: argparse.Namespace, filters: Sequence[RowFilter], shown_rows: ShownRows
) -> FileSink:
    from kanalyze.live.recorder.files import PcapngWriter
    from kanalyze.live.recorder.packet_recorder import PacketRecorder
    from kanalyze.live.run import PacketRecorderSink

    writer = PcapngWriter(
        arguments.save,
        interface=arguments.interface or "-",
        key_log=shown_rows.key_log if arguments.with_secrets else None,
        **_set_limits(max_bytes=arguments.save_size, max_files=arguments.save_files),
    )
    return PacketRecorderSink(PacketRecorder(writer, filters), writer, shown_rows.warn)


def _set_limits(**limits: int | None) -> dict[str, Any]:
    """Return the limits that are set; for the others the defaults apply."""
    return {name: limit for name, limit in limits.items() if limit is not None}


def _metrics(options: SinkOptions, shown_rows: ShownRows, stack: ExitStack) -> Iterator[Sink]:
    """Yield what counts metrics, serves them, and sends them with spans."""
    registry = None
    if find_spec("prometheus_client") is None:
        print_message(f"--otlp sends spans alone: metrics need {_PROMETHEUS}")
    else:
        from prometheus_client.process_collector import ProcessCollector

        from kanalyze.live.metrics import Metrics

        metrics = Metrics(names=shown_rows.names)
        registry = metrics.registry
        # The start time, memory and CPU time of the process, by their usual names.
        ProcessCollector(registry=registry)
        yield metrics
    if options.listen is not None:
        from kanalyze.live.metrics_server import MetricsServer

        assert registry is not None, "checked with the address"
        server = MetricsServer(registry, options.listen, options.metrics_hosts)
        print_message(f"metrics: {stack.enter_context(server).url}")
    if options.otlp is not None:
        from kanalyze.live.run import OtlpSink

        yield OtlpSink(options.otlp, shown_rows.warn, registry)


def _output(shown_rows: ShownRows, interval_ns: int, stack: ExitStack) -> Sink:
    if shown_rows.output_format == "view":
        from kanalyze.live.view.terminal import Terminal
        from kanalyze.live.view.view import ViewController

        return ViewController(
            Windows(keeps_rows=True),
            stack.enter_context(Terminal(shown_rows.console)),
            filters=shown_rows.filters,
            zone=shown_rows.zone,
            names=shown_rows.names,
        )
    if shown_rows.output_format == "jsonl":
        from kanalyze.live.rate_jsonl import RatesWriter

        stream = stack.enter_context(OutputFile(STANDARD_OUTPUT)).file
        return RatesWriter(Windows(), stream, interval_ns=interval_ns, names=shown_rows.names)
    from kanalyze.export.text_files import JsonLinesWriter
    from kanalyze.live.run import RowsSink

    rows = stack.enter_context(JsonLinesWriter(STANDARD_OUTPUT, shown_rows.columns))
    change = shown_rows.with_names()

    def write(block: RowBlock) -> None:
        rows.write_block(block if change is None else change(block))

    return RowsSink(write, rows.output.file.flush)
