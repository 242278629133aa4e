"""How many tasks of the stages that run now are done.

In: a session. Out: two numbers. This module must not know what the tasks do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["task_counts"]


def task_counts(spark: SparkSession) -> tuple[int, int] | None:
    """Return how many tasks of all running stages are done, and how many there are.

    None if no stage runs, or Spark does not answer, as while it stops.
    """
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (Py4JError, OSError):
        return None
    known = [stage for stage in stages if stage is not None]
    if not known:
        return None
    return sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)
