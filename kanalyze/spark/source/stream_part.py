"""What one task of a stream reads: its shard of the connections, through the captures of a batch.

In: captures, and what the shard's task of the batch before left in the state folder. Out: rows, and
the same for the next batch. Must not know: Spark, nor which captures there are beside.

Left are: open connections (:mod:`kanalyze.runtime.state`); where packets of earlier captures are,
as a row may speak of them; and the names of topics. What is wrong with the captures themselves (one
that ends within a packet) is written by the first shard. Whoever runs a task again writes the same.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.capture.io.stores import Stores
from kanalyze.capture.merge import MergedCaptures
from kanalyze.capture.packet_index import UNKNOWN_CAPTURE, PacketIndex
from kanalyze.common.int_columns import shifted
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.runtime.pipeline import Analysis
from kanalyze.runtime.stages import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.capture.listing import FoundCapture
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch
    from kanalyze.net.shard import Shard
    from kanalyze.spark.shared_folder import Folder
    from kanalyze.spark.source.readers import Plan
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["Assignment", "batches_of", "states_name"]

_MOST_RUNS: Final = 20_000
"""Places that are kept: a rotation has one a file."""
_DIGITS: Final = 12
_DIGEST_BYTES: Final = 16


class Assignment(NamedTuple):
    """What a task reads."""

    start: int
    """How many captures were read before."""
    end: int
    shard: Shard
    captures: tuple[FoundCapture, ...]
    """Those from ``start`` to ``end`` that can be read."""


def states_name(offset: int) -> str:
    """Return the name of the folder with the states of all shards at an offset."""
    return f"states/{offset:0{_DIGITS}}"


def batches_of(plan: Plan, task: Assignment, folder: Folder) -> Iterator[RowBlock]:
    """Give the rows of a task; with the last of them what is left for the next is written.

    Raises:
        CaptureError: a capture cannot be opened or read on: to be tried again.
        KanalyzeError: what was left before is gone or damaged.
    """
    before = _left_before(task, folder)
    captures = _NumberedOn(task.captures, before)
    options, most = plan.options, plan.options.max_memory_bytes
    analysis = Analysis(
        (),
        source=captures,
        row_filter=plan.row_filter,
        ports=options.ports,
        brokers=options.filters.get("brokers", ()),
        topic_ids={**(plan.topic_ids or {}), **_told(task, folder)},
        catalog=plan.catalog,
        max_memory_bytes=DEFAULT_MEMORY_BYTES if most is None else most,
        shard=task.shard,
    )
    run = analysis.resumable(before.saved_state or None, keeps_open=True)
    for blocks, _ in run.batches():
        yield from blocks
    if task.shard.is_first and captures.anomalies:
        lines = [f"{json.dumps([each.kind, each.detail])}\n" for each in captures.anomalies]
        folder.write(f"anomalies/{task.end:0{_DIGITS}}.jsonl", "".join(lines).encode())
    place = f"{states_name(task.end)}/{task.shard.index}"
    names = {topic_id.hex(): name for topic_id, name in sorted(analysis.names.known.items())}
    folder.write(f"{place}.names", _sealed(json.dumps(names).encode()))
    folder.write(place, _packed(captures.left(run.saved_state)))


class _Run(NamedTuple):
    """Consecutive packets that are consecutive in a capture too."""

    first: int
    """Number of the first one over all captures."""
    capture: str
    within: int
    """Number of the first one in the capture."""


class _Left(NamedTuple):
    """What goes on from one batch to the next."""

    packets: int
    """How many there were in all captures so far."""
    runs: list[_Run]
    saved_state: bytes
    """Empty before the first batch."""


def _left_before(task: Assignment, folder: Folder) -> _Left:
    if not task.start:
        return _Left(0, [], b"")
    body = _kept(folder, f"{states_name(task.start)}/{task.shard.index}")
    head, _, saved_state = body.partition(b"\n")
    packets, runs = json.loads(head)
    return _Left(packets, [_Run(*run) for run in runs], saved_state)


def _packed(left: _Left) -> bytes:
    return _sealed(json.dumps([left.packets, left.runs]).encode() + b"\n" + left.saved_state)


def _told(task: Assignment, folder: Folder) -> dict[bytes, str]:
    """Return the names of topics that the shards told one another before."""
    told: dict[bytes, str] = {}
    for index in range(task.shard.count) if task.start else ():
        names = json.loads(_kept(folder, f"{states_name(task.start)}/{index}.names"))
        told.update({bytes.fromhex(topic_id): name for topic_id, name in names.items()})
    return told


def _sealed(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode() + b"\n" + body


def _kept(folder: Folder, name: str) -> bytes:
    """Return what was sealed in a file; raises KanalyzeError where it is gone or damaged."""
    data = folder.read(name)
    if data is None:
        raise KanalyzeError(f"{folder.shown}: {name} is missing: begin with another checkpoint")
    body = data.partition(b"\n")[2]
    if data != _sealed(body):
        raise KanalyzeError(f"{folder.shown}: {name} is damaged: begin with another checkpoint")
    return body


class _NumberedOn:
    """Captures whose packets are numbered on from those before; a ``stages.Captures``."""

    can_be_read_again = False
    description = None
    """So nobody looks for names in what was not read yet."""

    def __init__(self, captures: Sequence[FoundCapture], before: _Left) -> None:
        self._before = before
        self._packet_index = PacketIndex()
        self._captures = MergedCaptures(captures, stores=Stores(), packet_index=self._packet_index)
        self.names = self._captures.names
        self.anomalies: list[Anomaly] = self._captures.anomalies

    @property
    def dropped_packets(self) -> int | None:
        return self._captures.dropped_packets

    @property
    def progress(self) -> tuple[int, int | None]:
        return self._captures.progress

    def batches(self) -> Iterator[PacketBatch]:
        for batch in self._captures.batches():
            batch.number = shifted(batch.number, self._before.packets)
            yield batch

    def place(self, number: int) -> tuple[str, int | None]:
        packets, runs = self._before.packets, self._before.runs
        if number > packets:
            return self._captures.place(number - packets)
        index = bisect_right(runs, number, key=_first) - 1
        if index < 0:
            return UNKNOWN_CAPTURE, None
        run = runs[index]
        return run.capture, run.within + number - run.first

    def left(self, saved_state: bytes) -> _Left:
        """Return what goes on behind the last packet."""
        packets = self._before.packets
        runs = [
            _Run(first + packets, self.names[capture], within)
            for first, capture, within in self._packet_index.latest(_MOST_RUNS)[1]
        ]
        kept = [*self._before.runs, *runs][-_MOST_RUNS:]
        return _Left(packets + self._captures.packets, kept, saved_state)


def _first(run: _Run) -> int:
    return run.first
