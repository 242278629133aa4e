"""Reads subject, issuer and validity of a certificate.

In: a certificate in DER. Out: :class:`~kanalyze.model.tls.CertificateFacts`.

Only these fields are read (RFC 5280 section 4.1; DER is X.690), and names are written as RFC 4514
says. This needs no package to be installed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kanalyze.model.tls import CertificateFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["certificate_facts"]

_MAX_CERTIFICATE_BYTES: Final = 1 << 16
_MAX_NAME_CHARACTERS: Final = 1024
_NS_PER_S: Final = 1_000_000_000
_MAX_NS: Final = (1 << 63) - 1

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_OBJECT_ID: Final = 6
_UTC_TIME, _GENERALIZED_TIME = 23, 24
_LAST_CENTURY_FROM: Final = 50
"""A UTCTime whose two digits of the year are this or more is of the 20th century."""
_LONG_LENGTH: Final = 0x80
_MAX_LENGTH_BYTES: Final = 3
_TEXTS: Final = {
    **dict.fromkeys((12, 18, 19, 22, 26), "utf-8"),
    20: "latin-1",
    28: "utf-32-be",
    30: "utf-16-be",
}
"""Python's encodings by the tag of a string type."""
_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = str.maketrans(
    {**{char: f"\\{char}" for char in '\\"+,;<>'}, "\0": "\\00"},
)


def certificate_facts(der: bytes) -> CertificateFacts | None:
    """Read a certificate in DER; None if it cannot be read."""
    if len(der) > _MAX_CERTIFICATE_BYTES:
        return None
    try:
        return _facts(der)
    except (ValueError, OverflowError, StopIteration):
        return None


def _facts(der: bytes) -> CertificateFacts:
    signed = _values(_inner(_inner(der, _SEQUENCE), _SEQUENCE))
    tag, _ = next(signed)
    if tag == _VERSION:
        next(signed)  # the serial number
    next(signed)  # the algorithm of the signature
    issuer, validity, subject = next(signed), next(signed), next(signed)
    times = _values(validity[1])
    not_before_ns, not_after_ns = _unix_ns(*next(times)), _unix_ns(*next(times))
    return CertificateFacts(_name(subject[1]), _name(issuer[1]), not_before_ns, not_after_ns)


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each of several DER values; raises ValueError for invalid ones."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1] if at + 1 < len(data) else 0
        at += 2
        if length >= _LONG_LENGTH:
            count = length - _LONG_LENGTH
            if not 0 < count <= _MAX_LENGTH_BYTES:
                raise ValueError("a length that DER does not have, or too large a one")
            length = int.from_bytes(data[at : at + count])
            at += count
        if at + length > len(data):
            raise ValueError("a value that is cut off")
        yield tag, data[at : at + length]
        at += length


def _inner(data: bytes, expected: int) -> bytes:
    """Return the content of the first value; raises ValueError if its tag is not ``expected``."""
    tag, inner = next(_values(data))
    if tag != expected:
        raise ValueError(f"a value with the tag {tag} in place of {expected}")
    return inner


def _name(data: bytes) -> str:
    """Return a distinguished name; the order of its parts is reversed, as RFC 4514 says."""
    parts = []
    for _, attributes in _values(data):
        pairs = (_values(pair) for _, pair in _values(attributes))
        parts.append("+".join([_part(*next(pair), *next(pair)) for pair in pairs]))
    return ",".join(reversed(parts))[:_MAX_NAME_CHARACTERS]


def _part(kind_tag: int, kind: bytes, tag: int, value: bytes) -> str:
    if kind_tag != _OBJECT_ID:
        raise ValueError("a part of a name without its kind")
    number = _object_id(kind)
    encoding = _TEXTS.get(tag)
    text = f"#{value.hex()}" if encoding is None else _escaped(value.decode(encoding, "replace"))
    return f"{_SHORT_NAMES.get(number, number)}={text}"


def _escaped(text: str) -> str:
    escaped = text.translate(_ESCAPED)
    if text[:1] in ("#", " ") and text:
        escaped = f"\\{escaped}"
    if text[-1:] == " " and len(text) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped


def _object_id(data: bytes) -> str:
    numbers, number = [], 0
    for byte in data[:_MAX_NAME_CHARACTERS]:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_LENGTH:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, (first, *(numbers[:1] and [numbers[0] - 40 * first]), *numbers[1:])))


def _unix_ns(tag: int, data: bytes) -> int | None:
    """Return a time; None if it does not fit in 64 bits, such as the year 9999 for "never"."""
    text = data.decode("ascii")
    if tag == _UTC_TIME:
        century = "19" if int(text[:2]) >= _LAST_CENTURY_FROM else "20"
        text = century + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("a time of no kind")
    moment = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    time_ns = int(moment.timestamp()) * _NS_PER_S
    return time_ns if abs(time_ns) <= _MAX_NS else None
