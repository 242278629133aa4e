"""Names for addresses: what is known of them, and when.

In: names of addresses and networks, some of them for a time only. Out: :class:`AddressNames`, and
the rows of two tables: the names of clients, and those of brokers.

An address may have names from several sources. What one source does not know is taken from the
next: first those of the address, then those of the smallest network that it is in, and so on; of
the same address the one that began last.
"""

from __future__ import annotations

import ipaddress
import socket
from itertools import pairwise
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ALWAYS_NS = (-(2**63), 2**63 - 1)
"""The times of a name that is not limited to a time."""


_MOST_FOUND = 100_000
"""Addresses whose names are remembered."""


class NamedAddress(NamedTuple):
    """What a source knows of an address or a network."""

    network: str
    """An address, or a network such as ``10.0.0.0/8``."""
    name: str | None = None
    app: str | None = None
    zone: str | None = None
    since_ns: int = ALWAYS_NS[0]
    until_ns: int = ALWAYS_NS[1]
    """Unix times; it is not known before the first, nor from the second on."""


class BrokerFact(NamedTuple):
    """What responses say of a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


class KnownNames(NamedTuple):
    """What is known of an address during a time."""

    since_ns: int
    until_ns: int
    name: str | None
    app: str | None
    zone: str | None


class AddressNames:
    """The names of addresses."""

    def __init__(self, known: Iterable[NamedAddress] = ()) -> None:
        """Begin with some names."""
        self._exact: dict[str, list[NamedAddress]] = {}
        self._networks: dict[tuple[int, int], dict[int, list[NamedAddress]]] = {}
        self._found: dict[str, list[KnownNames]] = {}
        for each in known:
            self.add(each)

    def add(self, named: NamedAddress) -> None:
        """Add a name; raises ValueError if its address is none."""
        if _is_ipv4(named.network):
            self._exact.setdefault(named.network, []).append(named)
            return
        network = ipaddress.ip_network(named.network)
        if network.num_addresses == 1:
            self._exact.setdefault(str(network.network_address), []).append(named)
            return
        size = (network.version, network.prefixlen)
        of_size = self._networks.setdefault(size, {})
        of_size.setdefault(int(network.network_address), []).append(named)

    def at(self, address: str) -> list[KnownNames]:
        """Return what is known of an address, each for a time; the times do not overlap."""
        found = self._found.get(address)
        if found is None:
            if len(self._found) >= _MOST_FOUND:  # addresses are from the wire
                self._found.clear()
            found = self._found[address] = self._spans(address)
        return found

    def of(self, address: str, time_ns: int | None) -> KnownNames | None:
        """Return what is known of an address at a time; None stands for the Unix time 0."""
        return known_at(self.at(address), time_ns)

    def _spans(self, address: str) -> list[KnownNames]:
        known = list(self._known(address))
        ends = sorted({end for each in known for end in (each.since_ns, each.until_ns)})
        found: list[KnownNames] = []
        for since_ns, until_ns in pairwise(ends):
            valid = [
                each for each in known if each.since_ns <= since_ns and each.until_ns >= until_ns
            ]
            if not valid:
                continue
            name = next((each.name for each in valid if each.name is not None), None)
            app = next((each.app for each in valid if each.app is not None), None)
            zone = next((each.zone for each in valid if each.zone is not None), None)
            last = found[-1] if found else None
            if last is not None and last[1:] == (since_ns, name, app, zone):
                found[-1] = last._replace(until_ns=until_ns)
            else:
                found.append(KnownNames(since_ns, until_ns, name, app, zone))
        return found

    def _known(self, address: str) -> Iterator[NamedAddress]:
        """Yield what sources know of an address, the most precise and latest first."""
        yield from sorted(self._exact.get(address, ()), key=_since, reverse=True)
        try:
            number = ipaddress.ip_address(address)
        except ValueError:  # of a damaged saved file
            return
        for version, bits in sorted(self._networks, reverse=True):
            if version == number.version:
                hidden_bits = number.max_prefixlen - bits
                network = int(number) >> hidden_bits << hidden_bits
                of_network = self._networks[version, bits].get(network, ())
                yield from sorted(of_network, key=_since, reverse=True)

    def client_rows(self, addresses: Iterable[str]) -> list[tuple[object, ...]]:
        """Return the rows of the table of clients: address, since, until, name, app, zone."""
        return [(address, *names) for address in addresses for names in self.at(address)]

    def broker_rows(
        self, brokers: Iterable[tuple[str, int]], facts: Iterable[BrokerFact]
    ) -> list[tuple[object, ...]]:
        """Return the rows of the table of brokers: address, since, until, name, port, id, zone."""
        told = list(facts)
        rows: list[tuple[object, ...]] = []
        for address, port in brokers:
            known, node_id = self.at_broker(address, port, told)
            rows += (
                (address, each.since_ns, each.until_ns, each.name, port, node_id, each.zone)
                for each in known
            )
        return rows

    def at_broker(
        self, address: str, port: int, facts: Iterable[BrokerFact]
    ) -> tuple[list[KnownNames], int | None]:
        """Return what is known of a broker, as :meth:`at` does, and its node id.

        Its zone is also its rack, as responses say.
        """
        known = self.at(address)
        hosts = {address, *(names.name for names in known)}
        here = [fact for fact in facts if fact.port == port and fact.host in hosts]
        ids = {fact.node_id for fact in here}
        if len(ids) != 1:  # if two brokers claim to be there, nobody knows which one it is
            return known, None
        rack = next((fact.rack for fact in here if fact.rack), None)
        known = known or [KnownNames(*ALWAYS_NS, None, None, None)]
        return [each._replace(zone=each.zone or rack) for each in known], ids.pop()


def known_at(known: Iterable[KnownNames], time_ns: int | None) -> KnownNames | None:
    """Return which of these holds at a time; None stands for the Unix time 0."""
    moment = time_ns or 0
    return next((each for each in known if each.since_ns <= moment < each.until_ns), None)


def _is_ipv4(text: str) -> bool:
    """Return true for an IPv4 address: ``ipaddress`` takes 1.6 s for 100,000 of them."""
    try:
        socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def _since(named: NamedAddress) -> int:
    return named.since_ns
