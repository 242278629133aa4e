"""Captures as they are completed: rows of requests as a stream of Spark, each exactly once.

In: a folder that a rotation writes into (``tcpdump -G``, ``-C``, ``-W``), options. Out: the methods
that Spark calls of a stream reader.

Connections and messages continue from one file to the next, over batches and restarts of the
query. Their state is in the folder of option ``stateLocation``: tasks write it at the end offset of
a batch, and the tasks of the next batch read it. An offset is a number of files in a list that is
in the folder too (:class:`AdmittedCaptures`), so it always means the same packets. The
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

The state is: open connections (:mod:`kanalyze.runtime.state`), an index of the packets of earlier
captures, which rows refer to, and names of topics. Anomalies of the captures themselves (one that
ends within a packet) are written by the first shard. A task that runs again writes the same files.
If connections of the state cannot be continued, because another version of kanalyze wrote it, they
are closed: the rows of their requests without a response come first, and a file says why.

A capture is complete if a capture that begins later was written to later, or if it has not been
written to for a while. Complete captures are admitted in the order of their first packets, and
files without packets last. A capture that begins before one admitted earlier is read after it, and
noted. A complete file that is no capture, or cannot be opened, is noted and never read.

Captures of two interfaces that are written at the same time would be taken for complete too soon,
and files that are copied into the folder exist before they are complete. So move files in, and use
a folder and a query for each interface.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from kanalyze.batch.archive.segment_readers import ContinuedCaptures
from kanalyze.batch.archive.shuffle import pack_state, unpack_state
from kanalyze.batch.key_sources import find_key_files
from kanalyze.batch.read_plan import TablePartition
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.capture.inputs import (
    FoundCapture,
    InputFile,
    MissingFileError,
    NamedFiles,
    file_of,
    is_settled,
    look_at,
    look_in_folder,
    named_files,
    reading_order,
    same_file,
)
from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores, is_url
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, KanalyzeError, UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.segment_columns import Shard
from kanalyze.spark.failures import without_stack_trace
from kanalyze.spark.schema import as_requested
from kanalyze.spark.source.readers import (
    parse_stream_options,
    plan_of,
    source_options,
    table_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kanalyze.batch.key_sources import KeySources
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.tables.columns.block import RowBlock

__all__ = [
    "AdmittedCaptures",
    "CaptureStream",
    "Note",
    "StreamPartition",
    "read_stream_partition",
    "states_name",
]

_DIGITS: Final = 12
_FILES: Final = "files"
_NOTES: Final = "quarantine"
_WATCHED: Final = 16
"""How many of the latest captures are checked for having grown."""
_NS_PER_S: Final = 1_000_000_000

_Item = TypeVar("_Item")


class Note(NamedTuple):
    """What was wrong with a capture."""

    path: str
    kind: str
    """``capture_unreadable`` for one that is not read, ``reorder_limit`` for one that is read late,
    ``capture_truncated`` for one of which the end may not have been read."""
    detail: str


class _Candidate(NamedTuple):
    """A file that is not admitted yet."""

    file: InputFile
    capture: FoundCapture | None
    """The capture; None if it cannot be opened as a capture (yet)."""
    reason: str | None
    """Why it cannot be opened; None for a file in a folder that is no capture, which is not noted.
    """

    @property
    def order(self) -> tuple[bool, int, str]:
        """Captures are read in this order."""
        return reading_order(self.capture or FoundCapture(self.file.path))


class AdmittedCaptures:
    """The captures admitted so far, saved in a folder; one process may admit at a time."""

    def __init__(self, paths: Sequence[str], folder: SharedFolder, *, settle_s: float) -> None:
        """Load the list of captures that were admitted before.

        Args:
            paths: files, folders, globs, URLs of any of these.
            folder: where the list is saved.
            settle_s: seconds without a change after which a file is complete.

        Raises:
            UsageError: the folder cannot be read, or contains something else.
        """
        self._paths = paths
        self._folder = folder
        self._settle_ns = int(settle_s * _NS_PER_S)
        self._stores = Stores()
        self._captures = _load_list(folder, _FILES, FoundCapture)
        self.notes = _load_list(folder, _NOTES, Note)
        """What was wrong, in the order in which it was found."""
        self._known: set[str] = set()
        """Paths of files that need no second look: as they were named, and with links resolved."""
        for capture in self._captures:
            self._add_known(capture.path)
        for note in self.notes:
            self._add_known(note.path)

    def __len__(self) -> int:
        return len(self._captures)

    def between(self, start: int, end: int) -> list[FoundCapture]:
        """Return the captures from index ``start`` to ``end`` that can still be opened.

        The others are noted. Raises UsageError if the note cannot be written.
        """
        readable, notes = [], []
        for capture in self._captures[start:end]:
            try:
                # It was opened before; it may have been removed since.
                readable.append(look_at(FoundCapture(capture.path), self._stores))
            except CaptureError as error:
                notes.append(Note(capture.path, AnomalyKind.CAPTURE_UNREADABLE, str(error)))
        self._note(notes)
        return readable

    def admit(self, now_ns: int) -> None:
        """Admit the captures that are complete at Unix time ``now_ns``.

        Raises UsageError if the list cannot be written.
        """
        candidates = self._find_candidates()
        candidates.sort(key=lambda candidate: candidate.order)
        complete = [
            candidate
            for candidate in candidates
            if self._is_complete(candidate, candidates, now_ns)
        ]
        latest_ns = max((capture.first_time_ns or 0 for capture in self._captures), default=0)
        admitted, notes = [], []
        for file, capture, reason in complete:
            if capture is None:
                if reason is not None:
                    notes.append(Note(file.path, AnomalyKind.CAPTURE_UNREADABLE, reason))
                continue
            admitted.append(capture)
            if capture.first_time_ns is not None and capture.first_time_ns < latest_ns:
                name = capture_name(file.path)
                detail = f"{name}: begins before captures that were read already: it is late"
                notes.append(Note(file.path, AnomalyKind.REORDER_LIMIT, detail))
        self._note([*self._notes_of_grown(), *notes])
        if admitted:
            items = [capture._asdict() for capture in admitted]
            _append(self._folder, _FILES, len(self._captures), items)
            self._captures += admitted
        for candidate in complete:
            self._add_known(candidate.file.path)

    def _add_known(self, path: str) -> None:
        self._known |= {path, same_file(path)}

    def _notes_of_grown(self) -> list[Note]:
        """Return notes of the latest captures that were written to after they were admitted."""
        notes = []
        for capture in self._captures[-_WATCHED:]:
            # Objects in stores do not grow.
            size = None if is_url(capture.path) else paths.regular_bytes(capture.path)
            if size is not None and capture.total_bytes is not None and size > capture.total_bytes:
                detail = f"{capture_name(capture.path)}: was written to after it seemed complete"
                notes.append(Note(capture.path, AnomalyKind.CAPTURE_TRUNCATED, detail))
        return notes

    def _note(self, notes: Iterable[Note]) -> None:
        new = [note for note in notes if note not in self.notes]
        if new:
            _append(self._folder, _NOTES, len(self.notes), [note._asdict() for note in new])
            self.notes += new

    def _find_candidates(self) -> list[_Candidate]:
        """Return a candidate for each file that was neither admitted nor noted.

        Raises CaptureError for a file that can be read only once.
        """
        by_file: dict[str, tuple[str, bool]] = {}
        for argument in self._paths:
            named = self._named_files(argument)
            is_folder = named.is_folder
            for path in named.paths:
                file_path = same_file(path)
                if not self._known.isdisjoint((path, file_path)):
                    continue
                other = by_file.get(file_path)
                if other is None:
                    by_file[file_path] = path, is_folder
                    continue
                # A link may change: the file's own name is preferred.
                best = path if Path(other[0]).is_symlink() else other[0]
                by_file[file_path] = best, is_folder and other[1]
        files = ((self._existing(path), is_folder) for path, is_folder in by_file.values())
        return [self._inspect(file, is_folder) for file, is_folder in files if file is not None]

    def _named_files(self, argument: str) -> NamedFiles:
        """Return the files that an argument names now; it is no error if there are none yet."""
        try:
            return named_files(argument, self._stores)
        except CaptureError:
            return NamedFiles([], is_folder=False)

    def _existing(self, path: str) -> InputFile | None:
        try:
            return file_of(path, self._stores)
        except MissingFileError:
            return None  # it may be written later

    def _inspect(self, file: InputFile, is_folder: bool) -> _Candidate:
        try:
            if not is_folder:
                return _Candidate(file, look_at(FoundCapture(file.path), self._stores), None)
            capture = look_in_folder(file.path, self._stores)
        except CaptureError as error:
            capture = error
        if isinstance(capture, CaptureError):
            return _Candidate(file, None, str(capture))
        return _Candidate(file, capture, None)

    def _is_complete(
        self, candidate: _Candidate, others: Iterable[_Candidate], now_ns: int
    ) -> bool:
        if is_settled(candidate.file, now_ns=now_ns, settle_ns=self._settle_ns):
            return True
        return candidate.capture is not None and any(
            other.order > candidate.order and _was_written_later(other.file, candidate.file)
            for other in others
            if other.capture is not None
        )


def _was_written_later(first: InputFile, second: InputFile) -> bool:
    if first.modified_ns is None or second.modified_ns is None:
        return True
    return first.modified_ns >= second.modified_ns


# -- lists that only grow -------------------------------------------------------------------------


def _append(folder: SharedFolder, name: str, first: int, items: Iterable[dict[str, Any]]) -> None:
    """Append items to a list, the first of them at index ``first``."""
    lines = "".join(json.dumps(item) + "\n" for item in items)
    folder.write(f"{name}/{first:0{_DIGITS}}.jsonl", lines.encode())


def _load_list(folder: SharedFolder, name: str, kind: Callable[..., _Item]) -> list[_Item]:
    items: list[_Item] = []
    for part in folder.names(name):
        data = folder.read(f"{name}/{part}") or b""
        if part != f"{len(items):0{_DIGITS}}.jsonl":
            raise UsageError(f"option stateLocation: {folder.shown}: {name}/{part} is out of place")
        try:
            items += [kind(**json.loads(line)) for line in data.splitlines()]
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"option stateLocation: {folder.shown}: {name}/{part} is damaged"
            ) from error
    return items


_DIGEST_BYTES: Final = 16


class StreamPartition(NamedTuple):
    """The captures and connections that one task reads."""

    start: int
    """The number of captures in earlier batches."""
    end: int
    shard: Shard
    captures: tuple[FoundCapture, ...]
    """Those from ``start`` to ``end`` that can be read."""
    keys: KeySources | None = None
    """Where secrets of TLS are."""


def states_name(offset: int) -> str:
    """Return the name of the folder with the states of all shards at an offset."""
    return f"states/{offset:0{_DIGITS}}"


def read_stream_partition(
    plan: ReadPlan, task: StreamPartition, folder: SharedFolder
) -> Iterator[RowBlock]:
    """Yield the rows of a task; after the last one the state for the next batch is written.

    Raises:
        CaptureError: a capture cannot be opened or read; a retry may succeed.
        KanalyzeError: the state of the batch before is missing or damaged.
    """
    locations, saved_state = _load_state(task, folder)
    captures = _StreamCaptures(task.captures, locations)
    plan_now = replace(plan.with_names(_known_names(task, folder)), keys=task.keys)
    analysis = plan_now.analysis(TablePartition((), task.shard, segments=captures))
    run = analysis.resumable(saved_state, keeps_open=True)
    for rows in run.rows():
        yield from rows.requests
    if run.closed is not None:
        name = f"closed/{task.end:0{_DIGITS}}-{task.shard.index}.txt"
        folder.write(name, f"{run.closed}\n".encode())
    if task.shard.is_first and captures.anomalies:
        pairs = [[anomaly.kind, anomaly.detail] for anomaly in captures.anomalies]
        lines = "".join(f"{json.dumps(pair)}\n" for pair in pairs)
        folder.write(f"anomalies/{task.end:0{_DIGITS}}.jsonl", lines.encode())
    name = f"{states_name(task.end)}/{task.shard.index}"
    known = {topic_id.hex(): name for topic_id, name in sorted(analysis.names.known.items())}
    folder.write(f"{name}.names", _with_checksum(json.dumps(known).encode()), private=True)
    state = pack_state(captures.save_state(), run.saved_state)
    # It may hold plaintext of messages that go on.
    folder.write(name, _with_checksum(state), private=True)


def _load_state(task: StreamPartition, folder: SharedFolder) -> tuple[str | None, bytes | None]:
    """Return where earlier packets are, and the open connections; None before the first batch."""
    if not task.start:
        return None, None
    return unpack_state(_read_checked(folder, f"{states_name(task.start)}/{task.shard.index}"))


def _known_names(task: StreamPartition, folder: SharedFolder) -> dict[bytes, str]:
    """Return the names of topics that all shards knew before this batch."""
    names_by_id: dict[bytes, str] = {}
    for index in range(task.shard.count) if task.start else ():
        names = json.loads(_read_checked(folder, f"{states_name(task.start)}/{index}.names"))
        names_by_id.update({bytes.fromhex(topic_id): name for topic_id, name in names.items()})
    return names_by_id


def _with_checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode() + b"\n" + body


def _read_checked(folder: SharedFolder, name: str) -> bytes:
    """Return the body of a file with a checksum; raises KanalyzeError if missing or damaged."""
    data = folder.read(name)
    if data is None:
        raise KanalyzeError(f"{folder.shown}: {name} is missing: begin with another checkpoint")
    body = data.partition(b"\n")[2]
    if data != _with_checksum(body):
        raise KanalyzeError(f"{folder.shown}: {name} is damaged: begin with another checkpoint")
    return body


class _StreamCaptures(ContinuedCaptures):
    """The captures of one batch."""

    description = None
    """Secrets inside captures are not used: a connection would not have them in the next batch."""

    def __init__(self, captures: Sequence[FoundCapture], locations: str | None) -> None:
        super().__init__(captures, Stores(), locations)
        self.anomalies = self._merged.anomalies
        self.batches = self._merged.batches

    @property
    def dropped_packets(self) -> int | None:
        return self._merged.dropped_packets

    @property
    def progress(self) -> tuple[int, int | None]:
        return self._merged.progress


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
