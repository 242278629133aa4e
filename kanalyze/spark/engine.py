"""Runs the tasks of a batch on Spark.

In: a session. Out: see :class:`kanalyze.batch.engine.Engine`.

Tasks write rows themselves. To send a row through the JVM takes several times as long as to make
it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from kanalyze.batch.archive.blocks import Told, dump_report, load_report
from kanalyze.batch.archive.planning import TASKS_A_CORE
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.render.units import bytes_text
from kanalyze.spark.answers import driver_cores
from kanalyze.spark.archive import each_in_a_task, new_block_folder
from kanalyze.spark.failures import failures_in_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from kanalyze.batch.engine import Result

_SMALL_BYTES: Final = 4_000_000_000
"""One machine reads this much in the time that Spark takes to start and to plan (docs/spark.md)."""
_SMALL_LOCAL_BYTES: Final = 100_000_000_000
"""On one machine processes are faster at any size; up to this size users are advised so."""
_BLOCKS: Final = "blocks"
"""Where segments are, in the staging folder, which is removed at the end of the run."""
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"


class SparkEngine:
    """An :class:`~kanalyze.batch.engine.Engine` on a session."""

    def __init__(self, spark: SparkSession, scratch: str | None = None) -> None:
        """Use a session.

        Args:
            spark: the session.
            scratch: a folder for segments, which all tasks can write; None for one below that of
                the archive.
        """
        self._spark = spark
        self._scratch = scratch
        self._master = str(spark.sparkContext.master)
        self.cores: int = spark.sparkContext.defaultParallelism
        self.most_tasks = most_tasks(self.cores, spark.sparkContext.getConf().get(_DYNAMIC))

    def tasks_done(self) -> tuple[int, int] | None:
        """Return how many tasks of all running stages are done, and how many there are.

        None if no stage runs, or Spark does not answer, for example because it is stopping.
        """
        try:
            tracker = self._spark.sparkContext.statusTracker()
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return None
        running = [stage for stage in infos if stage is not None]
        if not running:
            return None
        done = sum(info.numCompletedTasks for info in running)
        return done, sum(info.numTasks for info in running)

    def advice(self, total_bytes: int) -> str | None:
        """Return a warning if processes take less time for captures of this size, or None."""
        return advice_for(self._master, total_bytes)

    @contextmanager
    def scratch(self, staging: str) -> Iterator[str]:
        """Provide a folder for segments while the block runs, as named or below ``staging``."""
        folder = new_block_folder(self._scratch) if self._scratch else f"{staging}/{_BLOCKS}"
        try:
            yield folder
        finally:
            SharedFolder(folder).remove("")

    def run(
        self, task: Callable[..., Result], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Result]:
        """Run a task of Spark for each of the arguments; raises SparkFailure."""

        def told(given: tuple[Any, ...]) -> Iterator[Told]:
            yield Told("result", dump_report(task(*given)))

        if not arguments:
            return []
        with failures_in_one_line():
            results = each_in_a_task(self._spark, told, arguments).select("data").collect()
        return [load_report(data) for (data,) in results]

    def release(self) -> int:
        """Return the number of cores of the driver, as far as Spark may use them."""
        return min(self.cores, driver_cores())


def advice_for(master: str, total_bytes: int) -> str | None:
    """Return a warning if Spark on this master takes more time than processes, or None."""
    is_local = master.startswith("local")
    if total_bytes >= (_SMALL_LOCAL_BYTES if is_local else _SMALL_BYTES):
        return None
    machine = " on one machine" if is_local else ""
    return (
        f"{bytes_text(total_bytes)} of captures{machine}: --engine process does the same in less "
        "time"
    )


def most_tasks(cores: int, dynamic: str | None) -> int | None:
    """Return among how many tasks buckets are divided at most; None for one each.

    Few tasks make few files, and the small files of an hour have to be merged. There are more tasks
    than cores, as buckets differ in size.

    Args:
        cores: of the cluster at its start.
        dynamic: Spark's setting whether more may come.
    """
    return None if dynamic == "true" else TASKS_A_CORE * cores
