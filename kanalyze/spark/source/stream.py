"""Captures as they are completed: rows of requests as a stream of Spark, each exactly once.

In: a folder that a rotation writes into (``tcpdump -G``, ``-C``, ``-W``), options. Out: the methods
that Spark calls of a stream reader.

Connections and messages continue from one file to the next, over batches and restarts of the
query. Their state is in the folder of option ``stateLocation``: tasks write it at the end offset of
a batch, and the tasks of the next batch read it. An offset is a number of files in a list that is
in the folder too (:mod:`kanalyze.spark.source.admission`), so it always means the same packets. The
rows are those of ``kanalyze requests`` over all files at once, except:

- A request without a response gets its row when its connection is closed or has timed out. A stream
  does not end: requests that are open when the query stops have no row until the next run.
- A topic's name is known from the batch after the response with it; in the same batch it may be
  known to the connections of the same task alone.
- A file that begins before files of earlier batches is read after them.
- TLS is decrypted by option ``keylog`` alone, with what the key logs have when a batch begins;
  secrets inside captures are not used. The state has no secrets, and no decrypted bytes except
  those of incomplete messages.

The state folder also lists files with problems: ``quarantine`` those that were skipped, came late
or were written to later, ``anomalies`` those that are damaged inside. ``closed`` says which shards
could not continue their connections, as the state was of another version of kanalyze, and why.
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

from kanalyze.batch.key_sources import find_key_files
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.net.segment_columns import Shard
from kanalyze.spark.failures import without_stack_trace
from kanalyze.spark.schema import as_requested
from kanalyze.spark.source.admission import AdmittedCaptures
from kanalyze.spark.source.readers import plan_of, source_options
from kanalyze.spark.source.stream_options import parse_stream_options, table_options
from kanalyze.spark.source.stream_part import StreamPartition, read_stream_partition, states_name

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
            paths: files, folders, globs, URLs of any of these; files need not exist yet.
            options: the options of the table ``requests``, and

                - ``stateLocation`` (required): a path or a URL that the driver and all executors
                  reach, of this query alone;
                - ``settleSeconds`` (60): a file that was not written to for this time is complete,
                  even if no other came after it. 0: every file is complete;
                - ``maxFilesPerTrigger``: how many files a batch has at most;
                - ``numPartitions`` (1): tasks of a batch. Each reads all packets, and follows its
                  shard of the connections. It stays the same as long as the state is used.
            schema: the columns, which are the table's or some of them.

        Raises:
            UsageError: an option has an invalid value.
        """
        self._options = parse_stream_options(options)
        source = source_options(table_options(options))
        self._plan = plan_of(source, schema.fieldNames())
        if source.table != _TABLE:
            raise UsageError(f"option table: {_TABLE} can be streamed, and no other table")
        if not paths:
            raise UsageError("no capture given: load(PATH), or option path")
        self._paths = list(paths)
        self._schema = schema
        self._shards = source.partitions or 1
        self._keylog = source.keylog
        self._admitted: AdmittedCaptures | None = None
        self._target: int | None = None
        """The last offset of a query with trigger ``availableNow``."""

    # -- called in the driver ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        """Return where a new query begins."""
        return {"files": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Return how many files a batch may have."""
        limit = self._options.most_files
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    @without_stack_trace()
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's
        """Admit files that are complete, and return the end offset of the next batch.

        Raises UsageError if the state folder cannot be used.
        """
        if self._target is None:
            self._captures().admit(time.time_ns())
        end = len(self._captures()) if self._target is None else self._target
        if isinstance(limit, ReadMaxFiles):
            end = min(end, start["files"] + limit.max_files)
        return {"files": max(end, start["files"])}

    @without_stack_trace()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Admit the captures that are complete now; the query reads no others."""
        self._captures().admit(time.time_ns())
        self._target = len(self._captures())

    @without_stack_trace()
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's
        """Return how many files were admitted so far."""
        return {"files": len(self._captures())}

    @without_stack_trace()
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Divide the connections of a batch among its tasks.

        Raises UsageError if the list of files is too short, because it is another query's.
        """
        first, last = start["files"], end["files"]
        if first == last:
            return []
        admitted = self._captures()
        if last > len(admitted):
            raise UsageError(
                f"option stateLocation: {self._folder().shown} knows {len(admitted)} files, "
                f"and the query's checkpoint {last}: they belong to different queries"
            )
        captures = tuple(admitted.between(first, last))
        # A key log grows while captures are written.
        keys = find_key_files(self._keylog)
        return [
            InputPartition(StreamPartition(first, last, Shard(index, self._shards), captures, keys))
            for index in range(self._shards)
        ]

    @without_stack_trace()
    def commit(self, end: dict[str, int]) -> None:
        """Remove the states before this offset."""
        folder = self._folder()
        saved = states_name(end["files"]).rpartition("/")[2]
        for name in folder.names("states"):
            if name < saved:
                folder.remove(f"states/{name}")

    # -- called in a task -------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, and write its state.

        Raises:
            KanalyzeError: a capture cannot be read, or the state folder cannot be used.
        """
        task = partition.value
        assert isinstance(task, StreamPartition)
        columns = self._plan.columns
        maker = BatchMaker(columns)
        with without_stack_trace():
            for block in read_stream_partition(self._plan, task, self._folder()):
                yield from as_requested(maker.of_block(block), columns, self._schema)

    # -- the state folder -------------------------------------------------------------------------

    def _folder(self) -> SharedFolder:
        return SharedFolder(self._options.state_location, "option stateLocation: ")

    def _captures(self) -> AdmittedCaptures:
        if self._admitted is None:
            folder = self._folder()
            self._check(folder)
            self._admitted = AdmittedCaptures(self._paths, folder, settle_s=self._options.settle_s)
        return self._admitted

    def _check(self, folder: SharedFolder) -> None:
        """Raise UsageError if the folder belongs to another query."""
        settings = {"paths": self._paths, "numPartitions": self._shards}
        saved = folder.read(_SETTINGS)
        if saved is None:
            folder.write(_SETTINGS, json.dumps(settings).encode())
            return
        if saved != json.dumps(settings).encode():
            raise UsageError(
                f"option stateLocation: {folder.shown} is that of another query: "
                f"{saved[:_LONGEST_SHOWN].decode(errors='backslashreplace')}"
            )
