"""Exchanges as columns, for those of which there are many alike.

In: nothing. Out: :class:`ExchangeColumns`. This module must not know how messages are found or
paired, nor what becomes of them.
"""

from __future__ import annotations

from copy import copy
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


class ExchangeColumns:
    """Exchanges of one API version, each with a request and a response that were read whole.

    Nothing is wrong with any of them: no anomaly, no byte missing. All arrays have one entry an
    exchange; those of an exchange mean what the attributes of
    :class:`~kanalyze.connection.exchange.Exchange` and its messages mean. ``data`` and the places
    in it are valid as long as the batch of packets that the exchanges came in.
    """

    __slots__ = (
        "answered",
        "api_key",
        "api_version",
        "asked",
        "client_id_length",
        "client_id_start",
        "correlation_id",
        "data",
        "lost_ns",
        "peer",
        "peers",
        "request_bytes",
        "request_end_ns",
        "request_end_packet",
        "request_packet",
        "request_start_ns",
        "response_bytes",
        "response_end_ns",
        "response_end_packet",
        "response_packet",
        "response_start_ns",
        "turn",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        peers: tuple[Peers, ...],
        peer: NDArray[np.int64],
        lost_ns: NDArray[np.int64],
        correlation_id: NDArray[np.int64],
        client_id_start: NDArray[np.int64],
        client_id_length: NDArray[np.int64],
        request_start_ns: NDArray[np.int64],
        request_end_ns: NDArray[np.int64],
        request_packet: NDArray[np.int64],
        request_end_packet: NDArray[np.int64],
        request_bytes: NDArray[np.int64],
        response_start_ns: NDArray[np.int64],
        response_end_ns: NDArray[np.int64],
        response_packet: NDArray[np.int64],
        response_end_packet: NDArray[np.int64],
        response_bytes: NDArray[np.int64],
        data: NDArray[np.uint8],
        asked: Fields,
        answered: Fields,
        turn: NDArray[np.int64],
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.peers = peers
        self.peer = peer
        """Index in ``peers``."""
        self.lost_ns = lost_ns
        """``Exchange.lost_ns``; -1 for None."""
        self.correlation_id = correlation_id
        self.client_id_start = client_id_start
        """Index in ``data`` of the first byte of the client id."""
        self.client_id_length = client_id_length
        """In bytes; -1 where the client id is null."""
        self.request_start_ns = request_start_ns
        self.request_end_ns = request_end_ns
        self.request_packet = request_packet
        self.request_end_packet = request_end_packet
        self.request_bytes = request_bytes
        self.response_start_ns = response_start_ns
        self.response_end_ns = response_end_ns
        self.response_packet = response_packet
        self.response_end_packet = response_end_packet
        self.response_bytes = response_bytes
        self.data = data
        self.asked = asked
        """What was read of the requests; places are in ``data``."""
        self.answered = answered
        """What was read of the responses."""
        self.turn = turn
        """Place among all exchanges of the step, in the order in which they ended on the wire."""

    def __len__(self) -> int:
        return len(self.peer)

    def taken(self, index: NDArray[np.int64]) -> ExchangeColumns:
        """Return the exchanges that ``index`` names, in its order."""
        made = copy(self)
        for name in _BY_EXCHANGE:
            setattr(made, name, getattr(self, name)[index])
        made.asked, made.answered = taken(self.asked, index), taken(self.answered, index)
        return made

    def packed(self) -> ExchangeColumns:
        """Return the same with a buffer of its own, no larger than its texts."""
        packing = Packing(self.data)
        made = copy(self)
        made.client_id_start = packing.places(self.client_id_start, self.client_id_length)
        made.asked, made.answered = packing.fields(self.asked), packing.fields(self.answered)
        made.data = packing.bytes()
        return made

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
