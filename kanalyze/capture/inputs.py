"""From the arguments of a command to the captures to be read, in the order of their packets.

In: paths, folders, globs, ``-``. Out: paths for :func:`kanalyze.capture.reader.open_capture`.
Must not know: what is done with them.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.capture.gzipped import GZIP_MAGIC, GzipDamagedError, GzipSource
from kanalyze.capture.reader import MAGIC_BYTES, is_capture_start, open_capture
from kanalyze.capture.source import STDIN, open_source
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.capture.source import ByteSource, PathLike

__all__ = ["find_captures", "first_packet_time_ns"]

_PEEK_BYTES: Final = 64 << 10


def find_captures(arguments: Sequence[PathLike]) -> list[str]:
    """Return the captures that the arguments name, each once, by the time of their first packet.

    An argument is a file, a folder (all captures directly in it, told by their content), a glob,
    or ``-`` for standard input, which stands alone; so does anything else that cannot be read
    twice (a named pipe). Captures without a packet come last.

    Raises :class:`CaptureError` when an argument names nothing that can be read as a capture.
    """
    paths = list(_distinct(path for argument in arguments for path in _expand(argument)))
    if not paths:
        raise CaptureError("no capture given")
    if len(paths) == 1:
        return paths
    for path in paths:
        if not _can_be_read_twice(path):
            raise CaptureError(f"{path}: can only be read alone, not with other captures")
    return sorted(paths, key=_order)


def first_packet_time_ns(path: PathLike) -> int | None:
    """Return the time of a capture's first packet; None when it has none.

    Raises :class:`CaptureError` when it is no capture.
    """
    with open_capture(path, buffer_bytes=_PEEK_BYTES) as reader:
        for batch in reader.batches():
            return int(batch.time_ns[0])
    return None


def _order(path: str) -> tuple[bool, int, str]:
    time_ns = first_packet_time_ns(path)
    return time_ns is None, time_ns or 0, path


def _distinct(paths: Iterable[str]) -> Iterator[str]:
    """Leave out files that were named before, in whichever way."""
    seen = set()
    for path in paths:
        real = path if path == STDIN else os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield path


def _expand(argument: PathLike) -> list[str]:
    text = os.fspath(argument)
    if text == STDIN:
        return [text]
    try:
        path = Path(text)
        if path.is_dir():
            return _captures_in(path)
        if not path.exists() and glob.has_magic(text):
            return _matching(text)
    except OSError as error:
        raise CaptureError(f"{text}: {(error.strerror or str(error)).lower()}") from error
    return [text]


def _matching(pattern: str) -> list[str]:
    names = sorted(glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute pattern
    found = [name for name in names if not Path(name).is_dir()]
    if not found:
        raise CaptureError(f"{pattern}: no file has such a name")
    return found


def _captures_in(folder: Path) -> list[str]:
    found = [str(path) for path in sorted(folder.iterdir()) if path.is_file() and _sniff(path)]
    if not found:
        raise CaptureError(f"{folder}: no capture in this folder")
    return found


def _sniff(path: Path) -> bool:
    """Tell a capture by its first bytes; what cannot be opened is none."""
    try:
        source = open_source(path)
    except CaptureError:
        return False
    try:
        start = _first_bytes(source)
        if start.startswith(GZIP_MAGIC):
            with path.open("rb", buffering=0) as again:
                start = _first_bytes(GzipSource(open_source(again)))
        return is_capture_start(start)
    except (CaptureError, GzipDamagedError, OSError):
        return False
    finally:
        source.close()


def _first_bytes(source: ByteSource) -> bytes:
    start = bytearray(MAGIC_BYTES)
    count = 0
    while count < len(start):
        more = source.readinto(memoryview(start)[count:])
        if not more:
            break
        count += more
    return bytes(start[:count])


def _can_be_read_twice(path: str) -> bool:
    """Regular files can; what does not exist is left for opening it to complain of."""
    return path != STDIN and (Path(path).is_file() or not Path(path).exists())
