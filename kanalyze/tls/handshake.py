"""Handshake messages: assembled from records, and read; the certificates in them; alerts.

In: the content of records of one direction. Out: :class:`HandshakeMessage`, and the fields of
hellos; :class:`~kanalyze.model.tls.CertificateFacts`; :class:`TlsAlert`.

TLS 1.3: RFC 8446 section 4. TLS 1.2: RFC 5246 section 7.4. Extensions: IANA's registry "TLS
ExtensionType Values". Compressed certificates: RFC 8879. A message has at most
:data:`MAX_MESSAGE_BYTES`; a larger one is skipped. If a field does not fit into the message, that
field and the rest of the message are left out.

Of a certificate, subject, issuer and validity are read (RFC 5280 section 4.1; DER is X.690), and
names are written as RFC 4514 says. This needs no package to be installed. Alerts: RFC 8446 section
6, RFC 5246 section 7.2; IANA's registry "TLS Alerts".
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.tls import CertificateFacts
from kanalyze.tls.keys import TLS_1_2, TLS_1_3

if TYPE_CHECKING:
    from collections.abc import Iterator

# -- messages -------------------------------------------------------------------------------------

CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
END_OF_EARLY_DATA: Final = 5
ENCRYPTED_EXTENSIONS: Final = 8
CERTIFICATE: Final = 11
CERTIFICATE_REQUEST: Final = 13
SERVER_HELLO_DONE: Final = 14
FINISHED: Final = 20
KEY_UPDATE: Final = 24
COMPRESSED_CERTIFICATE: Final = 25
"""Handshake types."""

MAX_MESSAGE_BYTES: Final = 1 << 17
"""Java accepts 32 KiB of certificates, OpenSSL 100 KiB."""
_HEADER_BYTES: Final = 4
_RANDOM_BYTES: Final = 32
_MAX_VALUES: Final = 64
"""Most values of a list in a hello, such as its suites."""
_MAX_CERTIFICATES: Final = 16
_MAX_NAME_BYTES: Final = 255

_SUITES_13: Final = 0x13
"""The first byte of the suites of TLS 1.3."""
_ZLIB: Final = 1
_SERVER_NAME: Final = 0
_ALPN: Final = 16
_ENCRYPT_THEN_MAC: Final = 22
_SESSION_TICKET: Final = 35
_PRE_SHARED_KEY: Final = 41
_EARLY_DATA: Final = 42
_SUPPORTED_VERSIONS: Final = 43
_HELLO_RETRY: Final = bytes.fromhex(
    "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
)
"""The random of a HelloRetryRequest (RFC 8446 section 4.1.3)."""


class HandshakeMessage(NamedTuple):
    """A handshake message."""

    kind: int
    body: bytes
    """Empty if the message is too large to be buffered."""


@Saved(
    "random:bytes session_id:bytes versions:tuple[count] suites:tuple[count] server_name:str? "
    "alpn:tuple[str] has_ticket:bool has_psk:bool has_early_data:bool",
    added="is_cut:bool",
)
class ClientHello(NamedTuple):
    """What a client offers."""

    random: bytes
    session_id: bytes
    versions: tuple[int, ...]
    """In the client's order; only the highest one of a client that does not know TLS 1.3."""
    suites: tuple[int, ...]
    server_name: str | None
    alpn: tuple[str, ...]
    has_ticket: bool
    """Whether it has a ticket of TLS 1.2, to resume a session."""
    has_psk: bool
    has_early_data: bool
    is_cut: bool = False
    """Whether only its beginning was captured. What is not in that is left out."""


@Saved(
    "random:bytes session_id:bytes version:count suite:count compression:count alpn:str? "
    "encrypt_then_mac:bool has_psk:bool is_retry:bool",
    added="is_cut:bool",
)
class ServerHello(NamedTuple):
    """What a server chose."""

    random: bytes
    session_id: bytes
    version: int
    suite: int
    compression: int
    alpn: str | None
    """Of TLS 1.2; 1.3 encrypts it."""
    encrypt_then_mac: bool
    has_psk: bool
    is_retry: bool
    """A HelloRetryRequest: another hello of both ends follows."""
    is_cut: bool = False
    """As of a :class:`ClientHello`."""


class EncryptedExtensions(NamedTuple):
    """What a server of TLS 1.3 adds to its hello."""

    alpn: str | None
    takes_early_data: bool


