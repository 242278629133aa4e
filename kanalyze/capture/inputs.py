"""Turns the arguments of a command into captures, in the order of their first packets.

In: paths, folders, globs, URLs, ``-``. Out: paths and URLs for
:func:`kanalyze.capture.reader.open_capture`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.capture.io.source import STDIN, capture_name
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import (
    FoundCapture,
    MissingFileError,
    NamedFiles,
    can_be_read_twice,
    check_many_may_read,
    file_of,
    has_capture_name,
    named_files,
    nothing_named,
    same_file,
)
from kanalyze.capture.reader import (
    CaptureReader,
    DamagedCaptureError,
    NotACaptureError,
    open_capture,
)
from kanalyze.errors import CaptureError
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    from kanalyze.capture.io.source import PathLike
    from kanalyze.common.paths import FileIdentity

__all__ = [
    "find_inputs",
    "find_readable",
    "look_at",
    "look_in_folder",
    "reading_order",
]

_PEEK_BYTES: Final = 64 << 10
_LeaveOut: TypeAlias = "Callable[[Anomaly], object]"


def find_inputs(
    arguments: Sequence[PathLike],
    stores: Stores | None = None,
    leave_out: Callable[[Anomaly], object] | None = None,
    outputs: Collection[FileIdentity] = (),
    *,
    needs_all: bool = False,
) -> list[FoundCapture]:
    """Return the captures that the arguments name, each once, by the time of their first packet.

    An argument is a file, a folder (all captures directly in it, recognized by content), a glob,
    a URL of any of these, or ``-`` for standard input. Standard input and anything else that cannot
    be read twice (a named pipe) has to be the only capture. Captures without a packet come last.
    Each is opened once, for its first packet; a single file is not opened.

    ``leave_out`` is called with an anomaly for each file that is left out because it cannot be
    read or is no capture; its text names the file. Files of a folder that have neither the name nor
    the content of a capture are skipped without one. ``outputs`` are files that are written now: if
    a folder or a glob names them, they are skipped. With ``needs_all``, only files of folders are
    left out.

    Raises :class:`CaptureError` when an argument names nothing, when a named file is missing, and
    when nothing can be read as a capture.
    """
    stores = Stores() if stores is None else stores
    report = _ignore if leave_out is None else leave_out
    explicit: set[str] = set()
    named: list[FoundCapture] = []
    for argument in arguments:
        files = _named(argument, stores, outputs)
        explicit.update(files.paths if files.is_explicit else ())
        named += _captures_of(argument, files, stores, report)
    captures = list(_distinct(named))
    if not captures:
        raise CaptureError("no capture given")
    if len(captures) == 1:
        return captures
    for capture in captures:
        if not can_be_read_twice(capture.path):
            name = capture_name(capture.path)
            raise CaptureError(f"{name}: can only be read alone, not with other captures")
    if needs_all:
        return sorted((look_at(capture, stores) for capture in captures), key=reading_order)
    return _readable(captures, explicit, stores, report)


def _readable(
    captures: Sequence[FoundCapture],
    explicit: Container[str],
    stores: Stores,
    leave_out: _LeaveOut,
) -> list[FoundCapture]:
    """Return those of several captures that can be read, in order.

    Raises :class:`CaptureError` if none can, or if one that was named itself is missing.
    """
    found: list[FoundCapture] = []
    errors: list[CaptureError] = []
    for capture in captures:
        try:
            found.append(look_at(capture, stores))
        except CaptureError as error:
            if capture.path in explicit and _is_missing(capture.path, stores):
                raise
            errors.append(error)
    if not found:
        raise CaptureError(f"no capture{_why_none(list(map(str, errors)))}")
    for reason in errors:
        leave_out(_left_out(reason))
    return sorted(found, key=reading_order)


def _is_missing(path: str, stores: Stores) -> bool:
    try:
        file_of(path, stores)
    except MissingFileError:
        return True
    return False


def find_readable(
    arguments: Sequence[PathLike], stores: Stores
) -> tuple[list[FoundCapture], list[Anomaly]]:
    """Return the captures that the arguments name, as :func:`find_inputs`, and the skipped files.

    For each input that is missing, cannot be opened or is no capture, there is an anomaly whose
    text names it. Every returned capture was opened.

    Raises :class:`CaptureError` for an input that cannot be read twice.
    """
    named: list[FoundCapture] = []
    unreadable: list[Anomaly] = []
    for argument in arguments:
        try:
            files = _named(argument, stores)
            named += _captures_of(argument, files, stores, unreadable.append)
        except CaptureError as error:
            unreadable.append(_left_out(error))
    captures = []
    for capture in _distinct(named):
        check_many_may_read(capture.path)
        try:
            captures.append(look_at(capture, stores))
        except CaptureError as error:
            unreadable.append(_left_out(error))
    return sorted(captures, key=reading_order), unreadable


def _ignore(_: Anomaly) -> None:
    """Do nothing."""


def _left_out(error: CaptureError) -> Anomaly:
    return Anomaly(AnomalyKind.CAPTURE_UNREADABLE, detail=str(error))


def look_at(capture: FoundCapture, stores: Stores) -> FoundCapture:
    """Return a capture with size and time of its first packet; open it unless that was done.

    Raises :class:`CaptureError` if it is no capture.
    """
    if capture.looked_at:
        return capture
    with open_capture(capture.path, buffer_bytes=_PEEK_BYTES, stores=stores) as reader:
        first_time_ns = _first_time(reader)
        return capture._replace(
            looked_at=True, first_time_ns=first_time_ns, total_bytes=reader.total_bytes
        )


def _first_time(reader: CaptureReader) -> int | None:
    for batch in reader.batches():
        # Of packets without a time, the first one that has one tells when they begin.
        times = (time_ns for time_ns in batch.time_ns if time_ns != NO_TIME)
        return next(times, None)
    return None


def reading_order(capture: FoundCapture) -> tuple[bool, int, str]:
    """Return the sort key of a capture: time of its first packet; those without one come last."""
    return capture.first_time_ns is None, capture.first_time_ns or 0, capture.path


def _distinct(captures: Iterable[FoundCapture]) -> Iterator[FoundCapture]:
    """Yield each file once, also if it is named several times."""
    files = set()
    for capture in captures:
        real = same_file(capture.path)
        if real not in files:
            files.add(real)
            yield capture


def _named(
    argument: PathLike, stores: Stores, outputs: Collection[FileIdentity] = ()
) -> NamedFiles:
    text = os.fspath(argument)
    if text == STDIN:
        return NamedFiles([text], is_folder=False, is_explicit=True)
    return named_files(text, stores).without(outputs)


def _captures_of(
    argument: PathLike, named: NamedFiles, stores: Stores, leave_out: _LeaveOut
) -> list[FoundCapture]:
    """Return the captures of an argument, those of a folder opened, others not."""
    if named.is_folder:
        return _captures_in(argument, named, stores, leave_out)
    if not named.paths:
        raise nothing_named(argument, named)
    return [FoundCapture(path) for path in named.paths]


def _captures_in(
    folder: PathLike, named: NamedFiles, stores: Stores, leave_out: _LeaveOut
) -> list[FoundCapture]:
    """Return the captures of a folder; report files that seem to be captures but are unreadable."""
    captures: list[FoundCapture] = []
    reasons: list[str] = []
    for path in named.paths:
        capture = look_in_folder(path, stores)
        if isinstance(capture, CaptureError):
            reasons.append(str(capture))
            leave_out(_left_out(capture))
        elif capture is not None:
            captures.append(capture)
    if not captures:
        raise CaptureError(f"{nothing_named(folder, named)}{_why_none(reasons)}")
    return captures


def _why_none(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f" that can be read: {reasons[0]}{others}"


def look_in_folder(path: str, stores: Stores) -> FoundCapture | CaptureError | None:
    """Open a file of a folder to see what it is.

    Returns:
        The capture; an error if it seems to be a capture but cannot be read; None if it is another
        file, by its first bytes and by its name.
    """
    try:
        return look_at(FoundCapture(path), stores)
    except CaptureError as error:
        is_other = isinstance(error, NotACaptureError)
        is_other = is_other and not isinstance(error, DamagedCaptureError)
        return None if is_other and not has_capture_name(path) else error
