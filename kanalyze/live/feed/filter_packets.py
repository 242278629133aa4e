"""Conditions on packets: what they mean.

In: a condition, packet batches. Out: which packets it takes. Must not know: how conditions are
written, nor where headers are.

A condition is about the headers that rows are about (see :mod:`kanalyze.live.feed.filter_headers`):
addresses are those of IP (tcpdump's are those of ARP too), ports those of TCP and UDP. It may be
that these cannot tell: they were cut, or the packet is a fragment without the ports. Such a packet
is taken, unless what is known suffices to leave it out. A fragment goes with the first one of its
datagram where that came before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.feed.filter_headers import TCP, UDP, PacketHeaders
from kanalyze.live.feed.filter_language import (
    Chain,
    Length,
    Network,
    Not,
    Ports,
    Protocol,
    Side,
)

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from numpy.typing import NDArray

    from kanalyze.live.feed.filter_headers import Addresses
    from kanalyze.live.feed.filter_language import Condition
    from kanalyze.model.packets import PacketBatch

__all__ = ["PacketFilter"]

_TRANSPORTS: Final = {"tcp": TCP, "udp": UDP}
_LOW_BITS: Final = 64
_LOW: Final = (1 << _LOW_BITS) - 1
_MAX_DATAGRAMS: Final = 1024


class PacketFilter:
    """Applies a condition to the packets of a capture, batch after batch."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._datagrams: dict[tuple[int, ...], bool] = {}
        """Whether the first fragment was taken, by the datagram's key; the oldest first."""

    def taken(self, batch: PacketBatch) -> NDArray[np.bool_]:
        """Return for each packet whether it is taken."""
        headers = PacketHeaders(batch)
        taken = _judge(self._condition, headers).may
        for row, key, is_first in headers.fragments:
            if is_first:
                self._remember(key, is_taken=bool(taken[row]))
            else:
                taken[row] = self._datagrams.get(key, taken[row])
        return taken

    def _remember(self, key: tuple[int, ...], *, is_taken: bool) -> None:
        self._datagrams.pop(key, None)
        self._datagrams[key] = is_taken
        if len(self._datagrams) > _MAX_DATAGRAMS:
            del self._datagrams[next(iter(self._datagrams))]


class _Truth(NamedTuple):
    """What is true of each packet, where that is known. The arrays are nobody else's."""

    must: NDArray[np.bool_]
    """It is true."""
    may: NDArray[np.bool_]
    """It is true, or there is no telling."""


def _judge(condition: Condition, headers: PacketHeaders) -> _Truth:
    match condition:
        case Protocol(name):
            return _protocol(name, headers)
        case Network(side, network):
            return _known(_network(side, network, headers), headers.is_known)
        case Ports():
            return _ports(condition, headers)
        case Length(least, most):
            fits = headers.wire_bytes >= least
            if most is not None:
                fits &= headers.wire_bytes <= most
            return _Truth(fits, fits.copy())
        case Not(inner):
            must, may = _judge(inner, headers)
            return _Truth(~may, ~must)
        case Chain(first, rest):
            truth = _judge(first, headers)
            for joining, following in rest:
                truth = _joined(truth, joining, _judge(following, headers))
            return truth


def _joined(one: _Truth, joining: str, other: _Truth) -> _Truth:
    if joining == "and":
        return _Truth(one.must & other.must, one.may & other.may)
    return _Truth(one.must | other.must, one.may | other.may)


def _known(fits: NDArray[np.bool_], is_known: NDArray[np.bool_]) -> _Truth:
    return _Truth(fits & is_known, fits | ~is_known)


def _protocol(name: str, headers: PacketHeaders) -> _Truth:
    if name in _TRANSPORTS:
        fits = headers.protocol == _TRANSPORTS[name]
    else:
        fits = headers.is_ipv4 if name == "ip" else headers.is_ipv6
    return _known(fits, headers.is_known)


def _ports(condition: Ports, headers: PacketHeaders) -> _Truth:
    side, protocol, first, last = condition
    is_one = _protocol(protocol, headers) if protocol else _either(headers)
    fits = _of_sides(
        side,
        _within(headers.source_port, first, last),
        _within(headers.destination_port, first, last),
    )
    return _joined(is_one, "and", _known(fits, headers.has_ports))


def _either(headers: PacketHeaders) -> _Truth:
    return _joined(_protocol("tcp", headers), "or", _protocol("udp", headers))


def _network(
    side: Side, network: IPv4Network | IPv6Network, headers: PacketHeaders
) -> NDArray[np.bool_]:
    is_version = headers.is_ipv4 if network.version == 4 else headers.is_ipv6
    inside = _of_sides(side, _is_in(headers.source, network), _is_in(headers.destination, network))
    return is_version & inside


def _is_in(addresses: Addresses, network: IPv4Network | IPv6Network) -> NDArray[np.bool_]:
    mask, base = int(network.netmask), int(network.network_address)
    inside: NDArray[np.bool_] = addresses.low & np.uint64(mask & _LOW) == np.uint64(base & _LOW)
    if mask >> _LOW_BITS:
        high = addresses.high & np.uint64(mask >> _LOW_BITS)
        inside &= high == np.uint64(base >> _LOW_BITS)
    return inside


def _within(ports: NDArray[np.int64], first: int, last: int) -> NDArray[np.bool_]:
    return ports == first if first == last else (ports >= first) & (ports <= last)


def _of_sides(
    side: Side, source: NDArray[np.bool_], destination: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    match side:
        case Side.SOURCE:
            return source
        case Side.DESTINATION:
            return destination
        case Side.BOTH:
            return source & destination
        case Side.EITHER:
            return source | destination
