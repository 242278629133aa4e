"""The stage between reassembly and Kafka: TLS is watched, and decrypted where there are keys.

In: updates of TCP streams; secrets, from a key log and from inside of captures. Out: updates, those
of decrypted connections with plaintext. This module must not know Kafka.

Both parts are made, and imported, only if they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields

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

__all__ = ["TlsStage"]


class TlsStage:
    """Watches the TLS of connections, and decrypts it."""

    _NOT_SAVED = ("_keylog", "_most_bytes", "_secrets_taken")

    def __init__(self, most_bytes: int, *, watches: bool, keylog: KeyLog | None) -> None:
        """Make the stage.

        Args:
            most_bytes: half of the memory for connections that are decrypted, or may be; handshakes
                that are watched take half of it too.
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

    def state(self) -> State:
        """Return what :meth:`from_state` takes, between two batches. No secret is in it."""
        both = self._watcher, self.streams
        return tuple(None if each is None else each.state() for each in both)

    def from_state(self, state: object, still_open: Mapping[int, TcpConnection]) -> TlsStage:
        """Return a stage that continues from a state; raises ValueError for any other value.

        ``still_open`` are the open connections, by their serial number.
        """
        watched, decrypted = fields(state, "TT")
        made = TlsStage(self._most_bytes, watches=self._watcher is not None, keylog=self._keylog)
        if made._watcher is not None:
            made._watcher.load_state(watched, still_open)
        if made.streams is None and decrypted:
            made.streams = made._new_streams()
        if made.streams is not None:
            made.streams.load_state(decrypted, still_open)
        return made

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections."""
        both = self._watcher, self.streams
        return sum(each.buffered_bytes for each in both if each is not None)

    def feed(self, updates: Sequence[StreamUpdate], *, is_last: bool) -> Sequence[StreamUpdate]:
        """Return the updates to read Kafka in; ``is_last`` at the end of the capture."""
        if self._watcher is not None:
            self._watcher.feed(updates)
        return updates if self.streams is None else self.streams.feed(updates, is_last=is_last)

    def take_anomalies(self) -> list[Anomaly]:
        """Return the anomalies since the last call."""
        return [] if self.streams is None else self.streams.take_anomalies()

    def plaintext_tokens(self, tokens: list[TokenBytes]) -> list[TokenBytes]:
        """Return the tokens that are in packets as they are: not those of decrypted connections."""
        if self.streams is None:
            return tokens
        return [each for each in tokens if not self.streams.is_decrypted(each.connection)]

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
        """Use the secrets that captures have inside, all of them so far.

        They come before the packets that they are for, unless they ``may_be_late``, as in a pipe.
        """
        added = secrets[self._secrets_taken :]
        if not added:
            return
        self._secrets_taken = len(secrets)
        from kanalyze.tls.installed import are_ciphers_installed  # imported late: only with keys
        from kanalyze.tls.keylog import TLS_KEY_LOG, KeyLog

        logs = [each.data for each in added if each.kind == TLS_KEY_LOG]
        if not logs or not are_ciphers_installed():
            return
        if self.streams is None:
            self._keylog = KeyLog(grows=may_be_late)
            self.streams = self._new_streams()
            # Connections that are open were read as encrypted ones.
            self.streams.load_state(None, {tcp.serial: tcp for tcp in still_open})
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
