"""Which captures of a folder are complete, and in which order they are read: settled once, kept.

In: paths, folders, globs, URLs that a rotation writes into. Out: a list that only grows, of which
each number always means the same captures. Must not know: what is in the captures beyond the time
of the first packet, nor who reads them.

A capture is complete when one that begins later is there and was not written to before it, or when
it was not written to for a while. Complete captures are admitted by the times of their first
packets, and files without packets last. One that begins before others that were admitted earlier
comes too late to be merged with them: it is read after them, and noted. What is complete and no
capture, or cannot be opened, is noted and passed over for good.

Captures that are written at the same time (by two interfaces) complete each other too soon, and
files that are copied into the folder are there before they are complete: move them in, and give
each interface a folder and a query of its own.
"""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyarrow import ArrowException
from pyarrow.fs import FileSystem

from kanalyze.capture.inputs import FoundCapture, look_at
from kanalyze.capture.source import capture_name
from kanalyze.capture.stores import Stores
from kanalyze.capture.urls import is_url
from kanalyze.errors import CaptureError, UsageError
from kanalyze.model import AnomalyKind
from kanalyze.named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.spark.folder import Folder

__all__ = ["AdmittedCaptures", "Note"]

_DIGITS: Final = 12
_FILES: Final = "files"
_NOTES: Final = "quarantine"
_WATCHED: Final = 16
"""Captures: the latest, which somebody may still write to."""
_NS_PER_S: Final = 1_000_000_000

_Item = TypeVar("_Item")


class Note(NamedTuple):
    """What was wrong with a capture."""

    path: str
    kind: str
    """``capture_unreadable`` for one that is not read, ``reorder_limit`` for one that is read late,
    ``capture_truncated`` for one of which the end may not have been read."""
    detail: str


class _Listed(NamedTuple):
    """A file that is there."""

    path: str
    modified_ns: int | None
    """Unix time; None where there is no telling."""


class _Candidate(NamedTuple):
    """A file that was not admitted yet."""

    listed: _Listed
    capture: FoundCapture | None
    """None where it cannot be opened as a capture (yet)."""
    reason: str

    @property
    def order(self) -> tuple[bool, int, str]:
        """Captures are read in this order."""
        time_ns = None if self.capture is None else self.capture.first_time_ns
        return time_ns is None, time_ns or 0, self.listed.path


