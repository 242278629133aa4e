"""How many tasks of the stages that run now are done.

In: a session. Out: two numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["task_counts"]


def task_counts(spark: SparkSession) -> tuple[int, int] | None:
    """Return how many tasks of all running stages are done, and how many there are.

    None if no stage runs, or Spark does not answer, for example because it is stopping.
    """
    try:
        tracker = spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (Py4JError, OSError):
        return None
    running = [stage for stage in infos if stage is not None]
    if not running:
        return None
    return sum(info.numCompletedTasks for info in running), sum(info.numTasks for info in running)
