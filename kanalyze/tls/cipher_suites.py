"""Cipher suites: their names and parameters.

In: the number that a ServerHello names. Out: :class:`CipherSuite`.

The names are those of IANA's registry "TLS Cipher Suites" (``cipher_suites.json``). The rest
follows from the name.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

from kanalyze.common.named_tuples import NamedTuple

__all__ = ["TLS_1_2", "TLS_1_3", "CipherSuite", "cipher_suite", "suite_name"]

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
