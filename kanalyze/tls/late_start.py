"""Finds by trial the secret of a session that the key log has under no known name.

In: a record, a key log. Out: the session whose secret opens the record.

A session whose ClientHello is not in the capture: the keys of TLS 1.2 depend on the ServerHello's
random, which no key log has: it has to be in the capture. TLS 1.3 needs neither hello. For AES-GCM,
the number of a record is computed. For ChaCha20-Poly1305, numbers are tried. The more sessions the
log has, the fewer numbers are tried for each, down to some tens, so only a connection that has not
sent more records yet is found. Keys that were updated before the capture began are not found.

A resumed session of TLS 1.2: both ends use the master secret of an earlier one again. Some clients
write it to the key log once more (OpenSSL), others do not (Go, rustls, Java). An id of the session
may tell which one it was; a ticket does not, because only the server can read it. So the secrets in
the log are tried, those of earlier sessions between the same two addresses first.

The trials of each kind are bounded by :data:`MAX_TRIALS`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.tls.keylog import SecretKind
from kanalyze.tls.keys import APPLICATION, Epochs12, Epochs13, MasterName, suites_13
from kanalyze.tls.records import ANY_NUMBER, TrialRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.keys import CipherSuite, DirectionKeys, Handshake12
    from kanalyze.tls.negotiation import Ends, RecordPlace
    from kanalyze.tls.records import TlsRecord

MAX_TRIALS: Final = 1 << 20
"""Trials of one kind, of all connections together: half a minute."""
_MAX_TRIALS_A_RECORD: Final = 1 << 14
"""Secrets that are tried for one record: half a second."""
_MAX_NUMBERS: Final = 64
"""Numbers that are tried with each secret if records before this one are missing."""
_NAMES_A_TRIAL_BITS: Final = 8
"""So many secrets of other kinds are passed over in the time of one trial, as a power of two."""
_MAX_ENDS: Final = 1 << 10
_MAX_NAMES: Final = 16
"""Pairs of addresses whose sessions are remembered, and how many of each: the latest ones."""


_T = TypeVar("_T")
Candidate: TypeAlias = "tuple[_T, DirectionKeys, TrialRange]"
"""What may open a record: a session or its name, keys, and the numbers to be tried with them."""


class EarlierSessions:
    """Finds the master secrets of resumed sessions, for all connections."""

    _NOT_SAVED = ("_log",)
    _SAVED = Saved("_trials_left:int _names:dict[*(str,str),dict[MasterName]]", MasterName)

    def __init__(self, log: KeyLog, most_trials: int = MAX_TRIALS) -> None:
        self._log = log
        self._trials_left = most_trials
        self._names: dict[Ends, dict[MasterName, None]] = {}
        """The master secrets that opened a session between two addresses, the latest last."""

    def note(self, ends: Ends, name: MasterName) -> None:
        """Remember whose master secret opened a session between two addresses."""
        names = self._names.pop(ends, {})
        self._names[ends] = names
        names.pop(name, None)
        names[name] = None
        if len(names) > _MAX_NAMES:
            del names[next(iter(names))]
        if len(self._names) > _MAX_ENDS:
            del self._names[next(iter(self._names))]

    def candidates(
        self, end: int, handshake: Handshake12, place: RecordPlace
    ) -> Iterator[Candidate[MasterName]]:
        """Yield the master secrets to be tried, by name, each with the keys of what an end sends.

        ``end`` is 0 if the client sent the record, 1 if the server did.
        """
        trials = min(_MAX_NUMBERS, place.most_missing + 1)
        within = TrialRange(0, place.most_missing, trials)
        known = self._names.get(place.ends, {})
        self._trials_left -= len(self._log) >> _NAMES_A_TRIAL_BITS
        epochs = Epochs12(self._log, end)
        left = _MAX_TRIALS_A_RECORD
        for name in chain(reversed(known), self._others(known)):
            # Those of the same addresses are few: they are always tried.
            if name not in known:
                if min(left, self._trials_left) <= 0:
                    return
                left -= trials
                self._trials_left -= trials
            epochs.negotiate(0, handshake._replace(resumes=name))
            for keys in epochs.keys(0):
                yield name, keys, within

    def _others(self, known: dict[MasterName, None]) -> Iterator[MasterName]:
        """Yield the names of all other master secrets, the latest first."""
        for kind in (SecretKind.MASTER, SecretKind.SESSION):
            names = (MasterName(name, kind) for name in self._log.randoms(kind))
            yield from (name for name in names if name not in known)


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

    def candidates_13(
        self, record: TlsRecord, end: int | None, suite: CipherSuite | None
    ) -> Iterator[Candidate[FittingSession]]:
        """Yield the sessions of TLS 1.3 whose secrets may open a record.

        ``end`` and ``suite`` are None where they are not known.
        """
        most = max(_MIN_TRIALS, _TRIALS_A_SECRET // (1 + len(self._log)))
        for tried in (0, 1) if end is None else (end,):
            for client_random in self._log.randoms(_KINDS[tried]):
                secret = self._log.find(client_random, _KINDS[tried]) or b""
                for fitting in suites_13(secret) if suite is None else (suite,):
                    epochs = Epochs13(self._log, client_random, tried, fitting)
                    session = FittingSession(client_random, tried, fitting)
                    yield from self._affordable(record, most, session, epochs.keys(APPLICATION))

    def candidates_12(
        self, record: TlsRecord, end: int, handshake: Handshake12
    ) -> Iterator[Candidate[FittingSession]]:
        """Yield the sessions of TLS 1.2 whose secrets may open the first encrypted record.

        The client random of ``handshake`` is not known and is ignored.
        """
        for client_random in self._log.randoms(SecretKind.MASTER):
            epochs = Epochs12(self._log, end)
            epochs.negotiate(0, handshake._replace(client_random=client_random))
            session = FittingSession(client_random, end, handshake.suite)
            yield from self._affordable(record, _MIN_TRIALS, session, epochs.keys(0))

    def _affordable(
        self, record: TlsRecord, most: int, session: FittingSession, found: list[DirectionKeys]
    ) -> Iterator[Candidate[FittingSession]]:
        """Yield a session with each of its keys, as long as trials are left."""
        cost = 1 + len(record.body) // _TRIAL_BYTES
        for keys in found:
            if self.trials_left <= 0:
                return
            yield session, keys, TrialRange(0, ANY_NUMBER, most)
            trials = 1 if keys.suite.tells_number else most
            self.trials_left -= _TRIALS_TO_DERIVE + trials * cost
