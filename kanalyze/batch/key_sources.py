"""Where tasks find the secrets of TLS: in files, and in captures that contain secrets.

In: the paths that a user names, and what tasks found in captures. Out: :class:`KeySources` for
tasks; in a task, a :class:`~kanalyze.tls.keylog.KeyLog`.

Tasks read the secrets themselves from the files. So Spark knows only names of files: no secret is
in a plan, a closure, a broadcast or a cache. Spark may write any of these to disk. A
process keeps the secrets that it read last for its next task, as a worker of Spark rebuilds many
buckets.

Files are read up to the sizes that they had when the driver listed them, so a task that runs again
has the same secrets.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.capture.file_metadata import FileMetadata
from kanalyze.capture.inputs import file_of, named_files
from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores, is_url
from kanalyze.capture.reader import open_capture
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, UsageError, reason_of
from kanalyze.tls.keylog import (
    NOT_A_KEY_LOG,
    TLS_KEY_LOG,
    KeyLog,
    are_ciphers_installed,
    require_ciphers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.capture.inputs import InputFile

_PIECE_BYTES: Final = 1 << 20
_DIGEST_BYTES: Final = 16
_HEAD_BYTES: Final = 1 << 16
"""How much of a file is read to tell whether it is a key log."""


class _KeyFile(NamedTuple):
    """A key log."""

    path: str
    """Absolute, or a URL, which may hold credentials."""
    total_bytes: int | None
    """How much of it is read, from its beginning; None: all."""


class KeyedCapture(NamedTuple):
    """A capture with secrets inside."""

    path: str
    """Absolute, or a URL."""
    blocks: int
    """The number of its blocks with secrets."""
    digest: bytes
    """A hash of its secrets: the files of a rotation may repeat the secrets of the first."""


class KeySources(NamedTuple):
    """Where secrets are, but not the secrets: it can be pickled and shown."""

    files: tuple[_KeyFile, ...] = ()
    captures: tuple[KeyedCapture, ...] = ()
    """No two of them have the same secrets."""


def with_captures(
    sources: KeySources | None, captures: Iterable[KeyedCapture]
) -> KeySources | None:
    """Return sources, and captures with secrets inside; None if there is neither."""
    by_digest = {capture.digest: capture for capture in captures}
    files = () if sources is None else sources.files
    return KeySources(files, tuple(by_digest.values())) if files or by_digest else None


def keyed_capture(path: str, metadata: FileMetadata) -> KeyedCapture | None:
    """Return where the secrets of a capture are, from its metadata; None if it has none."""
    secrets = _secrets_of(metadata)
    if not secrets:
        return None
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for secret in secrets:
        digest.update(len(secret).to_bytes(8) + secret)
    return KeyedCapture(path, len(secrets), digest.digest())


def find_key_files(arguments: Sequence[str]) -> KeySources | None:
    """Return the key logs that arguments name; None if there are no arguments.

    An argument is a file, a folder, a glob, a URL of any of these. From folders and globs, the
    files that begin like a key log are selected.

    Raises:
        CaptureError: a file is missing, or can be read only once.
        UsageError: a file is no key log, or an argument names no key log (the text names it); or
            the package for decryption is not installed.
    """
    if not arguments:
        return None
    require_ciphers()
    stores = Stores()
    files = [file for argument in arguments for file in _key_files_of(argument, stores)]
    return KeySources(tuple([_KeyFile(_absolute(file.path), file.total_bytes) for file in files]))


def read_keys(sources: KeySources) -> KeyLog | None:
    """Read the secrets.

    If the package for decryption is not installed, and there are no key logs but only captures with
    secrets, return None.

    Raises:
        CaptureError: a capture cannot be read any more.
        UsageError: a key log cannot be read; or there are key logs, and the package for decryption
            is not installed.
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
        for secret in _secrets_in(capture, stores):
            log.feed(secret)
            log.end()
    return log


_last_read: Final[dict[KeySources, KeyLog | None]] = {}
"""The secrets that this process read last, by their sources."""


def shared_keys(sources: KeySources) -> KeyLog | None:
    """Return the secrets as :func:`read_keys`, cached; callers must not add secrets to them."""
    if sources not in _last_read:
        log = read_keys(sources)
        _last_read.clear()
        _last_read[sources] = log
    return _last_read[sources]


def _key_files_of(argument: str, stores: Stores) -> Iterator[InputFile]:
    named = named_files(argument, stores)
    has_key_log = False
    for path in named.paths:
        file = file_of(path, stores)
        if _is_key_log(file, stores):
            has_key_log = True
            yield file
        elif named.is_explicit:
            raise UsageError(f"{capture_name(path)}: {NOT_A_KEY_LOG}")
    if not has_key_log:
        raise UsageError(f"{capture_name(argument)}: no key log here")


def _is_key_log(file: InputFile, stores: Stores) -> bool:
    """Return true if a file begins like a key log; an empty file may become one."""
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
    """Yield a file's bytes in pieces, up to ``most_bytes`` together; None: all."""
    remaining = most_bytes
    try:
        with stores.open(path)[0] if is_url(path) else paths.opened(path) as file:
            while remaining is None or remaining > 0:
                piece = file.read(
                    _PIECE_BYTES if remaining is None else min(remaining, _PIECE_BYTES)
                )
                if not piece:
                    return
                remaining = None if remaining is None else remaining - len(piece)
                yield piece
    except CaptureError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{capture_name(path)}: {reason_of(error)}") from error


def _secrets_in(capture: KeyedCapture, stores: Stores) -> Iterable[bytes]:
    """Return the secrets in a capture, which is read up to the last of them."""
    metadata = FileMetadata()
    with open_capture(capture.path, description=metadata, stores=stores) as reader:
        for _ in reader.batches():
            if len(_secrets_of(metadata)) >= capture.blocks:
                break
    return _secrets_of(metadata)


def _secrets_of(metadata: FileMetadata) -> list[bytes]:
    return [block.data for block in metadata.decryption_secrets if block.kind == TLS_KEY_LOG]
