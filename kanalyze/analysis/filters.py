"""Which rows are wanted: one filter for every command.

In: what a person asked for, as text; rows. Out: yes or no. This module must not know where rows
come from.

Each kind of condition given must hold; of several values for one kind, any may. A condition on
something that a row does not have (a null client id, say) does not hold.
"""

from __future__ import annotations

from copy import copy
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kanalyze.analysis.times import (
    NS_PER_DAY,
    format_time,
    parse_duration_ns,
    parse_time_ns,
    parse_time_of_day_ns,
)
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kanalyze.analysis.anomalies import AnomalyRow
    from kanalyze.analysis.connections import ConnectionRow
    from kanalyze.analysis.row import Row

__all__ = ["BrokerAddress", "RowFilter", "parse_broker"]

_Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
_Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
_Check: TypeAlias = "Callable[[RowFilter, Row], bool]"
_AnyEnds: TypeAlias = "Row | ConnectionRow | AnomalyRow"
"""What tells of a client and a broker."""


class BrokerAddress(NamedTuple):
    """A broker, or every broker on one host."""

    ip: str
    """Canonical text, without brackets."""
    port: int | None
    """None for any port."""

    def __str__(self) -> str:
        """Return it as :func:`parse_broker` reads it."""
        ip = f"[{self.ip}]" if ":" in self.ip else self.ip
        return ip if self.port is None else f"{ip}:{self.port}"


def parse_broker(text: str) -> BrokerAddress:
    """Return the broker that ``IP``, ``IP:PORT``, ``[IPV6]`` or ``[IPV6]:PORT`` names.

    Raises UsageError for anything else; host names are not looked up.
    """
    host, port = text, None
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        host = host if bracket else text
        port = rest.removeprefix(":") if rest else None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    import ipaddress  # slow to import, and most filters name no address

    try:
        ip = str(ipaddress.ip_address(host))
        number = None if port is None else int(port)
    except ValueError:
        raise UsageError(f"not a broker address: {text!r} (IP or IP:PORT)") from None
    if number is not None and not 0 < number < 65536:
        raise UsageError(f"not a TCP port: {port!r} in {text!r}")
    return BrokerAddress(ip, number)


