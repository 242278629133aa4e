"""Where tasks find the secrets of TLS: files, and captures that have some inside.

In: what a user names, what tasks found in captures. Out: :class:`KeySources` for tasks; in a task,
a :class:`~kanalyze.tls.keylog.KeyLog`. Must not know: Spark, nor what secrets are for.

Tasks read the secrets themselves, where the files are. So Spark has names of files alone: no secret
is in a plan, a closure, a broadcast, a shuffle or a cache, all of which Spark writes to disk when
memory is short, some of them always. A task's process keeps the secrets that it read last, for the
next task: a worker of Spark has many buckets.

Files are read up to the sizes that they had when the driver looked: a task that runs again has the
same secrets.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.capture.file_metadata import FileMetadata
from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.io.urls import is_url
from kanalyze.capture.listing import file_of, named_files
from kanalyze.capture.reader import open_capture
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError
from kanalyze.tls.installed import are_ciphers_installed, require_ciphers
from kanalyze.tls.keylog import TLS_KEY_LOG, KeyLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.capture.listing import InputFile

__all__ = ["KeySources", "KeyedCapture", "find_key_files", "keyed_capture", "read_keys"]
__all__ += ["shared_keys", "with_captures"]

_PIECE_BYTES: Final = 1 << 20
_DIGEST_BYTES: Final = 16
_HEAD_BYTES: Final = 1 << 16
"""Of a file, to tell whether it is a key log."""


class _KeyFile(NamedTuple):
    """A key log."""

    path: str
    """Absolute, or a URL, which may hold credentials."""
    total_bytes: int | None
    """So much of it is read; None: all."""


class KeyedCapture(NamedTuple):
    """A capture with secrets inside."""

    path: str
    """Absolute, or a URL."""
    blocks: int
    """So many blocks of it have secrets."""
    digest: bytes
    """Of these secrets: files of a rotation may repeat those of the first."""


class KeySources(NamedTuple):
    """Where secrets are. There are none in it; it can be pickled and shown."""

    files: tuple[_KeyFile, ...] = ()
    captures: tuple[KeyedCapture, ...] = ()
    """None with the secrets of another."""


def with_captures(
    sources: KeySources | None, captures: Iterable[KeyedCapture]
) -> KeySources | None:
    """Return sources with captures that have secrets inside; None where there are none at all."""
    by_digest = {each.digest: each for each in captures}
    files = () if sources is None else sources.files
    return KeySources(files, tuple(by_digest.values())) if files or by_digest else None


def keyed_capture(path: str, description: FileMetadata) -> KeyedCapture | None:
    """Return where the secrets are that were found in a capture; None where it has none."""
    found = _secrets_of(description)
    if not found:
        return None
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for data in found:
        digest.update(len(data).to_bytes(8) + data)
    return KeyedCapture(path, len(found), digest.digest())


def find_key_files(arguments: Sequence[str]) -> KeySources | None:
    """Return the key logs that arguments name; None where there are no arguments.

    An argument is a file, a folder, a glob, a URL of any of these. Of folders and globs the files
    are taken that begin as a key log does.

    Raises:
        CaptureError: a file is missing, or can be read only once.
        UsageError: a file is no key log, or an argument stands for none; or there is nothing to
            decrypt with. The text names it.
    """
    if not arguments:
        return None
    require_ciphers()
    stores = Stores()
    found = [each for argument in arguments for each in _named(argument, stores)]
    return KeySources(tuple([_KeyFile(_absolute(each.path), each.total_bytes) for each in found]))


def read_keys(sources: KeySources) -> KeyLog | None:
    """Read the secrets; None where nothing asks for them, and there is nothing to decrypt with.

    Raises:
        CaptureError: a capture cannot be read any more.
        UsageError: a key log cannot be read; or there is nothing to decrypt with.
    """
    if sources.files:
        require_ciphers()
    elif not are_ciphers_installed():
        return None
    log, stores = KeyLog(), Stores()
    for file in sources.files:
        for piece in _pieces(file.path, file.total_bytes, stores):
            log.feed(piece)
        log.end()
    for capture in sources.captures:
        for data in _secrets_in(capture, stores):
            log.feed(data)
            log.end()
    return log


_LAST: Final[dict[KeySources, KeyLog | None]] = {}
"""What this process read last."""


def shared_keys(sources: KeySources) -> KeyLog | None:
    """As :func:`read_keys`, once in a process; nobody may add to the secrets."""
    if sources not in _LAST:
        log = read_keys(sources)
        _LAST.clear()
        _LAST[sources] = log
    return _LAST[sources]


def _named(argument: str, stores: Stores) -> Iterator[InputFile]:
    named = named_files(argument, stores)
    is_choice = named.is_folder or named.paths != [argument]
    is_any = False
    for path in named.paths:
        file = file_of(path, stores)
        if _is_key_log(file, stores):
            is_any = True
            yield file
        elif not is_choice:
            raise UsageError(f"{capture_name(path)}: not a TLS key log: no line has a secret")
    if not is_any:
        raise UsageError(f"{capture_name(argument)}: no key log here")


def _is_key_log(file: InputFile, stores: Stores) -> bool:
    """Tell whether a file begins as a key log does; an empty one may become one."""
    log = KeyLog()
    size = 0
    for piece in _pieces(file.path, _HEAD_BYTES, stores):
        log.feed(piece)
        size += len(piece)
    if size < _HEAD_BYTES:
        log.end()
    return log.lines == 0 or log.wrong_lines < log.lines


def _absolute(path: str) -> str:
    return path if is_url(path) else str(Path.cwd() / path)


def _pieces(path: str, most_bytes: int | None, stores: Stores) -> Iterator[bytes]:
    """Yield a file's bytes, up to so many."""
    left = most_bytes
    try:
        with stores.open(path)[0] if is_url(path) else paths.opened(path) as file:
            while left is None or left > 0:
                piece = file.read(_PIECE_BYTES if left is None else min(left, _PIECE_BYTES))
                if not piece:
                    return
                left = None if left is None else left - len(piece)
                yield piece
    except CaptureError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{capture_name(path)}: {error.strerror or error}") from error


def _secrets_in(capture: KeyedCapture, stores: Stores) -> Iterable[bytes]:
    """Return the secrets in a capture; it is read as far as they go."""
    description = FileMetadata()
    with open_capture(capture.path, description=description, stores=stores) as reader:
        for _ in reader.batches():
            if len(_secrets_of(description)) >= capture.blocks:
                break
    return _secrets_of(description)


def _secrets_of(description: FileMetadata) -> list[bytes]:
    return [each.data for each in description.decryption_secrets if each.kind == TLS_KEY_LOG]
