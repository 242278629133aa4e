"""What a connection tells of the proxies in front of it.

In: what ``net`` reads at the beginning of streams. Out: :class:`ProxiedBy`, which a
:class:`~kanalyze.model.tcp.TcpConnection` carries to the rows, and :class:`PrefixPart` for code
that rewrites packets. Texts are from the wire and untrusted; the code that reads them bounds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State

__all__ = ["PartKind", "PrefixPart", "ProxiedBy"]

_MAX_PORT = 0xFFFF


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

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return self.kind, self.client_ip, self.client_port, self.target

    @classmethod
    def from_state(cls, state: object) -> ProxiedBy:
        """Make one from a state; raises ValueError for any other value."""
        kind, client_ip, client_port, target = fields(state, "sSNS")
        if (client_ip is None) != (client_port is None) or (client_port or 0) > _MAX_PORT:
            raise ValueError("no address of a client")
        return cls(kind, client_ip, client_port, target)


PartKind: TypeAlias = Literal["address", "address text", "host", "name", "secret", "text", "bytes"]
"""Of bytes in a prefix: an address of 4 or 16 bytes; an address as text; a host name or an address
as text; a name of a user; a password or credentials; other text; other bytes that are skipped."""


class PrefixPart(NamedTuple):
    """Bytes of a prefix that have a meaning of their own. All others are fixed, sizes or ports."""

    begin: int
    """Stream offset."""
    end: int
    kind: PartKind
