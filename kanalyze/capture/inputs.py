"""Which captures the arguments of a command name, in the order of their first packets.

In: paths, folders, globs, URLs of any of these, ``-``. Out: files with their sizes and times
(nothing is opened for these), or captures: paths and URLs for
:func:`kanalyze.capture.reader.open_capture`.

The rules are the same for one process, for a batch and for a stream on Spark:

- A folder stands for the files and links directly in it. A broken link is listed, so that it is
  reported. Pipes, devices and folders in it are skipped.
- A name that begins with a dot is hidden: folders and globs skip it, as in a shell. Programs that
  copy files use such names until the copy is complete. A hidden file that is named itself is read.
- A file that is named several times, or by links, is one file.
- Standard input and pipes can be read once, by one process: they are an error for several tasks.
- A file that changed recently may not be complete. A file without a known time, as in some stores,
  counts as complete.
- A missing file is an error for one process and a batch. A stream waits for it.
- A file that cannot be read is left out, unless it is the only one that is named.
- A file in a folder, or that fits a glob, is left out if the command writes it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.capture.io.source import STDIN, capture_name
from kanalyze.capture.io.stores import Stores, is_url, local_path, shown_url, split_url
from kanalyze.capture.reader import (
    CaptureReader,
    DamagedCaptureError,
    NotACaptureError,
    open_capture,
)
from kanalyze.common import paths
from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, reason_of
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    from kanalyze.capture.io.source import PathLike
    from kanalyze.common.paths import FileIdentity

_COMPRESSED: Final = r"\.(gz|bz2|xz|zst|lz4)"
_CAPTURE_NAME: Final = rf"(?i)\.(pcap|pcapng|cap|ntar|dmp)\d*(\.\d+)?({_COMPRESSED})*$"
"""A number may follow, as ``tcpdump -C`` and log rotation write it."""

_COMPRESSED_NAME: Final = rf"(?i){_COMPRESSED}$"

_MAGIC: Final = "*?["
"""Characters that make a name a pattern, as for :mod:`glob`."""


class MissingFileError(CaptureError):
    """A file is not there."""


class FoundCapture(NamedTuple):
    """A capture that an argument names."""

    path: str
    """For :func:`~kanalyze.capture.reader.open_capture`; a URL may hold credentials."""
    looked_at: bool = False
    """Whether it was opened, so that the fields below are known."""
    first_time_ns: int | None = None
    """Unix time in ns of its first packet; None without a packet."""
    total_bytes: int | None = None
    """Its size; None if not known."""
    most_packets: int | None = None
    """Most packets to read of it; None for all. A capture may grow between two passes."""


class InputFile(NamedTuple):
    """A file to be read."""

    path: str
    """As it was named; a URL may hold credentials."""
    total_bytes: int | None
    """None if not known."""
    modified_ns: int | None
    """Unix time in ns; None if not known."""

    @property
    def capture(self) -> FoundCapture:
        """The file as a capture to be read."""
        return FoundCapture(self.path, total_bytes=self.total_bytes)

    @property
    def identity(self) -> str:
        """The same for all names of one file; without credentials."""
        is_remote = local_path(self.path) is None
        return shown_url(self.path) if is_remote else same_file(self.path)


class NamedFiles(NamedTuple):
    """The files that an argument stands for."""

    paths: list[str]
    is_folder: bool
    """Whether the argument is a folder, whose files need not be captures."""
    is_explicit: bool = False
    """Whether the argument is the name of the file, and no folder and no pattern."""

    def without(self, outputs: Collection[FileIdentity]) -> NamedFiles:
        """Return the files without those that are written, unless the argument is their name."""
        if self.is_explicit or not outputs:
            return self
        return self._replace(paths=[path for path in self.paths if not is_one_of(path, outputs)])


def named_files(argument: PathLike, stores: Stores) -> NamedFiles:
    """Return the files of an argument: a file, a folder, a glob, a URL of any of these.

    A named file need not exist; a folder or a glob may stand for no file.

    Raises :class:`CaptureError` if a folder cannot be listed, or a store cannot be reached.
    """
    text = os.fspath(argument)
    if is_url(text):
        found, is_folder = stores.expand(text)
        return NamedFiles(found, is_folder, is_explicit=not is_folder and found == [text])
    try:
        return _local(text)
    except OSError as error:
        raise CaptureError(f"{text}: {reason_of(error).lower()}") from error


def nothing_named(argument: PathLike, named: NamedFiles) -> CaptureError:
    """Return the error for a folder or a glob without a capture."""
    what = "no capture in this folder" if named.is_folder else "no file has such a name"
    return CaptureError(f"{capture_name(argument)}: {what}")


def local_files(argument: PathLike) -> NamedFiles:
    """Return the files of this machine that an argument names, with any content.

    Folders and globs stand for all files in them. For a URL other than ``file://`` there are none.
    Raises OSError if a folder cannot be listed.
    """
    text = os.fspath(argument)
    if is_url(text):
        parts = split_url(text)
        if parts.scheme.lower() != "file":
            return NamedFiles([], is_folder=False)
        from urllib.parse import unquote  # not for paths

        text = unquote(parts.path)
    return _local(text)


def is_one_of(path: str, files: Collection[FileIdentity]) -> bool:
    """Return true if a path, or a ``file://`` URL, is one of some files of this machine."""
    local = local_path(path)
    return local is not None and paths.file_identity(local) in files


