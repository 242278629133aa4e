"""``kanalyze live``."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kanalyze.api.topic_ids import read_topic_ids
from kanalyze.cli.live_checks import check_arguments
from kanalyze.cli.live_feed import open_feed
from kanalyze.cli.live_sinks import Wanted, make_sinks
from kanalyze.cli.messages import print_message
from kanalyze.cli.report import write_report
from kanalyze.errors import UsageError
from kanalyze.export.files import OutputFile
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.live.privileges import give_up_root
from kanalyze.live.run import IDLE_NS, LiveRun
from kanalyze.render.json import summary_json
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import FrameType

    from rich.console import Console

    from kanalyze.live.run import Feed, Sink

__all__ = ["live"]


def live(arguments: argparse.Namespace) -> None:
    """Show what goes over an interface, or through a pipe, until it ends; then report it.

    Raises KanalyzeError and OSError.
    """
    from rich.console import Console

    from kanalyze.live.view.terminal import can_draw

    console = Console(markup=False, emoji=False, highlight=False)
    chosen = arguments.format or ("view" if can_draw(console) else "jsonl")
    check_arguments(arguments, chosen)
    if chosen == "view" and not can_draw(console):
        raise UsageError("--format view: there is no terminal to draw on")
    with ExitStack() as stack:
        run = _prepared(arguments, chosen, console, stack)
        if chosen == "view":
            write_report(arguments.json, run)
        elif arguments.json is None:
            run()
        else:
            with OutputFile(arguments.json) as output:
                output.file.write(summary_json(run()).encode("ascii"))


def _prepared(
    arguments: argparse.Namespace, chosen: str, console: Console, stack: ExitStack
) -> Callable[[], dict[str, Any]]:
    """Return what runs it, once all is done that takes root; files are made after that."""
    # What can be wrong with what was asked for is told before anything is opened.
    wanted = Wanted.of(arguments)
    catalog = Catalog(arguments.definitions)
    topic_ids = read_topic_ids(arguments.topic_ids) if arguments.topic_ids else None
    is_interface = arguments.interface is not None
    opened = open_feed(arguments, chosen, stack) if is_interface else None
    told = give_up_root(may_capture=is_interface)
    if told is not None:
        print_message(told)

    def run() -> dict[str, Any]:
        return _run(arguments, chosen, console, wanted, catalog, topic_ids, opened)

    return run


def _run(
    arguments: argparse.Namespace,
    chosen: str,
    console: Console,
    wanted: Wanted,
    catalog: Catalog,
    topic_ids: dict[bytes, str] | None,
    opened: tuple[Feed, str] | None,
) -> dict[str, Any]:
    flags = _Flags(arguments.duration)
    with ExitStack() as stack:
        stack.enter_context(flags.heeded())
        feed, name = opened or open_feed(arguments, chosen, stack)
        sinks: list[Sink] = []
        with ExitStack() as closing:
            for sink in make_sinks(arguments, wanted, chosen, console, stack):
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
            conditions=_conditions(arguments),
        )
        most = arguments.max_memory
        analysis = Analysis(
            (),
            source=run.source,
            ports=arguments.port,
            topic_ids=topic_ids,
            catalog=catalog,
            max_memory_bytes=DEFAULT_MEMORY_BYTES if most is None else most,
            idle_ns=IDLE_NS,
            on_tokens=run.hide,
        )
        return run.run(analysis)


def _conditions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return which packets are taken in, as the report tells it."""
    said = {"port": arguments.port, "host": arguments.host, "filter": arguments.filter}
    return {name: value for name, value in said.items() if value}


class _Flags:
    """What signals, and the time, ask for."""

    def __init__(self, duration_s: float | None) -> None:
        self._until = None if duration_s is None else time.monotonic() + duration_s
        self._is_told = False
        self._wants_roll = False
        self._had_terminal = False
        """Whether there was one that ends the run when it goes away."""

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
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
            # What nohup started is to go on without.
            self._had_terminal = before[signal.SIGHUP] != signal.SIG_IGN and _has_terminal()
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signal's
        if self._is_told:
            raise KeyboardInterrupt
        self._is_told = True

    def _hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as above
        # Somebody wants new files, or the terminal is gone: it is the same signal.
        if self._had_terminal and not _has_terminal():
            self._is_told = True
        else:
            self._wants_roll = True


def _has_terminal() -> bool:
    """Return whether the process belongs to a terminal; it may be none of its streams."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
