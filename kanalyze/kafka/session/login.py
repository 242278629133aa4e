"""The login on one connection, and the identity of its client.

In: requests, and frames that may be raw SASL tokens. Out: who the ends are (:class:`Peers`);
whether a frame is a token, and the user name in one. Tokens are secrets: this module keeps none,
and returns nothing but the name.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.session.events import PREFIX_BYTES
from kanalyze.kafka.session.gssapi import looks_like_gssapi, names_mechanism
from kanalyze.kafka.session.heuristics import is_plausible_client_id
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.session.exchange import Exchange, Peers
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.resync import RequestLocator

_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_LONGEST_NAME_BYTES = 1024
_MAX_TOKENS = 16
"""A SASL login takes a few round trips; more frames that are no requests are something else."""
_SMALLEST_RESPONSE_BYTES = 4


class RawLogin:
    """Distinguishes raw tokens from requests and responses, which have the same framing.

    Raw tokens follow an accepted SaslHandshake v0, in turn: one from the client, one from the
    broker. If the form of a mechanism's tokens is known, that decides. Otherwise a frame is a token
    if it cannot be a request and comes when a token is due.
    """

    __slots__ = ("_has_requests", "_mechanism", "_remaining_client_tokens", "_unreplied")
    _SAVED = Saved(
        "_mechanism:str? _remaining_client_tokens:count _unreplied:count _has_requests:bool"
    )

    def __init__(self, mechanism: str | None) -> None:
        """Make the state of a login; ``mechanism`` is as in :func:`principal_of`."""
        self._mechanism = mechanism
        self._remaining_client_tokens = _form_of(mechanism).most_tokens
        self._unreplied = 0
        """Tokens of the client without a token of the broker after them."""
        self._has_requests = False
        """True if the client has sent a request since then."""

    @property
    def is_over(self) -> bool:
        """True if no token of either end is due any more."""
        return not self._remaining_client_tokens and not self._unreplied

    def end(self) -> None:
        """Note that the client has begun to send requests."""
        self._remaining_client_tokens = 0
        self._has_requests = True

    def settle(self) -> None:
        """Note that the broker has responded to a request."""
        if self._has_requests:
            self._unreplied = 0

    def accepts_request(self, token: bytes | None, *, may_be_request: bool, is_lossy: bool) -> bool:
        """Return true if a frame of the client is a token, and count it.

        Args:
            token: the content of the frame; None if bytes are missing.
            may_be_request: it begins as a request does, though it could not be read as one.
            is_lossy: answers may have been lost.
        """
        if not self._remaining_client_tokens:
            return False
        form = _form_of(self._mechanism)
        if token is None:
            is_token = not may_be_request
        elif not token or form.is_clients(token):
            is_token = True
        else:
            is_in_turn = is_lossy or not self._unreplied
            is_token = not form.is_known and not may_be_request and is_in_turn
        if is_token:
            self._remaining_client_tokens -= 1
            self._unreplied += 1
        return is_token

    def accepts_response(self, token: bytes, size: int, *, is_lossy: bool) -> bool:
        """Return true if a frame of the broker that answers no request is a token; count it.

        Args:
            token: the content of the frame, up to the first missing byte.
            size: how many bytes it has.
            is_lossy: requests may have been lost.
        """
        if self.is_over:
            return False
        is_expected = (self._unreplied > 0 or is_lossy) and not self._has_requests
        is_small = size < _SMALLEST_RESPONSE_BYTES
        if not (is_expected or is_small or _form_of(self._mechanism).is_brokers(token)):
            return False
        self._unreplied = max(0, self._unreplied - 1)
        return True


def principal_of(mechanism: str | None, token: bytes) -> str | None:
    """Return the user that a client's SASL token names, or None when it names none.

    Args:
        mechanism: as in SaslHandshake (``PLAIN``, ``SCRAM-SHA-256``, ...), None when not seen.
        token: one token of the client.

    PLAIN is ``[authzid] NUL authcid NUL password`` (RFC 4616); the first message of SCRAM is
    ``n,[a=authzid],n=user,r=nonce`` (RFC 5802), ``=2C`` and ``=3D`` standing for ``,`` and ``=``.
    """
    if mechanism == "PLAIN":
        return _plain(token)
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        return _scram(token)
    return None


_WRAPPED = b"\x05\x04"
"""RFC 4121 section 4.2.6.2: the first bytes of a Kerberos token with a wrapped message."""


class _TokenForm(NamedTuple):
    """The form of the tokens of a mechanism."""

    most_tokens: int
    """Tokens that a client sends in one login."""
    is_known: bool
    """True if all tokens of the mechanism have this form."""
    is_clients: Callable[[bytes], bool]
    is_brokers: Callable[[bytes], bool]


def _is_none(_token: bytes) -> bool:
    return False


def _is_plain(token: bytes) -> bool:
    return token.count(b"\0") == 2


def _is_scram_clients(token: bytes) -> bool:
    return token.startswith((b"n,", b"y,", b"p=", b"c="))


def _is_scram_brokers(token: bytes) -> bool:
    return token.startswith((b"r=", b"v=", b"e="))


def _is_bearer_clients(token: bytes) -> bool:
    return token == b"\x01" or token.startswith((b"n,", b"y,"))


def _is_bearer_brokers(token: bytes) -> bool:
    return token.startswith(b"{")


def _is_gssapi(token: bytes) -> bool:
    return token.startswith(_WRAPPED) or looks_like_gssapi(token, len(token))


_PLAIN = _TokenForm(1, True, _is_plain, _is_none)
_SCRAM = _TokenForm(2, True, _is_scram_clients, _is_scram_brokers)
_BEARER = _TokenForm(2, True, _is_bearer_clients, _is_bearer_brokers)
"""RFC 7628; the client's second token says that it has read why it was refused."""
_GSSAPI = _TokenForm(_MAX_TOKENS, False, _is_gssapi, _is_gssapi)
_OTHER = _TokenForm(_MAX_TOKENS, False, _is_none, _is_none)
_FORMS = {"PLAIN": _PLAIN, "OAUTHBEARER": _BEARER, "GSSAPI": _GSSAPI}


