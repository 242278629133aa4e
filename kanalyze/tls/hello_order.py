"""Whether a direction has to wait for a hello of the other one.

In: the negotiation, kinds of records. Out: whether a direction waits.

The directions of a batch are read one after the other, in any order. So a hello may still come
after records that depend on it. If its sender's later records come first, the hello is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.model.tls import APPLICATION_DATA

if TYPE_CHECKING:
    from kanalyze.tls.negotiation import Negotiation

__all__ = ["has_hello_of", "note_begun", "waits"]


def has_hello_of(negotiation: Negotiation, direction: int) -> bool:
    """Return true if a side's hello was seen."""
    if negotiation.end_of(direction) == 0:
        return negotiation.handshakes > 0
    return negotiation.server_hello is not None


def note_begun(negotiation: Negotiation, direction: int, kind: int) -> None:
    """Note a record of a side that comes after its hello: encrypted, or ChangeCipherSpec.

    A server of TLS 1.3 sends a ChangeCipherSpec after a HelloRetryRequest too.
    """
    if kind == APPLICATION_DATA or not negotiation.facts.retried:
        negotiation.has_begun[direction] = True


def waits(negotiation: Negotiation, direction: int) -> bool:
    """Return true if keys of a side depend on a hello of the other side that may still come."""
    has_begun = negotiation.has_begun
    if negotiation.handshakes and negotiation.server_hello is None:
        client_index = negotiation.facts.client_index
        return client_index is not None and not has_begun[1 - client_index]
    if negotiation.handshakes or has_begun[1 - direction]:
        return False
    return negotiation.server_hello is None or negotiation.end_of(direction) == 1
