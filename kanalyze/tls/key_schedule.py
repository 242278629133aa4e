"""The key schedules of TLS 1.2 and 1.3: from a logged secret to the keys of records.

In: secrets, randoms. Out: keys.

TLS 1.2: RFC 5246 sections 5 and 6.3. TLS 1.3: RFC 8446 sections 7.1 to 7.3. The key log has the
master secret of 1.2 and the traffic secrets of 1.3, so the key exchange, the pre-shared keys and
the extended master secret play no part here.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.tls.cipher_suites import CipherSuite

__all__ = ["DirectionKeys", "keys_12", "keys_13", "next_traffic_secret"]

_MAC_BYTES = {"sha1": 20, "sha256": 32, "sha384": 48}
_IV_BYTES = {"gcm": 4, "ccm": 4, "ccm-8": 4, "chacha20": 12, "cbc": 0}
"""Size of the implicit part of the nonce in TLS 1.2, which is not in the record."""
_IV_BYTES_13 = 12


class DirectionKeys:
    """The keys of what one end sends. They are in no ``repr``."""

    __slots__ = ("iv", "key", "mac_key")

    def __init__(self, key: bytes, iv: bytes, mac_key: bytes = b"") -> None:
        self.key = key
        self.iv = iv
        self.mac_key = mac_key


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
        DirectionKeys(parts[2], parts[4], parts[0]),
        DirectionKeys(parts[3], parts[5], parts[1]),
    )


def keys_13(suite: CipherSuite, traffic_secret: bytes) -> DirectionKeys:
    """Return the keys of TLS 1.3 that belong to a traffic secret."""
    return DirectionKeys(
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
