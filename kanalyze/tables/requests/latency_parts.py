"""Divides the time of a request into parts: sending, network, broker.

In: the times of a request and its response, and what TCP shows of the network between the two ends
(:class:`~kanalyze.model.tcp.NetworkPath`). Out: columns of the table of requests.

The parts
---------

A capture sees packets at one point. At this point, the time from the request's first packet to the
response's last packet (``total_time_ns``) consists of:

- ``request_send_ns``: from the request's first packet to its last;
- ``latency_ns``: to the response's first packet, which consists of
  ``broker_network_ns``: the round trip to the broker;
  ``retransmission_wait_ns``: until bytes of the request were retransmitted for the last time;
  ``pipeline_wait_ns``: until the previous response of the connection was sent, because a broker
  handles one request of a connection at a time and does not read the next one before; 0 if
  responses come in another order than requests;
  ``waited_ns``: as long as the broker held the response back on purpose;
  ``broker_time_ns``: the rest, in the broker;
- ``response_send_ns``: from the response's first packet to its last.

They add up to ``total_time_ns``. One part is not included, because the capture point does not see
it: ``client_network_ns``, the round trip to the client, which is close to 0 if the capture was
taken at the client. So the client waited ``total_time_ns + client_network_ns``.

The ways to the broker and back are one figure: no packet shows how a round trip is divided.

How they are measured
---------------------

A round trip is the time from a packet to its acknowledgment. Receivers may delay acknowledgments,
so the minimum over the connection so far is used, handshake included
(:mod:`kanalyze.net.tcp.half_stream` excludes samples that are not valid). The network takes at
least this time. Additional time in network queues counts as the broker's, unless packets
were retransmitted. The columns are null if no round trip was measured: for example if only one
direction was captured, or if the capture began late and all acknowledgments came with responses.

A packet that was retransmitted and captured twice shows that its first copy was lost after the
capture point. There is an exception: if it was the last packet, and came again sooner than
receivers acknowledge, then it is most likely a probe (``NetworkPath.last_resent_ns``). A response
that came sooner after a copy than the round trip is not a response to that copy. A loss before the
capture point leaves only a hole in the stream. In a decrypted stream it is unknown which request
such bytes belong to: the parts that depend on it are null.

If the network card splits or merges segments, a captured segment may have up to 64 kB; its time is
then that of the whole. If packets arrived in another order than their bytes, so that the last byte
of a message seems to come before the first, the parts are null.

Waiting on purpose
------------------

A request has a longest wait: ``max_wait_ms`` of a Fetch, the rebalance timeout of a JoinGroup. Up
to this time the broker held the response back on purpose. If data ended the wait earlier, all of
the rest counts as waiting, because no packet shows when the data came. If the rest is longer than
the longest wait by more than ``MAX_LATE_NS``, the broker was slow too: the request did not wait as
a whole, and its broker time is what exceeds the longest wait.

Where the capture was taken
---------------------------

An end answers from its own kernel in far less than 1 ms. So the capture was taken at an end if the
round trip to it is below 1 ms and below a quarter of the round trip to the other end. If both are
1 ms or more, it was taken between the ends. Otherwise the point is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, ints_of, words_of

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.framing.frame import NO_PACKET
    from kanalyze.model.packets import NO_TIME

    NEAR_NS = 1_000_000
    MIN_RATIO = 4
    MAX_LATE_NS = 100_000_000  # a busy broker ends a wait some 10 to 50 ms late

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.kafka.session.exchange import Exchange, Message
    from kanalyze.model.tcp import NetworkPath
    from kanalyze.tables.requests.row_columns import RowPeers

__all__ = ["PartsWriter", "capture_point"]

_FAR_NS = 1 << 62
"""Differences of times nearer to 0 than this fit in 64 bits."""


class PartsWriter:
    """Writes the columns of latency parts."""

    def __init__(self, buffers: Mapping[str, IntBuffer | WordBuffer]) -> None:
        self._capture_point: WordBuffer = words_of(buffers, "capture_point")
        self._request_send_ns: IntBuffer = ints_of(buffers, "request_send_ns")
        self._broker_network_ns: IntBuffer = ints_of(buffers, "broker_network_ns")
        self._retransmission_wait_ns: IntBuffer = ints_of(buffers, "retransmission_wait_ns")
        self._pipeline_wait_ns: IntBuffer = ints_of(buffers, "pipeline_wait_ns")
        self._broker_time_ns: IntBuffer = ints_of(buffers, "broker_time_ns")
        self._waited_ns: IntBuffer = ints_of(buffers, "waited_ns")
        self._rest_ns = -1
        """Broker time of the last row, with the wait; -1 if it is not known."""
        self._network_ns = 0
        """Network time of the last row; 0 if it is not known."""
        self._response_send_ns: IntBuffer = ints_of(buffers, "response_send_ns")
        self._client_network_ns: IntBuffer = ints_of(buffers, "client_network_ns")
        self._retransmitted_packets: IntBuffer = ints_of(buffers, "retransmitted_packets")
        self._zero_windows: IntBuffer = ints_of(buffers, "zero_windows")

    def put(
        self,
        at: int,
        peers: RowPeers,
        exchange: Exchange,
        request: Message,
        response: Message | None,
    ) -> None:
        """Write the parts of an exchange, all but the wait: see :meth:`put_wait`."""
        self._rest_ns, self._network_ns = -1, 0
        if request.last_packet == NO_PACKET or not _is_near(request, response):
            return
        if request.last_ns >= request.start_ns:
            self._request_send_ns.put(at, request.last_ns - request.start_ns)
        if response is None:
            return
        path: NetworkPath = peers.path
        to_broker, to_client = (
            path.round_trips[peers.client_index],
            path.round_trips[1 - peers.client_index],
        )
        broker_ns = to_broker.least_at(response.start_packet)
        client_ns = to_client.least_at(response.start_packet)
        if client_ns >= 0:
            self._client_network_ns.put(at, client_ns)
        if peers.client_ns != client_ns or peers.broker_ns != broker_ns:
            peers.client_ns, peers.broker_ns = client_ns, broker_ns
            point = "host" if peers.is_one_host else capture_point(client_ns, broker_ns)
            peers.capture_point = self._capture_point.code(point)
        self._capture_point.put_code(at, peers.capture_point)
        is_ended = response.last_packet != NO_PACKET
        if is_ended and response.last_ns >= response.start_ns:
            self._response_send_ns.put(at, response.last_ns - response.start_ns)
        retransmitted = self._put_counts(at, path, request, response)
        if retransmitted < 0 or broker_ns < 0:
            return
        if request.start_ns <= request.last_ns <= response.start_ns and (
            not is_ended or response.start_ns <= response.last_ns
        ):
            self._put_latency(at, peers, exchange, broker_ns, retransmitted > 0)

    def _put_counts(self, at: int, path: NetworkPath, request: Message, response: Message) -> int:
        """Write the numbers of retransmitted packets and zero windows; return the former.

        Writes nothing and returns a negative number if the path no longer has the events of this
        time.
        """
        is_ended = response.last_packet != NO_PACKET
        first = request.start_packet
        last = response.last_packet if is_ended else response.start_packet
        span_ns = (response.last_ns if is_ended else response.start_ns) - request.start_ns
        retransmitted, zero_windows = 0, 0
        if path.has_events:
            retransmitted = path.retransmissions(first, last, span_ns)
            zero_windows = path.zero_windows(first, last, span_ns)
        if retransmitted < 0:
            return retransmitted
        self._retransmitted_packets.put(at, retransmitted)
        self._zero_windows.put(at, zero_windows)
        return retransmitted

    def _put_latency(
        self,
        at: int,
        peers: RowPeers,
        exchange: Exchange,
        broker_ns: int,
        has_resent: bool,
    ) -> None:
        """Write the parts of the latency; ``broker_ns`` is the round trip to the broker."""
        request, response = exchange.request, exchange.response
        assert request is not None
        assert response is not None
        unexplained_ns = response.start_ns - request.last_ns
        network_ns = min(broker_ns, unexplained_ns)
        self._broker_network_ns.put(at, network_ns)
        self._network_ns = network_ns
        unexplained_ns -= network_ns
        wait_ns = 0
        if has_resent:
            resent_ns = peers.path.last_resent_ns(
                peers.client_index,
                request.stream_offset,
                request.stream_offset + request.length,
                request.start_packet,
                response.start_packet,
                request.last_ns,
                response.start_ns - network_ns,
            )
            if resent_ns < 0:
                return
            wait_ns = min(resent_ns - request.last_ns, unexplained_ns)
        self._retransmission_wait_ns.put(at, wait_ns)
        unexplained_ns -= wait_ns
        lost_ns = exchange.lost_ns
        if lost_ns is not None and lost_ns >= request.start_ns:
            # A response that this one waited for may be among the lost bytes.
            return
        queued_ns = 0
        if exchange.previous_ns > request.last_ns:
            # The previous response's time is near, since it came before this response.
            queued_ns = exchange.previous_ns - request.last_ns - wait_ns - network_ns
            queued_ns = max(0, min(queued_ns, unexplained_ns))
        self._pipeline_wait_ns.put(at, queued_ns)
        self._rest_ns = unexplained_ns - queued_ns
        self._broker_time_ns.put(at, self._rest_ns)

    def put_no_wait(self, at: int) -> None:
        """Write that the broker did not hold the last row's response back."""
        self._waited_ns.put(at, 0)

    def put_wait(self, at: int, request: Message, response: Message, limit_ns: int) -> bool:
        """Write how long the broker held the last row's response back.

        Args:
            at: number of the row.
            request: its request, which has an end.
            response: its response.
            limit_ns: the longest wait; -1 if it has none.

        Returns:
            False if it took clearly longer than that.
        """
        rest_ns = self._rest_ns
        is_known = rest_ns >= 0
        if not is_known:
            if not _is_near(request, response):
                return True
            rest_ns = response.start_ns - request.last_ns - self._network_ns
        is_within = limit_ns < 0 or rest_ns - limit_ns <= MAX_LATE_NS
        if is_known or not is_within:
            waited_ns = rest_ns if limit_ns < 0 else min(rest_ns, limit_ns)
            self._waited_ns.put(at, waited_ns)
            if is_known:
                self._broker_time_ns.put(at, rest_ns - waited_ns)
        return is_within


def capture_point(client_ns: int, broker_ns: int) -> str | None:
    """Return the capture point, given the round trips to both ends in ns; -1 is unknown."""
    if client_ns < 0 or broker_ns < 0:
        return None
    near_ns, far_ns = min(client_ns, broker_ns), max(client_ns, broker_ns)
    if near_ns >= NEAR_NS:
        return "between"
    if MIN_RATIO * near_ns >= far_ns:
        return None
    return "client" if near_ns == client_ns else "broker"


def _is_near(request: Message, response: Message | None) -> bool:
    """Return true if all times are known, and so near to 0 that differences fit in 64 bits."""
    if request.start_ns == NO_TIME or request.last_ns == NO_TIME:
        return False
    if not (-_FAR_NS < request.start_ns < _FAR_NS and -_FAR_NS < request.last_ns < _FAR_NS):
        return False
    if response is None:
        return True
    if response.start_ns == NO_TIME or response.last_ns == NO_TIME:
        return False
    return -_FAR_NS < response.start_ns < _FAR_NS and -_FAR_NS < response.last_ns < _FAR_NS
