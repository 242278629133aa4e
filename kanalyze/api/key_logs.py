"""Reads files with the secrets of TLS sessions.

In: paths. Out: a :class:`~kanalyze.tls.keylog.KeyLog`. This module must not know what secrets are
for, and shows none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kanalyze.common import paths
from kanalyze.common.argument_values import shown
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.tls.keylog import KeyLog

__all__ = ["read_key_logs"]

_PIECE_BYTES: Final = 1 << 20


def read_key_logs(files: Iterable[str]) -> KeyLog | None:
    """Return the secrets of all files, in the NSS format; None where no file is named.

    Raises:
        UsageError: a file cannot be read, or has lines but none with a secret; the text names it.
            Or there is nothing to decrypt with.
    """
    log: KeyLog | None = None
    for path in files:
        if log is None:
            # Only where there are keys.
            from kanalyze.tls.installed import require_ciphers
            from kanalyze.tls.keylog import KeyLog

            require_ciphers()
            log = KeyLog()
        _read(path, log)
        log.names.append(os.path.split(path)[1])
    return log


def _read(path: str, log: KeyLog) -> None:
    lines, wrong = log.lines, log.wrong_lines
    try:
        with paths.opened(path) as file:
            while piece := file.read(_PIECE_BYTES):
                log.feed(piece)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # a null byte
        raise UsageError(f"not a path: {shown(path)}") from error
    log.end()
    # An empty one is sound: its program made no connection.
    if log.lines > lines and log.wrong_lines - wrong == log.lines - lines:
        raise UsageError(f"{path}: is no key log: no line has a secret of TLS")
