"""What a run is given: settings, the captures it reads, and what its parts share.

In: arguments of an analysis. Out: values for the stages and for what makes rows. Neither is
imported here: a capture without packets needs none of them, and they are a third of such a start.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from kanalyze.capture.inputs import FoundCapture, find_inputs, last_time, look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.tables.filters import parse_broker
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kanalyze.capture.merge import MergeInput
    from kanalyze.common.paths import FileIdentity
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.detection import BrokerSide
    from kanalyze.kafka.session.message_reader import KeepsBytes
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.net.segment_columns import Shard
    from kanalyze.runtime.memory import MemoryBounds
    from kanalyze.runtime.stages import Captures
    from kanalyze.tables.filters import RowFilter
    from kanalyze.tables.requests.topic_names import TopicNames
    from kanalyze.tls.keylog import KeyLog


class AnalysisSettings(NamedTuple):
    """The validated arguments of an analysis that its runs need."""

    catalog: Catalog
    is_broker: BrokerSide | None
    keep: KeepsBytes | None
    memory: MemoryBounds
    """Memory in bytes for all shards of the connections together."""
    shard: Shard
    """The connections that get rows."""
    idle_ns: int | None
    topic_ids: Mapping[bytes, str]
    keylog: KeyLog | None = None
    """The secrets that decrypt TLS; None for none. Its ``repr`` shows no secret."""


def broker_side(ports: Sequence[int], brokers: Sequence[str]) -> BrokerSide | None:
    """Return a predicate that is true for the brokers that a user named; None if there are none.

    For the arguments see :class:`~kanalyze.runtime.pipeline.Analysis`.

    Raises:
        UsageError: a port or an address is invalid.
    """
    for port in ports:
        if not 0 < port < 65536:
            raise UsageError(f"not a TCP port: {port}")
    if not ports and not brokers:
        return None
    broker_ports = frozenset(ports)
    addresses = [parse_broker(text) for text in brokers]

    def is_broker(ip: str, port: int) -> bool:
        return port in broker_ports or any(
            ip == address.ip and address.port in (None, port) for address in addresses
        )

    return is_broker


CaptureInput: TypeAlias = str | os.PathLike[str] | FoundCapture | BinaryIO
"""A path, a folder, a glob, a URL, or ``-`` for standard input; a capture that was found before; or
a binary file, which is read from its current position."""


class AnalysisInputs:
    """The captures of one analysis. :meth:`open` opens them, once."""

    def __init__(
        self,
        inputs: Sequence[CaptureInput],
        source: Captures | None = None,
        leave_out: Callable[[Anomaly], object] | None = None,
        outputs: Collection[FileIdentity] = (),
    ) -> None:
        """Store the inputs; for the arguments see :class:`~kanalyze.runtime.pipeline.Analysis`.

        Raises:
            UsageError: an input cannot be a capture.
        """
        self._inputs = tuple(map(_capture, inputs))
        self._source = source
        self._leave_out = leave_out
        self._outputs = outputs
        self._opened: Captures | None = None
        self._last_time_ns: int | None = None
        self.stores = Stores()
        self.captures: list[MergeInput] = []
        """The captures, with folders and globs resolved; known once they are open."""
        self.left_out: list[Anomaly] = []
        """Files that cannot be read; known once the captures are open."""

    def open(self) -> Captures:
        """Find the captures and open them.

        Raises:
            CaptureError: a capture is missing.
            UsageError: the captures were opened before, or none is given.
        """
        if self._opened is not None:
            raise UsageError("an analysis can be run only once: make another one")
        if self._source is not None:
            self._opened = self._source
        else:
            self.captures = self._find()
            self._opened = MergedCaptures(self.captures, stores=self.stores)
        return self._opened

    @property
    def opened(self) -> Captures:
        """The captures, which must be open."""
        assert self._opened is not None
        return self._opened

    def open_again(self) -> MergedCaptures | None:
        """Open the captures for another pass; None if they can be read only once."""
        if self._opened is None or not self._opened.can_be_read_again:
            return None
        return MergedCaptures(self.captures, stores=self.stores)

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; the latter is None if an input is a pipe."""
        opened = self._opened  # read once: a progress bar calls this from another thread
        return (0, None) if opened is None else opened.progress

    @property
    def are_files(self) -> bool:
        """True if the captures are open and can be read more than once."""
        return self._opened is not None and self._opened.can_be_read_again

    def first_time_ns(self) -> int | None:
        """Return the Unix time of the first packet of files in ns; None if there is no packet."""
        found = (capture for capture in self.captures if isinstance(capture, FoundCapture))
        times = (look_at(capture, self.stores).first_time_ns for capture in found)
        return next((time_ns for time_ns in times if time_ns is not None), None)

    def last_time_ns(self) -> int | None:
        """Return the Unix time of the last packet of files in ns; None if there is no packet."""
        if self._last_time_ns is None:
            for capture in self.captures:
                if isinstance(capture, FoundCapture):
                    last_ns = last_time(capture, self.stores)
                    self._last_time_ns = of_known(max, self._last_time_ns, last_ns)
        return self._last_time_ns

    def _find(self) -> list[MergeInput]:
        if not self._inputs:
            raise UsageError("no capture given")
        names = [item for item in self._inputs if isinstance(item, str)]
        files = [item for item in self._inputs if not isinstance(item, str)]
        captures: list[FoundCapture] = []
        if names:
            captures = find_inputs(names, self.stores, self._leave_out_file, self._outputs)
        return [*captures, *files]

    def _leave_out_file(self, anomaly: Anomaly) -> None:
        self.left_out.append(anomaly)
        if self._leave_out is not None:
            self._leave_out(anomaly)


