"""Conditions on packets, as tcpdump writes them: the grammar.

In: text. Out: a tree. Must not know: packets, nor what a condition means for one.

The language is that of pcap-filter(7), as far as it says something of IP and TCP::

    [tcp|udp|ip|ip6] [src|dst|src or dst|src and dst] [host|net|port|portrange] VALUE
    tcp    udp    ip    ip6    less BYTES    greater BYTES
    and  &&    or  ||    not  !    ( )

``and`` and ``or`` bind alike, from left to right; ``not`` binds tighter. What stands before a value
holds for values that follow too: ``port 9092 or 9093``, ``host (10.0.0.1 or 10.0.0.2)``.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.live.feed.filter_values import (
    looks_like_value,
    read_host,
    read_length,
    read_network,
    read_ports,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network

__all__ = [
    "Chain",
    "Condition",
    "Length",
    "Network",
    "Not",
    "Ports",
    "Protocol",
    "Side",
    "parse_condition",
    "parse_conditions",
]


class Side(enum.Enum):
    """Which end of a packet is meant."""

    EITHER = "src or dst"
    SOURCE = "src"
    DESTINATION = "dst"
    BOTH = "src and dst"


class Protocol(NamedTuple):
    """The packet is of a protocol: ``tcp``, ``udp``, ``ip`` (IPv4) or ``ip6``."""

    name: str


class Network(NamedTuple):
    """An address is in a network; that of a host has all bits."""

    side: Side
    network: IPv4Network | IPv6Network


class Ports(NamedTuple):
    """A port is one of ``first`` to ``last``."""

    side: Side
    protocol: str | None
    """``tcp`` or ``udp``; None for either."""
    first: int
    last: int


class Length(NamedTuple):
    """The packet had so many bytes on the wire, with all its headers."""

    least: int
    most: int | None
    """None for no bound."""


class Not(NamedTuple):
    """The condition does not hold."""

    condition: Condition


class Chain(NamedTuple):
    """Conditions one after another, each joined to what all before it come to."""

    first: Condition
    rest: tuple[tuple[Literal["and", "or"], Condition], ...]


Condition: TypeAlias = Protocol | Network | Ports | Length | Not | Chain

_MAX_CHARACTERS: Final = 65_536
_MAX_DEPTH: Final = 64
"""Of parentheses and ``not`` in one another."""
_WORD: Final = re.compile(r"&&|\|\||[!()]|(?:(?!&&|\|\|)[^\s!()])+")
_SIGNS: Final = {"&&": "and", "||": "or", "!": "not"}
_JOINING: Final = ("and", "or")
_PROTOCOLS: Final = ("tcp", "udp", "ip", "ip6")
_SIDES: Final = {"src": Side.SOURCE, "dst": Side.DESTINATION}
_KINDS: Final = ("host", "net", "port", "portrange")
_LENGTHS: Final = ("less", "greater")
_KNOWN: Final = {*_JOINING, "not", "(", ")", *_PROTOCOLS, *_SIDES, *_KINDS, *_LENGTHS}
_UNDERSTOOD: Final = (
    "of tcpdump's language these are: host, net, port and portrange, with src or dst, and tcp, udp,"
    " ip or ip6, before them; less and greater; and, or, not, and parentheses"
)


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises :class:`UsageError`, which names the word, for what is not of the language, is no
    address or number, or is too long or too deep.
    """
    try:
        return _Parser(text).whole()
    except UsageError as error:
        raise UsageError(f"filter {shown(text)}: {error}") from None


def parse_conditions(texts: Sequence[str]) -> Condition:
    """Read conditions (at least one) that are to hold together; see :func:`parse_condition`."""
    first, *rest = map(parse_condition, texts)
    return Chain(first, tuple(("and", condition) for condition in rest))


class _Said(NamedTuple):
    """What stands before a value."""

    protocol: str | None
    side: Side
    kind: str