class MessageAssembler:
    """Assembles the handshake messages of one direction."""

    _SAVED = Saved("_buffer:bytearray _skip:count _skipped_kind:count")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0
        self._skipped_kind = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes held."""
        return len(self._buffer)

    def lose(self) -> None:
        """Drop the incomplete message, because bytes of it are missing."""
        self._buffer.clear()
        self._skip = 0

    def beginning(self, content: bytes) -> HandshakeMessage | None:
        """Return what there is of the first message in a record that is cut; None in another one.

        An incomplete message before it would have to be completed first.
        """
        if self._buffer or self._skip or len(content) <= _HEADER_BYTES:
            return None
        size = _HEADER_BYTES + int.from_bytes(content[1:_HEADER_BYTES], "big")
        return HandshakeMessage(content[0], content[_HEADER_BYTES:size])

    def feed(self, content: bytes | memoryview) -> Iterator[HandshakeMessage]:
        """Yield the messages that the content of a record completes."""
        skipped = min(self._skip, len(content))
        if skipped:
            self._skip -= skipped
            content = content[skipped:]
            if not self._skip:
                yield HandshakeMessage(self._skipped_kind, b"")
        buffer = self._buffer
        buffer += content
        at = 0
        while len(buffer) - at >= _HEADER_BYTES:
            size = _HEADER_BYTES + int.from_bytes(buffer[at + 1 : at + 4], "big")
            missing_bytes = size - (len(buffer) - at)
            if missing_bytes > 0:
                if size > MAX_MESSAGE_BYTES:
                    self._skip, self._skipped_kind = missing_bytes, buffer[at]
                    at = len(buffer)
                break
            yield HandshakeMessage(buffer[at], bytes(buffer[at + _HEADER_BYTES : at + size]))
            at += size
        del buffer[:at]


class _Fields:
    """Reads the fields of a message in order; past the end they are empty, or 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.is_cut = False
        """Whether a field was incomplete."""

    def take(self, count: int) -> bytes:
        """Return so many bytes."""
        field = self._data[self._at : self._at + count]
        self._at += count
        if len(field) < count:
            self.is_cut = True
            self._at = len(self._data)
            return b""
        return field

    def number(self, count: int) -> int:
        """Return a number of so many bytes."""
        return int.from_bytes(self.take(count), "big")

    def vector(self, length_bytes: int) -> bytes:
        """Return a vector: a length of ``length_bytes``, then so many bytes."""
        return self.take(self.number(length_bytes))

    def begun_vector(self, length_bytes: int) -> bytes:
        """Return as much of a vector as there is."""
        size = self.number(length_bytes)
        return self.take(min(size, len(self._data) - self._at))

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._data)


def is_hello(content: bytes | memoryview) -> bool:
    """Return true if the content of a handshake record has a complete hello."""
    if len(content) < _HEADER_BYTES + _RANDOM_BYTES:
        return False
    size = _HEADER_BYTES + int.from_bytes(content[1:_HEADER_BYTES], "big")
    if content[0] == CLIENT_HELLO:
        return size == len(content)
    return content[0] == SERVER_HELLO and size <= len(content)


def read_client_hello(body: bytes, *, is_cut: bool = False) -> ClientHello | None:
    """Read a ClientHello; None if it has no random. Of one that is cut, ``body`` is the beginning.

    A ticket of one that is cut is not ruled out.
    """
    fields = _Fields(body)
    version = fields.number(2)
    random = fields.take(_RANDOM_BYTES)
    if fields.is_cut:
        return None
    session_id = fields.vector(1)
    suites = _numbers(fields.vector(2))
    fields.vector(1)  # compression
    extensions = _extensions(fields, is_cut=is_cut)
    versions = _numbers(_Fields(extensions.get(_SUPPORTED_VERSIONS, b"")).vector(1))
    return ClientHello(
        random,
        session_id,
        versions or (() if is_cut else (version,)),
        suites,
        _server_name(extensions.get(_SERVER_NAME, b"")),
        _protocols(extensions.get(_ALPN, b"")),
        is_cut or bool(extensions.get(_SESSION_TICKET)),
        _PRE_SHARED_KEY in extensions,
        _EARLY_DATA in extensions,
        is_cut,
    )