class AdmittedCaptures:
    """The captures admitted so far, kept in a folder; one process may admit at a time."""

    def __init__(self, paths: Sequence[str], folder: Folder, *, settle_s: float) -> None:
        """Read what was admitted before.

        Args:
            paths: files, folders, globs, URLs of any of these.
            folder: where the list is kept.
            settle_s: seconds without a change after which a file is complete.

        Raises:
            UsageError: the folder cannot be read, or holds something else.
        """
        self._paths = paths
        self._folder = folder
        self._settle_ns = int(settle_s * _NS_PER_S)
        self._stores = Stores()
        self._captures = _kept(folder, _FILES, FoundCapture)
        self.notes = _kept(folder, _NOTES, Note)
        """What was wrong, in the order in which it was found."""
        self._known = {each.path for each in self._captures}
        self._known |= {note.path for note in self.notes}

    def __len__(self) -> int:
        return len(self._captures)

    def between(self, start: int, end: int) -> list[FoundCapture]:
        """Return the captures number ``start`` to ``end``, without those that are gone by now.

        Those are noted. Raises UsageError where that cannot be kept.
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
        """Admit what is complete at a time. Raises UsageError where that cannot be kept."""
        candidates = [self._look(listed) for listed in self._fresh()]
        candidates.sort(key=lambda each: each.order)
        complete = [each for each in candidates if self._is_complete(each, candidates, now_ns)]
        latest_ns = max((each.first_time_ns or 0 for each in self._captures), default=0)
        admitted, notes = [], []
        for each in complete:
            if each.capture is None:
                notes.append(Note(each.listed.path, AnomalyKind.CAPTURE_UNREADABLE, each.reason))
                continue
            admitted.append(each.capture)
            if each.capture.first_time_ns is not None and each.capture.first_time_ns < latest_ns:
                name = capture_name(each.listed.path)
                detail = f"{name}: begins before captures that were read already: it comes late"
                notes.append(Note(each.listed.path, AnomalyKind.REORDER_LIMIT, detail))
        self._note([*self._grown(), *notes])
        if admitted:
            _keep(self._folder, _FILES, len(self._captures), [each._asdict() for each in admitted])
            self._captures += admitted
        self._known |= {each.listed.path for each in complete}

    def _grown(self) -> list[Note]:
        """Tell which of the latest captures were written to after they were admitted."""
        notes = []
        for each in self._captures[-_WATCHED:]:
            size = _size_bytes(each.path)
            if size is not None and each.total_bytes is not None and size > each.total_bytes:
                detail = f"{capture_name(each.path)}: was written to after it seemed complete"
                notes.append(Note(each.path, AnomalyKind.CAPTURE_TRUNCATED, detail))
        return notes

    def _note(self, notes: Iterable[Note]) -> None:
        fresh = [note for note in notes if note not in self.notes]
        if fresh:
            _keep(self._folder, _NOTES, len(self.notes), [note._asdict() for note in fresh])
            self.notes += fresh

    def _fresh(self) -> list[_Listed]:
        listed = {path: None for each in self._paths for path in _expanded(each, self._stores)}
        return [_Listed(path, _modified_ns(path)) for path in listed if path not in self._known]

    def _look(self, listed: _Listed) -> _Candidate:
        try:
            return _Candidate(listed, look_at(FoundCapture(listed.path), self._stores), "")
        except CaptureError as error:
            return _Candidate(listed, None, str(error))

    def _is_complete(
        self, candidate: _Candidate, others: Iterable[_Candidate], now_ns: int
    ) -> bool:
        modified_ns = candidate.listed.modified_ns
        if not self._settle_ns:
            return True
        if modified_ns is not None and now_ns - modified_ns >= self._settle_ns:
            return True
        return candidate.capture is not None and any(
            other.order > candidate.order and _was_written_later(other.listed, candidate.listed)
            for other in others
            if other.capture is not None
        )


def _was_written_later(one: _Listed, other: _Listed) -> bool:
    if one.modified_ns is None or other.modified_ns is None:
        return True
    return one.modified_ns >= other.modified_ns


# -- what is there --------------------------------------------------------------------------------


def _expanded(argument: str, stores: Stores) -> list[str]:
    """Return the files that an argument names now; none is no error: they may come."""
    try:
        if is_url(argument):
            return stores.expand(argument)[0]
        path = Path(argument)
        if path.is_dir():
            return sorted(str(each) for each in path.iterdir() if each.is_file())
        if path.exists():
            return [argument]
        names = sorted(glob.glob(argument))  # noqa: PTH207 - Path.glob takes no absolute pattern
        return [name for name in names if Path(name).is_file()]
    except (CaptureError, OSError):
        return []


def _size_bytes(path: str) -> int | None:
    """Return the size of a file on disk; those in stores do not grow."""
    try:
        return None if is_url(path) else Path(path).stat().st_size
    except OSError:
        return None


def _modified_ns(path: str) -> int | None:
    try:
        if not is_url(path):
            return Path(path).stat().st_mtime_ns
        system, inside = FileSystem.from_uri(path)
        found: int | None = system.get_file_info(inside).mtime_ns
    except (ArrowException, OSError, ValueError):
        return None
    return found


# -- lists that only grow -------------------------------------------------------------------------


def _keep(folder: Folder, name: str, first: int, items: Iterable[dict[str, Any]]) -> None:
    """Add items to a list, the first of them at index ``first``."""
    lines = "".join(json.dumps(item) + "\n" for item in items)
    folder.write(f"{name}/{first:0{_DIGITS}}.jsonl", lines.encode())


def _kept(folder: Folder, name: str, kind: Callable[..., _Item]) -> list[_Item]:
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