class _Parser:
    """Goes through the words of a text, from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_CHARACTERS:
            raise UsageError(f"longer than {_MAX_CHARACTERS} characters")
        self._words: list[str] = [_SIGNS.get(word, word) for word in _WORD.findall(text)]
        self._at = 0
        self._depth = 0
        self._said: _Said | None = None
        """What holds for a value that stands alone; None where nothing does."""

    def whole(self) -> Condition:
        """Read all of it."""
        condition = self._expression()
        if self._at < len(self._words):
            raise self._unexpected()
        return condition

    # -- what is joined ---------------------------------------------------------------------------

    def _expression(self) -> Condition:
        return self._chain(self._term(), self._value_or_term)

    def _value_or_term(self) -> Condition:
        return self._values() if self._is_value_next() else self._term()

    def _chain(self, first: Condition, following: Callable[[], Condition]) -> Condition:
        rest: list[tuple[Literal["and", "or"], Condition]] = []
        while True:
            if self._takes("and"):
                rest.append(("and", following()))
            elif self._takes("or"):
                rest.append(("or", following()))
            else:
                return Chain(first, tuple(rest)) if rest else first

    def _term(self) -> Condition:
        if self._takes("not"):
            return Not(self._deeper(self._term))
        if not self._takes("("):
            return self._primitive()
        inside = self._deeper(self._expression)
        self._close()
        self._said = None
        return inside

    def _values(self) -> Condition:
        """Read a value, or values in parentheses, of what was said before."""
        if self._takes("not"):
            return Not(self._deeper(self._values))
        if not self._takes("("):
            return self._value()
        inside = self._deeper(lambda: self._chain(self._values(), self._values))
        self._close()
        return inside

    def _deeper(self, read: Callable[[], Condition]) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UsageError(f"more than {_MAX_DEPTH} parentheses and nots in one another")
        condition = read()
        self._depth -= 1
        return condition

    def _close(self) -> None:
        if not self._takes(")"):
            raise self._unexpected()

    # -- one condition ----------------------------------------------------------------------------

    def _primitive(self) -> Condition:
        length = self._takes_one_of(_LENGTHS)
        if length is not None:
            self._said = None
            size_bytes = read_length(self._next())
            return Length(0, size_bytes) if length == "less" else Length(size_bytes, None)
        protocol = self._takes_one_of(_PROTOCOLS)
        side = self._takes_side()
        kind = self._takes_one_of(_KINDS)
        if kind is None and side is None:
            self._said = None
            if protocol is None:
                raise self._unexpected()
            return Protocol(protocol)
        self._said = _sensible(_Said(protocol, side or Side.EITHER, kind or "host"))
        return self._values()

    def _takes_side(self) -> Side | None:
        word = self._takes_one_of(tuple(_SIDES))
        if word is None:
            return None
        other = "dst" if word == "src" else "src"
        if self._words[self._at + 1 : self._at + 2] == [other]:
            joining = self._takes_one_of(_JOINING)
            if joining is not None:
                self._at += 1
                return Side.EITHER if joining == "or" else Side.BOTH
        return _SIDES[word]

    def _value(self) -> Condition:
        if self._said is None:
            raise self._unexpected()
        protocol, side, kind = self._said
        word = self._next()
        if kind in ("port", "portrange"):
            return Ports(side, protocol, *read_ports(word, is_range=kind == "portrange"))
        network = read_host(word) if kind == "host" else read_network(word)
        if protocol == ("ip6" if network.version == 4 else "ip"):
            raise UsageError(f"{protocol} has no address {shown(word)}")
        return Network(side, network)

    # -- words ------------------------------------------------------------------------------------

    def _next(self) -> str:
        if self._at == len(self._words):
            raise self._unexpected()
        self._at += 1
        return self._words[self._at - 1]

    def _takes(self, word: str) -> bool:
        return self._takes_one_of((word,)) is not None

    def _takes_one_of(self, words: tuple[str, ...]) -> str | None:
        if self._at == len(self._words) or self._words[self._at] not in words:
            return None
        return self._next()

    def _is_value_next(self) -> bool:
        """Whether a value comes next, behind any ``not`` and ``(``."""
        at = self._at
        while at < len(self._words) and self._words[at] in ("not", "("):
            at += 1
        return at < len(self._words) and looks_like_value(self._words[at])

    def _unexpected(self) -> UsageError:
        """Return what to say of the next word, which cannot stand where it does."""
        if self._at == len(self._words):
            return UsageError("something is missing at its end")
        word = self._words[self._at]
        if looks_like_value(word):
            return UsageError(f"{shown(word)}: nothing before it says what it is")
        if word in _KNOWN:
            return UsageError(f"{shown(word)} cannot stand where it does")
        return UsageError(f"{shown(word)} is not understood; {_UNDERSTOOD}")


def _sensible(said: _Said) -> _Said:
    allowed = ("tcp", "udp") if said.kind in ("port", "portrange") else ("ip", "ip6")
    if said.protocol is not None and said.protocol not in allowed:
        raise UsageError(f"{said.protocol} has no {said.kind}")
    return said