def read_server_hello(body: bytes, *, is_cut: bool = False) -> ServerHello | None:
    """Read a ServerHello; None if it is cut before its suite.

    Of one that is cut, the extension with the version may be missing; but TLS 1.3 has suites of its
    own.
    """
    fields = _Fields(body)
    version = fields.number(2)
    random = fields.take(_RANDOM_BYTES)
    session_id = fields.vector(1)
    suite = fields.number(2)
    compression = fields.number(1)
    if fields.is_cut:
        return None
    extensions = _extensions(fields, is_cut=is_cut)
    chosen = extensions.get(_SUPPORTED_VERSIONS, b"")
    if is_cut and suite >> 8 == _SUITES_13 and version == TLS_1_2:
        version = TLS_1_3
    return ServerHello(
        random,
        session_id,
        int.from_bytes(chosen, "big") if len(chosen) == 2 else version,
        suite,
        compression,
        next(iter(_protocols(extensions.get(_ALPN, b""))), None),
        _ENCRYPT_THEN_MAC in extensions,
        _PRE_SHARED_KEY in extensions,
        random == _HELLO_RETRY,
        is_cut,
    )


def read_encrypted_extensions(body: bytes) -> EncryptedExtensions:
    """Read the EncryptedExtensions message of TLS 1.3."""
    extensions = _extensions(_Fields(body))
    protocols = _protocols(extensions.get(_ALPN, b""))
    return EncryptedExtensions(next(iter(protocols), None), _EARLY_DATA in extensions)


def certificates_in(body: bytes, *, is_13: bool) -> list[bytes]:
    """Return the certificates of a Certificate message, in DER, the sender's own first."""
    fields = _Fields(body)
    if is_13:
        fields.vector(1)
    entries = _Fields(fields.vector(3))
    certificates: list[bytes] = []
    while not entries.is_at_end and len(certificates) < _MAX_CERTIFICATES:
        certificate = entries.vector(3)
        if is_13:
            entries.vector(2)  # extensions
        if certificate:
            certificates.append(certificate)
    return certificates


def decompressed_certificate(body: bytes) -> bytes | None:
    """Return the Certificate message inside a CompressedCertificate; None if it cannot be read.

    Only zlib is read. The result has the length that the message says; otherwise it is None.
    """
    fields = _Fields(body)
    algorithm, length = fields.number(2), fields.number(3)
    compressed = fields.vector(3)
    if algorithm != _ZLIB or not 0 < length <= MAX_MESSAGE_BYTES:
        return None
    decompressor = zlib.decompressobj()
    try:
        message = decompressor.decompress(compressed, length + 1)
    except zlib.error:
        return None
    return message if decompressor.eof and len(message) == length else None


def _extensions(fields: _Fields, *, is_cut: bool = False) -> dict[int, bytes]:
    inner = _Fields(fields.begun_vector(2) if is_cut else fields.vector(2))
    extensions: dict[int, bytes] = {}
    while not inner.is_at_end:
        kind = inner.number(2)
        data = inner.vector(2)
        if inner.is_cut:
            break
        extensions.setdefault(kind, data)
    return extensions


def _numbers(data: bytes) -> tuple[int, ...]:
    """Return numbers of two bytes, without GREASE values (RFC 8701)."""
    end = len(data) // 2 * 2
    numbers = (int.from_bytes(data[at : at + 2], "big") for at in range(0, end, 2))
    return tuple(n for n in numbers if n & 0x0F0F != 0x0A0A or n >> 8 != n & 0xFF)[:_MAX_VALUES]


def _server_name(data: bytes) -> str | None:
    names = _Fields(_Fields(data).vector(2))
    is_host = names.number(1) == 0
    name = names.vector(2)
    return _text(name) if name and is_host else None


def _protocols(data: bytes) -> tuple[str, ...]:
    names = _Fields(_Fields(data).vector(2))
    protocols: list[str] = []
    while not names.is_at_end and len(protocols) < _MAX_VALUES:
        name = names.vector(1)
        if name:
            protocols.append(_text(name))
    return tuple(protocols)


def _text(data: bytes) -> str:
    return data[:_MAX_NAME_BYTES].decode("ascii", "backslashreplace")


# -- certificates ---------------------------------------------------------------------------------

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


# -- alerts ---------------------------------------------------------------------------------------

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
