"""What an archive that grows has read lately: which captures have to be read again, and from where.

In: the captures of each run: their first packets, their connections. Out: after which run to begin
again when a capture comes late, or has grown.

A capture is late for a connection that has later packets in captures of earlier runs. The rows of
these are wrong then: the state of the connection went on without its packets. So they are removed,
and their captures are read again, from the state that was saved before them. Captures of another
capture point have other connections, so they are never late.

States are kept for some hours of captured time only, and :class:`Stretch` has what is known of the
captures of an hour. Connections are remembered as bits of their hashes: two may have the same, and
then too much is read again.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CONNECTION_BITS: Final = 1 << 20
ALL_CONNECTIONS: Final = (1 << CONNECTION_BITS) - 1
_HOUR_NS: Final = 3_600_000_000_000
_MAX_STRETCHES: Final = 4
"""Of how many hours of captures the states before them are kept."""
_MAX_SPAN_NS: Final = 3 * _HOUR_NS
"""How much captured time is read again at most. A first load of months is not. Nor is more and more
where the captures of every run come late for the one before, as two capture points have the same
connections, and files that do not begin at the same time."""


class SeenCapture(NamedTuple):
    """A capture with packets that a run has read."""

    capture: str
    """The name in rows."""
    first_ns: int
    """Unix time of its first packet in ns."""
    connections: int
    """Its connections: a bit for each hash."""


class Stretch(NamedTuple):
    """Consecutive runs whose captures end in the same hour."""

    before: int | None
    """The run whose checkpoint has the state before them: 0 for none; None if it is not kept."""
    first_ns: int
    last_ns: int
    """Unix times of their first and last packets in ns."""
    connections: int
    """Their connections: a bit for each hash."""
    files: Mapping[str, int | None]
    """Unix time of the first packet of each file, by identity; None if it had none. Empty if the
    state before is not kept."""


def with_run(history: Sequence[Stretch], run: Stretch) -> list[Stretch]:
    """Return the history after one more run."""
    stretches = [*history, run]
    if history and history[-1].last_ns // _HOUR_NS == run.last_ns // _HOUR_NS:
        stretches[-2:] = [_merged(*stretches[-2:])]
    if len(stretches) > _MAX_STRETCHES:
        stretches[:2] = [_merged(*stretches[:2])._replace(before=None, files={})]
    return stretches


def _merged(first: Stretch, second: Stretch) -> Stretch:
    return Stretch(
        first.before,
        min(first.first_ns, second.first_ns),
        max(first.last_ns, second.last_ns),
        first.connections | second.connections,
        {**first.files, **second.files},
    )


def stretch_of_late(history: Sequence[Stretch], captures: Iterable[SeenCapture]) -> int | None:
    """Return the index of the first stretch that captures come too late for; None if for none."""
    captures = list(captures)
    for index, stretch in enumerate(history):
        for capture in captures:
            is_earlier = capture.first_ns < stretch.last_ns
            if is_earlier and capture.connections & stretch.connections:
                return index
    return None


def run_before(history: Sequence[Stretch], index: int) -> int | None:
    """Return the run whose state is continued if a stretch, and those after it, are read again.

    None if that is too far back.
    """
    span_ns = max(stretch.last_ns for stretch in history[index:]) - history[index].first_ns
    return history[index].before if span_ns <= _MAX_SPAN_NS else None


def to_json(history: Iterable[Stretch]) -> list[Any]:
    """Return a history as JSON values."""
    size = CONNECTION_BITS // 8
    return [
        [
            *stretch[:3],
            base64.b64encode(zlib.compress(stretch.connections.to_bytes(size))).decode("ascii"),
            dict(stretch.files),
        ]
        for stretch in history
    ]


def from_json(values: Sequence[Any]) -> list[Stretch]:
    """Undo :func:`to_json`; raises ValueError or TypeError for other values."""
    return [
        Stretch(
            None if before is None else int(before),
            int(first_ns),
            int(last_ns),
            connections_of(base64.b64decode(connections)),
            {str(name): None if time is None else int(time) for name, time in files.items()},
        )
        for before, first_ns, last_ns, connections, files in values
    ]


def connections_of(compressed: bytes) -> int:
    """Return connections as bits; raises ValueError for damaged bytes."""
    decompressor = zlib.decompressobj()
    try:
        data = decompressor.decompress(compressed, CONNECTION_BITS // 8)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    return int.from_bytes(data)
