"""``kanalyze live``."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kanalyze.cli.main import tell
from kanalyze.cli.report import write_report
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.library import make_filter, read_topic_ids
from kanalyze.live.run import LiveRun
from kanalyze.live.windows import Windows
from kanalyze.pipeline import Analysis
from kanalyze.protocol.catalog import Catalog
from kanalyze.render.json import summary_json
from kanalyze.stages import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from rich.console import Console

    from kanalyze.analysis.filters import RowFilter
    from kanalyze.live.metrics_server import ListenAddress
    from kanalyze.live.run import Feed, Sink

__all__ = ["live"]

_NS_PER_S = 1_000_000_000


def live(arguments: argparse.Namespace) -> None:
    """Show what goes over an interface, or through a pipe, until it ends; then report it.

    Raises KanalyzeError and OSError.
    """
    from rich.console import Console

    from kanalyze.live.terminal import can_draw

    console = Console(markup=False, emoji=False, highlight=False)
    chosen = arguments.format or ("view" if can_draw(console) else "jsonl")
    if chosen == "view":
        if not can_draw(console):
            raise UsageError("--format view: there is no terminal to draw on")
        write_report(arguments.json, lambda: _run(arguments, chosen, console))
        return
    # Lines stand alone on standard output.
    if arguments.json == STANDARD_OUTPUT:
        raise UsageError(f"--json - and lines ({chosen}) would both be on standard output")
    if arguments.json is None:
        _run(arguments, chosen, console)
        return
    with OutputFile(arguments.json) as output:
        output.file.write(summary_json(_run(arguments, chosen, console)).encode("ascii"))


def _run(arguments: argparse.Namespace, chosen: str, console: Console) -> dict[str, Any]:
    # What can be wrong with what was asked for is told before anything is opened.
    wanted = _Wanted.of(arguments)
    catalog = Catalog(arguments.definitions)
    topic_ids = read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None
    flags = _Flags(arguments.duration)
    with ExitStack() as stack:
        stack.enter_context(flags.heeded())
        feed, name = _feed(arguments, stack)
        sinks: list[Sink] = []
        with ExitStack() as closing:
            for sink in _sinks(arguments, wanted, chosen, console, stack):
                closing.callback(sink.close)
                sinks.append(sink)
            closing.pop_all()  # the run closes them from here on
        run = LiveRun(
            feed,
            name,
            sinks,
            clock_ns=time.monotonic_ns,
            is_over=lambda: flags.is_over,
            wants_roll=flags.take_roll,
            now_ns=time.time_ns(),
        )
        most = arguments.max_memory
        analysis = Analysis(
            (),
            source=run.source,
            ports=arguments.port,
            topic_ids=topic_ids,
            catalog=catalog,
            max_memory_bytes=DEFAULT_MEMORY_BYTES if most is None else most,
        )
        return run.run(analysis)


class _Flags:
    """What signals, and the time, ask for."""

    def __init__(self, duration_s: float | None) -> None:
        self._until = None if duration_s is None else time.monotonic() + duration_s
        self._is_told = False
        self._wants_roll = False

    @property
    def is_over(self) -> bool:
        """Whether the run is to end."""
        return self._is_told or (self._until is not None and time.monotonic() >= self._until)

    def take_roll(self) -> bool:
        """Tell whether new files were asked for since the last call."""
        wanted, self._wants_roll = self._wants_roll, False
        return wanted

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed signals meanwhile; an interrupt while it ends is an interrupt."""
        kinds = [signal.SIGINT, signal.SIGTERM]
        before = {kind: signal.signal(kind, self._end) for kind in kinds}
        if hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._roll)
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal's
        if self._is_told:
            raise KeyboardInterrupt
        self._is_told = True

    def _roll(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal's
        self._wants_roll = True


# -- what is captured -----------------------------------------------------------------------------


def _feed(arguments: argparse.Namespace, stack: ExitStack) -> tuple[Feed, str]:
    if arguments.interface is None:
        from kanalyze.capture.pipe import PipeCapture

        if arguments.host or arguments.filter:
            raise UsageError("what comes through a pipe is captured elsewhere: filter it there")
        return stack.enter_context(PipeCapture(_standard_input(), name="-")), "-"
    from kanalyze.capture.interfaces import link_type_of
    from kanalyze.capture.live import LiveCapture
    from kanalyze.capture.live_filter import port_filter
    from kanalyze.live.feeds import InterfaceFeed

    interface = arguments.interface
    conditions = [arguments.filter] if arguments.filter else []
    if arguments.port or arguments.host:
        conditions.append(port_filter(arguments.port, arguments.host, link_type_of(interface)))
    text = " and ".join(f"({condition})" for condition in conditions) or None
    capture = stack.enter_context(
        LiveCapture(interface, filter_text=text, buffer_bytes=arguments.buffer)
    )
    return InterfaceFeed(capture, time.monotonic_ns), f"live:{interface}"


def _standard_input() -> BinaryIO:
    """Return standard input without a buffer, in which packets would wait."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("standard input is a terminal, not a capture")
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


# -- what becomes of it ---------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """What is to become of rows and packets, where it is said in words."""

    kept: list[RowFilter]
    listen: ListenAddress | None
    interval_ns: int

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> _Wanted:
        """Read arguments; raises UsageError."""
        interval_ns = int(arguments.interval * _NS_PER_S)
        if interval_ns < 1:
            raise UsageError("--interval: more than 0 seconds")
        return cls(_kept(arguments), _listen(arguments.metrics), interval_ns)


def _kept(arguments: argparse.Namespace) -> list[RowFilter]:
    slower_than, errors = arguments.save_slower_than, arguments.save_errors
    if arguments.save is None and (slower_than or errors):
        raise UsageError("--save says where packets are kept")
    kept = [] if slower_than is None else [make_filter(slower_than=slower_than)]
    if errors or not kept:
        kept.append(make_filter(errors_only=True))
    return kept


def _listen(text: str | None) -> ListenAddress | None:
    if text is None:
        return None
    if find_spec("prometheus_client") is None:
        raise UsageError("--metrics needs prometheus_client: pip install 'kanalyze[live]'")
    from kanalyze.live.metrics_server import parse_listen

    return parse_listen(text)


def _sinks(
    arguments: argparse.Namespace, wanted: _Wanted, chosen: str, console: Console, stack: ExitStack
) -> Iterator[Sink]:
    """Make one after another what was asked for; what is shown comes last."""
    if arguments.write is not None:
        yield _rows_files(arguments)
    if arguments.save is not None:
        yield _packets_files(arguments, wanted.kept)
    if wanted.listen is not None:
        yield _metrics(wanted.listen, stack)
    yield _output(chosen, wanted.interval_ns, console, stack)


def _rows_files(arguments: argparse.Namespace) -> Sink:
    from kanalyze.live.rolling import RollingRows
    from kanalyze.live.sinks import RollingSink

    return RollingSink(
        RollingRows(
            arguments.write,
            every_s=max(1, int(arguments.write_every)),
            most_bytes=arguments.write_size,
            most_files=arguments.write_files,
        )
    )


def _packets_files(arguments: argparse.Namespace, kept: Sequence[RowFilter]) -> Sink:
    from kanalyze.live.keep import PacketKeeper
    from kanalyze.live.pcapng_writer import PcapngWriter
    from kanalyze.live.sinks import KeepSink

    writer = PcapngWriter(arguments.save, interface=arguments.interface or "-")
    return KeepSink(PacketKeeper(writer, kept), writer)


def _metrics(where: ListenAddress, stack: ExitStack) -> Sink:
    from kanalyze.live.metrics import Metrics
    from kanalyze.live.metrics_server import MetricsServer
    from kanalyze.live.sinks import MetricsSink

    metrics = Metrics()
    server = stack.enter_context(MetricsServer(metrics.registry, where))
    tell(f"metrics: {server.url}")
    return MetricsSink(metrics)


def _output(chosen: str, interval_ns: int, console: Console, stack: ExitStack) -> Sink:
    from kanalyze.live.sinks import LinesSink, RowsSink, ViewSink

    if chosen == "view":
        from kanalyze.live.loop import LiveView
        from kanalyze.live.terminal import Terminal

        windows = Windows()
        return ViewSink(windows, LiveView(windows, stack.enter_context(Terminal(console))))
    if chosen == "jsonl":
        from kanalyze.live.lines import RateLines

        windows = Windows()
        stream = stack.enter_context(OutputFile(STANDARD_OUTPUT)).file
        return LinesSink(windows, RateLines(windows, stream, interval_ns=interval_ns))
    from kanalyze.export.jsonl import JsonLinesWriter

    writer = stack.enter_context(JsonLinesWriter(STANDARD_OUTPUT))
    return RowsSink(lambda rows: writer.write(rows.rows()), writer.output.file.flush)
