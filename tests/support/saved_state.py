"""Runs that stop between two batches, are saved, and continue in new objects from the saved state.

In: a capture, and where to interrupt. Out: all results of the run.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.model.anomalies import NET_ANOMALIES
from kanalyze.runtime import settings as run_settings
from kanalyze.runtime.stages import Stages
from kanalyze.runtime.state import load_state, save_state
from kanalyze.runtime.table_rows import request_blocks, row_of_connection
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.row_assembler import RowAssembler
from kanalyze.tables.requests.topic_names import TopicNames
from tests.support.reference import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.capture.merge import MergedCaptures
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch
    from kanalyze.runtime.stages import BatchEvents
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row


class Outcome(NamedTuple):
    """All results of a run."""

    rows: list[Row]
    anomalies: list[tuple[Any, ...]]
    connections: list[ConnectionRow]
    quality: dict[str, Any]


class Run:
    """One process's part of a run: stages, a row assembler, and their results."""

    def __init__(
        self,
        captures: MergedCaptures,
        *,
        is_asked: bool = True,
        **settings: Any,
    ) -> None:
        """``settings`` are those of the stages; ``is_asked`` tells whether to make rows."""
        self.catalog = Catalog()
        self.captures = captures
        self._settings = settings
        self._is_asked = is_asked
        self._names = TopicNames()
        self.stages, self.maker = self._new()
        self._quality = CaptureQuality()
        self._rows: list[Row] = []
        self._anomalies: list[tuple[Any, ...]] = []
        self._connections: list[ConnectionRow] = []

    def _new(self) -> tuple[Stages, RowAssembler]:
        """Make stages and a row assembler that share only names with those before."""
        catalog = Catalog()
        extractors = Extractors(catalog)
        decoders, needed_fields = Decoders(catalog), extractors.needed_fields
        reader = MessageReader(catalog, decoders, needed_fields, checks_crc=True)
        stages = Stages(reader, catalog, **self._settings)
        return stages, RowAssembler(catalog, extractors, self.captures, self._names)

    def take(self, batch: PacketBatch | None) -> None:
        """Feed a batch; None ends the capture."""
        step = self.stages.finish() if batch is None else self.stages.feed(batch)
        self._note(step)

    def _note(self, step: BatchEvents) -> None:
        if self._is_asked:
            for block in request_blocks(step, self.maker):
                self._rows += block.rows()
        self._anomalies += [self._described(anomaly, step) for anomaly in step.anomalies]
        self._connections += [row_of_connection(ended, self.captures) for ended in step.summaries]
        for tcp in step.closed_connections:
            self._quality.count_connection(tcp)
        for anomaly in step.anomalies:
            if anomaly.kind not in NET_ANOMALIES:
                self._quality.count_anomaly(anomaly.kind, anomaly.length or 0)

    def _described(self, anomaly: Anomaly, step: BatchEvents) -> tuple[Any, ...]:
        tcp = anomaly.connection
        if tcp is None:
            return tuple(anomaly)
        about_connection = (tcp.serial, tcp.endpoints, self.stages.client_index(tcp, step))
        return tuple(anomaly._replace(connection=None)) + about_connection

    def saved_state(self) -> bytes:
        """The saved state of the run at this point."""
        return save_state(self.stages, self.maker if self._is_asked else None)

    def load_state(self, data: bytes) -> None:
        """Continue from a saved state, in new objects."""
        stages, maker = self._new()
        load_state(data, stages, maker if self._is_asked else None)
        self.stages, self.maker = stages, maker

    def outcome(self) -> Outcome:
        """All results, once the capture has ended."""
        self._quality.count_stages(self.stages.net, self.stages.counts)
        return Outcome(self._rows, self._anomalies, self._connections, self._quality.to_dict())


def run(
    capture: Any,
    *,
    most_packets: Callable[[], int],
    breaks: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> Outcome:
    """Read a capture in batches; save and reload the run after those where ``breaks`` is true."""
    with opened(capture, most_packets) as captures:
        going = Run(captures, **settings)
        for batch in captures.batches():
            going.take(batch)
            if breaks():
                going.load_state(going.saved_state())
        going.take(None)
    return going.outcome()


@contextmanager
def opened(capture: Any, most_packets: Callable[[], int]) -> Iterator[MergedCaptures]:
    """A capture in batches; the bytes of a batch are overwritten when the next is requested."""
    with batches_of(most_packets):
        yield run_settings.MergedCaptures([capture], buffer_bytes=1 << 16)


def first_part(capture: Any, packets: int) -> bytes:
    """Read the first packets of a capture; return the saved state of that run."""
    with opened(capture, lambda: 1) as captures:
        going = Run(captures)
        for batch in _until(captures.batches(), packets):
            going.take(batch)
    return going.saved_state()


def second_part(capture: Any, packets: int, data: bytes) -> Outcome:
    """Continue after the first packets of a capture."""
    with opened(capture, lambda: 1) as captures:
        batches = captures.batches()
        for _ in _until(batches, packets):
            continue
        going = Run(captures)
        going.load_state(data)
        for batch in batches:
            going.take(batch)
        going.take(None)
    return going.outcome()


def _until(batches: Iterable[PacketBatch], packets: int) -> Iterator[PacketBatch]:
    left = packets
    for batch in batches:
        yield batch
        left -= len(batch)
        if left <= 0:
            return
