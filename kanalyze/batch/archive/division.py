"""How the work on captures is divided: into tasks that read them, and buckets of connections.

In: captures with their sizes. Out: parts of captures for each task, a number of buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.capture.inputs import has_compressed_name
from kanalyze.capture.io.stores import local_path
from kanalyze.capture.splits import Split, plan_splits
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.capture.io.stores import Stores

__all__ = ["TASKS_A_CORE", "buckets_for", "shuffles", "tasks_for"]

TASKS_A_CORE: Final = 2
"""More than one, as tasks take different times."""
_MAX_READINGS: Final = 16
"""How many tasks may read all captures, if these are plain files. Reading headers takes some 5 %
of the time of making rows (30 % if batches are large). Sending segments in files takes as long as
some six readings, but as much disk as half of the captures; by Spark's shuffle it takes as long as
forty."""
_MAX_SLOW_READINGS: Final = 2
"""The same if a capture is compressed, or is read through a network."""
_MIN_BUCKETS: Final = 8
_MAX_BUCKETS: Final = 512
_BYTES_A_BUCKET: Final = 256 << 20
_MIN_BYTES_A_TASK: Final = 1 << 20
_MAX_BYTES_A_TASK: Final = 1 << 30
"""Messages that began before a task's first packet are not pruned. So few tasks are better, if
every core has some."""


def buckets_for(captures: Sequence[FoundCapture], cores: int) -> int:
    """Return the default number of buckets.

    One for each core, if so many tasks may read all captures: each reads all headers, and two for
    each core took no less time by the clock. Otherwise one for 256 MiB of captures, but at least
    two for each core; from 8 to 512.
    """
    if cores <= _most_readings(captures):
        return cores
    total_bytes = sum(capture.total_bytes or 0 for capture in captures)
    count = max(total_bytes // _BYTES_A_BUCKET, TASKS_A_CORE * cores)
    return min(max(count, _MIN_BUCKETS), _MAX_BUCKETS)


def shuffles(captures: Sequence[FoundCapture], buckets: int) -> bool:
    """Return true if segments are sent to the task of their bucket; else it reads all captures."""
    return buckets > _most_readings(captures)


def _most_readings(captures: Sequence[FoundCapture]) -> int:
    return _MAX_READINGS if all(map(_is_plain_file, captures)) else _MAX_SLOW_READINGS


def _is_plain_file(capture: FoundCapture) -> bool:
    return local_path(capture.path) is not None and not has_compressed_name(capture.path)


def tasks_for(
    captures: Sequence[FoundCapture], stores: Stores, split_bytes: int, cores: int
) -> list[list[Split]]:
    """Divide captures among tasks.

    A task has up to 1 GiB of consecutive captures, or less if cores would be idle. A capture that
    is larger than that is divided, into parts of at least ``split_bytes``. A capture that cannot be
    opened is one part; the task that reads it reports why.
    """
    known_bytes = sum(capture.total_bytes or 0 for capture in captures)
    bytes_per_task = known_bytes // (TASKS_A_CORE * cores)
    task_bytes = min(max(bytes_per_task, _MIN_BYTES_A_TASK), _MAX_BYTES_A_TASK)
    tasks: list[list[Split]] = []
    room_bytes = 0
    for capture in captures:
        for split in _splits(capture, stores, max(split_bytes, task_bytes)):
            size = (capture.total_bytes or split_bytes) // split.split_count
            if not tasks or size > room_bytes:
                tasks.append([])
                room_bytes = task_bytes
            tasks[-1].append(split)
            room_bytes -= size
    return tasks


def _splits(capture: FoundCapture, stores: Stores, split_bytes: int) -> list[Split]:
    try:
        return plan_splits(capture, stores, split_bytes)
    except CaptureError:
        return [Split(capture.path, 0, 1, 0, None, True)]
