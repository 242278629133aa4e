"""Finds the secret of a session whose ClientHello is not in the capture, by trial.

In: a record, a key log. Out: the session whose secret opens the record.

The keys of TLS 1.2 depend on the ServerHello's random, which no key log has: it has to be in the
capture. TLS 1.3 needs neither hello. For AES-GCM, the number of a record is computed. For
ChaCha20-Poly1305, numbers are tried. The more sessions the log has, the fewer numbers are tried for
each, down to some tens, so only a connection that has not sent more records yet is found. Keys that
were updated before the capture began are not found.

All trials together are bounded by :data:`MAX_TRIALS`. The secrets of sessions that are resumed are
found by trial too: :attr:`LateStarts.earlier`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.tls.earlier_sessions import EarlierSessions
from kanalyze.tls.epochs import APPLICATION, Epochs12, Epochs13, suites_13
from kanalyze.tls.keylog import SecretKind
from kanalyze.tls.opener import ANY_NUMBER
from kanalyze.tls.records import TrialRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.tls.cipher_suites import CipherSuite
    from kanalyze.tls.epochs import Handshake12
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.record_cipher import RecordCipher
    from kanalyze.tls.records import TlsRecord

__all__ = ["MAX_TRIALS", "FittingSession", "LateStarts"]

MAX_TRIALS: Final = 1 << 20
"""Trials of all connections together: half a minute."""
_TRIALS_A_SECRET: Final = 1 << 12
"""Trials of numbers for all secrets of a log together, of which each gets a part."""
_MIN_TRIALS: Final = 64
"""Trials of numbers for each secret, at least."""
_TRIALS_TO_DERIVE: Final = 16
"""Cost of deriving keys from a secret, in trials."""
_TRIAL_BYTES: Final = 4096
"""Bytes that are decrypted in the time of one trial."""
_KINDS: Final = (SecretKind.CLIENT_TRAFFIC, SecretKind.SERVER_TRAFFIC)


class FittingSession(NamedTuple):
    """A session of the key log."""

    client_random: bytes
    end: int
    """Which end sent the record: 0 the client, 1 the server."""
    suite: CipherSuite


class LateStarts:
    """Finds sessions for all connections that began before the capture."""

    _NOT_SAVED = ("_log",)
    _SAVED = Saved("trials_left:int", added="earlier:here")

    def __init__(self, log: KeyLog, most_trials: int = MAX_TRIALS) -> None:
        self._log = log
        self.trials_left = most_trials
        self.earlier = EarlierSessions(log)

    def find_13(
        self, record: TlsRecord, end: int | None, suite: CipherSuite | None
    ) -> FittingSession | None:
        """Return the session of TLS 1.3 whose secret opens a record; None if there is none.

        ``end`` and ``suite`` are None where they are not known.
        """
        most = max(_MIN_TRIALS, _TRIALS_A_SECRET // (1 + len(self._log)))
        ends = (0, 1) if end is None else (end,)
        return self._fitting(record, most, self._of_13(ends, suite))

    def find_12(self, record: TlsRecord, end: int, handshake: Handshake12) -> FittingSession | None:
        """Return the session of TLS 1.2 whose secret opens the first encrypted record.

        The client random of ``handshake`` is not known and is ignored.
        """
        return self._fitting(record, _MIN_TRIALS, self._of_12(end, handshake))

    def _of_13(
        self, ends: tuple[int, ...], suite: CipherSuite | None
    ) -> Iterator[tuple[FittingSession, list[RecordCipher]]]:
        for end in ends:
            for client_random in self._log.randoms(_KINDS[end]):
                secret = self._log.find(client_random, _KINDS[end]) or b""
                for tried in suites_13(secret) if suite is None else (suite,):
                    epochs = Epochs13(self._log, client_random, end, tried)
                    yield FittingSession(client_random, end, tried), epochs.ciphers(APPLICATION)

    def _of_12(
        self, end: int, handshake: Handshake12
    ) -> Iterator[tuple[FittingSession, list[RecordCipher]]]:
        for client_random in self._log.randoms(SecretKind.MASTER):
            epochs = Epochs12(self._log, end)
            epochs.negotiate(0, handshake._replace(client_random=client_random))
            yield FittingSession(client_random, end, handshake.suite), epochs.ciphers(0)

    def _fitting(
        self,
        record: TlsRecord,
        most: int,
        sessions: Iterator[tuple[FittingSession, list[RecordCipher]]],
    ) -> FittingSession | None:
        within = TrialRange(0, ANY_NUMBER, most)
        cost = 1 + len(record.body) // _TRIAL_BYTES
        for session, ciphers in sessions:
            for cipher in ciphers:
                if self.trials_left <= 0:
                    return None
                if cipher.number(record, within) is not None:
                    return session
                trials = most if cipher.tries_numbers else 1
                self.trials_left -= _TRIALS_TO_DERIVE + trials * cost
        return None
