"""Epochs: which keys a direction uses, one after the other.

In: a key log, values of the hellos. Out: the ciphers of an epoch (:class:`Epochs`).

TLS 1.3: epoch 0 is early data, 1 the handshake, 2 application data, 3 begins with the first
KeyUpdate, and so on. TLS 1.2: epoch 0 begins with the first handshake, 1 with the first
renegotiation, and so on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.common.saved import Saved, make, save
from kanalyze.tls.cipher_suites import TLS_1_2, TLS_1_3, cipher_suite
from kanalyze.tls.installed import require_ciphers
from kanalyze.tls.key_schedule import keys_12, keys_13, next_traffic_secret
from kanalyze.tls.keylog import SecretKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.common.plain_values import State
    from kanalyze.tls.cipher_suites import CipherSuite
    from kanalyze.tls.key_schedule import DirectionKeys
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.record_cipher import RecordCipher

__all__ = [
    "APPLICATION",
    "EARLY",
    "HANDSHAKE",
    "Epochs",
    "Epochs12",
    "Epochs13",
    "Handshake12",
    "MasterName",
    "has_secrets_13",
    "suites_13",
]

EARLY, HANDSHAKE, APPLICATION = 0, 1, 2
"""Epochs of TLS 1.3."""

_KINDS = (
    (SecretKind.CLIENT_EARLY, SecretKind.CLIENT_HANDSHAKE, SecretKind.CLIENT_TRAFFIC),
    (None, SecretKind.SERVER_HANDSHAKE, SecretKind.SERVER_TRAFFIC),
)
"""By end (0 client, 1 server) and epoch."""
_SUITES_BY_SECRET = {32: (0x1301, 0x1303, 0x1304, 0x1305), 48: (0x1302,)}
"""The suites of TLS 1.3 by the size of their secrets, the usual ones first."""
_MAX_UNSEEN_UPDATES = 3
"""KeyUpdates that may be missing between two captured records."""
_MAX_UPDATES = 4096
"""Limit of KeyUpdates: more within a capture are not plausible. Each takes a few microseconds."""


class Epochs(Protocol):
    """The keys to what one end sends."""

    def ciphers(self, epoch: int) -> list[RecordCipher]:
        """Return the ciphers that may open the records of an epoch; none without a secret."""
        ...

    def after(self, epoch: int, *, is_uncertain: bool) -> Iterable[int]:
        """Return the epochs that may follow although no message announced them.

        ``is_uncertain`` says that records are missing, which may have had that message.
        """
        ...


def has_secrets_13(log: KeyLog, client_random: bytes) -> bool:
    """Return true if a key log has secrets of TLS 1.3 for a session."""
    kinds = (SecretKind.CLIENT_TRAFFIC, SecretKind.SERVER_TRAFFIC, SecretKind.CLIENT_HANDSHAKE)
    return any(log.find(client_random, kind) is not None for kind in kinds)


def suites_13(secret: bytes) -> list[CipherSuite]:
    """Return the suites of TLS 1.3 that fit the size of a secret, the usual ones first."""
    suites = (cipher_suite(number) for number in _SUITES_BY_SECRET[len(secret)])
    return [suite for suite in suites if suite is not None]


class Epochs13:
    """TLS 1.3."""

    _NOT_SAVED = ("_log",)

    def __init__(self, log: KeyLog, client_random: bytes, end: int, suite: CipherSuite | None):
        """Begin.

        Args:
            log: has the secrets.
            client_random: of the session.
            end: 0 for what the client sends, 1 for the server.
            suite: the server's choice; None where it is not known.
        """
        self._log = log
        self._random = client_random
        self._kinds = _KINDS[end]
        self._suite = suite

    def state(self, _context: object) -> State:
        """Return what :meth:`from_state` takes: the keys to look up secrets, but no secret."""
        suite = self._suite
        return self._random, _KINDS.index(self._kinds), None if suite is None else suite.number

    @classmethod
    def from_state(cls, state: object, log: KeyLog) -> Epochs13:
        """Make one from a state, with the secrets of a log; raises ValueError for other values."""
        client_random, end, number = fields(state, "ynN")
        suite = None if number is None else cipher_suite(number)
        if end > 1 or (number is not None and (suite is None or suite.version != TLS_1_3)):
            raise ValueError("no end of a session of TLS 1.3")
        return cls(log, client_random, end, suite)

    def ciphers(self, epoch: int) -> list[RecordCipher]:
        """Return the ciphers that may open the records of an epoch."""
        kind = self._kinds[min(epoch, APPLICATION)]
        secret = None if kind is None else self._log.find(self._random, kind)
        updates = max(0, epoch - APPLICATION)
        if secret is None or updates > _MAX_UPDATES:
            return []
        record_ciphers = []
        suites = suites_13(secret) if self._suite is None else (self._suite,)
        for suite in suites:
            current = secret
            for _ in range(updates):
                current = next_traffic_secret(suite, current)
            record_ciphers.append(_cipher(suite, keys_13(suite, current)))
        return record_ciphers

    def after(self, epoch: int, *, is_uncertain: bool) -> Iterable[int]:
        """Return the epochs that may follow: the log may lack the secrets of the handshake."""
        if epoch < APPLICATION:
            return range(epoch + 1, APPLICATION + 1)
        return range(epoch + 1, epoch + 1 + _MAX_UNSEEN_UPDATES) if is_uncertain else ()


@Saved("name:bytes kind:SecretKind", SecretKind)
class MasterName(NamedTuple):
    """Under which name a key log has a master secret of TLS 1.2."""

    name: bytes
    """The random of a ClientHello, or the id of a session."""
    kind: SecretKind
    """``MASTER`` or ``SESSION``."""

    def _after_load(self) -> None:
        if self.kind not in (SecretKind.MASTER, SecretKind.SESSION):
            raise ValueError("no master secret")


class Handshake12(NamedTuple):
    """The values that the keys of TLS 1.2 depend on, besides the master secret."""

    client_random: bytes
    server_random: bytes
    session_id: bytes
    """The id that the server gave the session; empty without one."""
    suite: CipherSuite
    encrypt_then_mac: bool
    resumes: MasterName | None = None
    """Whose master secret opens the records, if the key log has none under the names of this
    session: an earlier one's, which this one resumes."""

    def state(self, _context: object) -> State:
        """Return what :meth:`from_state` takes."""
        identity = self.client_random, self.server_random, self.session_id
        resumes = None if self.resumes is None else save(self.resumes)
        return *identity, self.suite.number, self.encrypt_then_mac, resumes

    @classmethod
    def from_state(cls, state: object, _context: object) -> Handshake12:
        """Make one from a state; raises ValueError for any other value."""
        *identity, number, encrypt_then_mac, resumes = fields(state, "yyynbT", (None,))
        suite = cipher_suite(number)
        if suite is None or suite.version != TLS_1_2:
            raise ValueError("no suite of TLS 1.2")
        earlier = None if resumes is None else make(MasterName, resumes)
        client_random, server_random, session_id = identity
        return cls(client_random, server_random, session_id, suite, encrypt_then_mac, earlier)

    def master_name(self, log: KeyLog) -> MasterName | None:
        """Return the name under which a key log has the master secret; None if it has none."""
        names = [
            MasterName(self.client_random, SecretKind.MASTER),
            MasterName(self.session_id, SecretKind.SESSION),
        ]
        names += [] if self.resumes is None else [self.resumes]
        return next((name for name in names if log.find(*name) is not None), None)


