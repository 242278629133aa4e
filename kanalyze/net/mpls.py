"""MPLS: labels, and a guess at what follows them, for nothing in a packet says it.

In: places of MPLS labels. Out: places of what the labels carry. Must not know: what is around.

Labels: RFC 3032. What may follow the last label: RFC 4385 (the first half byte of an IP packet is
4 or 6, that of a control word 0 or 1), RFC 4448 (Ethernet, with a control word or without).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.net.columns import Headers
from kanalyze.net.ethernet import BEFORE_IP, looks_like_ethernet, looks_like_ip
from kanalyze.net.kinds import ETHERNET, IPV4, IPV6, MPLS, UNREADABLE_MPLS
from kanalyze.net.names import tunnel_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.net.columns import Packets, Places

__all__ = ["read_mpls"]

_LABEL_BYTES: Final = 4
_CONTROL_WORD_BYTES: Final = 4
_IPV6_BYTES: Final = 40
_CHECK_BYTES: Final = 4
_SHORT_FRAME_BYTES: Final = 64


def read_mpls(packets: Packets, places: Places) -> Headers:
    """Step over one label; behind the last of a stack, tell what follows."""
    places = packets.long_enough(places, _LABEL_BYTES, BEFORE_IP)
    is_last = packets.u8(places.at + 2) & 1 == 1
    inner = places.after(_LABEL_BYTES)
    packets.enter(inner.row, tunnel_bit("MPLS"))
    more = Headers.of(inner.pick(~is_last), MPLS)
    return Headers.joined([_behind_labels(packets, inner.pick(is_last)), more])


def _behind_labels(packets: Packets, places: Places) -> Headers:
    places = packets.long_enough(places, 1, BEFORE_IP)
    half = packets.u8(places.at) >> 4
    kind = np.full(len(places), UNREADABLE_MPLS, np.int64)
    size = np.zeros(len(places), np.int64)
    # The last that holds counts. An address of Ethernet may begin with a 4 or a 6, or with the 0
    # of a control word; and the address of an IP packet may look like an ethertype.
    kind[half == 4] = IPV4
    kind[half == 6] = IPV6
    kind[looks_like_ethernet(packets, places)] = ETHERNET
    controlled = (half == 0) & looks_like_ethernet(packets, places.after(_CONTROL_WORD_BYTES))
    kind[controlled] = ETHERNET
    size[controlled] = _CONTROL_WORD_BYTES
    kind[_fills(packets, places, IPV4)] = IPV4
    kind[_fills(packets, places, IPV6)] = IPV6
    return Headers(places.after(size), kind)


def _fills(packets: Packets, places: Places, kind: int) -> NDArray[np.bool_]:
    """Tell where an IP header begins whose length is just what there is.

    Behind it there may be the frame check sequence, and in the shortest frames padding.
    """
    if kind == IPV4:
        length = packets.peek(places, 2, ">u2")
    else:
        length = packets.peek(places, 4, ">u2") + _IPV6_BYTES
    behind = packets.end[places.row] - places.at - length
    is_short = packets.batch.wire_bytes[places.row] <= _SHORT_FRAME_BYTES
    fits = (behind == 0) | (behind == _CHECK_BYTES) | (is_short & (behind > 0))
    looks = looks_like_ip(packets, places, kind)
    looks &= fits
    return looks
