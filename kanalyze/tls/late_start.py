"""Sessions whose hellos are not in the capture: which of the key log's secrets fit.

In: a record, a key log. Out: the session whose secret opens the record. Must not know: connections.

Only of TLS 1.3: the keys of TLS 1.2 depend on the ServerHello's random, which no key log has. Of
AES-GCM the number of a record is computed; of ChaCha20-Poly1305 so many numbers are tried that a
connection is found which sent a few hundred records or more, depending on how many sessions the log
has. Keys that were updated before the capture began are not found.

All trials together are bounded (:data:`MOST_TRIALS`), whatever a capture and a log hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.tls.epochs import APPLICATION, Epochs13
from kanalyze.tls.keylog import SecretKind
from kanalyze.tls.opener import ANY_NUMBER
from kanalyze.tls.records import TrialRange

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.records import TlsRecord

__all__ = ["MOST_TRIALS", "FittingSession", "LateStarts"]

MOST_TRIALS: Final = 1 << 20
"""Of all connections together: half a minute."""
_TRIALS_A_SECRET: Final = 1 << 12
"""Of numbers, where they are tried and the log has one session."""
_LEAST_TRIALS: Final = 64
_TRIALS_TO_DERIVE: Final = 16
"""What it takes to make keys of a secret, in trials."""
_TRIAL_BYTES: Final = 4096
"""What is decrypted in the time of a trial."""
_KINDS: Final = (SecretKind.CLIENT_TRAFFIC, SecretKind.SERVER_TRAFFIC)


class FittingSession(NamedTuple):
    """A session of the key log."""

    client_random: bytes
    end: int
    """Which end sent the record: 0 the client, 1 the server."""


class LateStarts:
    """Finds sessions for all connections that began before the capture."""

    _LEFT_OUT = ("_log",)

    def __init__(self, log: KeyLog, most_trials: int = MOST_TRIALS) -> None:
        self._log = log
        self.trials_left = most_trials

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return (self.trials_left,)

    def load_state(self, state: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        (self.trials_left,) = fields(state, "i")

    def find(self, record: TlsRecord) -> FittingSession | None:
        """Return the session whose secret opens a record; None if there is none."""
        most = max(_LEAST_TRIALS, _TRIALS_A_SECRET // (1 + len(self._log)))
        within = TrialRange(0, ANY_NUMBER, most)
        cost = 1 + len(record.body) // _TRIAL_BYTES
        for end, kind in enumerate(_KINDS):
            for client_random in self._log.randoms(kind):
                for cipher in Epochs13(self._log, client_random, end, None).ciphers(APPLICATION):
                    if self.trials_left <= 0:
                        return None
                    if cipher.number(record, within) is not None:
                        return FittingSession(client_random, end)
                    trials = most if cipher.tries_numbers else 1
                    self.trials_left -= _TRIALS_TO_DERIVE + trials * cost
        return None
