"""The checkpoints of an archive that grows: what a run saves for the next one.

In: which files were read, the states of open connections, the quality of the captures. Out: files
in a folder, and the same values from them.

Each run has a folder, ``run-000001``, which does not change once it is complete: the states of open
connections as Parquet, and a JSON file with all else, after a line with its checksum.

The quality of captures is saved as JSON values. Counts have their names, so that later versions may
have more, which are 0 in what earlier ones have saved.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kanalyze.batch.history import ALL_CONNECTIONS, Stretch, from_json, to_json
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kanalyze.batch.shared_folder import FileEntry, SharedFolder

_LOAD_ERRORS: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
_FORMAT: Final = 2
"""Must be raised if older versions would read the file wrongly. A new key need not be: they leave
it out, and it has a value for files without it."""
_MAGIC_WORD: Final = b"kanalyze-checkpoint"
_SUMS: Final = "sums.zip"
_OWNER: Final = "archive.json"
_RUN_FOLDER: Final = re.compile(r"run-\d{6,}")


class Cut(NamedTuple):
    """Where a step has ended, as later captures were there already."""

    time_ns: int
    """Packets are taken up to this time."""
    taken: Mapping[str, int]
    """How many packets were taken of each capture that goes on, by identity."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of an archive after a run."""

    run: int
    archive: str
    """The archive's id."""
    buckets: int
    """The number of buckets."""
    is_finished: bool
    """All connections were closed: no captures can be added."""
    options: dict[str, Any]
    """What rows depend on in addition to captures, as JSON values."""
    read: dict[str, int | None]
    """The sizes of the files that were read, by identity."""
    names: dict[bytes, str]
    """Names of topics by id."""
    quality: CaptureQuality
    """The quality of all captures, without open connections."""
    open_quality: CaptureQuality
    """The counts that would be added if all open connections were closed now."""
    closing: dict[int, CaptureQuality] = field(default_factory=dict)
    """The same counts for each bucket, with anomalies; empty in older checkpoints."""
    history: list[Stretch] = field(default_factory=list)
    """What was read lately; older checkpoints only have from when to when."""
    cut: Cut | None = None
    """Where the run ended, if it left captures that were there for the next one."""
    states: list[tuple[str, int]] = field(default_factory=list)
    """The files with the states of open connections, and their sizes."""

    @property
    def whole_quality(self) -> CaptureQuality:
        """The quality of all captures, with open connections."""
        whole = CaptureQuality()
        whole.merge(self.quality)
        whole.merge(self.open_quality)
        return whole


