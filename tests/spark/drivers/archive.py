"""A driver that prints hashes of the rows of an archive, and the memory of its Python workers.

Its argument is :class:`DriverSettings` as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.splits import plan_splits
from kanalyze.spark.archive import read_captures
from kanalyze.spark.session import start
from tests.spark.drivers.marking import READING, REBUILDING, MarkingJob, marks_in
from tests.support.archives import a_job, rows_of
from tests.support.spark_cluster import answer, cluster_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.capture.splits import Split
    from kanalyze.spec.rows.requests import Row
    from tests.support.archives import Sent

EVENTS = "events"


class DriverSettings(NamedTuple):
    """The settings of the driver."""

    files: list[str]
    buckets: int = 8
    tasks: int = 8
    """How many tasks read files, or parts of large ones."""
    split_bytes: int = 64 << 20
    prunes_payload: bool = True
    sent: Sent = "read again"
    held_phase: str | None = None
    held_from: int = 0
    """This and ``held_phase`` are attributes of :class:`MarkingJob`."""

    def text(self) -> str:
        """Return the argument of the driver."""
        return json.dumps(self._asdict())


def hashed(rows: Iterable[Row]) -> list[str]:
    """Return a hash of all columns for each row, sorted."""
    return sorted(hashlib.md5(repr(row).encode()).hexdigest() for row in rows)


def main(master: str, folder: str, text: str) -> None:
    """Answer with hashes of rows, and the peak memory of the processes of each phase, in KiB."""
    driver_settings = DriverSettings(**json.loads(text))
    spark = start(master, name="archive", conf=_settings(Path(folder)))
    job = MarkingJob.of(
        a_job(
            driver_settings.buckets,
            prunes_payload=driver_settings.prunes_payload,
            sent=driver_settings.sent,
            folder=Path(folder) / "blocks",
        ),
        folder,
        driver_settings.held_phase,
        driver_settings.held_from,
    )
    with closing(read_captures(spark, job, _tasks(driver_settings))) as captured:
        peaks = {READING: _peak_kib(Path(folder), READING)}
        with closing(captured.rebuild()) as connections:
            peaks[REBUILDING] = _peak_kib(Path(folder), REBUILDING)
            batches = connections.rows.toArrow().to_batches()
    answer({"rows": hashed(row for batch in batches for row in rows_of(batch)), "peak_kib": peaks})
    spark.stop()


def _settings(folder: Path) -> dict[str, str]:
    events = folder / EVENTS
    events.mkdir()
    return {
        **cluster_settings(folder),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def _tasks(driver_settings: DriverSettings) -> list[list[Split]]:
    stores = Stores()
    splits = [
        split
        for file in driver_settings.files
        for split in plan_splits(FoundCapture(file), stores, driver_settings.split_bytes)
    ]
    return [
        some
        for first in range(driver_settings.tasks)
        if (some := splits[first :: driver_settings.tasks])
    ]


def _peak_kib(folder: Path, phase: str) -> int:
    """Return the highest peak memory of the processes of a phase that still run."""
    peaks = [0]
    for process in {mark.process for mark in marks_in(folder, phase)}:
        # A killed process is gone, or listed without memory until its parent waits for it.
        with suppress(OSError):
            status = Path(f"/proc/{process}/status").read_text()
            peaks += map(int, re.findall(r"VmHWM:\s+(\d+) kB", status))
    return max(peaks)


if __name__ == "__main__":
    main(*sys.argv[1:])
