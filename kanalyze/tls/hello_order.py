"""Whose hello is there, and whose may still come.

In: the negotiation, kinds of records. Out: whether a direction waits for the other one. Must not
know: keys.

Both directions of a batch are read one after the other, and either may be the first. A hello that
is not there when its side sends what comes behind it is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.model.tls_record import APPLICATION_DATA

if TYPE_CHECKING:
    from kanalyze.tls.negotiation import Negotiation

__all__ = ["has_hello_of", "note_begun", "waits"]


def has_hello_of(negotiation: Negotiation, direction: int) -> bool:
    """Tell whether a side's hello was seen."""
    if negotiation.end_of(direction) == 0:
        return negotiation.handshakes > 0
    return negotiation.server_hello is not None


def note_begun(negotiation: Negotiation, direction: int, kind: int) -> None:
    """Note a record of a side that comes behind its hello: encrypted, or ChangeCipherSpec.

    A server of TLS 1.3 sends the latter behind a HelloRetryRequest too.
    """
    if kind == APPLICATION_DATA or not negotiation.facts.retried:
        negotiation.has_begun[direction] = True


def waits(negotiation: Negotiation, direction: int) -> bool:
    """Tell whether keys to what a side sends wait for a hello of the other side."""
    has_begun = negotiation.has_begun
    if negotiation.handshakes and negotiation.server_hello is None:
        client_index = negotiation.facts.client_index
        return client_index is not None and not has_begun[1 - client_index]
    if negotiation.handshakes or has_begun[1 - direction]:
        return False
    return negotiation.server_hello is None or negotiation.end_of(direction) == 1
