"""A job whose tasks report their phase to the test, and wait when it says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext

from kanalyze.batch.archive.tasks import Job
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from kanalyze.batch.archive.payload_pruning import PayloadPruner
    from kanalyze.batch.archive.row_sink import BucketSink
    from kanalyze.batch.archive.table_files import TableFiles

READING, REBUILDING = "reading", "rebuilding"
GO_ON = "go-on"


class Mark(NamedTuple):
    """A task that has begun."""

    phase: str
    partition: int
    task: int
    """Spark's number of the attempt."""
    process: int

    def leave(self, folder: Path) -> None:
        """Create an empty file whose name holds the mark."""
        (folder / f"mark-{self.phase}-{self.partition}-{self.task}-{self.process}").touch()


def marks_in(folder: Path, phase: str) -> list[Mark]:
    """Return the marks that tasks left in a phase."""
    marks = []
    for path in folder.glob(f"mark-{phase}-*"):
        partition, task, process = map(int, path.name.split("-")[2:])
        marks.append(Mark(phase, partition, task, process))
    return marks


class MarkingJob(Job):
    """A job that leaves a mark for each task, in the driver's folder."""

    marks_folder: str
    held_phase: str | None
    held_from: int
    """Tasks of this partition and of later ones wait in the held phase until they may go on."""

    @classmethod
    def of(
        cls, job: Job, folder: str, held_phase: str | None = None, held_from: int = 0
    ) -> MarkingJob:
        """Return the same job, with marks."""
        made = cls(*job)
        made.marks_folder, made.held_phase, made.held_from = folder, held_phase, held_from
        return made

    def _replace(self, **changes: Any) -> MarkingJob:
        """Return a job with changed settings, and the same marks."""
        changed = super()._replace(**changes)
        return self.of(changed, self.marks_folder, self.held_phase, self.held_from)

    def pruner(self) -> PayloadPruner | None:
        """Begin to read captures."""
        self._pass(READING)
        return super().pruner()

    def sink(self, bucket: int, files: TableFiles | None) -> BucketSink:
        """Begin to rebuild a bucket."""
        self._pass(REBUILDING)
        return super().sink(bucket, files)

    def _pass(self, phase: str) -> None:
        task = TaskContext.get()
        assert task is not None
        folder = Path(self.marks_folder)
        mark = Mark(phase, task.partitionId(), task.taskAttemptId(), os.getpid())
        mark.leave(folder)
        if phase == self.held_phase and mark.partition >= self.held_from:
            wait_until((folder / GO_ON).exists, GO_ON)