def has_compressed_name(path: str) -> bool:
    """Return true if a name has the extension of a compressed file; nothing is opened."""
    return re.search(_COMPRESSED_NAME, path) is not None


def file_of(path: str, stores: Stores) -> InputFile:
    """Return the properties of a file that several tasks will read.

    Raises:
        MissingFileError: it is not there.
        CaptureError: it can be read only once.
    """
    if is_url(path):
        try:
            facts = stores.about(path)
        except CaptureError:
            # It may be readable nevertheless; opening it will show.
            return InputFile(path, None, None)
        if facts is None:
            raise MissingFileError(f"{capture_name(path)}: no such file")
        return InputFile(path, facts.total_bytes, facts.modified_ns)
    from pathlib import Path  # not for one process

    check_many_may_read(path)
    if "\0" in path:  # Python says so in words that differ from one version to the next
        raise MissingFileError(f"{path}: null byte in the path")
    try:
        status = Path(path).stat()
    except (OSError, ValueError) as error:  # ValueError: characters that no path can have
        raise MissingFileError(f"{path}: {reason_of(error).lower()}") from None
    return InputFile(path, status.st_size, status.st_mtime_ns)


def check_many_may_read(path: str) -> None:
    """Raise :class:`CaptureError` for an input that only one process can read, and only once."""
    if path == STDIN:
        raise CaptureError("standard input: cannot be read by several tasks")
    if not can_be_read_twice(path):
        raise CaptureError(f"{capture_name(path)}: can be read only once")


def can_be_read_twice(path: str) -> bool:
    """Return true if a path is a file; true if it does not exist, because opening it will raise."""
    if is_url(path):
        return True
    return path != STDIN and (paths.is_file(path) or not paths.exists(path))


def same_file(path: str) -> str:
    """Return a text that is equal for all paths to one file, and for its ``file://`` URL.

    Any other URL is returned as it is; it may hold credentials.
    """
    local = local_path(path)
    return path if path == STDIN or local is None else os.path.realpath(local)


def is_settled(file: InputFile, *, now_ns: int, settle_ns: int) -> bool:
    """Return true if a file has not changed for ``settle_ns``; 0 accepts every file."""
    if not settle_ns or file.modified_ns is None:
        return True
    return now_ns - file.modified_ns >= settle_ns


def has_capture_name(path: str) -> bool:
    """Return true if a path or a URL has the extension of a capture."""
    name = path.partition("?")[0] if is_url(path) else path
    return re.search(_CAPTURE_NAME, name) is not None


# -- this machine ---------------------------------------------------------------------------------


def _local(text: str) -> NamedFiles:
    if paths.is_folder(text):
        return NamedFiles(_inside(text), is_folder=True)
    if _is_pattern(text):
        return NamedFiles(_fitting(text), is_folder=False)
    return NamedFiles([text], is_folder=False, is_explicit=True)


def _inside(folder: str) -> list[str]:
    """Return the files directly in a folder, and broken links."""
    from pathlib import Path  # not for files

    return [
        str(entry)
        for entry in sorted(Path(folder).iterdir())
        if not paths.is_hidden(entry.name)
        and (entry.is_file() or (entry.is_symlink() and not entry.exists()))
    ]


def _is_pattern(text: str) -> bool:
    return not paths.exists(text) and any(char in text for char in _MAGIC)


def _fitting(pattern: str) -> list[str]:
    import glob  # not for files

    names = sorted(glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [name for name in names if not paths.is_folder(name)]


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
    found, failed = _looked_at(captures, stores)
    for path, error in failed:
        if path in explicit and _is_missing(path, stores):
            raise error
    if not found:
        raise CaptureError(f"no capture{_why_none([str(error) for _, error in failed])}")
    for _, error in failed:
        leave_out(_left_out(error))
    return found


def _looked_at(
    captures: Iterable[FoundCapture], stores: Stores
) -> tuple[list[FoundCapture], list[tuple[str, CaptureError]]]:
    """Open captures; return those that can be read, in order, and by path why others cannot."""
    found: list[FoundCapture] = []
    failed: list[tuple[str, CaptureError]] = []
    for capture in captures:
        try:
            found.append(look_at(capture, stores))
        except CaptureError as error:
            failed.append((capture.path, error))
    return sorted(found, key=reading_order), failed


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
    captures = list(_distinct(named))
    for capture in captures:
        check_many_may_read(capture.path)
    found, failed = _looked_at(captures, stores)
    return found, unreadable + [_left_out(error) for _, error in failed]


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


def last_time(capture: FoundCapture, stores: Stores) -> int | None:
    """Return the Unix time of a capture's latest packet in ns, for which all of it is read.

    None if no packet has a time. Raises :class:`CaptureError` if it is no capture.
    """
    latest_ns: int | None = None
    with open_capture(capture.path, stores=stores) as reader:
        for batch in reader.batches():
            of_batch = max((each for each in batch.time_ns if each != NO_TIME), default=None)
            latest_ns = of_known(max, latest_ns, of_batch)
    return latest_ns


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
