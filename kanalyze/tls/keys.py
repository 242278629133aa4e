"""Keys: which suites there are, and which keys a direction uses, one after the other.

In: a key log, values of the hellos. Out: the keys of an epoch (:class:`Epochs`).

The names of suites are those of IANA's registry "TLS Cipher Suites" (``cipher_suites.json``); what
a suite is made of follows from its name.

The key schedule of TLS 1.2: RFC 5246 sections 5 and 6.3; of TLS 1.3: RFC 8446 sections 7.1 to 7.3.
The key log has the master secret of 1.2 and the traffic secrets of 1.3, so the key exchange, the
pre-shared keys and the extended master secret play no part here.

Epochs of TLS 1.3: 0 is early data, 1 the handshake, 2 application data, 3 begins with the first
KeyUpdate, and so on. TLS 1.2: epoch 0 begins with the first handshake, 1 with the first
renegotiation, and so on.
"""

from __future__ import annotations

import hmac
import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Protocol

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.common.saved import Saved, make, save
from kanalyze.tls.keylog import SecretKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.common.plain_values import State
    from kanalyze.tls.keylog import KeyLog

# -- suites ---------------------------------------------------------------------------------------

TLS_1_2, TLS_1_3 = 0x0303, 0x0304

_CIPHERS = {
    "AES_128_GCM": ("gcm", 16),
    "AES_256_GCM": ("gcm", 32),
    "AES_128_CCM": ("ccm", 16),
    "AES_256_CCM": ("ccm", 32),
    "AES_128_CCM_8": ("ccm-8", 16),
    "AES_256_CCM_8": ("ccm-8", 32),
    "CHACHA20_POLY1305": ("chacha20", 32),
    "AES_128_CBC": ("cbc", 16),
    "AES_256_CBC": ("cbc", 32),
}
_NAME = re.compile(r"TLS_(?:(?P<exchange>\w+)_WITH_)?(?P<cipher>\w+?)(?:_(?P<hash>SHA\d*))?")


class CipherSuite(NamedTuple):
    """A suite whose records can be decrypted."""

    number: int
    name: str
    mode: str
    """``gcm``, ``ccm``, ``ccm-8``, ``chacha20`` or ``cbc``."""
    key_bytes: int
    hash: str
    """Of the key schedule: ``sha256`` or ``sha384``, as :mod:`hashlib` names them."""
    mac: str
    """Of each record, in CBC mode: ``sha1``, ``sha256`` or ``sha384``."""
    version: int
    """TLS 1.3 has suites of its own."""

    @property
    def tells_number(self) -> bool:
        """Whether the number of a record can be computed from its tag."""
        return self.mode == "gcm" and self.version == TLS_1_3


@cache
def _names() -> dict[int, str]:
    text = resources.files("kanalyze.tls").joinpath("cipher_suites.json").read_text("ascii")
    return {int(number, 16): name for number, name in json.loads(text).items()}


def suite_name(number: int) -> str:
    """Return IANA's name of a suite; the number in hex where it has none."""
    return _names().get(number, f"0x{number:04x}")


@cache
def cipher_suite(number: int) -> CipherSuite | None:
    """Return what a suite is made of; None if its records cannot be decrypted."""
    name = _names().get(number, "")
    match = _NAME.fullmatch(name)
    if match is None or match["cipher"] not in _CIPHERS:
        return None
    mode, key_bytes = _CIPHERS[match["cipher"]]
    mac = (match["hash"] or "SHA256").lower()
    mac = "sha1" if mac == "sha" else mac
    version = TLS_1_2 if match["exchange"] else TLS_1_3
    return CipherSuite(
        number, name, mode, key_bytes, "sha384" if mac == "sha384" else "sha256", mac, version
    )


# -- the key schedule -----------------------------------------------------------------------------

_MAC_BYTES = {"sha1": 20, "sha256": 32, "sha384": 48}
_IV_BYTES = {"gcm": 4, "ccm": 4, "ccm-8": 4, "chacha20": 12, "cbc": 0}
"""Size of the implicit part of the nonce in TLS 1.2, which is not in the record."""
_IV_BYTES_13 = 12


