"""Divides a load of many captures into steps, each of which is committed by itself.

In: a run over all new captures. Out: the same run over the earliest of them, up to some bytes.

Captures of several capture points overlap in time, so a step ends at a time and not with a file: it
takes the packets before the first capture that it does not read. A capture that goes on is read
again by the next step, which takes what is left of it (``Cut`` in a checkpoint). So connections are
rebuilt from the same packets in the same order as in one run over everything.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from kanalyze.capture.inputs import look_at
from kanalyze.capture.io.stores import Stores
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from kanalyze.batch.archive.planning import ReadSummary
    from kanalyze.batch.run_plan import InputFile, RunPlan

BYTES_A_CORE: Final = 4 << 30
"""Captures of a step for each core: a minute of work or so. A run that dies does it again."""
_OPENED_AT_A_TIME: Final = 16
"""Captures that are opened at a time for the times of their first packets: a store takes some
30 ms for each."""


class StartTimes:
    """When captures begin; each is opened once."""

    def __init__(self) -> None:
        self._stores = Stores()
        self._known: dict[str, int | None] = {}

    def of(self, files: list[InputFile]) -> list[int | None]:
        """Return the time of the first packet of each file; None if it has none, or cannot be read.

        Tasks report why it cannot.
        """
        unknown = [file for file in files if file.identity not in self._known]
        with ThreadPoolExecutor(_OPENED_AT_A_TIME) as threads:
            times = threads.map(self._look, unknown)
            self._known.update(zip((file.identity for file in unknown), times, strict=True))
        return [self._known[file.identity] for file in files]

    def _look(self, file: InputFile) -> int | None:
        try:
            return look_at(file.capture, self._stores).first_time_ns
        except CaptureError:
            return None


def first_step(run: RunPlan, step_bytes: int, starts: StartTimes) -> RunPlan:
    """Return the run over the earliest of its captures, of ``step_bytes`` or a little more.

    The run itself if these are all.
    """
    begun = [file for file in run.files if file.identity in run.begun]
    new = [file for file in run.files if file.identity not in run.begun]
    if _bytes(new) <= step_bytes:
        return run
    # Those without packets, or that cannot be read, come first.
    timed = sorted(
        zip(starts.of(new), new, strict=True),
        key=lambda each: (each[0] is not None, each[0] or 0, each[1].path),
    )
    earliest_ns = min((time_ns for time_ns, _ in timed if time_ns is not None), default=0)
    if run.cut_before is not None:
        earliest_ns = max(earliest_ns, run.cut_before.time_ns)
    room_bytes = step_bytes
    for index, (time_ns, file) in enumerate(timed):
        # A step takes some packets at least.
        if room_bytes <= 0 and time_ns is not None and time_ns > earliest_ns:
            files = [*begun, *(file for _, file in timed[:index])]
            return run._replace(files=files, until_ns=time_ns)
        room_bytes -= file.total_bytes or 0
    return run


def rereads_much(run: RunPlan, read: ReadSummary) -> bool:
    """Return true if the next step would read again more than half of what this one has read."""
    goes_on = [file for name, file in run.by_name.items() if name in read.taken]
    return 2 * _bytes(goes_on) > _bytes(run.files)


def _bytes(files: list[InputFile]) -> int:
    return sum(file.total_bytes or 0 for file in files)
