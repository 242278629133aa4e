"""Exchanges as columns, for those of which there are many alike.

In: nothing. Out: :class:`ExchangeColumns`. This module must not know how messages are found or
paired, nor what becomes of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kanalyze.connection.exchange import Exchange, Message
from kanalyze.protocol.lockstep_columns import taken
from kanalyze.protocol.lockstep_packing import Packing
from kanalyze.protocol.lockstep_tuples import texts_of, tuples_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kanalyze.connection.exchange import Peers
    from kanalyze.protocol.lockstep import Fields

__all__ = ["ExchangeColumns"]


@dataclass(frozen=True, slots=True)
class ExchangeColumns:
    """Exchanges of one API version, each with a request and a response that were read whole.

    Nothing is wrong with any of them: no anomaly, no byte missing. All arrays have one entry an
    exchange; those of an exchange mean what the attributes of
    :class:`~kanalyze.connection.exchange.Exchange` and its messages mean. ``data`` and the places
    in it are valid as long as the batch of packets that the exchanges came in.
    """

    api_key: int
    api_version: int
    peers: tuple[Peers, ...]
    peer: NDArray[np.int64]
    """Index in ``peers``."""
    lost_ns: NDArray[np.int64]
    """``Exchange.lost_ns``; -1 for None."""
    correlation_id: NDArray[np.int64]
    client_id_start: NDArray[np.int64]
    """Index in ``data`` of the first byte of the client id."""
    client_id_length: NDArray[np.int64]
    """In bytes; -1 where the client id is null."""
    request_start_ns: NDArray[np.int64]
    request_end_ns: NDArray[np.int64]
    request_packet: NDArray[np.int64]
    request_end_packet: NDArray[np.int64]
    request_bytes: NDArray[np.int64]
    response_start_ns: NDArray[np.int64]
    response_end_ns: NDArray[np.int64]
    response_packet: NDArray[np.int64]
    response_end_packet: NDArray[np.int64]
    response_bytes: NDArray[np.int64]
    data: NDArray[np.uint8]
    asked: Fields
    """What was read of the requests; places are in ``data``."""
    answered: Fields
    """What was read of the responses."""
    turn: NDArray[np.int64]
    """Place among all exchanges of the step, in the order in which they ended on the wire."""

    def __len__(self) -> int:
        return len(self.peer)

    def taken(self, index: NDArray[np.int64]) -> ExchangeColumns:
        """Return the exchanges that ``index`` names, in its order."""
        every = {name: getattr(self, name)[index] for name in _BY_EXCHANGE}
        asked, answered = taken(self.asked, index), taken(self.answered, index)
        return replace(self, **every, asked=asked, answered=answered)

    def packed(self) -> ExchangeColumns:
        """Return the same with a buffer of its own, no larger than its texts."""
        packing = Packing(self.data)
        start = packing.places(self.client_id_start, self.client_id_length)
        asked, answered = packing.fields(self.asked), packing.fields(self.answered)
        return replace(
            self, client_id_start=start, asked=asked, answered=answered, data=packing.bytes()
        )

    def exchanges(self) -> list[Exchange]:
        """Return them as objects."""
        asked, answered = tuples_of(self.asked, self.data), tuples_of(self.answered, self.data)
        version = self.api_version
        requests = map(
            Message.read,
            self.request_start_ns.tolist(),
            self.request_packet.tolist(),
            self.request_end_ns.tolist(),
            self.request_end_packet.tolist(),
            self.request_bytes.tolist(),
            asked,
            [version] * len(self),
        )
        responses = map(
            Message.read,
            self.response_start_ns.tolist(),
            self.response_packet.tolist(),
            self.response_end_ns.tolist(),
            self.response_end_packet.tolist(),
            self.response_bytes.tolist(),
            answered,
            [version] * len(self),
        )
        client_ids = texts_of(self.data, self.client_id_start, self.client_id_length)
        found = []
        for peer, request, response, correlation_id, client_id, lost_ns in zip(
            self.peer.tolist(),
            requests,
            responses,
            self.correlation_id.tolist(),
            client_ids,
            self.lost_ns.tolist(),
            strict=True,
        ):
            exchange = Exchange(
                self.peers[peer],
                request,
                response,
                self.api_key,
                version,
                correlation_id,
                client_id,
            )
            exchange.lost_ns = None if lost_ns < 0 else lost_ns
            found.append(exchange)
        return found


_BY_EXCHANGE = tuple(
    name
    for name in ExchangeColumns.__slots__
    if name not in ("api_key", "api_version", "peers", "data", "asked", "answered")
)
