"""Decides which captures are complete, and in which order a stream reads them.

In: paths, folders, globs, URLs that a rotation writes into. Out: a list of captures that only
grows, so that an index into it always means the same capture. Must not know: what is in the
captures besides the time of the first packet, nor who reads them.

A capture is complete if a capture that begins later was written to later, or if it has not been
written to for a while. Complete captures are admitted in the order of their first packets, and
files without packets last. A capture that begins before one admitted earlier is read after it, and
noted. A complete file that is no capture, or cannot be opened, is noted and never read.

Captures of two interfaces that are written at the same time would be taken for complete too soon,
and files that are copied into the folder exist before they are complete. So move files in, and use
a folder and a query for each interface.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kanalyze.capture.inputs import look_at, look_in_folder, reading_order
from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.io.urls import is_url
from kanalyze.capture.listing import (
    FoundCapture,
    InputFile,
    MissingFileError,
    NamedFiles,
    file_of,
    is_settled,
    named_files,
    same_file,
)
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.spark.shared_folder import SharedFolder

__all__ = ["AdmittedCaptures", "Note"]

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
    """Why not; None for a file in a folder that is not a capture, which is not noted."""

    @property
    def order(self) -> tuple[bool, int, str]:
        """Captures are read in this order."""
        return reading_order(self.capture or FoundCapture(self.file.path))


class AdmittedCaptures:
    """The captures admitted so far, saved in a folder; one process may admit at a time."""

    def __init__(self, paths: Sequence[str], folder: SharedFolder, *, settle_s: float) -> None:
        """Read what was admitted before.

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
        """Paths of files that are not looked at any more, as they were named and without links."""
        for path in [*(each.path for each in self._captures), *(each.path for each in self.notes)]:
            self._add_known(path)

    def __len__(self) -> int:
        return len(self._captures)

    def between(self, start: int, end: int) -> list[FoundCapture]:
        """Return the captures from index ``start`` to ``end``, without those that are gone.

        Those are noted. Raises UsageError if the note cannot be written.
        """
        found, notes = [], []
        for each in self._captures[start:end]:
            try:
                # It was opened before; it may have been removed since.
                found.append(look_at(FoundCapture(each.path), self._stores))
            except CaptureError as error:
                notes.append(Note(each.path, AnomalyKind.CAPTURE_UNREADABLE, str(error)))
        self._note(notes)
        return found

    def admit(self, now_ns: int) -> None:
        """Admit what is complete at a time. Raises UsageError if the list cannot be written."""
        candidates = self._fresh()
        candidates.sort(key=lambda each: each.order)
        complete = [each for each in candidates if self._is_complete(each, candidates, now_ns)]
        latest_ns = max((each.first_time_ns or 0 for each in self._captures), default=0)
        admitted, notes = [], []
        for each in complete:
            if each.capture is None:
                if each.reason is not None:
                    notes.append(Note(each.file.path, AnomalyKind.CAPTURE_UNREADABLE, each.reason))
                continue
            admitted.append(each.capture)
            if each.capture.first_time_ns is not None and each.capture.first_time_ns < latest_ns:
                name = capture_name(each.file.path)
                detail = f"{name}: begins before captures that were read already: it is late"
                notes.append(Note(each.file.path, AnomalyKind.REORDER_LIMIT, detail))
        self._note([*self._grown(), *notes])
        if admitted:
            _append(
                self._folder, _FILES, len(self._captures), [each._asdict() for each in admitted]
            )
            self._captures += admitted
        for each in complete:
            self._add_known(each.file.path)

    def _add_known(self, path: str) -> None:
        self._known |= {path, same_file(path)}

    def _grown(self) -> list[Note]:
        """Return notes of the latest captures that were written to after they were admitted."""
        notes = []
        for each in self._captures[-_WATCHED:]:
            # Those in stores do not grow.
            size = None if is_url(each.path) else paths.regular_bytes(each.path)
            if size is not None and each.total_bytes is not None and size > each.total_bytes:
                detail = f"{capture_name(each.path)}: was written to after it seemed complete"
                notes.append(Note(each.path, AnomalyKind.CAPTURE_TRUNCATED, detail))
        return notes

    def _note(self, notes: Iterable[Note]) -> None:
        fresh = [note for note in notes if note not in self.notes]
        if fresh:
            _append(self._folder, _NOTES, len(self.notes), [note._asdict() for note in fresh])
            self.notes += fresh

    def _fresh(self) -> list[_Candidate]:
        """Look at the files that are there and were neither admitted nor noted, each once.

        Raises CaptureError for a file that can be read only once.
        """
        found: dict[str, tuple[str, bool]] = {}
        for argument in self._paths:
            listed, is_folder = self._listed(argument)
            for path in listed:
                real = same_file(path)
                if not self._known.isdisjoint((path, real)):
                    continue
                known = found.get(real)
                if known is None:
                    found[real] = path, is_folder
                    continue
                # A link may change: the file's own name is preferred.
                best = path if Path(known[0]).is_symlink() else known[0]
                found[real] = best, is_folder and known[1]
        files = ((self._there(path), is_folder) for path, is_folder in found.values())
        return [self._look(file, is_folder) for file, is_folder in files if file is not None]

    def _listed(self, argument: str) -> NamedFiles:
        """Return the files that an argument names now; it is no error if there are none yet."""
        try:
            return named_files(argument, self._stores)
        except CaptureError:
            return NamedFiles([], is_folder=False)

    def _there(self, path: str) -> InputFile | None:
        try:
            return file_of(path, self._stores)
        except MissingFileError:
            return None  # it may come

    def _look(self, file: InputFile, is_folder: bool) -> _Candidate:
        try:
            if not is_folder:
                return _Candidate(file, look_at(FoundCapture(file.path), self._stores), None)
            seen = look_in_folder(file.path, self._stores)
        except CaptureError as error:
            seen = error
        if isinstance(seen, CaptureError):
            return _Candidate(file, None, str(seen))
        return _Candidate(file, seen, None)

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


def _was_written_later(one: InputFile, other: InputFile) -> bool:
    if one.modified_ns is None or other.modified_ns is None:
        return True
    return one.modified_ns >= other.modified_ns


# -- lists that only grow -------------------------------------------------------------------------


def _append(folder: SharedFolder, name: str, first: int, items: Iterable[dict[str, Any]]) -> None:
    """Append items to a list, the first of them at index ``first``."""
    lines = "".join(json.dumps(item) + "\n" for item in items)
    folder.write(f"{name}/{first:0{_DIGITS}}.jsonl", lines.encode())


def _load_list(folder: SharedFolder, name: str, kind: Callable[..., _Item]) -> list[_Item]:
    found: list[_Item] = []
    for part in folder.names(name):
        data = folder.read(f"{name}/{part}") or b""
        if part != f"{len(found):0{_DIGITS}}.jsonl":
            raise UsageError(f"option stateLocation: {folder.shown}: {name}/{part} is out of place")
        try:
            found += [kind(**json.loads(line)) for line in data.splitlines()]
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"option stateLocation: {folder.shown}: {name}/{part} is damaged"
            ) from error
    return found
