"""Captures as they come: the rows of requests as a stream of Spark, each exactly once.

In: a folder that a rotation writes into (``tcpdump -G``, ``-C``, ``-W``), options. Out: what Spark
asks of a stream. Must not know: how rows are made.

Connections, and messages, go on from one file to the next, over batches and restarts of the query:
their state is in the folder of option ``stateLocation``, written by tasks for the offset that they
come to, and read by those of the next batch. An offset is a number of files in a list that is there
too (:mod:`kanalyze.spark.source.admission`), so it always means the same packets. Rows are those of
``kanalyze requests`` over all files at once, but for these:

- A request without an answer has its row when its connection is closed, or is known to be over. A
  stream does not end: what is open when the query stops has no row, and goes on with the next run.
- A topic's name holds from where it is told. In the batch of the telling itself it may hold for
  the connections of the same task alone.
- A file that begins before others that were read in earlier batches is read after them.

Files that were not read, or not as they should be, are listed in the state folder: ``quarantine``
says which were passed over, came late or were written to later, ``anomalies`` what is wrong inside.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.net.shard import Shard
from kanalyze.spark.failures import told_without_stack
from kanalyze.spark.schema import as_asked
from kanalyze.spark.shared_folder import Folder
from kanalyze.spark.source.admission import AdmittedCaptures
from kanalyze.spark.source.readers import make_plan
from kanalyze.spark.source.stream_options import parse_stream_options, table_options
from kanalyze.spark.source.stream_part import Assignment, batches_of, states_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["CaptureStream"]

_TABLE: Final = "requests"
_SETTINGS: Final = "settings.json"
_LONGEST_SHOWN: Final = 200


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads captures as they are completed; an offset is ``{"files": n}``."""

    def __init__(
        self, paths: Sequence[str], options: Mapping[str, str], schema: StructType
    ) -> None:
        """Set up; nothing is opened.

        Args:
            paths: files, folders, globs, URLs of any of these; what is not there may come.
            options: those of the table ``requests``, and

                - ``stateLocation`` (required): a path or a URL that the driver and all executors
                  reach, of this query alone;
                - ``settleSeconds`` (60): a file that was not written to for so long is complete,
                  also where none came after it. 0: whatever is there is complete;
                - ``maxFilesPerTrigger``: how many files a batch has at most;
                - ``numPartitions`` (1): tasks of a batch. Each reads all packets, and follows its
                  shard of the connections. It stays the same as long as the state is used.
            schema: the columns, which are the table's or some of them.

        Raises:
            UsageError: an option makes no sense.
        """
        self._options = parse_stream_options(options)
        self._plan = make_plan(table_options(options), schema.fieldNames())
        if self._plan.options.table != _TABLE:
            raise UsageError(f"option table: {_TABLE} can be streamed, and no other table")
        if not paths:
            raise UsageError("no capture given: load(PATH), or option path")
        self._paths = list(paths)
        self._schema = schema
        self._shards = self._plan.options.partitions or 1
        self._admitted: AdmittedCaptures | None = None
        self._target: int | None = None
        """Where a query that reads what there is (``availableNow``) is to end."""

    # -- what the driver asks ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        """Return where a new query begins."""
        return {"files": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Return how many files a batch may have."""
        most = self._options.most_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    @told_without_stack()
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's
        """Look for files that were completed, and return how far the next batch goes.

        Raises UsageError where the state folder cannot be used.
        """
        if self._target is None:
            self._captures().admit(time.time_ns())
        end = len(self._captures()) if self._target is None else self._target
        if isinstance(limit, ReadMaxFiles):
            end = min(end, start["files"] + limit.max_files)
        return {"files": max(end, start["files"])}

    @told_without_stack()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Settle what there is now; no more is read."""
        self._captures().admit(time.time_ns())
        self._target = len(self._captures())

    @told_without_stack()
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        """Return how many files were completed so far."""
        return {"files": len(self._captures())}

    @told_without_stack()
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Divide the connections of a batch among its tasks.

        Raises UsageError where the list of files does not go as far: it is that of another query.
        """
        first, last = start["files"], end["files"]
        if first == last:
            return []
        captures = self._captures()
        if last > len(captures):
            raise UsageError(
                f"option stateLocation: {self._folder().shown} knows {len(captures)} files, "
                f"and the query's checkpoint {last}: they belong to different queries"
            )
        found = tuple(captures.between(first, last))
        return [
            InputPartition(Assignment(first, last, Shard(index, self._shards), found))
            for index in range(self._shards)
        ]

    @told_without_stack()
    def commit(self, end: dict[str, int]) -> None:
        """Remove the states that no batch begins with any more."""
        folder = self._folder()
        kept = states_name(end["files"]).rpartition("/")[2]
        for name in folder.names("states"):
            if name < kept:
                folder.remove(f"states/{name}")

    # -- what a task asks -------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of a task, and write the state that it comes to.

        Raises:
            KanalyzeError: a file cannot be read on, or the state folder cannot be used.
        """
        task = partition.value
        assert isinstance(task, Assignment)
        columns = self._plan.columns
        maker = BatchMaker(columns)
        with told_without_stack():
            for block in batches_of(self._plan, task, self._folder()):
                yield from as_asked(maker.of_block(block), columns, self._schema)

    # -- the state folder -------------------------------------------------------------------------

    def _folder(self) -> Folder:
        return Folder(self._options.state_location)

    def _captures(self) -> AdmittedCaptures:
        if self._admitted is None:
            folder = self._folder()
            self._check(folder)
            self._admitted = AdmittedCaptures(self._paths, folder, settle_s=self._options.settle_s)
        return self._admitted

    def _check(self, folder: Folder) -> None:
        """See that the folder is this query's, as far as it says."""
        ours = {"paths": self._paths, "numPartitions": self._shards}
        kept = folder.read(_SETTINGS)
        if kept is None:
            folder.write(_SETTINGS, json.dumps(ours).encode())
            return
        if kept != json.dumps(ours).encode():
            raise UsageError(
                f"option stateLocation: {folder.shown} is that of another query: "
                f"{kept[:_LONGEST_SHOWN].decode(errors='backslashreplace')}"
            )
