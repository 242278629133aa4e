"""From the arguments of a command to the captures to be read, in the order of their packets.

In: paths, folders, globs, URLs, ``-``. Out: paths and URLs for
:func:`kanalyze.capture.reader.open_capture`. Must not know: what is done with them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze import paths
from kanalyze.capture.reader import (
    CaptureReader,
    DamagedCaptureError,
    NotACaptureError,
    open_capture,
)
from kanalyze.capture.source import STDIN, capture_name
from kanalyze.capture.stores import Stores
from kanalyze.capture.urls import is_url, split_url
from kanalyze.errors import CaptureError
from kanalyze.model import Anomaly, AnomalyKind
from kanalyze.named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kanalyze.capture.source import PathLike

__all__ = [
    "FoundCapture",
    "NamedFiles",
    "can_be_read_twice",
    "find_captures",
    "find_inputs",
    "find_readable",
    "first_packet_time_ns",
    "has_capture_name",
    "local_files",
    "look_at",
    "may_be_a_capture",
    "named_files",
]

_PEEK_BYTES: Final = 64 << 10
_CAPTURE_NAME: Final = re.compile(
    r"\.(pcap|pcapng|cap|ntar|dmp)\d*(\.\d+)?(\.(gz|bz2|xz|zst|lz4))*$", re.IGNORECASE
)
"""With a number behind it where ``tcpdump -C`` or a rotation of logs wrote it."""

_MAGIC: Final = re.compile(r"[*?[]")
"""What makes a pattern, as for :mod:`glob`."""

_LeaveOut: TypeAlias = "Callable[[Anomaly], object]"


class FoundCapture(NamedTuple):
    """A capture that an argument names."""

    path: str
    """For :func:`open_capture`; a URL may hold credentials."""
    looked_at: bool = False
    """It was opened, and the fields below are known."""
    first_time_ns: int | None = None
    """Unix time in ns of its first packet; None when it has none."""
    total_bytes: int | None = None
    """Its size; None where there is no telling."""


class NamedFiles(NamedTuple):
    """The files that an argument stands for, of which nothing was opened."""

    paths: list[str]
    is_folder: bool
    """They are all that is in a folder: nobody named each of them, nor says that it is one."""


def find_captures(arguments: Sequence[PathLike]) -> list[str]:
    """Return the captures that the arguments name, each once, by the time of their first packet.

    As :func:`find_inputs`, which also tells what it saw of them.
    """
    return [found.path for found in find_inputs(arguments)]


def find_inputs(
    arguments: Sequence[PathLike],
    stores: Stores | None = None,
    leave_out: Callable[[Anomaly], object] | None = None,
) -> list[FoundCapture]:
    """Return the captures that the arguments name, each once, by the time of their first packet.

    An argument is a file, a folder (all captures directly in it, told by their content), a glob,
    a URL of any of these, or ``-`` for standard input, which stands alone; so does anything else
    that cannot be read twice (a named pipe). Captures without a packet come last. Each is opened
    once, for its first packet; a single file not at all.

    ``leave_out`` is given an anomaly for each file in a folder that is passed over though it cannot
    be read, or has the name of a capture; its text names the file.

    Raises :class:`CaptureError` when an argument names nothing that can be read as a capture.
    """
    stores = Stores() if stores is None else stores
    tell = _ignore if leave_out is None else leave_out
    named = (found for argument in arguments for found in _expand(argument, stores, tell))
    captures = list(_distinct(named))
    if not captures:
        raise CaptureError("no capture given")
    if len(captures) == 1:
        return captures
    for found in captures:
        if not can_be_read_twice(found.path):
            name = capture_name(found.path)
            raise CaptureError(f"{name}: can only be read alone, not with other captures")
    return sorted((look_at(found, stores) for found in captures), key=_order)


def find_readable(
    arguments: Sequence[PathLike], stores: Stores
) -> tuple[list[FoundCapture], list[Anomaly]]:
    """Return the captures that the arguments name as :func:`find_inputs`, and what is left out.

    What is missing, cannot be opened or is no capture is an anomaly each, whose text names it.
    Every capture was opened.

    Raises :class:`CaptureError` for what cannot be read twice.
    """
    named: list[FoundCapture] = []
    left_out: list[Anomaly] = []
    for argument in arguments:
        try:
            named += _expand(argument, stores, left_out.append)
        except CaptureError as error:
            left_out.append(_left_out(error))
    captures = []
    for found in _distinct(named):
        if not can_be_read_twice(found.path):
            raise CaptureError(f"{capture_name(found.path)}: can be read only once")
        try:
            captures.append(look_at(found, stores))
        except CaptureError as error:
            left_out.append(_left_out(error))
    return sorted(captures, key=_order), left_out


def _ignore(_: Anomaly) -> None:
    """Let nobody know."""


def _left_out(error: CaptureError) -> Anomaly:
    return Anomaly(AnomalyKind.CAPTURE_UNREADABLE, detail=str(error))


def local_files(argument: PathLike) -> list[str]:
    """Return the files of this machine that an argument stands for, whatever they hold.

    Nothing is opened. Folders and globs stand for all files in them; of URLs only ``file://``
    stands for any. Raises OSError where a folder cannot be listed.
    """
    text = os.fspath(argument)
    if is_url(text):
        parts = split_url(text)
        if parts.scheme.lower() != "file":
            return []
        from urllib.parse import unquote  # not for paths

        text = unquote(parts.path)
    if paths.is_folder(text):
        return _inside(text)
    return _fitting(text) if _is_pattern(text) else [text]


def first_packet_time_ns(path: PathLike) -> int | None:
    """Return the time of a capture's first packet; None when it has none.

    Raises :class:`CaptureError` when it is no capture.
    """
    with open_capture(path, buffer_bytes=_PEEK_BYTES) as reader:
        return _first_time(reader)


def look_at(found: FoundCapture, stores: Stores) -> FoundCapture:
    """Open a capture for its first packet, unless that has been done.

    Raises :class:`CaptureError` when it is no capture.
    """
    if found.looked_at:
        return found
    with open_capture(found.path, buffer_bytes=_PEEK_BYTES, stores=stores) as reader:
        return FoundCapture(found.path, True, _first_time(reader), reader.total_bytes)


def can_be_read_twice(path: str) -> bool:
    """Files can; what does not exist is left for opening it to complain of."""
    if is_url(path):
        return True
    return path != STDIN and (paths.is_file(path) or not paths.exists(path))


def _first_time(reader: CaptureReader) -> int | None:
    for batch in reader.batches():
        return int(batch.time_ns[0])
    return None


def _order(found: FoundCapture) -> tuple[bool, int, str]:
    return found.first_time_ns is None, found.first_time_ns or 0, found.path


def _distinct(captures: Iterable[FoundCapture]) -> Iterator[FoundCapture]:
    """Leave out files that were named before, in whichever way."""
    seen = set()
    for found in captures:
        path = found.path
        real = path if path == STDIN or is_url(path) else os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield found


def named_files(argument: PathLike, stores: Stores) -> NamedFiles:
    """Return the files of an argument: a file, a folder, a glob, a URL of any of these.

    A file that is named need not be there; a folder or a glob may stand for none.

    Raises :class:`CaptureError` where a folder cannot be listed, or a store not be asked.
    """
    text = os.fspath(argument)
    if is_url(text):
        return NamedFiles(*stores.expand(text))
    try:
        if paths.is_folder(text):
            return NamedFiles(_inside(text), is_folder=True)
        return NamedFiles(_fitting(text) if _is_pattern(text) else [text], is_folder=False)
    except OSError as error:
        raise CaptureError(f"{text}: {(error.strerror or str(error)).lower()}") from error


def _expand(argument: PathLike, stores: Stores, leave_out: _LeaveOut) -> list[FoundCapture]:
    text = os.fspath(argument)
    if text == STDIN:
        return [FoundCapture(text)]
    named = named_files(text, stores)
    if named.is_folder:
        return _captures_of(named.paths, capture_name(text), stores, leave_out)
    if not named.paths:
        raise CaptureError(f"{capture_name(text)}: no file has such a name")
    return [FoundCapture(each) for each in named.paths]


def _inside(folder: str) -> list[str]:
    """Return the files directly in a folder, and links to what is not there."""
    from pathlib import Path  # not for files

    return [
        str(each)
        for each in sorted(Path(folder).iterdir())
        if each.is_file() or (each.is_symlink() and not each.exists())
    ]


def _is_pattern(text: str) -> bool:
    return not paths.exists(text) and _MAGIC.search(text) is not None


def _fitting(pattern: str) -> list[str]:
    import glob  # not for files

    names = sorted(glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [name for name in names if not paths.is_folder(name)]


def _captures_of(
    paths: Iterable[str], folder: str, stores: Stores, leave_out: _LeaveOut
) -> list[FoundCapture]:
    """Keep what begins as a capture does; tell of what looks like one and cannot be read."""
    found: list[FoundCapture] = []
    reasons: list[str] = []
    for path in paths:
        try:
            found.append(look_at(FoundCapture(path), stores))
        except CaptureError as error:
            if may_be_a_capture(path, error):
                reasons.append(str(error))
                leave_out(_left_out(error))
    if not found:
        raise CaptureError(f"{folder}: no capture in this folder{_why_none(reasons)}")
    return found


def _why_none(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f" that can be read: {reasons[0]}{others}"


def may_be_a_capture(path: str, error: CaptureError) -> bool:
    """Tell whether a file that could not be read as a capture may be one, or is meant to be.

    ``error`` is what became of looking at it. What can be read to its beginning and begins as
    something else is none, unless it has the name of one.
    """
    is_other = isinstance(error, NotACaptureError) and not isinstance(error, DamagedCaptureError)
    return not is_other or has_capture_name(path)


def has_capture_name(path: str) -> bool:
    """Tell whether a path or a URL ends as those of captures do."""
    name = path.partition("?")[0] if is_url(path) else path
    return _CAPTURE_NAME.search(name) is not None
