"""Handshake messages: assembled from records, and read.

In: the content of handshake records of one direction. Out: :class:`HandshakeMessage`, and the
fields of hellos.

TLS 1.3: RFC 8446 section 4. TLS 1.2: RFC 5246 section 7.4. Extensions: IANA's registry "TLS
ExtensionType Values". Compressed certificates: RFC 8879. A message has at most
:data:`MAX_MESSAGE_BYTES`; a larger one is skipped. If a field does not fit into the message, that
field and the rest of the message are left out.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.tls.cipher_suites import TLS_1_2, TLS_1_3

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["CERTIFICATE", "CERTIFICATE_REQUEST", "CLIENT_HELLO", "COMPRESSED_CERTIFICATE"]
__all__ += ["ENCRYPTED_EXTENSIONS", "decompressed_certificate"]
__all__ += ["END_OF_EARLY_DATA", "FINISHED", "KEY_UPDATE", "NEW_SESSION_TICKET", "SERVER_HELLO"]
__all__ += ["SERVER_HELLO_DONE", "ClientHello", "EncryptedExtensions", "HandshakeMessage"]
__all__ += ["MessageAssembler", "ServerHello", "certificates_in", "is_hello", "read_client_hello"]
__all__ += ["read_encrypted_extensions", "read_server_hello"]

CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
NEW_SESSION_TICKET: Final = 4
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
