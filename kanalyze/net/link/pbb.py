"""802.1ah, provider backbone bridges: a customer's Ethernet frame in that of a provider.

In: a cursor at the tag that follows the provider's Ethernet header. Out: the kind of what follows
it, the cursor there.

IEEE 802.1Q, 9.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.net.header_kinds import ETHERNET
from kanalyze.net.header_names import tunnel_bit
from kanalyze.net.link.ethernet import BEFORE_IP

if TYPE_CHECKING:
    from kanalyze.net.header_cursor import HeaderCursor

__all__ = ["read_pbb"]

_TAG_BYTES: Final = 4
"""Priority and flags, and the identifier of the service; the customer's addresses follow."""


def read_pbb(cursor: HeaderCursor) -> int:
    """Step over the tag of 802.1ah: the customer's Ethernet frame follows it."""
    if not cursor.fits(_TAG_BYTES + 1):
        return cursor.cut(BEFORE_IP)
    cursor.at += _TAG_BYTES
    cursor.enter(tunnel_bit("802.1ah"))
    return ETHERNET
