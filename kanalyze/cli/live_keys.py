"""The key logs of ``kanalyze live``, and messages about TLS connections without a key.

In: arguments; connections that are not decrypted. Out: key logs that grow; messages, which show no
secret.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kanalyze.cli.analyze import KEY_LOG_VARIABLE
from kanalyze.cli.console import print_message
from kanalyze.errors import UsageError
from kanalyze.render.missing import undecrypted_reason

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from kanalyze.live.feed.key_log_files import KeyLogFiles
    from kanalyze.tls.streams import GivenUp

__all__ = ["GivenUpReporter", "key_logs_of"]

_MAX_NAMED: Final = 10


def key_logs_of(arguments: argparse.Namespace, warn: Callable[[str], None]) -> KeyLogFiles | None:
    """Open and read the key logs that arguments or the environment name; None if there are none.

    Messages are printed until this function returns; ``warn`` receives later ones. Raises
    UsageError.
    """
    files = arguments.keylog
    variable = os.environ.get(KEY_LOG_VARIABLE)
    if not files and not variable and not arguments.with_secrets:
        return None
    from kanalyze.live.feed.key_log_files import KeyLogFiles  # imported late: only for keys

    try:
        keys = KeyLogFiles(files or ([variable] if variable else []), print_message)
    except UsageError as error:
        if files or arguments.with_secrets:
            raise
        # The variable is meant for the programs that write the file.
        print_message(f"{KEY_LOG_VARIABLE} is ignored: {error}")
        return None
    keys.warn = warn
    if arguments.save is not None and not arguments.with_secrets:
        print_message(
            f"{arguments.save}: TLS packets stay encrypted; "
            "--with-secrets adds the secrets that decrypt them"
        )
    return keys


class GivenUpReporter:
    """Reports TLS connections that are not decrypted: the first ones by name, then a count."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._count = 0

    def add(self, given_up: Sequence[GivenUp]) -> None:
        """Report connections."""
        for connection in given_up:
            self._count += 1
            if self._count <= _MAX_NAMED:
                first, second = connection.tcp.endpoints
                reason = undecrypted_reason(connection.reason)
                self._warn(f"{first} and {second}: TLS connection not decrypted: {reason}")

    def end(self) -> None:
        """Report how many more connections were not decrypted."""
        if self._count > _MAX_NAMED:
            self._warn(f"{self._count - _MAX_NAMED:,} more TLS connections not decrypted")
