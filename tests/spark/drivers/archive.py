"""A driver: the rows of captures by an archive, as hashes, and what its Python workers needed.

It is given the settings of :class:`Wanted` as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import FoundCapture
from kanalyze.capture.splits import plan_splits
from kanalyze.spark.archive.archive import read_captures
from kanalyze.spark.session import start
from tests.spark.drivers.marking import READING, REBUILDING, MarkingJob, marks_in
from tests.support.archives import a_job, rows_of
from tests.support.spark_cluster import answer, cluster_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.capture.splits import Split
    from kanalyze.tables.row import Row

EVENTS = "events"


class Wanted(NamedTuple):
    """What the driver is to do."""

    files: list[str]
    buckets: int = 8
    tasks: int = 8
    """That read files; parts of large ones too."""
    split_bytes: int = 64 << 20
    prunes_payload: bool = True
    shuffles: bool = True
    held_phase: str | None = None
    held_from: int = 0
    """As those of a :class:`MarkingJob`."""

    def text(self) -> str:
        """Return what the driver is given."""
        return json.dumps(self._asdict())


def hashed(rows: Iterable[Row]) -> list[str]:
    """Return a hash for each row, over all columns, in an order of their own."""
    return sorted(hashlib.md5(repr(row).encode()).hexdigest() for row in rows)


def main(master: str, folder: str, text: str) -> None:
    """Answer with hashes of rows, and the most memory that each phase's processes had, in KiB."""
    wanted = Wanted(**json.loads(text))
    spark = start(master, name="archive", conf=_settings(Path(folder)))
    job = MarkingJob.of(
        a_job(wanted.buckets, prunes_payload=wanted.prunes_payload, shuffles=wanted.shuffles),
        folder,
        wanted.held_phase,
        wanted.held_from,
    )
    with closing(read_captures(spark, job, _tasks(wanted))) as captured:
        peaks = {READING: _peak_kib(Path(folder), READING)}
        with closing(captured.rebuild()) as found:
            peaks[REBUILDING] = _peak_kib(Path(folder), REBUILDING)
            batches = found.rows.toArrow().to_batches()
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


def _tasks(wanted: Wanted) -> list[list[Split]]:
    stores = Stores()
    splits = [
        split
        for file in wanted.files
        for split in plan_splits(FoundCapture(file), stores, wanted.split_bytes)
    ]
    return [some for first in range(wanted.tasks) if (some := splits[first :: wanted.tasks])]


def _peak_kib(folder: Path, phase: str) -> int:
    """Return the most memory that a process had which worked at a phase and still runs."""
    peaks = [0]
    for process in {mark.process for mark in marks_in(folder, phase)}:
        # One that was killed is not there, or is listed without memory until it is waited for.
        with suppress(OSError):
            status = Path(f"/proc/{process}/status").read_text()
            peaks += map(int, re.findall(r"VmHWM:\s+(\d+) kB", status))
    return max(peaks)


if __name__ == "__main__":
    main(*sys.argv[1:])