class RowFilter:
    """Conditions on rows. ``RowFilter()`` lets every row pass.

    Globs know ``*``, ``?`` and ``[...]``, and heed case.
    """

    __slots__ = (
        "_apis",
        "_checks",
        "api_keys",
        "api_names",
        "brokers",
        "client_ids",
        "client_networks",
        "errors_only",
        "groups",
        "ports",
        "since_ns",
        "since_of_day_ns",
        "slower_than_ns",
        "topics",
        "until_ns",
        "until_of_day_ns",
    )

    def __init__(
        self,
        *,
        api_names: frozenset[str] = frozenset(),
        api_keys: frozenset[int] = frozenset(),
        client_ids: tuple[str, ...] = (),
        client_networks: tuple[_Network, ...] = (),
        brokers: tuple[BrokerAddress, ...] = (),
        ports: frozenset[int] = frozenset(),
        topics: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
        errors_only: bool = False,
        slower_than_ns: int | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        since_of_day_ns: int | None = None,
        until_of_day_ns: int | None = None,
    ) -> None:
        """Make a filter.

        Args:
            api_names: in any case.
            api_keys: the same by number.
            client_ids: globs.
            client_networks: the client is in one of them.
            brokers: the broker is one of them.
            ports: the broker's TCP port is one of them.
            topics: globs, on the topic's name, or on its id where no name is known.
            groups: globs.
            errors_only: only rows with an error code other than 0, at any level.
            slower_than_ns: only rows with a latency above this. What waited on purpose
                is not slow.
            since_ns: only requests that began at this time or later; a response without a request
                counts by its own beginning.
            until_ns: only requests that began before this time.
            since_of_day_ns: a time of day in place of ``since_ns``; see :meth:`on_day_of`.
            until_of_day_ns: the same for ``until_ns``.
        """
        self._apis = [*sorted(api_names), *map(str, sorted(api_keys))]
        self.api_names = frozenset(name.lower() for name in api_names)
        self.api_keys = api_keys
        self.client_ids = client_ids
        self.client_networks = client_networks
        self.brokers = brokers
        self.ports = ports
        self.topics = topics
        self.groups = groups
        self.errors_only = errors_only
        self.slower_than_ns = slower_than_ns
        self.since_ns = since_ns
        self.until_ns = until_ns
        self.since_of_day_ns = since_of_day_ns
        self.until_of_day_ns = until_of_day_ns
        self._checks = self._chosen_checks()

    def _chosen_checks(self) -> tuple[_Check, ...]:
        return tuple(check for is_set, check in _CHECKS if is_set(self))

    @classmethod
    def parse(
        cls,
        *,
        apis: Iterable[str] = (),
        api_names: Mapping[str, int] | None = None,
        client_ids: Iterable[str] = (),
        client_ips: Iterable[str] = (),
        brokers: Iterable[str] = (),
        ports: Iterable[int] = (),
        topics: Iterable[str] = (),
        groups: Iterable[str] = (),
        errors_only: bool = False,
        slower_than: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> RowFilter:
        """Return the filter that the texts describe.

        ``apis`` are names in any case, or API keys as numbers; ``api_names`` maps the names that
        there are to keys (None: any name is taken). ``client_ips`` are addresses or networks
        such as ``10.0.0.0/8``; ``brokers`` as :func:`parse_broker` reads them; ``slower_than`` a
        duration with a unit; ``since`` and ``until`` as
        :func:`~kanalyze.analysis.times.parse_time_ns` reads them, or a time of day. Raises
        UsageError.
        """
        since_of_day_ns = None if since is None else parse_time_of_day_ns(since)
        until_of_day_ns = None if until is None else parse_time_of_day_ns(until)
        asked = tuple(apis)
        names = [text for text in asked if not _is_number(text)]
        return cls(
            api_names=frozenset(_known_api(name, api_names) for name in names),
            api_keys=frozenset(int(text) for text in asked if _is_number(text)),
            client_ids=tuple(client_ids),
            client_networks=tuple(_network(text) for text in client_ips),
            brokers=tuple(parse_broker(text) for text in brokers),
            ports=frozenset(ports),
            topics=tuple(topics),
            groups=tuple(groups),
            errors_only=errors_only,
            slower_than_ns=None if slower_than is None else parse_duration_ns(slower_than),
            since_ns=_time_ns(since, since_of_day_ns),
            until_ns=_time_ns(until, until_of_day_ns),
            since_of_day_ns=since_of_day_ns,
            until_of_day_ns=until_of_day_ns,
        )

    @property
    def passes_all(self) -> bool:
        """Whether there is no condition at all."""
        return not self._checks and not self.needs_day

    @property
    def needs_day(self) -> bool:
        """Whether a time of day was given: before rows are matched a day has to be known."""
        return (self.since_of_day_ns, self.until_of_day_ns) != (None, None)

    def on_day_of(self, first_ns: int) -> RowFilter:
        """Return this filter with times of day as times of the day that packets begin on.

        ``first_ns`` is the Unix time of the first packet; days are those of UTC. A time of day
        that is more than 12 hours before it is of the next day, and so is an end that would not
        come after the begin.
        """
        if not self.needs_day:
            return self
        found = copy(self)
        if self.since_of_day_ns is not None:
            found.since_ns = _on_day(self.since_of_day_ns, first_ns)
        if self.until_of_day_ns is not None:
            found.until_ns = _on_day(self.until_of_day_ns, first_ns)
            if found.since_ns is not None and found.until_ns <= found.since_ns:
                found.until_ns += NS_PER_DAY
        found.since_of_day_ns = found.until_of_day_ns = None
        found._checks = found._chosen_checks()
        return found

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions that there are, as plain values, by the names of the arguments."""
        since, until = self.since_ns, self.until_ns
        every = {
            "api": self._apis,
            "client_id": list(self.client_ids),
            "client_ip": list(map(str, self.client_networks)),
            "broker": list(map(str, self.brokers)),
            "port": sorted(self.ports),
            "topic": list(self.topics),
            "group": list(self.groups),
            "errors": self.errors_only,
            "slower_than_ns": self.slower_than_ns,
            "since": None if since is None else format_time(since),
            "until": None if until is None else format_time(until),
        }
        return {name: value for name, value in every.items() if value not in ([], False, None)}

    def matches(self, row: Row) -> bool:
        """Return whether a row meets every condition."""
        return all(check(self, row) for check in self._checks)

    def matches_connection(self, row: ConnectionRow) -> bool:
        """Return whether a connection meets the conditions on clients, brokers and times.

        It meets those on times when any part of it lies between them.
        """
        since, until = self.since_ns, self.until_ns
        if (since is not None and row.end_ns < since) or (
            until is not None and row.start_ns >= until
        ):
            return False
        if self.client_ids and not _any_glob(row.client_id, self.client_ids):
            return False
        return self._matches_ends(row)

    def matches_anomaly(self, row: AnomalyRow) -> bool:
        """Return whether an anomaly meets the conditions on clients, brokers and times.

        One that has no time or no connection meets none on these.
        """
        since, until, time_ns = self.since_ns, self.until_ns, row.time_ns
        if (since, until) != (None, None) and (
            time_ns is None
            or (since is not None and time_ns < since)
            or (until is not None and time_ns >= until)
        ):
            return False
        return self._matches_ends(row)

    def _matches_ends(self, row: _AnyEnds) -> bool:
        return (
            (not self.client_networks or _client_ip_matches(self, row))
            and (not self.brokers or _broker_matches(self, row))
            and (not self.ports or _port_matches(self, row))
        )

    def select(self, rows: list[Row]) -> list[Row]:
        """Return the rows that meet every condition: the same list when there is none."""
        if not self._checks:
            return rows
        return [row for row in rows if self.matches(row)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _time_ns(text: str | None, of_day_ns: int | None) -> int | None:
    return None if text is None or of_day_ns is not None else parse_time_ns(text)


def _on_day(of_day_ns: int, first_ns: int) -> int:
    time_ns = first_ns // NS_PER_DAY * NS_PER_DAY + of_day_ns
    return time_ns if first_ns - time_ns <= NS_PER_DAY // 2 else time_ns + NS_PER_DAY


def _known_api(name: str, api_names: Mapping[str, int] | None) -> str:
    if api_names is None:
        return name
    by_lower = {known.lower(): known for known in api_names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    import difflib  # only for a name that there is not

    near = difflib.get_close_matches(name.lower(), by_lower, n=3)
    hint = f"; did you mean {', '.join(by_lower[match] for match in near)}?" if near else ""
    raise UsageError(f"unknown API: {name!r}{hint}")


def _network(text: str) -> _Network:
    import ipaddress

    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"not an IP address or network: {text!r} (such as 10.1.2.3 or 10.0.0.0/8)"
        ) from None


# A pure function of its argument, asked again and again for the few clients of a capture.
@lru_cache(maxsize=4096)
def _address(text: str) -> _Address:
    import ipaddress

    return ipaddress.ip_address(text)


def _any_glob(text: str | None, globs: Sequence[str]) -> bool:
    return text is not None and any(fnmatchcase(text, glob) for glob in globs)


def _api_matches(wanted: RowFilter, row: Row) -> bool:
    if row.api_key in wanted.api_keys:
        return True
    return row.api_name is not None and row.api_name.lower() in wanted.api_names


def _client_id_matches(wanted: RowFilter, row: Row) -> bool:
    return _any_glob(row.client_id, wanted.client_ids)


def _client_ip_matches(wanted: RowFilter, row: _AnyEnds) -> bool:
    if row.client_ip is None:
        return False
    address = _address(row.client_ip)
    return any(address in network for network in wanted.client_networks)


def _broker_matches(wanted: RowFilter, row: _AnyEnds) -> bool:
    return any(
        row.broker_ip == broker.ip and broker.port in (None, row.broker_port)
        for broker in wanted.brokers
    )


def _port_matches(wanted: RowFilter, row: _AnyEnds) -> bool:
    return row.broker_port in wanted.ports


def _topic_matches(wanted: RowFilter, row: Row) -> bool:
    named = (item.topic or item.topic_id for item in row.partitions)
    failed = (item.topic for item in row.errors)
    return any(_any_glob(topic, wanted.topics) for topics in (named, failed) for topic in topics)


def _group_matches(wanted: RowFilter, row: Row) -> bool:
    return _any_glob(row.group_id, wanted.groups)


def _failed(_wanted: RowFilter, row: Row) -> bool:
    return bool(row.errors) or row.status == "error"


def _is_slower(wanted: RowFilter, row: Row) -> bool:
    limit = wanted.slower_than_ns
    if limit is None or row.latency_ns is None:
        return False
    return row.latency_ns > limit and not row.waited


def _is_within(wanted: RowFilter, row: Row) -> bool:
    began = row.request_start_ns if row.request_start_ns is not None else row.response_start_ns
    if began is None:
        return False
    if wanted.since_ns is not None and began < wanted.since_ns:
        return False
    return wanted.until_ns is None or began < wanted.until_ns


_CHECKS: tuple[tuple[Callable[[RowFilter], bool], _Check], ...] = (
    (lambda wanted: bool(wanted.api_names or wanted.api_keys), _api_matches),
    (lambda wanted: wanted.errors_only, _failed),
    (lambda wanted: wanted.slower_than_ns is not None, _is_slower),
    (lambda wanted: (wanted.since_ns, wanted.until_ns) != (None, None), _is_within),
    (lambda wanted: bool(wanted.client_networks), _client_ip_matches),
    (lambda wanted: bool(wanted.brokers), _broker_matches),
    (lambda wanted: bool(wanted.ports), _port_matches),
    (lambda wanted: bool(wanted.client_ids), _client_id_matches),
    (lambda wanted: bool(wanted.groups), _group_matches),
    (lambda wanted: bool(wanted.topics), _topic_matches),
)
"""What says whether a condition was given, and what tests it; cheap ones first."""
