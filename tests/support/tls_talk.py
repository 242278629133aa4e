"""TLS conversations of OpenSSL: the bytes on the wire, the plaintext of both ends, and the keys.

Two ways: :func:`talk` in memory, with Python's ``ssl``; :func:`openssl_server` with OpenSSL's own
server on loopback, for features that ``ssl`` does not offer (suites of TLS 1.3, key updates,
renegotiation). Certificates are made once in each run and deleted with it.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kanalyze.model.streams import Chunk, Gap, Segments
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.session import TlsSession
from tests.support.streams import TIME_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.model.streams import BothItems, StreamItem

NO_ENCRYPT_THEN_MAC = 1 << 19
"""OpenSSL's SSL_OP_NO_ENCRYPT_THEN_MAC."""
CLIENT, SERVER = 0, 1
NOT_AFTER = datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC)


def log_with(secrets: bytes) -> KeyLog:
    """Return a whole key log."""
    log = KeyLog()
    log.feed(secrets)
    log.end()
    return log


class Sent(NamedTuple):
    """Bytes that one end sent at once."""

    side: int
    data: bytes


class Talk(NamedTuple):
    """A conversation."""

    wire: list[Sent]
    said: tuple[bytes, bytes]
    """The plaintext of the client and of the server."""
    keys: bytes
    """The key log."""
    suite: str

    @property
    def streams(self) -> tuple[bytes, bytes]:
        first, second = (b"".join(s.data for s in self.wire if s.side == side) for side in (0, 1))
        return first, second

    def log(self) -> KeyLog:
        return log_with(self.keys)


# -- certificates ---------------------------------------------------------------------------------


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kanalyze-tls-")


@functools.cache
def certificate(kind: str, name: str) -> str:
    """Return a file with a key and its certificate, signed by itself; kind is ``ec`` or ``rsa``."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if kind == "ec":
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(NOT_AFTER)
        .sign(key, hashes.SHA256())
    )
    path = Path(_folder().name) / f"{kind}-{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return str(path)


# -- in memory ------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """How two ends are set up."""

    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    suite: str | None = None
    """OpenSSL's name of a suite of TLS 1.2."""
    kind: str = "ec"
    options: int = 0
    mutual: bool = False
    alpn: tuple[str, ...] = ()
    server_name: str | None = "broker.example"
    server_group: str | None = None
    """OpenSSL's name of the only group of the server; None for those of the client. For another one
    than the client's first, the server asks for another ClientHello."""


