"""What one task of a stream reads: the captures of a batch, and the connections of its shard.

In: captures, and the state that the shard's task of the batch before saved in the state folder.
Out: rows, and the state for the next batch.

The state is: open connections (:mod:`kanalyze.runtime.state`), an index of the packets of earlier
captures, which rows refer to, and names of topics. Anomalies of the captures themselves (one that
ends within a packet) are written by the first shard. A task that runs again writes the same files.
If connections of the state cannot be continued, because another version of kanalyze wrote it, they
are closed: the rows of their requests without a response come first, and a file says why.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kanalyze.batch.archive.continued_captures import ContinuedCaptures
from kanalyze.batch.archive.shuffle_schema import pack_state, unpack_state
from kanalyze.batch.read_plan import TablePartition
from kanalyze.capture.io.stores import Stores
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.batch.key_sources import KeySources
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.batch.shared_folder import SharedFolder
    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.net.shard import Shard
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["StreamPartition", "read_stream_partition", "states_name"]

_DIGITS: Final = 12
_DIGEST_BYTES: Final = 16


class StreamPartition(NamedTuple):
    """The captures and connections that one task reads."""

    start: int
    """The number of captures in earlier batches."""
    end: int
    shard: Shard
    captures: tuple[FoundCapture, ...]
    """Those from ``start`` to ``end`` that can be read."""
    keys: KeySources | None = None
    """Where secrets of TLS are."""


def states_name(offset: int) -> str:
    """Return the name of the folder with the states of all shards at an offset."""
    return f"states/{offset:0{_DIGITS}}"


def read_stream_partition(
    plan: ReadPlan, task: StreamPartition, folder: SharedFolder
) -> Iterator[RowBlock]:
    """Yield the rows of a task; after the last one the state for the next batch is written.

    Raises:
        CaptureError: a capture cannot be opened or read; a retry may succeed.
        KanalyzeError: the state of the batch before is missing or damaged.
    """
    locations, saved_state = _load_state(task, folder)
    captures = _StreamCaptures(task.captures, locations)
    plan_now = replace(plan.with_names(_known_names(task, folder)), keys=task.keys)
    analysis = plan_now.analysis(TablePartition((), task.shard, segments=captures))
    run = analysis.resumable(saved_state, keeps_open=True)
    for rows in run.rows():
        yield from rows.requests
    if run.closed is not None:
        name = f"closed/{task.end:0{_DIGITS}}-{task.shard.index}.txt"
        folder.write(name, f"{run.closed}\n".encode())
    if task.shard.is_first and captures.anomalies:
        pairs = [[anomaly.kind, anomaly.detail] for anomaly in captures.anomalies]
        lines = "".join(f"{json.dumps(pair)}\n" for pair in pairs)
        folder.write(f"anomalies/{task.end:0{_DIGITS}}.jsonl", lines.encode())
    name = f"{states_name(task.end)}/{task.shard.index}"
    known = {topic_id.hex(): name for topic_id, name in sorted(analysis.names.known.items())}
    folder.write(f"{name}.names", _with_checksum(json.dumps(known).encode()), private=True)
    state = pack_state(captures.save_state(), run.saved_state)
    # It may hold plaintext of messages that go on.
    folder.write(name, _with_checksum(state), private=True)


def _load_state(task: StreamPartition, folder: SharedFolder) -> tuple[str | None, bytes | None]:
    """Return where earlier packets are, and the open connections; None before the first batch."""
    if not task.start:
        return None, None
    return unpack_state(_read_checked(folder, f"{states_name(task.start)}/{task.shard.index}"))


def _known_names(task: StreamPartition, folder: SharedFolder) -> dict[bytes, str]:
    """Return the names of topics that all shards knew before this batch."""
    names_by_id: dict[bytes, str] = {}
    for index in range(task.shard.count) if task.start else ():
        names = json.loads(_read_checked(folder, f"{states_name(task.start)}/{index}.names"))
        names_by_id.update({bytes.fromhex(topic_id): name for topic_id, name in names.items()})
    return names_by_id


def _with_checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode() + b"\n" + body


def _read_checked(folder: SharedFolder, name: str) -> bytes:
    """Return the body of a file with a checksum; raises KanalyzeError if missing or damaged."""
    data = folder.read(name)
    if data is None:
        raise KanalyzeError(f"{folder.shown}: {name} is missing: begin with another checkpoint")
    body = data.partition(b"\n")[2]
    if data != _with_checksum(body):
        raise KanalyzeError(f"{folder.shown}: {name} is damaged: begin with another checkpoint")
    return body


class _StreamCaptures(ContinuedCaptures):
    """The captures of one batch."""

    description = None
    """Secrets inside captures are not used: a connection would not have them in the next batch."""

    def __init__(self, captures: Sequence[FoundCapture], locations: str | None) -> None:
        super().__init__(captures, Stores(), locations)
        self.anomalies = self._merged.anomalies
        self.batches = self._merged.batches

    @property
    def dropped_packets(self) -> int | None:
        return self._merged.dropped_packets

    @property
    def progress(self) -> tuple[int, int | None]:
        return self._merged.progress
