"""Finds the master secret of a resumed session of TLS 1.2, by trial.

In: the first encrypted record of a resumed session, a key log. Out: the session of the log whose
master secret opens the record.

Both ends of a resumed session use the master secret of an earlier one again. Some clients write it
to the key log once more (OpenSSL), others do not (Go, rustls, Java). An id of the session may tell
which one it was; a ticket does not, because only the server can read it. So the secrets in the log
are tried, those of earlier sessions between the same two addresses first.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.tls.epochs import Epochs12, MasterName
from kanalyze.tls.keylog import SecretKind
from kanalyze.tls.records import TrialRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.tls.epochs import Handshake12
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.records import TlsRecord

__all__ = ["NOBODY", "EarlierSessions", "Ends", "RecordPlace"]

Ends: TypeAlias = tuple[str, str]
"""The addresses of both ends in order, without ports: a client has another one each time."""
NOBODY: Final[Ends] = ("", "")

MAX_TRIALS: Final = 1 << 20
"""Secrets that are tried for all connections together: half a minute."""
_MAX_TRIALS_A_RECORD: Final = 1 << 14
"""Secrets that are tried for one record: half a second."""
_MAX_NUMBERS: Final = 64
"""Numbers that are tried with each secret if records before this one are missing."""
_NAMES_A_TRIAL_BITS: Final = 8
"""So many secrets of other kinds are passed over in the time of one trial, as a power of two."""
_MAX_ENDS: Final = 1 << 10
_MAX_NAMES: Final = 16
"""Pairs of addresses whose sessions are remembered, and how many of each: the latest ones."""


class RecordPlace(NamedTuple):
    """Where a record is that is tried."""

    ends: Ends
    most_missing: int
    """How many encrypted records of its sender may be missing before it."""


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

    def find(
        self, record: TlsRecord, end: int, handshake: Handshake12, place: RecordPlace
    ) -> MasterName | None:
        """Return the name of the master secret that opens a record; None if there is none.

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
                    return None
                left -= trials
                self._trials_left -= trials
            epochs.negotiate(0, handshake._replace(resumes=name))
            for cipher in epochs.ciphers(0):
                if cipher.number(record, within) is not None:
                    return name
        return None

    def _others(self, known: dict[MasterName, None]) -> Iterator[MasterName]:
        """Yield the names of all other master secrets, the latest first."""
        for kind in (SecretKind.MASTER, SecretKind.SESSION):
            names = (MasterName(name, kind) for name in self._log.randoms(kind))
            yield from (name for name in names if name not in known)
