"""Runs in this process that yield the rows of requests, alone or with their exchanges.

In: the context of an analysis and its open captures. Out: blocks of rows; the events that they are
made of, for runs that make other rows too.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.streams import TokenBytes
    from kanalyze.runtime.monitor import RunMonitor
    from kanalyze.runtime.run_context import RunContext
    from kanalyze.runtime.stages import BatchEvents, Captures, Stages
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.requests.row_assembler import RowAssembler

__all__ = ["ExchangeRun", "MonitoredSteps", "RequestRun", "step_blocks"]


class MonitoredSteps:
    """The batches of events of a run in this process; a monitor follows its stages."""

    def __init__(
        self,
        context: RunContext,
        captures: Captures,
        monitor: RunMonitor,
        on_tokens: Callable[[Sequence[TokenBytes]], None] | None,
    ) -> None:
        """``monitor`` gets the running stages; for ``on_tokens`` see :class:`.Analysis`."""
        self.context = context
        self.captures = captures
        self._monitor = monitor
        self._on_tokens = on_tokens

    def of(self, stages: Stages) -> Iterator[BatchEvents]:
        """Read the captures to their end; yield the events of each batch of packets, once."""
        self._monitor.begin(stages, self.context.settings)
        for step in self.context.steps(stages, self.captures):
            tokens = step.token_bytes + step.proxy_credentials
            if self._on_tokens is not None and tokens:
                self._on_tokens(tokens)
            yield step
        self._monitor.end()


class RequestRun:
    """Rows of requests, read in this process."""

    def __init__(self, steps: MonitoredSteps) -> None:
        self._steps = steps

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows, once."""
        context = self._steps.context
        assembler = context.row_assembler(self._steps.captures)
        for step in self._steps.of(context.settings.stages()):
            yield from step_blocks(step, assembler)


class ExchangeRun:
    """Exchanges with their rows, read in this process."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def noted(
        self, note: Callable[[RowBlock], object]
    ) -> Iterator[tuple[list[Exchange], RowBlock]]:
        """Yield the same as :meth:`blocks`, each block after ``note`` got the next one.

        So ``note`` knows rows that follow soon. If an input is a pipe, blocks are not delayed,
        because the next packets may take long.
        """
        delayed = None
        for pair in self.blocks(note):
            if self._context.inputs.progress[1] is None:
                yield pair
                continue
            if delayed is not None:
                yield delayed
            delayed = pair
        if delayed is not None:
            yield delayed

    def blocks(
        self, note: Callable[[RowBlock], object] | None = None
    ) -> Iterator[tuple[list[Exchange], RowBlock]]:
        """Yield the exchanges with the block of their rows, once.

        Blocks are small enough for all of their rows to be in memory as objects. ``note`` is called
        with each block before the filter is applied.
        """
        context = self._context
        captures = context.open()
        assembler = context.row_assembler(captures)
        for step in context.steps(context.settings.stages(checks_crc=True), captures):
            exchanges = iter(step.exchanges)
            for block in step_blocks(step, assembler):
                for piece in block.pieces():
                    piece_exchanges = list(islice(exchanges, len(piece)))
                    if note is not None:
                        note(piece)
                    numbers = context.row_filter.numbers(piece)
                    if len(numbers) == len(piece):
                        yield piece_exchanges, piece
                    elif numbers:
                        yield [piece_exchanges[number] for number in numbers], piece.take(numbers)


def step_blocks(step: BatchEvents, assembler: RowAssembler) -> Iterator[RowBlock]:
    """Yield the rows of the exchanges in a batch of events, in blocks of bounded size."""
    first = 0
    while first < len(step.exchanges):
        first = assembler.add_until_full(step.exchanges, first)
        yield assembler.drain()
