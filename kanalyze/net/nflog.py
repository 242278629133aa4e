"""Linux netfilter's log (LINKTYPE_NFLOG): a packet as one of several tagged values.

In: places of such headers. Out: places of IP headers. Must not know: IP.

Layout: https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.net.columns import Headers, Places
from kanalyze.net.ethernet import BEFORE_IP
from kanalyze.net.kinds import FAMILY, IPV4, IPV6

if TYPE_CHECKING:
    from kanalyze.net.columns import Packets

__all__ = ["read_nflog"]

_HEADER_BYTES: Final = 4
_TAG_BYTES: Final = 4
_PAYLOAD: Final = 9
_MAX_VALUES: Final = 32
"""Of the kernel's about twenty kinds, each stands in a packet once at most."""
_FAMILIES: Final = {2: IPV4, 10: IPV6}


def read_nflog(packets: Packets, places: Places) -> Headers:
    """Step over the values before the one that is the packet.

    Lengths and kinds are in the byte order of the machine that wrote: the small one of the two
    readings of a kind is the right one.
    """
    places = packets.long_enough(places, _HEADER_BYTES, BEFORE_IP)
    family = packets.u8(places.at)
    kind = FAMILY | family
    at = places.at + _HEADER_BYTES
    open_ = np.flatnonzero(np.isin(family, list(_FAMILIES)))
    for _ in range(_MAX_VALUES):
        here = Places(places.row[open_], at[open_], places.limit[open_])
        tag, swapped = packets.peek(here, 2, "<u2"), packets.peek(here, 2, ">u2")
        order = tag <= swapped
        tag = np.where(order, tag, swapped)
        size = np.where(order, packets.peek(here, 0, "<u2"), packets.peek(here, 0, ">u2"))
        cut = tag < 0
        packets.note_cut(here.row[cut], BEFORE_IP)
        kind[open_[cut]] = -1
        found = (tag == _PAYLOAD) & (size >= _TAG_BYTES)
        for number, inner in _FAMILIES.items():
            kind[open_[found & (family[open_] == number)]] = inner
        at[open_[found]] += _TAG_BYTES
        onward = ~cut & ~found & (size >= _TAG_BYTES)
        open_ = open_[onward]
        if not len(open_):
            break
        at[open_] += (size[onward] + 3) & ~3
    return Headers(Places(places.row, at, places.limit), kind).pick(kind >= 0)