class Pair:
    """Two ends in memory, whose sessions may be resumed."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._keys = Path(_folder().name) / "keys.log"
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client.check_hostname = False
        self._client.verify_mode = ssl.CERT_NONE
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.load_cert_chain(certificate(setting.kind, "broker"))
        if setting.mutual:
            self._client.load_cert_chain(certificate("ec", "client"))
            self._server.load_verify_locations(certificate("ec", "client"))
            self._server.verify_mode = ssl.CERT_REQUIRED
        if setting.server_group is not None:
            self._server.set_ecdh_curve(setting.server_group)
        for context in (self._client, self._server):
            context.minimum_version = context.maximum_version = setting.version
            context.set_ciphers((setting.suite or "ALL") + ":@SECLEVEL=0")
            context.options |= setting.options
            if setting.alpn:
                context.set_alpn_protocols(list(setting.alpn))
        self._client.keylog_filename = str(self._keys)
        self.session: ssl.SSLSession | None = None
        """The session of the last talk, for the next one."""

    def talk(self, turns: Iterable[tuple[int, bytes]], *, resume: bool = False) -> Talk:
        """Let the ends send plaintext in turn (side, bytes), and then close."""
        self._keys.write_bytes(b"")
        wires = [ssl.MemoryBIO() for _ in range(4)]
        client = self._client.wrap_bio(
            wires[0],
            wires[1],
            server_hostname=self.setting.server_name,
            session=self.session if resume else None,
        )
        server = self._server.wrap_bio(wires[2], wires[3], server_side=True)
        wire: list[Sent] = []

        def move() -> None:
            for side, source, target in ((0, wires[1], wires[2]), (1, wires[3], wires[0])):
                data = source.read()
                if data:
                    wire.append(Sent(side, data))
                    target.write(data)

        _shake_hands((client, server), move)
        said = bytearray(), bytearray()
        ends = (client, server)
        for side, data in turns:
            ends[side].write(data)
            said[side].extend(data)
            move()
            _drain(ends[1 - side])
        _drain(client)  # tickets of TLS 1.3
        self.session = client.session
        for end in ends:
            _close(end)
            move()
        cipher = client.cipher()
        assert cipher is not None
        return Talk(wire, (bytes(said[0]), bytes(said[1])), self._keys.read_bytes(), cipher[0])


def talk(setting: Setting, turns: Iterable[tuple[int, bytes]]) -> Talk:
    """Return a conversation of two new ends."""
    return Pair(setting).talk(turns)


def _shake_hands(ends: tuple[ssl.SSLObject, ssl.SSLObject], move: Callable[[], None]) -> None:
    waiting = set(ends)
    for _ in range(10):
        for end in ends:
            try:
                if end in waiting:
                    end.do_handshake()
                    waiting.discard(end)
            except ssl.SSLWantReadError:
                pass
            move()
    assert not waiting


def _drain(end: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
        while end.read(1 << 16):
            pass


def _close(end: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError):
        end.unwrap()


# -- reading by a session --------------------------------------------------------------------------


def items_of(sent: Iterable[Sent], segment: int = 1448) -> list[tuple[int, StreamItem]]:
    """Return (side, chunk) for each sending, in segments of a size; packets are numbered from 1."""
    items: list[tuple[int, StreamItem]] = []
    offsets = [0, 0]
    packet = 0
    for side, data in sent:
        starts = list(range(0, len(data), segment))
        lengths = [min(segment, len(data) - start) for start in starts]
        packets = [packet + 1 + index for index in range(len(starts))]
        packet += len(starts)
        times = [TIME_NS + number for number in packets]
        segments = Segments(memoryview(data), starts, lengths, lengths, times, packets)
        items.append((side, Chunk(offsets[side], segments, 0, len(starts))))
        offsets[side] += len(data)
    return items


class Read(NamedTuple):
    """The results of a session for a conversation."""

    session: TlsSession
    items: tuple[list[StreamItem], list[StreamItem]]
    """Plaintext."""

    def plaintext(self, side: int) -> bytes:
        """All bytes of a direction, without gaps."""
        return b"".join(data for _, data in self.pieces(side))

    def pieces(self, side: int) -> list[tuple[int, bytes]]:
        """(stream offset, bytes) of a direction's chunks."""
        return [
            (item.stream_offset, bytes_of(item))
            for item in self.items[side]
            if isinstance(item, Chunk)
        ]

    def gaps(self, side: int) -> list[Gap]:
        return [item for item in self.items[side] if isinstance(item, Gap)]


def bytes_of(chunk: Chunk) -> bytes:
    segments = chunk.segments
    return b"".join(
        bytes(segments.view(segments.start[i], segments.start[i] + segments.length[i]))
        for i in range(chunk.first, chunk.last)
    )


def read_items(
    items: Iterable[tuple[int, StreamItem]],
    log: KeyLog,
    *,
    from_start: tuple[bool, bool] = (True, True),
    step: int = 1,
) -> Read:
    """Feed items to a session, ``step`` at a time."""
    session = TlsSession(log, LateStarts(log), from_start)
    found: tuple[list[StreamItem], list[StreamItem]] = ([], [])
    waiting = list(items)
    for begin in range(0, len(waiting), step):
        both: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        for side, item in waiting[begin : begin + step]:
            both[side].append(item)
        _add(found, session.feed(both))
    _add(found, session.close())
    return Read(session, found)


def _add(found: BothItems, plaintext: BothItems) -> None:
    for side in (0, 1):
        found[side].extend(plaintext[side])