def _capture(value: object) -> str | FoundCapture | BinaryIO:
    """Return a capture as :class:`AnalysisInputs` stores it; raises UsageError for other values."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str | FoundCapture) or hasattr(value, "read"):
        return cast("str | FoundCapture | BinaryIO", value)
    from kanalyze.common.argument_values import shown  # imported late: for the message

    raise UsageError(f"not a capture: {shown(value)} (use a path, a folder, a glob, an open file)")


class RunContext:
    """The inputs and the counters of one run."""

    def __init__(
        self, settings: AnalysisSettings, inputs: AnalysisInputs, row_filter: RowFilter
    ) -> None:
        self.settings = settings
        self.inputs = inputs
        self.quality = CaptureQuality()
        """The quality of the captures; complete at the end of the run."""
        self._filter = row_filter

    @cached_property
    def names(self) -> TopicNames:
        """Names of topics by id: those that the user gave, and those that the run learned."""
        from kanalyze.tables.requests.topic_names import TopicNames  # imported late: see above

        names = TopicNames(self._search_names)
        for topic_id, name in self.settings.topic_ids.items():
            names.learn(topic_id, name)
        return names

    def open(self) -> Captures:
        """Open the captures; raises CaptureError and UsageError.

        What belongs to no connection, such as files that cannot be read, is counted with the first
        shard of the connections.
        """
        captures = self.inputs.open()
        if self.settings.shard.is_first:
            for anomaly in self.inputs.left_out:
                self.quality.count_anomaly(anomaly.kind)
        if self._filter.needs_end and not self.inputs.are_files:
            raise UsageError(
                "a time before the end, such as --since -1h, needs captures that can be read "
                "twice: save what comes through a pipe to a file"
            )
        return captures

    @property
    def row_filter(self) -> RowFilter:
        """The filter of rows; times that depend on the captures are replaced by Unix times."""
        if self._filter.needs_day:
            first_ns = self.first_time_ns
            if first_ns is None:
                return self._filter.on_day_of(0)  # as long as no packet has a time: any day
            self._filter = self.placed(self._filter, first_ns)
        return self._filter

    def placed(self, row_filter: RowFilter, first_ns: int) -> RowFilter:
        """Return a filter whose times depend on no capture; ``first_ns`` is the first packet's."""
        last_ns = self.inputs.last_time_ns() if row_filter.needs_end else None
        return row_filter.on_day_of(first_ns, last_ns)

    @property
    def first_time_ns(self) -> int | None:
        """Unix time of the first packet in ns; None if unknown or if there is no packet."""
        first_ns = self.inputs.first_time_ns() if self.inputs.are_files else None
        return self.quality.first_time_ns if first_ns is None else first_ns

    def _search_names(self) -> Iterator[tuple[bytes, str]]:
        """Yield all topic ids and names in the captures, if these can be read again."""
        captures = self.inputs.open_again()
        if captures is None:
            return
        from kanalyze.kafka.codec.compiler import Decoders
        from kanalyze.kafka.session.message_reader import MessageReader
        from kanalyze.runtime.stages import Stages
        from kanalyze.tables.requests.topic_names import NameReader

        settings = self.settings
        catalog = settings.catalog
        names = NameReader(catalog)
        stages = Stages(
            MessageReader(catalog, Decoders(catalog), names.needed_fields),
            catalog,
            is_broker=settings.is_broker,
            memory=settings.memory,
            keylog=settings.keylog,
        )
        with captures:
            for _, step in stages.run(captures):
                for exchange in step.exchanges:
                    yield from names.names(exchange)