def _form_of(mechanism: str | None) -> _TokenForm:
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        return _SCRAM
    return _FORMS.get(mechanism or "", _OTHER)


def _plain(token: bytes) -> str | None:
    parts = token.split(b"\0", 3)
    return _name(parts[1]) if len(parts) == 3 else None


def _scram(token: bytes) -> str | None:
    fields = token.split(b",", 4)
    if len(fields) < 4 or fields[0] not in (b"n", b"y") or not fields[2].startswith(b"n="):
        return None
    name = _name(fields[2][2:])
    return None if name is None else name.replace("=2C", ",").replace("=3D", "=")


def _name(raw: bytes) -> str | None:
    if not raw or len(raw) > _LONGEST_NAME_BYTES:
        return None
    return raw.decode("utf-8", "backslashreplace")


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
        """Read the mechanism or the user from a request."""
        key, read = header.api_key, self._reader.fields.of_request
        if key == _SASL_HANDSHAKE:
            mechanism = read(frame, header, "Mechanism")
            self._mechanism = None if mechanism is None else mechanism[0]
            if header.api_version == 0:
                self.raw = RawLogin(self._mechanism)
        elif key == _SASL_AUTHENTICATE:
            token = read(frame, header, "AuthBytes")
            if token is not None:
                self._learn_principal(token[0])

    def follow_response(self, exchange: Exchange, frame: Frame) -> None:
        """Note the response to a handshake: after a refused one no login follows."""
        if self.raw is None:
            return
        if exchange.api_key == _SASL_HANDSHAKE and exchange.api_version == 0:
            values = self._reader.fields.of_response(frame, _SASL_HANDSHAKE, 0, "ErrorCode")
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
        return api_key == _SASL_AUTHENTICATE or not self._reader.has_api(api_key)

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


def describe_unreadable(frame: Frame) -> str:
    """Return what a frame of the client is whose header cannot be read, and no token was due."""
    view = _joined(frame)
    if view is not None and names_mechanism(view[PREFIX_BYTES:]):
        return "request header: a token of GSSAPI"
    return "request header"


def _joined(frame: Frame) -> memoryview | None:
    """Return the bytes of a frame that may be a token; None if some are missing."""
    if frame.missing_bytes or frame.size > _LONGEST_TOKEN_BYTES:
        return None
    return frame.read(0, frame.length)
