"""Decides which captures are complete, and in which order a stream reads them.

In: paths, folders, globs, URLs that a rotation writes into. Out: a list of captures that only
grows, so that an index into it always means the same capture.

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
from kanalyze.errors import CaptureError, UsageError
from kanalyze.model.anomalies import AnomalyKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.batch.shared_folder import SharedFolder

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
