"""The key logs of ``kanalyze live``, and what is said of connections that they do not open.

In: arguments, connections that were given up. Out: key logs that grow; messages, which show no
secret. Must not know: how anything is decrypted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kanalyze.cli.analyze import KEY_LOG_VARIABLE
from kanalyze.cli.console import print_message
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from kanalyze.live.feed.key_log_files import KeyLogFiles
    from kanalyze.tls.streams import GivenUp

__all__ = ["GivenUpReporter", "key_logs_of"]

_MOST_NAMED: Final = 10
_REASONS: Final[dict[str, str]] = {
    "no_secret": "the key log has no secret of it",
    "no_hello": "its beginning was not captured, and no secret of the key log fits",
    "failed": "the secret in the key log does not fit",
    "unsupported": "its version or suite is not supported",
}
"""By :class:`~kanalyze.tls.facts.Decryption`."""


def key_logs_of(arguments: argparse.Namespace, warn: Callable[[str], None]) -> KeyLogFiles | None:
    """Return the key logs that arguments or the environment name, their present content read.

    ``warn`` receives the messages of later. Raises UsageError.
    """
    files = arguments.keylog
    variable = os.environ.get(KEY_LOG_VARIABLE)
    if not files and not variable and not arguments.with_secrets:
        return None
    from kanalyze.live.feed.key_log_files import KeyLogFiles  # only where there are keys

    try:
        keys = KeyLogFiles(files or ([variable] if variable else []), print_message)
    except UsageError as error:
        if files or arguments.with_secrets:
            raise
        # The variable is there for the programs that write the file.
        print_message(f"{KEY_LOG_VARIABLE} is ignored: {error}")
        return None
    keys.warn = warn
    if arguments.save is not None and not arguments.with_secrets:
        print_message(
            f"{arguments.save}: packets with TLS stay encrypted; "
            "--with-secrets puts their secrets beside them"
        )
    return keys


class GivenUpReporter:
    """Says which connections with TLS are not decrypted: the first by name, then how many."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._count = 0

    def add(self, given_up: Sequence[GivenUp]) -> None:
        """Say some connections."""
        for connection in given_up:
            self._count += 1
            if self._count <= _MOST_NAMED:
                first, second = connection.tcp.endpoints
                reason = _REASONS.get(connection.reason, "its records cannot be read")
                self._warn(f"{first} and {second}: TLS that is not decrypted: {reason}")

    def end(self) -> None:
        """Say how many more there were."""
        if self._count > _MOST_NAMED:
            self._warn(f"{self._count - _MOST_NAMED:,} more connections with TLS not decrypted")
