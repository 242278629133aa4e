"""The login on one connection, and the identity of its client.

In: requests, and frames that may be raw SASL tokens. Out: who the ends are (:class:`Peers`);
whether a frame is a token. It keeps no token.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.saved import Saved
from kanalyze.kafka.session.plausible_headers import is_plausible_client_id
from kanalyze.kafka.session.sasl import RawLogin, principal_of
from kanalyze.kafka.session.token_ranges import PREFIX_BYTES
from kanalyze.kafka.wire import WireError

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.session.message_reader import (
        API_VERSIONS,
        SASL_AUTHENTICATE,
        SASL_HANDSHAKE,
    )

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.session.exchange import Exchange, Peers
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.resync import RequestLocator

__all__ = ["ClientFrameKind", "Login"]

ClientFrameKind: TypeAlias = Literal["request", "token", "unreadable"]

_INT16 = struct.Struct(">h").unpack
_KEY_AND_VERSION = struct.Struct(">hh").unpack
_LONGEST_TOKEN_BYTES = 512 * 1024
"""Kafka's default for ``sasl.server.max.receive.size``."""
_MAX_UNKNOWN_VERSION = 31
"""The highest version that a request of an unknown API may have; above it, it is a token."""


class Login:
    """Follows the login on one connection.

    Attributes:
        peers: the ends, with their names and versions so far.
        raw: the state of a login with raw SASL tokens, while these may come; None otherwise.
    """

    _NOT_SAVED = ("_locator", "_reader")
    _SAVED = Saved("peers:here _mechanism:str? raw:RawLogin?", RawLogin)

    def __init__(
        self, peers: Peers, reader: MessageReader, locator: RequestLocator, *, tokens_first: bool
    ) -> None:
        """If ``tokens_first``, raw tokens come before the first request, as in Kafka 0.9."""
        self.peers = peers
        self.raw = RawLogin("GSSAPI") if tokens_first else None
        self._mechanism: str | None = None
        self._reader = reader
        self._locator = locator

    # -- messages of the login --------------------------------------------------------------------

    def follow_request(self, frame: Frame, header: RequestHeader) -> None:
        """Read the client's software from a request, or its mechanism and user."""
        key, read = header.api_key, self._reader.fields.of_request
        if key == API_VERSIONS and header.api_version >= 3:
            software = read(frame, header, "ClientSoftwareName", "ClientSoftwareVersion")
            if software is not None:
                self.peers = self.peers.with_software(*software)
        elif key == SASL_HANDSHAKE:
            mechanism = read(frame, header, "Mechanism")
            self._mechanism = None if mechanism is None else mechanism[0]
            if header.api_version == 0:
                self.raw = RawLogin(self._mechanism)
        elif key == SASL_AUTHENTICATE:
            token = read(frame, header, "AuthBytes")
            if token is not None:
                self._learn_principal(token[0])

    def follow_response(self, exchange: Exchange, frame: Frame) -> None:
        """Note the response to a handshake: after a refused one no login follows."""
        if self.raw is None:
            return
        if exchange.api_key == SASL_HANDSHAKE and exchange.api_version == 0:
            values = self._reader.fields.of_response(frame, SASL_HANDSHAKE, 0, "ErrorCode")
            if values is not None and values[0] != 0:
                self.raw = None
        else:
            self.raw.settle()
            self._forget_if_over()

    def _learn_principal(self, token: bytes) -> None:
        if self.peers.principal is None:
            principal = principal_of(self._mechanism, token)
            if principal is not None:
                self.peers = self.peers.with_principal(principal)

    # -- raw tokens -------------------------------------------------------------------------------

    def classify(
        self, frame: Frame, header: RequestHeader | None, *, is_lossy: bool
    ) -> ClientFrameKind:
        """Classify a frame of the client while raw tokens may come.

        Args:
            frame: the frame; if it is a token, only its user name is kept.
            header: the bytes read as a request's header; None if that failed.
            is_lossy: messages may have been lost.
        """
        view = _joined(frame)
        checks = self._reader.checks
        if (
            header is not None
            and view is not None
            and checks.request_fits(view, header, frame.size)
        ):
            self._end()
            return "request"
        token = None if view is None else bytes(view[PREFIX_BYTES:])
        if self._accepts(frame, header, token, is_lossy=is_lossy):
            return "token"
        is_request = header is not None and self.may_be_request(header)
        return "request" if is_request else "unreadable"

    def accepts_response(self, frame: Frame, *, is_lossy: bool) -> bool:
        """Return true if a frame of the broker that answers no request is a token."""
        if self.raw is None:
            return False
        view = _joined(frame)
        head = b"" if view is None else bytes(view[PREFIX_BYTES:])
        is_token = self.raw.accepts_response(head, frame.size, is_lossy=is_lossy)
        if is_token:
            self._forget_if_over()
        return is_token

    def may_be_request(self, header: RequestHeader) -> bool:
        """Return true if the bytes read as a header are likely a header, of any API."""
        if not is_plausible_client_id(header.client_id):
            return False
        if self._reader.has_api(header.api_key):
            return self._locator.is_near(header.api_key, header.api_version)
        return header.api_key >= 0 and 0 <= header.api_version <= _MAX_UNKNOWN_VERSION

    def may_be_token(self, request: Frame) -> bool:
        """Return true if an incomplete request may contain a token."""
        if self.raw is not None:
            return True
        try:
            (api_key,) = _INT16(request.read(PREFIX_BYTES, 2))
        except WireError:
            return request.missing_bytes > 0
        return api_key == SASL_AUTHENTICATE or not self._reader.has_api(api_key)

    def _accepts(
        self, frame: Frame, header: RequestHeader | None, token: bytes | None, *, is_lossy: bool
    ) -> bool:
        """Return true if a frame of the client is a token; any other frame ends the login."""
        assert self.raw is not None
        may_be = self._may_begin(frame) if header is None else self.may_be_request(header)
        if not self.raw.accepts_request(token, may_be_request=may_be, is_lossy=is_lossy):
            self._end()
            return False
        if token is not None:
            self._learn_principal(token)
        return True

    def _may_begin(self, frame: Frame) -> bool:
        """Return true if a frame without a readable header begins with a known API."""
        try:
            head = frame.read(PREFIX_BYTES, 4)
        except WireError:
            return False
        return self._locator.is_near(*_KEY_AND_VERSION(head))

    def _end(self) -> None:
        assert self.raw is not None
        self.raw.end()
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self.raw is not None and self.raw.is_over:
            self.raw = None


def _joined(frame: Frame) -> memoryview | None:
    """Return the bytes of a frame that may be a token; None if some are missing."""
    if frame.missing_bytes or frame.size > _LONGEST_TOKEN_BYTES:
        return None
    return frame.read(0, frame.length)
