"""Responses that were read before their request.

In: responses without a request, and requests as they are read. Out: the response to a request; the
responses that will get no request.

A request may be captured after its response, or found after a loss only later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.frame import Frame

if TYPE_CHECKING:
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_checks import MessageChecks

__all__ = ["EarlyResponse", "EarlyResponses", "answers"]

_MAX_RESPONSES = 64
_MAX_BYTES = 1024 * 1024


@Saved("frame:Frame correlation_id:int", Frame, added="previous_ns:int")
class EarlyResponse(NamedTuple):
    """A response that was read before its request."""

    frame: Frame
    correlation_id: int
    previous_ns: int = 0
    """When the response before it ended; 0 if there was none, or its end was lost."""


class EarlyResponses:
    """The early responses of one connection, oldest first; bounded."""

    _NOT_SAVED = ("buffered_bytes",)
    _SAVED = Saved("_responses:list[EarlyResponse]", EarlyResponse, bare=True)

    def __init__(self) -> None:
        self._responses: list[EarlyResponse] = []
        self.buffered_bytes = 0

    def has_any(self) -> bool:
        """Return true if there are any."""
        return bool(self._responses)

    def _after_load(self) -> None:
        self.buffered_bytes = sum([each.frame.buffered_bytes for each in self._responses])

    def add(self, response: EarlyResponse) -> list[Frame]:
        """Keep a response; return the oldest ones that are dropped because there are too many."""
        response.frame.detach()
        self._keep(response)
        dropped = []
        while len(self._responses) > _MAX_RESPONSES or self.buffered_bytes > _MAX_BYTES:
            dropped.append(self._remove(0).frame)
        return dropped

    def drop_before(self, stream_offset: int) -> list[Frame]:
        """Drop and return the responses before one whose request came.

        Responses come in the order of their requests (the protocol guide's "Network"): the requests
        of these responses would have come before.
        """
        responses = self._responses
        earlier = [each.frame for each in responses if each.frame.stream_offset <= stream_offset]
        self._responses = [each for each in responses if each.frame.stream_offset > stream_offset]
        self.buffered_bytes -= sum([frame.buffered_bytes for frame in earlier])
        return earlier

    def drop_all(self) -> list[Frame]:
        """Drop and return all."""
        dropped = [each.frame for each in self._responses]
        self._responses.clear()
        self.buffered_bytes = 0
        return dropped

    def match(
        self, exchange: Exchange, checks: MessageChecks, *, requests_lost: bool
    ) -> EarlyResponse | None:
        """Remove and return the response to a request; None if it has not come."""
        request = exchange.request
        begin = request.start_packet if request is not None else 0
        for index, (frame, correlation_id, _) in enumerate(self._responses):
            # If requests were lost, a response before the request belongs to a lost one.
            is_of_lost = requests_lost and frame.start_packet < begin
            if correlation_id != exchange.correlation_id or is_of_lost:
                continue
            if not exchange.one_way or answers(frame, exchange, checks):
                return self._remove(index)
        return None

    def _keep(self, response: EarlyResponse) -> None:
        self._responses.append(response)
        self.buffered_bytes += response.frame.buffered_bytes

    def _remove(self, index: int) -> EarlyResponse:
        response = self._responses.pop(index)
        self.buffered_bytes -= response.frame.buffered_bytes
        return response


def answers(frame: Frame, exchange: Exchange, checks: MessageChecks) -> bool:
    """Return true if a response fits a request that expects none: equal ids may be chance."""
    key, version = exchange.api_key, exchange.api_version
    return key is not None and version is not None and checks.confirms_response(frame, key, version)