class DirectionKeys:
    """The keys of what one end sends, and the suite that they are for. They are in no ``repr``."""

    __slots__ = ("encrypt_then_mac", "iv", "key", "mac_key", "suite")

    def __init__(self, suite: CipherSuite, key: bytes, iv: bytes, mac_key: bytes = b"") -> None:
        self.suite = suite
        self.key = key
        self.iv = iv
        self.mac_key = mac_key
        self.encrypt_then_mac = False


def keys_12(
    suite: CipherSuite, master_secret: bytes, server_random: bytes, client_random: bytes
) -> tuple[DirectionKeys, DirectionKeys]:
    """Return the keys of TLS 1.2: of what the client sends, and of what the server sends."""
    mac_bytes = _MAC_BYTES[suite.mac] if suite.mode == "cbc" else 0
    sizes = [mac_bytes] * 2 + [suite.key_bytes] * 2 + [_IV_BYTES[suite.mode]] * 2
    seed = b"key expansion" + server_random + client_random
    block = _prf_12(suite.hash, master_secret, seed, sum(sizes))
    parts, at = [], 0
    for size in sizes:
        parts.append(block[at : at + size])
        at += size
    return (
        DirectionKeys(suite, parts[2], parts[4], parts[0]),
        DirectionKeys(suite, parts[3], parts[5], parts[1]),
    )


def keys_13(suite: CipherSuite, traffic_secret: bytes) -> DirectionKeys:
    """Return the keys of TLS 1.3 that belong to a traffic secret."""
    return DirectionKeys(
        suite,
        _expand_label(suite.hash, traffic_secret, b"key", suite.key_bytes),
        _expand_label(suite.hash, traffic_secret, b"iv", _IV_BYTES_13),
    )


def next_traffic_secret(suite: CipherSuite, traffic_secret: bytes) -> bytes:
    """Return the secret after a KeyUpdate."""
    return _expand_label(suite.hash, traffic_secret, b"traffic upd", len(traffic_secret))


def _prf_12(hash_name: str, secret: bytes, seed: bytes, length: int) -> bytes:
    """Return ``length`` bytes of P_hash (RFC 5246 section 5)."""
    output, chain = b"", seed
    while len(output) < length:
        chain = hmac.digest(secret, chain, hash_name)
        output += hmac.digest(secret, chain + seed, hash_name)
    return output[:length]


def _expand_label(hash_name: str, secret: bytes, label: bytes, length: int) -> bytes:
    """Return HKDF-Expand-Label without a context, of no more than one block of the hash."""
    label = b"tls13 " + label
    info = length.to_bytes(2, "big") + len(label).to_bytes(1, "big") + label + b"\0"
    return hmac.digest(secret, info + b"\1", hash_name)[:length]


# -- epochs ---------------------------------------------------------------------------------------

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

    def keys(self, epoch: int) -> list[DirectionKeys]:
        """Return the keys that may open the records of an epoch; none without a secret."""
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

    def keys(self, epoch: int) -> list[DirectionKeys]:
        """Return the keys that may open the records of an epoch."""
        kind = self._kinds[min(epoch, APPLICATION)]
        secret = None if kind is None else self._log.find(self._random, kind)
        updates = max(0, epoch - APPLICATION)
        if secret is None or updates > _MAX_UPDATES:
            return []
        found = []
        suites = suites_13(secret) if self._suite is None else (self._suite,)
        for suite in suites:
            current = secret
            for _ in range(updates):
                current = next_traffic_secret(suite, current)
            found.append(keys_13(suite, current))
        return found

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

    def keys(self, epoch: int) -> list[DirectionKeys]:
        """Return the keys that may open the records of an epoch; none without a secret."""
        handshake = self._handshakes.get(epoch)
        if handshake is None:
            return []
        client_random, suite = handshake.client_random, handshake.suite
        name = handshake.master_name(self._log)
        secret = None if name is None else self._log.find(*name)
        if secret is None:
            return []
        keys = keys_12(suite, secret, handshake.server_random, client_random)[self._end]
        keys.encrypt_then_mac = handshake.encrypt_then_mac
        return [keys]

    def after(self, epoch: int, *, is_uncertain: bool) -> Iterable[int]:
        """Return the epoch that may follow: its ChangeCipherSpec may be missing."""
        return (epoch + 1,) if is_uncertain and epoch + 1 in self._handshakes else ()
