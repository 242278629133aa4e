"""The stage between reassembly and Kafka: TLS is watched, and decrypted if there are keys.

In: updates of TCP streams; secrets, from a key log and from inside captures. Out: updates, those of
decrypted connections with plaintext.

The watcher and the decrypted streams are made, and imported, only if they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields
from kanalyze.common.saved import load, save

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kanalyze.capture.file_metadata import DecryptionSecrets
    from kanalyze.common.plain_values import State
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import StreamUpdate, TokenBytes
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.streams import DecryptedStreams
    from kanalyze.tls.watcher import TlsWatcher

__all__ = ["NOT_INSTALLED", "TlsStage"]

NOT_INSTALLED = "not_installed"
"""Outcome of connections if nothing is installed to use the secrets inside captures with."""


class TlsStage:
    """Watches the TLS of connections, and decrypts it."""

    _NOT_SAVED = ("_keylog", "_lacks_ciphers", "_most_bytes", "_secrets_taken")

    def __init__(self, most_bytes: int, *, watches: bool, keylog: KeyLog | None) -> None:
        """Make the stage.

        Args:
            most_bytes: unit of memory: connections that are decrypted, or wait for a secret, may
                take twice as much, and watched handshakes half as much.
            watches: whether the facts of TLS are written to connections.
            keylog: the secrets to decrypt with, besides those inside captures; None for none.
        """
        self._most_bytes = most_bytes
        self._keylog = keylog
        self._secrets_taken = 0
        """Number of the secrets inside captures that were read so far."""
        self._watcher = self._new_watcher() if watches else None
        self.streams = None if keylog is None else self._new_streams()
        """The connections that are decrypted, or wait for a secret; None if there are no keys."""
        self._lacks_ciphers = False
        """Whether there are secrets inside captures, and nothing to decrypt with."""

    def state(self) -> State:
        """Return the state between two batches, for :meth:`from_state`. No secret is in it."""
        parts = self._watcher, self.streams
        return tuple(None if part is None else save(part) for part in parts)

    def from_state(self, state: object, still_open: Mapping[int, TcpConnection]) -> TlsStage:
        """Return a stage that continues from a state; raises ValueError for any other value.

        ``still_open`` are the open connections, by their serial number.
        """
        watched, decrypted = fields(state, "TT")
        stage = TlsStage(self._most_bytes, watches=self._watcher is not None, keylog=self._keylog)
        if stage._watcher is not None:
            load(stage._watcher, watched, still_open)
        if stage.streams is None and decrypted:
            stage.streams = stage._new_streams()
        if stage.streams is not None:
            load(stage.streams, decrypted, still_open)
        return stage

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections."""
        parts = self._watcher, self.streams
        return sum(part.buffered_bytes for part in parts if part is not None)

    def feed(
        self, updates: Sequence[StreamUpdate], *, is_last: bool
    ) -> tuple[Sequence[StreamUpdate], Sequence[Anomaly]]:
        """Return the updates from which Kafka is read, and anomalies.

        ``is_last``: whether the capture has ended.
        """
        if self._watcher is not None:
            self._watcher.feed(updates)
        if self.streams is None:
            return updates, ()
        return self.streams.feed(updates, is_last=is_last)

    def outcomes(self, encrypted_connections: int) -> dict[str, int]:
        """Return what became of connections with TLS since :meth:`reset_outcomes`, by name.

        Empty without keys; then all ``encrypted_connections``, those that ended with TLS that was
        not decrypted, could not be read for want of them.
        """
        if self.streams is not None:
            counts = {outcome.value: n for outcome, n in self.streams.outcomes.items()}
            return {"decrypted": 0, **counts}
        return {NOT_INSTALLED: encrypted_connections} if self._lacks_ciphers else {}

    def reset_outcomes(self) -> None:
        """Begin to count :meth:`outcomes` again."""
        if self.streams is not None:
            self.streams.outcomes.clear()

    def plaintext_tokens(self, tokens: list[TokenBytes]) -> list[TokenBytes]:
        """Return the tokens that packets have in plaintext: without decrypted connections."""
        if self.streams is None:
            return tokens
        return [token for token in tokens if not self.streams.is_decrypted(token.connection)]

    def write_open(self, tcp: TcpConnection) -> None:
        """Write the facts of TLS so far to an open connection."""
        if self._watcher is not None:
            self._watcher.write_open(tcp)

    def take_secrets(
        self,
        secrets: Sequence[DecryptionSecrets],
        still_open: Iterable[TcpConnection],
        *,
        may_be_late: bool,
    ) -> None:
        """Use the secrets inside captures.

        Args:
            secrets: all secrets read so far; those of earlier calls are ignored.
            still_open: the open connections.
            may_be_late: whether secrets may follow the packets that they decrypt, as in a pipe.
        """
        new_blocks = secrets[self._secrets_taken :]
        if not new_blocks:
            return
        self._secrets_taken = len(secrets)
        from kanalyze.tls.keylog import (
            TLS_KEY_LOG,
            KeyLog,
            are_ciphers_installed,  # imported late: only with keys
        )

        logs = [block.data for block in new_blocks if block.kind == TLS_KEY_LOG]
        if not logs:
            return
        if not are_ciphers_installed():
            self._lacks_ciphers = True
            return
        if self.streams is None:
            self._keylog = KeyLog(grows=may_be_late)
            self.streams = self._new_streams()
            # These connections were read as encrypted until now.
            load(self.streams, None, {tcp.serial: tcp for tcp in still_open})
        for data in logs:
            self.streams.add_secrets(data)

    def _new_watcher(self) -> TlsWatcher:
        from kanalyze.tls.watcher import TlsWatcher  # imported late: only with connections

        return TlsWatcher(self._most_bytes // 2)

    def _new_streams(self) -> DecryptedStreams:
        from kanalyze.tls.keylog import KeyLog  # imported late: only with keys
        from kanalyze.tls.streams import DecryptedStreams

        keylog = KeyLog() if self._keylog is None else self._keylog
        return DecryptedStreams(keylog, 2 * self._most_bytes)
