"""What a connection tells of the proxies in front of it.

In: what ``net`` reads at the beginning of streams. Out: :class:`ProxiedBy`, which a
:class:`~kanalyze.model.tcp.TcpConnection` carries to the rows, and :class:`PrefixPart` for code
that rewrites packets. Texts are from the wire and untrusted; the code that reads them bounds them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved

__all__ = ["PartKind", "PrefixPart", "ProxiedBy"]

_MAX_PORT = 0xFFFF


@Saved("kind:str client_ip:str? client_port:u16? target:str?")
class ProxiedBy(NamedTuple):
    """What came before the first protocol of a connection; None means not named, or not seen."""

    kind: str
    """``proxy-v1``, ``proxy-v2``, ``http-connect``, ``socks4``, ``socks5``; several, in the order
    on the wire, with ``+`` between them."""
    client_ip: str | None
    """The address of the client that the last PROXY header with an address names."""
    client_port: int | None
    target: str | None
    """Host and port that the client asked the last proxy for."""

    def _after_load(self) -> None:
        if (self.client_ip is None) != (self.client_port is None):
            raise ValueError("no address of a client")


PartKind: TypeAlias = Literal["address", "address text", "host", "name", "secret", "text", "bytes"]
"""Of bytes in a prefix: an address of 4 or 16 bytes; an address as text; a host name or an address
as text; a name of a user; a password or credentials; other text; other bytes that are skipped."""


class PrefixPart(NamedTuple):
    """Bytes of a prefix that have a meaning of their own. All others are fixed, sizes or ports."""

    begin: int
    """Stream offset."""
    end: int
    kind: PartKind
