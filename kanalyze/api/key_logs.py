"""Reads TLS key log files.

In: paths. Out: a :class:`~kanalyze.tls.keylog.KeyLog`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kanalyze.common import paths
from kanalyze.common.argument_values import opening
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.tls.keylog import KeyLog

__all__ = ["read_key_logs"]

_PIECE_BYTES: Final = 1 << 20


def read_key_logs(files: Iterable[str]) -> KeyLog | None:
    """Return the secrets in all files, which have the NSS key log format; None without files.

    Raises:
        UsageError: a file cannot be read, or has lines but no secrets; the text names the file.
    """
    log: KeyLog | None = None
    for path in files:
        if log is None:
            from kanalyze.tls.keylog import KeyLog  # imported late: only with keys

            log = KeyLog()
        _read(path, log)
        log.names.append(os.path.split(path)[1])
    return log


def _read(path: str, log: KeyLog) -> None:
    lines_before, wrong_lines_before = log.lines, log.wrong_lines
    with opening(path), paths.opened(path) as file:
        while piece := file.read(_PIECE_BYTES):
            log.feed(piece)
    log.end()
    # An empty file is valid: the program has made no TLS connection.
    lines, wrong_lines = log.lines - lines_before, log.wrong_lines - wrong_lines_before
    if 0 < lines == wrong_lines:
        from kanalyze.tls.keylog import NOT_A_KEY_LOG

        raise UsageError(f"{path}: {NOT_A_KEY_LOG}")