class Epochs12:
    """TLS 1.2: the first handshake is epoch 0, each renegotiation begins another epoch."""

    _NOT_SAVED = ("_end", "_log")
    _SAVED = Saved("_handshakes:dict[count,Handshake12]", Handshake12, bare=True)

    def __init__(self, log: KeyLog, end: int):
        """Begin; the arguments are as for :class:`Epochs13`."""
        self._log = log
        self._end = end
        self._handshakes: dict[int, Handshake12] = {}

    def negotiate(self, epoch: int, handshake: Handshake12) -> None:
        """Note the values of a handshake for an epoch; all but the latest two are forgotten."""
        assert handshake.suite.version == TLS_1_2
        self._handshakes[epoch] = handshake
        self._handshakes.pop(epoch - 2, None)

    def resume(self, epoch: int, name: MasterName) -> None:
        """Note whose master secret an epoch uses again."""
        self._handshakes[epoch] = self._handshakes[epoch]._replace(resumes=name)

    def master_name(self, epoch: int) -> MasterName | None:
        """Return the name of the master secret of an epoch; None if the log has none."""
        handshake = self._handshakes.get(epoch)
        return None if handshake is None else handshake.master_name(self._log)

    def ciphers(self, epoch: int) -> list[RecordCipher]:
        """Return the cipher that may open the records of an epoch; none without a secret."""
        handshake = self._handshakes.get(epoch)
        if handshake is None:
            return []
        client_random, suite = handshake.client_random, handshake.suite
        name = handshake.master_name(self._log)
        secret = None if name is None else self._log.find(*name)
        if secret is None:
            return []
        keys = keys_12(suite, secret, handshake.server_random, client_random)[self._end]
        return [_cipher(suite, keys, encrypt_then_mac=handshake.encrypt_then_mac)]

    def after(self, epoch: int, *, is_uncertain: bool) -> Iterable[int]:
        """Return the epoch that may follow: its ChangeCipherSpec may be missing."""
        return (epoch + 1,) if is_uncertain and epoch + 1 in self._handshakes else ()


def _cipher(
    suite: CipherSuite, keys: DirectionKeys, *, encrypt_then_mac: bool = False
) -> RecordCipher:
    """Return the cipher of a suite; raises UsageError if the package with the ciphers is missing.

    Only here is it needed: there is a secret that fits a session, or one to be tried.
    """
    require_ciphers()
    from kanalyze.tls.ciphers import record_cipher

    return record_cipher(suite, keys, encrypt_then_mac=encrypt_then_mac)
