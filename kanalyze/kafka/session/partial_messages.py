"""Messages of one connection that continue in the next batch.

In: incomplete frames. Out: the same frames, with only the bytes that are needed; where tokens may
be.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.exchange_builder import ExchangeBuilder
    from kanalyze.kafka.session.message_reader import MessageReader

__all__ = ["PartialMessages"]

_SASL_AUTHENTICATE = 36


class PartialMessages:
    """Trims incomplete messages at the end of a batch."""

    __slots__ = ("_builder", "_reader")

    def __init__(self, reader: MessageReader, builder: ExchangeBuilder) -> None:
        self._reader = reader
        self._builder = builder

    def add_request(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """Drop the unneeded bytes of an incomplete request; report where tokens may be."""
        if frame.buffered_bytes > frame.skim_above:
            with suppress(WireError):
                header = self._reader.request_header(frame)
                if not self._builder.bodies.keeps_bytes(header.api_key):
                    self._reader.skim_request(frame, header)
        if self._builder.login.may_be_token(frame):
            events.token_bytes.append(self._builder.tokens.of_partial(frame, direction))

    def add_response(self, frame: Frame, direction: int, events: ConnectionEvents) -> None:
        """As :meth:`add_request`, for a response."""
        try:
            correlation_id = self._reader.correlation_id(frame)
        except WireError:
            if self._builder.login.raw is not None or frame.missing_bytes > 0:
                events.token_bytes.append(self._builder.tokens.of_partial(frame, direction))
            return
        request = self._builder.correlator.oldest(correlation_id)
        if request is None or request.api_key == _SASL_AUTHENTICATE:
            events.token_bytes.append(self._builder.tokens.of_partial(frame, direction))
        if request is None or request.api_key is None or frame.buffered_bytes <= frame.skim_above:
            return
        if not self._builder.bodies.keeps_bytes(request.api_key):
            with suppress(WireError):
                self._reader.skim_response(frame, request.api_key, request.api_version or 0)
