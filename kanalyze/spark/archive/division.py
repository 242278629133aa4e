"""How the work on captures is divided: into tasks that read them, and buckets of connections.

In: captures with their sizes. Out: parts of captures for each task, a number of buckets. Must not
know: Spark, nor what tasks do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.capture.splits import Split, plan_splits
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.listing import FoundCapture

__all__ = ["buckets_for", "tasks_for"]

_LEAST_BUCKETS: Final = 8
_MOST_BUCKETS: Final = 512
_BYTES_A_BUCKET: Final = 64 << 20
_BUCKETS_A_CORE: Final = 2
_TASKS_A_CORE: Final = 2
_LEAST_BYTES_A_TASK: Final = 1 << 20
_MOST_BYTES_A_TASK: Final = 1 << 30
"""Messages that began before a task's first packet are not pruned: the fewer tasks the better, as
long as every core has some."""


def buckets_for(total_bytes: int, cores: int) -> int:
    """Return the default number of buckets.

    One for 64 MiB of captures, two at least for each core, from 8 to 512.
    """
    selected = max(total_bytes // _BYTES_A_BUCKET, _BUCKETS_A_CORE * cores)
    return min(max(selected, _LEAST_BUCKETS), _MOST_BUCKETS)


def tasks_for(
    captures: Sequence[FoundCapture], stores: Stores, split_bytes: int, cores: int
) -> list[list[Split]]:
    """Divide captures among tasks, and large ones into parts of about ``split_bytes``.

    A task has up to 1 GiB of consecutive captures, or less if cores would be idle. A capture that
    cannot be opened is one part; the task that reads it reports why.
    """
    known_bytes = sum(each.total_bytes or 0 for each in captures)
    wanted_bytes = known_bytes // (_TASKS_A_CORE * cores)
    task_bytes = min(max(wanted_bytes, _LEAST_BYTES_A_TASK), _MOST_BYTES_A_TASK)
    tasks: list[list[Split]] = []
    room_bytes = 0
    for capture in captures:
        for split in _splits(capture, stores, split_bytes):
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
