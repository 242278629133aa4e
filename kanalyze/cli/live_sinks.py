"""What becomes of the rows and packets of ``kanalyze live``: shown, counted, kept.

In: arguments. Out: :class:`~kanalyze.live.run.Sink`. This module must not know where packets come
from.
"""

from __future__ import annotations

from collections import deque
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kanalyze.api.filters import make_filter
from kanalyze.cli.messages import print_message
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.live.window.windows import Windows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import ExitStack

    from rich.console import Console

    from kanalyze.live.metrics.server import ListenAddress
    from kanalyze.live.run import Sink
    from kanalyze.live.sinks import FilesSink
    from kanalyze.tables.filters import RowFilter

__all__ = ["Wanted", "make_sinks"]

_NS_PER_S: Final = 1_000_000_000
_INTERVAL_S: Final = 1.0
_MOST_TOLD: Final = 20


class Wanted(NamedTuple):
    """What is to become of rows and packets, where it is said in words."""

    kept: list[RowFilter]
    listen: ListenAddress | None
    names: Sequence[str]
    """By which this machine may be asked for metrics."""
    interval_ns: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Wanted:
        """Read arguments; raises UsageError."""
        interval_s = _INTERVAL_S if arguments.interval is None else arguments.interval
        interval_ns = int(interval_s * _NS_PER_S)
        if interval_ns < 1:
            raise UsageError("--interval: more than 0 seconds")
        names = arguments.metrics_host or ()
        return cls(_kept(arguments), _listen(arguments.metrics), names, interval_ns)


def _kept(arguments: argparse.Namespace) -> list[RowFilter]:
    slower_than, errors = arguments.save_slower_than, arguments.save_errors
    kept = [] if slower_than is None else [make_filter(slower_than=slower_than)]
    if errors or not kept:
        kept.append(make_filter(errors_only=True))
    return kept


def _listen(text: str | None) -> ListenAddress | None:
    if text is None:
        return None
    if find_spec("prometheus_client") is None:
        raise UsageError("--metrics needs prometheus_client: pip install 'kanalyze[live]'")
    from kanalyze.live.metrics.server import parse_listen

    return parse_listen(text)


def make_sinks(
    arguments: argparse.Namespace, wanted: Wanted, chosen: str, console: Console, stack: ExitStack
) -> Iterator[Sink]:
    """Make one after another what was asked for; what is shown comes last.

    ``chosen`` is its format. What they need is open until ``stack`` is left. Raises KanalyzeError
    and OSError.
    """
    say = _teller(chosen, stack)
    files: list[FilesSink] = []
    if arguments.write is not None:
        files.append(_rows_files(arguments, say))
        yield files[-1]
    if arguments.save is not None:
        files.append(_packets_files(arguments, wanted.kept, say))
        yield files[-1]
    if wanted.listen is not None:
        yield _metrics(wanted.listen, wanted.names, files, stack)
    yield _output(chosen, wanted.interval_ns, files, console, stack)


def _teller(chosen: str, stack: ExitStack) -> Callable[[str], None]:
    """Return what tells a line: at once, or where a view is drawn, the last ones after it."""
    if chosen != "view":
        return print_message
    told: deque[str] = deque(maxlen=_MOST_TOLD)

    def tell_all() -> None:
        for line in told:
            print_message(line)

    stack.callback(tell_all)
    return told.append


def _rows_files(arguments: argparse.Namespace, say: Callable[[str], None]) -> FilesSink:
    from kanalyze.live.recorder.rolling_parquet import RollingRows
    from kanalyze.live.sinks import RollingSink

    return RollingSink(
        RollingRows(
            arguments.write,
            **_given(
                every_s=None if arguments.write_every is None else int(arguments.write_every),
                most_bytes=arguments.write_size,
                most_files=arguments.write_files,
            ),
        ),
        say,
    )


def _packets_files(
    arguments: argparse.Namespace, kept: Sequence[RowFilter], say: Callable[[str], None]
) -> FilesSink:
    from kanalyze.live.recorder.packet_recorder import PacketKeeper
    from kanalyze.live.recorder.pcapng_writer import PcapngWriter
    from kanalyze.live.sinks import KeepSink

    writer = PcapngWriter(
        arguments.save,
        interface=arguments.interface or "-",
        **_given(most_bytes=arguments.save_size, most_files=arguments.save_files),
    )
    return KeepSink(PacketKeeper(writer, kept), writer, say)


def _given(**limits: int | None) -> dict[str, Any]:
    """Return the limits that were given; the others are as they are by themselves."""
    return {name: limit for name, limit in limits.items() if limit is not None}


def _metrics(
    where: ListenAddress, names: Sequence[str], files: Sequence[FilesSink], stack: ExitStack
) -> Sink:
    from prometheus_client.process_collector import ProcessCollector

    from kanalyze.live.metrics.counters import Metrics
    from kanalyze.live.metrics.server import MetricsServer
    from kanalyze.live.sinks import MetricsSink

    metrics = Metrics()
    # Since when it runs, its memory and its time, by the names that all programs have for them.
    ProcessCollector(registry=metrics.registry)
    server = stack.enter_context(MetricsServer(metrics.registry, where, names))
    print_message(f"metrics: {server.url}")
    return MetricsSink(metrics, files)


def _output(
    chosen: str,
    interval_ns: int,
    files: Sequence[FilesSink],
    console: Console,
    stack: ExitStack,
) -> Sink:
    from kanalyze.live.sinks import LinesSink, RowsSink, ViewSink

    if chosen == "view":
        from kanalyze.live.view.controller import LiveView
        from kanalyze.live.view.terminal import Terminal

        windows = Windows()
        view = LiveView(windows, stack.enter_context(Terminal(console)))
        return ViewSink(windows, view, files)
    if chosen == "jsonl":
        from kanalyze.live.rate_jsonl import RateLines

        windows = Windows()
        stream = stack.enter_context(OutputFile(STANDARD_OUTPUT)).file
        return LinesSink(windows, RateLines(windows, stream, interval_ns=interval_ns), files)
    from kanalyze.export.jsonl import JsonLinesWriter

    writer = stack.enter_context(JsonLinesWriter(STANDARD_OUTPUT))
    return RowsSink(writer.write_block, writer.output.file.flush)
