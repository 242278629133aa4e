"""What a certificate says: whose it is, who signed it, how long it holds.

In: a certificate in DER. Out: :class:`~kanalyze.model.tls.CertificateFacts`. Must not know: who
sent it; nothing is verified.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from kanalyze.model.tls import CertificateFacts

if TYPE_CHECKING:
    import datetime

    from cryptography import x509

__all__ = ["certificate_facts"]

_MOST_CERTIFICATE_BYTES: Final = 1 << 16
_MOST_NAME_CHARACTERS: Final = 1024
_NS_PER_S: Final = 1_000_000_000


def certificate_facts(der: bytes) -> CertificateFacts | None:
    """Read a certificate; None if it is none, or nothing is installed that reads it."""
    if len(der) > _MOST_CERTIFICATE_BYTES:
        return None
    try:
        from cryptography import x509  # of the extra "tls"
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of certificates that break rules
        try:
            certificate = x509.load_der_x509_certificate(der)
            return CertificateFacts(
                _name(certificate.subject),
                _name(certificate.issuer),
                _unix_ns(certificate.not_valid_before_utc),
                _unix_ns(certificate.not_valid_after_utc),
            )
        except (ValueError, TypeError, OverflowError):
            return None


def _name(name: x509.Name) -> str:
    return name.rfc4514_string()[:_MOST_NAME_CHARACTERS]


def _unix_ns(moment: datetime.datetime) -> int:
    return int(moment.timestamp()) * _NS_PER_S
