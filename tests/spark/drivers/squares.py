"""A driver that squares numbers, in tasks that leave a file for each attempt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from kanalyze.spark.session import start
from tests.support.spark_cluster import answer, cluster_settings
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 6
NUMBERS = 600
GO_ON = "go-on"
"""All tasks wait for this file."""


def main(master: str, folder: str) -> None:
    """Answer with the sum of the squares."""

    def squares(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        Path(folder, f"attempt-{task.partitionId()}-{task.taskAttemptId()}").touch()
        wait_until(Path(folder, GO_ON).exists, GO_ON)
        for batch in batches:
            numbers = batch.column(0)
            yield pa.RecordBatch.from_arrays([pc.multiply(numbers, numbers)], ["square"])

    spark = start(master, name="squares", conf=cluster_settings(Path(folder)))
    numbers = spark.range(NUMBERS, numPartitions=PARTITIONS)
    total = numbers.mapInArrow(squares, "square long").groupBy().sum().collect()[0][0]
    answer({"total": total})
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