class CheckpointFolder:
    """The folder with the checkpoints of one archive. Methods raise UsageError."""

    def __init__(self, files: SharedFolder) -> None:
        """Use a folder, which need not exist yet."""
        self._files = files
        self.shown = files.shown

    def owner(self) -> tuple[str, str] | None:
        """Return the id of the folder's archive, and the URL of its rows; None if it has none."""
        data = self._files.read(_OWNER)
        if data is None:
            return None
        try:
            owner = json.loads(data)
            return str(owner["archive"]), str(owner["out"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise UsageError(
                f"{self.shown}: {_OWNER} is damaged: the archive of this checkpoint is unknown"
            ) from None

    def own(self, archive: str, out: str) -> None:
        """Make it the folder of an archive."""
        text = json.dumps({"archive": archive, "out": out})
        self._files.write(_OWNER, text.encode("ascii"))

    def read(self, run: int, archive: str) -> Checkpoint:
        """Return the checkpoint of a run."""
        name = f"{_folder(run)}/checkpoint"
        data = self._files.read(name)
        if data is None:
            raise UsageError(f"{self.shown}: {name} is missing; --replace starts over")
        header, _, text = data.partition(b"\n")
        if header.split(b" ")[:2] != [_MAGIC_WORD, b"%d" % _FORMAT]:
            raise self._damaged(name)
        if header != _first_line(text):
            raise self._damaged(name)
        try:
            checkpoint = _from_json(json.loads(text))
        except _LOAD_ERRORS:
            raise self._damaged(name) from None
        if (checkpoint.run, checkpoint.archive) != (run, archive):
            raise self._damaged(name)
        # There may be more files, of attempts of tasks that do not count.
        if not {*map(tuple, checkpoint.states)} <= {*self._files.files(_states(run))}:
            raise self._damaged(_states(run))
        return checkpoint

    @property
    def location(self) -> str:
        """The folder, for tasks."""
        return self._files.location

    def begin(self, run: int) -> str:
        """Remove what is of a run of this number; return the folder for the states of buckets.

        States are Parquet files with the columns ``bucket`` (int32) and ``data`` (binary).
        """
        self._files.remove(_folder(run))
        # States may hold plaintext of messages that go on: nobody else reads them, at no time.
        self._files.make_private(_folder(run))
        return f"{self._files.location}/{_states(run)}"

    def sums(self, run: int) -> bytes | None:
        """Return what a run saved of :mod:`kanalyze.batch.sums`; None if that is nothing."""
        return self._files.read(f"{_folder(run)}/{_SUMS}")

    def write(
        self, checkpoint: Checkpoint, states: Sequence[FileEntry], sums: bytes | None = None
    ) -> None:
        """Write the checkpoint of a run that has begun.

        ``states`` are files in the folder for states; for ``sums`` see :meth:`sums`.
        """
        folder = _folder(checkpoint.run)
        if sums is not None:
            self._files.write(f"{folder}/{_SUMS}", sums)
        named = sorted((f"{_states(checkpoint.run)}/{name}", size) for name, size in states)
        text = json.dumps(_to_json(replace(checkpoint, states=named))).encode("ascii")
        self._files.write(f"{folder}/checkpoint", _first_line(text) + b"\n" + text)
        self._files.make_private(folder)

    def keep_only(self, checkpoint: Checkpoint) -> None:
        """Remove all but a checkpoint, and those that it may go back to."""
        kept = {checkpoint.run, *(stretch.before for stretch in checkpoint.history)}
        folders = {entry.name.partition("/")[0] for entry in self._files.files("")}
        for folder in folders - {_folder(run) for run in kept if run}:
            if _RUN_FOLDER.fullmatch(folder):
                self._files.remove(folder)

    def _damaged(self, name: str) -> UsageError:
        return UsageError(f"{self.shown}: {name} is damaged; --replace starts over")


def _cut(values: Any) -> Cut | None:
    if values is None:
        return None
    time_ns, taken = values
    return Cut(int(time_ns), {str(name): int(packets) for name, packets in taken.items()})


def _unknown_history(quality: CaptureQuality) -> list[Stretch]:
    """Return the history of a checkpoint that has none: any connection may have been read."""
    first_ns, last_ns = quality.first_time_ns, quality.last_time_ns
    if first_ns is None or last_ns is None:
        return []
    return [Stretch(None, first_ns, last_ns, ALL_CONNECTIONS, {})]


def _folder(run: int) -> str:
    return f"run-{run:06}"


def _states(run: int) -> str:
    return f"{_folder(run)}/states"


def _first_line(text: bytes) -> bytes:
    digest = hashlib.blake2b(text, digest_size=16).hexdigest().encode()
    return b"%s %d %s" % (_MAGIC_WORD, _FORMAT, digest)


def _to_json(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "run": checkpoint.run,
        "archive": checkpoint.archive,
        "buckets": checkpoint.buckets,
        "is_finished": checkpoint.is_finished,
        "options": checkpoint.options,
        "read": checkpoint.read,
        "names": {topic_id.hex(): name for topic_id, name in checkpoint.names.items()},
        "quality": checkpoint.quality.to_values(),
        "open_quality": checkpoint.open_quality.to_values(),
        "closing": {
            str(bucket): quality.to_values() for bucket, quality in checkpoint.closing.items()
        },
        "history": to_json(checkpoint.history),
        "cut": checkpoint.cut,
        "states": checkpoint.states,
    }


def _from_json(plain: dict[str, Any]) -> Checkpoint:
    quality = CaptureQuality.from_values(plain["quality"])
    history = plain.get("history")
    return Checkpoint(
        run=int(plain["run"]),
        archive=str(plain["archive"]),
        buckets=int(plain["buckets"]),
        is_finished=plain["is_finished"] is True,
        options=dict(plain["options"]),
        read={str(name): size for name, size in plain["read"].items()},
        names={bytes.fromhex(topic_id): str(name) for topic_id, name in plain["names"].items()},
        quality=quality,
        open_quality=CaptureQuality.from_values(plain["open_quality"]),
        closing={
            int(bucket): CaptureQuality.from_values(quality)
            for bucket, quality in plain.get("closing", {}).items()
        },
        history=_unknown_history(quality) if history is None else from_json(history),
        cut=_cut(plain.get("cut")),
        states=[(str(name), int(size)) for name, size in plain["states"]],
    )
