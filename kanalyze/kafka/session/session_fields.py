"""Single fields that are needed to follow a connection, and the positions of tokens.

In: a frame, its API and version. Out: values of named fields, positions of SASL tokens. Callers
keep no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.compiler import Projection
from kanalyze.kafka.session.message_checks import response_body_at
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.kafka.codec.compiler import Decoders
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.framing.frame import Frame, RequestHeader
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.decode_plans import DecodePlans, MessageKind

__all__ = ["SessionFields"]

_SASL_AUTHENTICATE = 36
_MAX_TOKEN_BYTES = 1 << 16
"""A larger SaslAuthenticate message counts as a token as a whole. A Kerberos ticket takes some
kilobytes."""


class SessionFields:
    """Reads named fields apart from the selected ones, with decoders made when first needed."""

    def __init__(self, catalog: Catalog, plans: DecodePlans, decoders: Decoders) -> None:
        self._catalog = catalog
        self._plans = plans
        self._decoders = decoders
        self._by_fields: dict[tuple[int, int, MessageKind, tuple[str, ...]], BodyDecoder] = {}

    def of_request(
        self, frame: Frame, header: RequestHeader, *paths: str
    ) -> tuple[Any, ...] | None:
        """Return the values of named fields of a request; None when they cannot be read."""
        return self._read(frame, header.api_key, header.api_version, "request", header.body, paths)

    def of_response(
        self, frame: Frame, api_key: int, api_version: int, *paths: str
    ) -> tuple[Any, ...] | None:
        """As :meth:`of_request`, for the response to a request of that key and version."""
        at = response_body_at(frame, self._plans.response(api_key, api_version).header_version)
        if at is None:
            return None
        return self._read(frame, api_key, api_version, "response", at, paths)

    def token_in_request(self, frame: Frame, header: RequestHeader) -> tuple[int, int]:
        """Return the frame positions of the token in a SaslAuthenticate request.

        Returns the whole body if it cannot be read to the byte, or is incomplete.
        """
        return self._token(frame, "request", header.api_version, header.body)

    def token_in_response(self, frame: Frame, api_version: int) -> tuple[int, int]:
        """As :meth:`token_in_request`, for the response to a request of that version."""
        plan = self._plans.response(_SASL_AUTHENTICATE, api_version)
        at = response_body_at(frame, plan.header_version)
        return self._token(frame, "response", api_version, 8 if at is None else at)

    def _read(
        self,
        frame: Frame,
        api_key: int,
        version: int,
        kind: MessageKind,
        at: int,
        paths: tuple[str, ...],
    ) -> tuple[Any, ...] | None:
        key = (api_key, version, kind, paths)
        decode = self._by_fields.get(key)
        if decode is None:
            if not self._plans.has_version(api_key, version):
                return None
            decode = self._decoders.get(api_key, kind, version, Projection.of(*paths))
            self._by_fields[key] = decode
        try:
            return tuple(decode.of_frame(frame, at))
        except WireError:
            return None

    def _token(self, frame: Frame, kind: MessageKind, version: int, at: int) -> tuple[int, int]:
        body = at, frame.length
        is_whole = frame.end_packet is not None and not frame.missing_bytes
        if not is_whole or frame.length > _MAX_TOKEN_BYTES:
            return body
        if not self._plans.has_version(_SASL_AUTHENTICATE, version):
            return body
        from kanalyze.kafka.codec.interpreter import trace_message  # imported late: only for logins

        message = self._catalog.message(_SASL_AUTHENTICATE, kind)
        trace = trace_message(message, version, frame.read(0, frame.length), at)
        fields = {node.name: node for node in trace.root.children}
        token = fields.get("AuthBytes")
        # An unknown tag may contain anything.
        is_read = trace.pos == frame.length and "_taggedFields" not in fields
        if trace.failure is not None or not is_read or token is None or token.end is None:
            return body
        return token.end - len(token.value or b""), token.end
