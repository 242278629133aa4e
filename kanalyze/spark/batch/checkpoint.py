"""What a run over an archive that grows leaves for the next one.

In: what was read, what is left open, sums. Out: files in a folder; and of these the same again.
Must not know: how captures are read, nor when a run counts (:mod:`kanalyze.spark.batch.commit`
does).

Each run has a folder of its own, ``run-000001``, in which nothing is changed once it is there: the
states of open connections as Spark wrote them, and one file of JSON with all else, behind a line
with its checksum. Which run counts is told elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kanalyze.errors import UsageError
from kanalyze.spark.batch.report_state import (
    SumsError,
    plain_quality,
    plain_statistics,
    quality_of,
    statistics_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.spark.batch.hadoop_folder import HadoopFolder
    from kanalyze.statistics.summary import Statistics
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["Checkpoint", "CheckpointFolder"]

_FORMAT: Final = 1
"""To be raised with every change of what is in the file."""
_MAGIC: Final = b"kanalyze-checkpoint"
_OWNER: Final = "archive.json"
_STATES_SCHEMA: Final = "bucket int, data binary"
_MOST_STATE_FILES: Final = 16
_RUN_FOLDER: Final = re.compile(r"run-\d{6,}")


@dataclass(frozen=True)
class Checkpoint:
    """What holds after a run."""

    run: int
    archive: str
    """Which archive it is of."""
    buckets: int
    """Into how many parts connections are divided."""
    is_finished: bool
    """All connections were ended: nothing can be added."""
    options: dict[str, Any]
    """What rows depend on besides captures; values that JSON has."""
    read: dict[str, int | None]
    """The sizes of the files that were read, by identity."""
    names: dict[bytes, str]
    """Of topics, by id."""
    statistics: Statistics
    """Over all rows."""
    quality: CaptureQuality
    """Of all that was read, but what is left open."""
    open_quality: CaptureQuality
    """What would be added if all that is left open ended now."""

    def summary(self, conditions: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the report over all runs, whose rows meet the same conditions."""
        quality = quality_of(plain_quality(self.quality))
        quality.merge(self.open_quality)
        return self.statistics.summary(quality, conditions)


class CheckpointFolder:
    """Where the checkpoints of one archive are. Methods raise UsageError."""

    def __init__(self, files: HadoopFolder) -> None:
        """Take a folder, which need not be there yet."""
        self._files = files
        self.shown = files.shown

    def owner(self) -> tuple[str, str] | None:
        """Return of which archive this is, and where its rows go; None for a folder of none."""
        data = self._files.read(_OWNER)
        if data is None:
            return None
        try:
            owner = json.loads(data)
            return str(owner["archive"]), str(owner["out"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise UsageError(
                f"{self.shown}: {_OWNER} is damaged: which archive this is of cannot be told"
            ) from None

    def own(self, archive: str, out: str) -> None:
        """Make it the folder of an archive."""
        text = json.dumps({"archive": archive, "out": out})
        self._files.write(_OWNER, text.encode("ascii"))

    def read(self, run: int, archive: str) -> Checkpoint:
        """Return what a run left."""
        name = f"{_folder(run)}/checkpoint"
        data = self._files.read(name)
        if data is None:
            raise UsageError(f"{self.shown}: {name} is missing; --replace begins anew")
        line, _, text = data.partition(b"\n")
        if line.split(b" ")[:2] != [_MAGIC, b"%d" % _FORMAT]:
            raise self._damaged(name)
        if line != _first_line(text):
            raise self._damaged(name)
        try:
            checkpoint, states = _checkpoint(json.loads(text))
        except (SumsError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            raise self._damaged(name) from None
        if (checkpoint.run, checkpoint.archive) != (run, archive):
            raise self._damaged(name)
        there = [[entry.name, entry.total_bytes] for entry in self._state_files(run)]
        if states != there:
            raise self._damaged(f"{_folder(run)}/states")
        return checkpoint

    def states(self, spark: SparkSession, run: int) -> DataFrame:
        """Return what a run left open, by bucket: columns ``bucket`` and ``data``."""
        url = f"{self._files.url}/{_folder(run)}/states"
        return spark.read.schema(_STATES_SCHEMA).parquet(url)

    def write(self, checkpoint: Checkpoint, states: DataFrame | None) -> None:
        """Write what a run leaves, in place of what a run of that number may have left before."""
        folder = _folder(checkpoint.run)
        self._files.remove(folder)
        if states is not None:
            few = states.coalesce(_MOST_STATE_FILES)
            few.write.mode("overwrite").parquet(f"{self._files.url}/{folder}/states")
        text = json.dumps(_plain(checkpoint, self._state_files(checkpoint.run))).encode("ascii")
        self._files.write(f"{folder}/checkpoint", _first_line(text) + b"\n" + text)

    def keep_only(self, run: int) -> None:
        """Remove what other runs left."""
        folders = {entry.name.partition("/")[0] for entry in self._files.files("")}
        for folder in folders - {_folder(run)}:
            if _RUN_FOLDER.fullmatch(folder):
                self._files.remove(folder)

    def _state_files(self, run: int) -> list[Any]:
        files = self._files.files(f"{_folder(run)}/states")
        return [entry for entry in files if entry.name.endswith(".parquet")]

    def _damaged(self, name: str) -> UsageError:
        return UsageError(f"{self.shown}: {name} is damaged; --replace begins anew")


def _folder(run: int) -> str:
    return f"run-{run:06}"


def _first_line(text: bytes) -> bytes:
    digest = hashlib.blake2b(text, digest_size=16).hexdigest().encode()
    return b"%s %d %s" % (_MAGIC, _FORMAT, digest)


def _plain(checkpoint: Checkpoint, states: list[Any]) -> dict[str, Any]:
    return {
        "run": checkpoint.run,
        "archive": checkpoint.archive,
        "buckets": checkpoint.buckets,
        "is_finished": checkpoint.is_finished,
        "options": checkpoint.options,
        "read": checkpoint.read,
        "names": {topic_id.hex(): name for topic_id, name in checkpoint.names.items()},
        "statistics": plain_statistics(checkpoint.statistics),
        "quality": plain_quality(checkpoint.quality),
        "open_quality": plain_quality(checkpoint.open_quality),
        "states": states,
    }


def _checkpoint(plain: dict[str, Any]) -> tuple[Checkpoint, list[Any]]:
    """Return a checkpoint, and the files with its states."""
    checkpoint = Checkpoint(
        run=int(plain["run"]),
        archive=str(plain["archive"]),
        buckets=int(plain["buckets"]),
        is_finished=plain["is_finished"] is True,
        options=dict(plain["options"]),
        read={str(name): size for name, size in plain["read"].items()},
        names={bytes.fromhex(topic_id): str(name) for topic_id, name in plain["names"].items()},
        statistics=statistics_of(plain["statistics"]),
        quality=quality_of(plain["quality"]),
        open_quality=quality_of(plain["open_quality"]),
    )
    return checkpoint, list(plain["states"])
