"""Alerts: why an end closes a session, or refuses to begin one.

In: the content of an alert record. Out: :class:`TlsAlert`.

RFC 8446 section 6, RFC 5246 section 7.2; IANA's registry "TLS Alerts".
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved

__all__ = ["SEALED_ALERT_BYTES", "TlsAlert", "read_alert"]

SEALED_ALERT_BYTES: Final = (19, 35)
"""Sizes of the body of a TLS 1.3 record with an alert: 2 bytes, the type, the tag; Java adds 16
bytes of padding."""

_LEVELS: Final = {1: "warning", 2: "fatal"}
_DESCRIPTIONS: Final = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    52: "too_many_cids_requested",
    60: "export_restriction",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    111: "certificate_unobtainable",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    114: "bad_certificate_hash_value",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
    121: "ech_required",
}


@Saved("direction:end level:str description:str time_ns:int packet:count")
class TlsAlert(NamedTuple):
    """An alert, and who sent it."""

    direction: int
    """0 or 1, as in :class:`~kanalyze.model.streams.StreamUpdate`."""
    level: str
    """``warning`` or ``fatal``; a number where it is neither."""
    description: str
    """The name in the registry; a number where it has none."""
    time_ns: int
    packet: int


def read_alert(
    content: bytes | memoryview, direction: int, time_ns: int, packet: int
) -> TlsAlert | None:
    """Read the content of an alert record; None if it is no alert."""
    if len(content) != 2:
        return None
    level, description = content[0], content[1]
    return TlsAlert(
        direction,
        _LEVELS.get(level, str(level)),
        _DESCRIPTIONS.get(description, str(description)),
        time_ns,
        packet,
    )
