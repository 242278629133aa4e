"""Selects rows: one filter for all commands.

In: conditions as text; rows, or columns of rows. Out: whether rows match.

A row matches if it meets every condition. If a condition has several values, one of them must
match. A null never meets a condition (a null client id, for example).
"""

from __future__ import annotations

from copy import copy
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from kanalyze.common.known import of_known
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import similar
from kanalyze.common.times import (
    NS_PER_DAY,
    format_time,
    parse_duration_ns,
    parse_time_ns,
    parse_time_of_day_ns,
)
from kanalyze.errors import UsageError
from kanalyze.kafka.schema.error_codes import error_code, error_name
from kanalyze.kafka.schema.error_table import ERRORS
from kanalyze.spec.rows.requests import COLUMNS, Status
from kanalyze.tables.columns.block import Lists, RowBlock

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.spec.rows.requests import Row

__all__ = [
    "FILTER_OPTIONS",
    "BrokerAddress",
    "NamedApis",
    "NamedPartition",
    "RowFilter",
    "parse_apis",
    "parse_broker",
    "parse_error",
    "parse_network",
    "parse_partition",
    "parse_status",
    "parse_time_or_time_of_day",
]

_Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
_Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
_Field: TypeAlias = "Callable[[str], Sequence[Any]]"
"""A function that returns the items' values of a field, by its name; nulls if it is unknown."""
_AnyEnds: TypeAlias = "Row | ConnectionRow | AnomalyRow"
"""Any row that has a client and a broker."""


class BrokerAddress(NamedTuple):
    """A broker, or all brokers on one host."""

    ip: str
    """Canonical IP address, without brackets."""
    port: int | None
    """None for any port."""

    def __str__(self) -> str:
        """Return the text that :func:`parse_broker` parses."""
        ip = f"[{self.ip}]" if ":" in self.ip else self.ip
        return ip if self.port is None else f"{ip}:{self.port}"


def parse_broker(text: str) -> BrokerAddress:
    """Parse ``IP``, ``IP:PORT``, ``[IPV6]`` or ``[IPV6]:PORT``.

    Raises UsageError for anything else. Host names are not resolved.
    """
    host, port = text, None
    if text.startswith("["):
        host, bracket, port_text = text[1:].partition("]")
        host = host if bracket else text
        port = port_text.removeprefix(":") if port_text else None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    import ipaddress  # imported late: it is slow, and most filters have no address

    try:
        ip = str(ipaddress.ip_address(host))
        number = None if port is None else int(port)
    except ValueError:
        raise UsageError(f"not a broker address: {text!r} (use IP or IP:PORT)") from None
    if number is not None and not 0 < number < 65536:
        raise UsageError(f"not a TCP port: {port!r} in {text!r}")
    return BrokerAddress(ip, number)


def parse_network(text: str) -> _Network:
    """Parse ``IP`` or ``IP/BITS``; raises UsageError for anything else."""
    import ipaddress

    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"not an IP address or network: {text!r} (such as 10.1.2.3 or 10.0.0.0/8)"
        ) from None


_MAX_DIGITS = 18
_MIN_CODE, _MAX_CODE = -(1 << 15), (1 << 15) - 1
_MAX_PARTITION = (1 << 31) - 1
_STATUSES: tuple[str, ...] = get_args(Status)


class NamedPartition(NamedTuple):
    """A partition of the topics that match a glob, or of all topics."""

    topic: str | None
    """A glob; None for any topic."""
    partition: int

    def __str__(self) -> str:
        """Return the text that :func:`parse_partition` parses."""
        return str(self.partition) if self.topic is None else f"{self.topic}-{self.partition}"


def parse_partition(text: str) -> NamedPartition:
    """Parse ``N`` or ``TOPIC-N``; raises UsageError for anything else."""
    topic, dash, number = text.rpartition("-")
    if (topic or not dash) and _is_number(number) and int(number) <= _MAX_PARTITION:
        return NamedPartition(topic if dash else None, int(number))
    raise UsageError(f"not a partition: {text!r} (such as 3 or orders-3)")


def parse_status(text: str) -> str:
    """Parse a status word, in any case; raises UsageError for any other text."""
    status = text.lower().replace("-", "_")
    if status in _STATUSES:
        return status
    raise UsageError(f"unknown status: {text!r}; there are {', '.join(_STATUSES)}")


def parse_error(text: str) -> int:
    """Parse the name (in any case) or number of an error code.

    Raises UsageError for any other text.
    """
    if _is_number(text.removeprefix("-")):
        code: int | None = int(text)
    else:
        code = error_code(text.upper())
    if code is not None and _MIN_CODE <= code <= _MAX_CODE:
        return code
    near = similar(text, (name for name, _ in ERRORS.values()))
    raise UsageError(f"unknown error: {text!r}{near or ' (kanalyze protocol errors lists them)'}")


class NamedApis(NamedTuple):
    """APIs by name and by key."""

    names: frozenset[str]
    keys: frozenset[int]


def parse_apis(texts: Iterable[str], api_names: Mapping[str, int] | None = None) -> NamedApis:
    """Parse API names (in any case) or API keys (in digits).

    ``api_names`` maps the known names to keys; None accepts any name. Raises UsageError for an
    unknown name.
    """
    names_or_keys = tuple(texts)
    names = [text for text in names_or_keys if not _is_number(text)]
    return NamedApis(
        frozenset(_known_api(name, api_names) for name in names),
        frozenset(int(text) for text in names_or_keys if _is_number(text)),
    )


def parse_time_or_time_of_day(text: str) -> tuple[int | None, int | None]:
    """Parse a time: return (Unix time in ns, None), or (None, ns since midnight).

    See :func:`~kanalyze.common.times.parse_time_ns` and
    :func:`~kanalyze.common.times.parse_time_of_day_ns`. Raises UsageError for any other text.
    """
    of_day_ns = parse_time_of_day_ns(text)
    return (parse_time_ns(text), None) if of_day_ns is None else (None, of_day_ns)


FILTER_OPTIONS = {
    "apis": "api",
    "client_ids": "client_id",
    "client_ips": "client_ip",
    "brokers": "broker",
    "ports": "port",
    "topics": "topic",
    "partitions": "partition",
    "groups": "group",
    "statuses": "status",
    "error_codes": "error",
    "errors_only": "errors",
    "slower_than": "slower_than",
    "since": "since",
    "until": "until",
}
"""The name that each argument of :meth:`RowFilter.parse` has for users, in the order of reports."""


class RowFilter:
    """Conditions on rows. ``RowFilter()`` matches every row.

    Globs are case-sensitive; they may have ``*``, ``?`` and ``[...]``.
    """

    __slots__ = (
        "_apis",
        "_checks",
        "api_keys",
        "api_names",
        "brokers",
        "client_ids",
        "client_networks",
        "error_codes",
        "errors_only",
        "groups",
        "partitions",
        "ports",
        "since_ns",
        "since_of_day_ns",
        "slower_than_ns",
        "statuses",
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
        partitions: tuple[NamedPartition, ...] = (),
        groups: tuple[str, ...] = (),
        statuses: frozenset[str] = frozenset(),
        error_codes: frozenset[int] = frozenset(),
        errors_only: bool = False,
        slower_than_ns: int | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        since_of_day_ns: int | None = None,
        until_of_day_ns: int | None = None,
    ) -> None:
        """Make a filter.

        Args:
            api_names: names of APIs, in any case.
            api_keys: keys of APIs; a row matches by name or by key.
            client_ids: globs.
            client_networks: networks that contain the client's address.
            brokers: addresses of brokers.
            ports: TCP ports of brokers.
            topics: globs for the topic's name, or for its id if the name is unknown.
            partitions: partitions in the request, the response or an error; with ``topics``, of one
                of these topics.
            groups: globs.
            statuses: status words.
            error_codes: error codes in the response, at any level; 0 matches a response without
                errors.
            errors_only: only rows with an error code other than 0, at any level, and rows whose
                response was not read: nobody knows whether it has one.
            slower_than_ns: only rows with a latency above this, in ns. Responses that the broker
                held back on purpose do not match.
            since_ns: only requests that began at this Unix time in ns or later. A response without
                a request counts by its own beginning.
            until_ns: only requests that began before this time.
            since_of_day_ns: ns since midnight, instead of ``since_ns``; see :meth:`on_day_of`.
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
        self.partitions = partitions
        self.groups = groups
        self.statuses = statuses
        self.error_codes = error_codes
        self.errors_only = errors_only
        self.slower_than_ns = slower_than_ns
        self.since_ns = since_ns
        self.until_ns = until_ns
        self.since_of_day_ns = since_of_day_ns
        self.until_of_day_ns = until_of_day_ns
        self._checks = self._chosen_checks()

    def _chosen_checks(self) -> tuple[int, ...]:
        """Return the indices of the conditions that are set; indices can be pickled."""
        return tuple(index for index, check in enumerate(_CHECKS) if check.is_set(self))

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
        partitions: Iterable[str] = (),
        groups: Iterable[str] = (),
        statuses: Iterable[str] = (),
        error_codes: Iterable[str] = (),
        errors_only: bool = False,
        slower_than: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> RowFilter:
        """Return the filter that texts describe.

        Args:
            apis: names in any case, or API keys as numbers.
            api_names: maps the known API names to keys; None accepts any name.
            client_ids: globs.
            client_ips: addresses, or networks such as ``10.0.0.0/8``.
            brokers: see :func:`parse_broker`.
            ports: TCP ports of brokers.
            topics: globs.
            partitions: see :func:`parse_partition`.
            groups: globs.
            statuses: see :func:`parse_status`.
            error_codes: see :func:`parse_error`.
            errors_only: only rows with an error code other than 0, or with a response that was
                not read.
            slower_than: a duration with a unit.
            since: a time of day, or see :func:`~kanalyze.common.times.parse_time_ns`.
            until: like ``since``.

        Raises:
            UsageError: a text cannot be parsed.
        """
        selected_apis = parse_apis(apis, api_names)
        unset = (None, None)
        since_ns, since_of_day_ns = unset if since is None else parse_time_or_time_of_day(since)
        until_ns, until_of_day_ns = unset if until is None else parse_time_or_time_of_day(until)
        return cls(
            api_names=selected_apis.names,
            api_keys=selected_apis.keys,
            client_ids=tuple(client_ids),
            client_networks=tuple(map(parse_network, client_ips)),
            brokers=tuple(map(parse_broker, brokers)),
            ports=frozenset(ports),
            topics=tuple(topics),
            partitions=tuple(map(parse_partition, partitions)),
            groups=tuple(groups),
            statuses=frozenset(map(parse_status, statuses)),
            error_codes=frozenset(map(parse_error, error_codes)),
            errors_only=errors_only,
            slower_than_ns=None if slower_than is None else parse_duration_ns(slower_than),
            since_ns=since_ns,
            until_ns=until_ns,
            since_of_day_ns=since_of_day_ns,
            until_of_day_ns=until_of_day_ns,
        )

    @property
    def passes_all(self) -> bool:
        """True if there are no conditions."""
        return not self._checks and not self.needs_day

    @property
    def needs_day(self) -> bool:
        """True if a time of day is set; then :meth:`on_day_of` must be called before matching."""
        return (self.since_of_day_ns, self.until_of_day_ns) != (None, None)

    def on_day_of(self, first_ns: int) -> RowFilter:
        """Return this filter with times of day replaced by times on the day of the first packet.

        ``first_ns`` is the Unix time of the first packet in ns; days are UTC days. A time of day
        more than 12 hours before the first packet means the next day. So does an end that would not
        be after the beginning.
        """
        if not self.needs_day:
            return self
        dated = copy(self)
        if self.since_of_day_ns is not None:
            dated.since_ns = _on_day(self.since_of_day_ns, first_ns)
        if self.until_of_day_ns is not None:
            dated.until_ns = _on_day(self.until_of_day_ns, first_ns)
            if dated.since_ns is not None and dated.until_ns <= dated.since_ns:
                dated.until_ns += NS_PER_DAY
        dated.since_of_day_ns = dated.until_of_day_ns = None
        dated._checks = dated._chosen_checks()
        return dated

    def between(self, first_ns: int | None, last_ns: int | None) -> RowFilter:
        """Return this filter, restricted to rows between two times, both included.

        None means no limit on that side.
        """
        narrowed = copy(self)
        until_ns = None if last_ns is None else last_ns + 1
        narrowed.since_ns = of_known(max, first_ns, narrowed.since_ns)
        narrowed.until_ns = of_known(min, until_ns, narrowed.until_ns)
        narrowed._checks = narrowed._chosen_checks()
        return narrowed

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions that are set, as plain values, by argument name."""
        since, until = self.since_ns, self.until_ns
        conditions = {
            "api": self._apis,
            "client_id": list(self.client_ids),
            "client_ip": list(map(str, self.client_networks)),
            "broker": list(map(str, self.brokers)),
            "port": sorted(self.ports),
            "topic": list(self.topics),
            "partition": list(map(str, self.partitions)),
            "group": list(self.groups),
            "status": sorted(self.statuses),
            "error": [error_name(code) for code in sorted(self.error_codes)],
            "errors": self.errors_only,
            "slower_than_ns": self.slower_than_ns,
            "since": None if since is None else format_time(since),
            "until": None if until is None else format_time(until),
        }
        return {name: value for name, value in conditions.items() if value not in ([], False, None)}

    @property
    def names_items(self) -> bool:
        """True if there is a condition on topics or partitions."""
        return bool(self.topics or self.partitions)

    def has_item(self, topic: str | None, partition: int | None) -> bool:
        """Return true if a partition of a topic meets the conditions on topics and partitions."""
        if self.topics and not _any_glob(topic, self.topics):
            return False
        return not self.partitions or any(
            number == partition and (glob is None or _any_glob(topic, (glob,)))
            for glob, number in self.partitions
        )

    def matches(self, row: Row) -> bool:
        """Return true if a row meets every condition."""
        checks = [_CHECKS[index] for index in self._checks]
        return all(
            check.holds(self, *[_row_value(row, name) for name in check.columns])
            for check in checks
        )

    def matching(self, block: RowBlock) -> RowBlock:
        """Return the matching rows of a block; the same block if all match."""
        numbers = self.numbers(block)
        return block if len(numbers) == len(block) else block.take(numbers)

    def numbers(self, block: RowBlock) -> Sequence[int]:
        """Return the positions of the matching rows of a block, from 0."""
        numbers: Sequence[int] = range(len(block))
        for check in [_CHECKS[index] for index in self._checks]:
            columns = [_block_values(block, name) for name in check.columns]
            numbers = [n for n in numbers if check.holds(self, *[column[n] for column in columns])]
        return numbers

    def matches_connection(self, row: ConnectionRow) -> bool:
        """Return true if a connection meets the conditions on clients, brokers and times.

        It meets a condition on times if any part of the connection is in the time range. Without a
        time it meets none.
        """
        since, until = self.since_ns, self.until_ns
        # The first packet may have no time, although later ones have.
        start_ns = row.end_ns if row.start_ns is None else row.start_ns
        if since is not None and (row.end_ns is None or row.end_ns < since):
            return False
        if until is not None and (start_ns is None or start_ns >= until):
            return False
        if self.client_ids and not _any_glob(row.client_id, self.client_ids):
            return False
        return self._matches_ends(row)

    def matches_anomaly(self, row: AnomalyRow) -> bool:
        """Return true if an anomaly meets the conditions on clients, brokers and times.

        An anomaly without a time or a connection does not meet conditions on these.
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
            (not self.client_networks or _client_ip_matches(self, row.client_ip))
            and (not self.brokers or _broker_matches(self, row.broker_ip, row.broker_port))
            and (not self.ports or _port_matches(self, row.broker_port))
        )


def _is_number(text: str) -> bool:
    # int() refuses numbers of thousands of digits.
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _on_day(of_day_ns: int, first_ns: int) -> int:
    time_ns = first_ns // NS_PER_DAY * NS_PER_DAY + of_day_ns
    return time_ns if first_ns - time_ns <= NS_PER_DAY // 2 else time_ns + NS_PER_DAY


def _known_api(name: str, api_names: Mapping[str, int] | None) -> str:
    if api_names is None:
        return name
    by_lower = {known.lower(): known for known in api_names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    raise UsageError(f"unknown API: {name!r}{similar(name, api_names)}")


# Cached: it is called for every row, and a capture has few clients.
@lru_cache(maxsize=4096)
def _address(text: str) -> _Address:
    import ipaddress

    return ipaddress.ip_address(text)


def _any_glob(text: str | None, globs: Sequence[str]) -> bool:
    return text is not None and any(fnmatchcase(text, glob) for glob in globs)


class _Check(NamedTuple):
    """A condition on requests: whether it is set, the columns it needs, and its test."""

    is_set: Callable[[RowFilter], bool]
    columns: tuple[str, ...]
    """Names of columns of the row contract; or ``topics`` and ``topic_partitions`` (of all
    partitions and errors of the row), ``codes`` (of its errors), ``has_errors``."""
    holds: Callable[..., bool]
    """Called with the filter, and the value of each of the columns."""


def _row_value(row: Row, name: str) -> Any:
    """Return a row's value of one of the ``columns`` of a :class:`_Check`."""
    if name == "topics":
        return [topic for topic, _ in _row_value(row, "topic_partitions")]
    if name == "topic_partitions":
        named = [(item.topic or item.topic_id, item.partition) for item in row.partitions]
        return [*named, *((item.topic, item.partition) for item in row.errors)]
    if name == "codes":
        return [item.code for item in row.errors]
    return bool(row.errors) if name == "has_errors" else getattr(row, name)


def _block_values(block: RowBlock, name: str) -> Sequence[Any]:
    """Return the values of a block's rows of one of the ``columns`` of a :class:`_Check`."""
    if name in ("topics", "topic_partitions"):
        values_of = _topics_of if name == "topics" else _topic_partitions_of
        partitions = _item_values(block, "partitions", values_of)
        errors = _item_values(block, "errors", values_of)
        return [[*of_row, *failed] for of_row, failed in zip(partitions, errors, strict=True)]
    if name == "codes":
        return list(_item_values(block, "errors", lambda items: items("code")))
    if name == "has_errors":
        return [end > first for first, end in pairwise(_lists(block, "errors").offsets)]
    return block.values([_COLUMNS[name]])[0]


def _item_values(
    block: RowBlock, name: str, values_of: Callable[[_Field], Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    """Yield, for each row, what ``values_of`` returns for its partitions, or for its errors."""
    lists = _lists(block, name)
    items = RowBlock(lists.offsets[-1], dict(lists.fields))
    fields = {field.name: field for field in _COLUMNS[name].fields}

    def values(field: str) -> Sequence[Any]:
        return items.values([fields[field]])[0] if field in fields else [None] * len(items)

    all_values = values_of(values)
    return (all_values[first:end] for first, end in pairwise(lists.offsets))


def _topics_of(field: _Field) -> Sequence[str | None]:
    """Return the topic of each item, or the topic's id if its name is unknown."""
    return [
        name or topic_id for name, topic_id in zip(field("topic"), field("topic_id"), strict=True)
    ]


def _topic_partitions_of(field: _Field) -> Sequence[tuple[str | None, int | None]]:
    return list(zip(_topics_of(field), field("partition"), strict=True))


def _lists(block: RowBlock, name: str) -> Lists:
    lists = block.columns[name]
    assert isinstance(lists, Lists)
    return lists


_COLUMNS = {column.name: column for column in COLUMNS}


def _api_matches(row_filter: RowFilter, api_key: int | None, api_name: str | None) -> bool:
    if api_key in row_filter.api_keys:
        return True
    return api_name is not None and api_name.lower() in row_filter.api_names


def _client_id_matches(row_filter: RowFilter, client_id: str | None) -> bool:
    return _any_glob(client_id, row_filter.client_ids)


def _client_ip_matches(row_filter: RowFilter, client_ip: str | None) -> bool:
    if client_ip is None:
        return False
    address = _address(client_ip)
    return any(address in network for network in row_filter.client_networks)


def _broker_matches(row_filter: RowFilter, broker_ip: str | None, broker_port: int | None) -> bool:
    return any(
        broker_ip == broker.ip and broker.port in (None, broker_port)
        for broker in row_filter.brokers
    )


def _port_matches(row_filter: RowFilter, broker_port: int | None) -> bool:
    return broker_port in row_filter.ports


def _topic_matches(row_filter: RowFilter, topics: Sequence[str | None]) -> bool:
    return any(_any_glob(topic, row_filter.topics) for topic in topics)


def _partition_matches(
    row_filter: RowFilter, items: Sequence[tuple[str | None, int | None]]
) -> bool:
    return any(row_filter.has_item(topic, partition) for topic, partition in items)


def _status_matches(row_filter: RowFilter, status: str) -> bool:
    return status in row_filter.statuses


def _error_matches(row_filter: RowFilter, codes: Sequence[int], first: int | None) -> bool:
    return first in row_filter.error_codes or not row_filter.error_codes.isdisjoint(codes)


def _group_matches(row_filter: RowFilter, group_id: str | None) -> bool:
    return _any_glob(group_id, row_filter.groups)


def _may_have_failed(
    _row_filter: RowFilter,
    has_errors: bool,
    status: str,
    error_code: int | None,
    response_ns: int | None,
) -> bool:
    """Return true if a response has an error code, or was not read."""
    if has_errors or status == "error":
        return True
    return status == "malformed" and error_code is None and response_ns is not None


def _is_slower(row_filter: RowFilter, latency_ns: int | None, waited: bool | None) -> bool:
    limit = row_filter.slower_than_ns
    if limit is None or latency_ns is None:
        return False
    return latency_ns > limit and not waited


def _is_within(row_filter: RowFilter, request_ns: int | None, response_ns: int | None) -> bool:
    began = request_ns if request_ns is not None else response_ns
    if began is None:
        return False
    if row_filter.since_ns is not None and began < row_filter.since_ns:
        return False
    return row_filter.until_ns is None or began < row_filter.until_ns


_CHECKS: tuple[_Check, ...] = (
    _Check(
        lambda row_filter: bool(row_filter.api_names or row_filter.api_keys),
        ("api_key", "api_name"),
        _api_matches,
    ),
    _Check(lambda row_filter: bool(row_filter.statuses), ("status",), _status_matches),
    _Check(
        lambda row_filter: row_filter.errors_only,
        ("has_errors", "status", "error_code", "response_start_ns"),
        _may_have_failed,
    ),
    _Check(
        lambda row_filter: bool(row_filter.error_codes), ("codes", "error_code"), _error_matches
    ),
    _Check(
        lambda row_filter: row_filter.slower_than_ns is not None,
        ("latency_ns", "waited"),
        _is_slower,
    ),
    _Check(
        lambda row_filter: (row_filter.since_ns, row_filter.until_ns) != (None, None),
        ("request_start_ns", "response_start_ns"),
        _is_within,
    ),
    _Check(lambda row_filter: bool(row_filter.client_networks), ("client_ip",), _client_ip_matches),
    _Check(
        lambda row_filter: bool(row_filter.brokers), ("broker_ip", "broker_port"), _broker_matches
    ),
    _Check(lambda row_filter: bool(row_filter.ports), ("broker_port",), _port_matches),
    _Check(lambda row_filter: bool(row_filter.client_ids), ("client_id",), _client_id_matches),
    _Check(lambda row_filter: bool(row_filter.groups), ("group_id",), _group_matches),
    _Check(lambda row_filter: bool(row_filter.topics), ("topics",), _topic_matches),
    _Check(
        lambda row_filter: bool(row_filter.partitions), ("topic_partitions",), _partition_matches
    ),
)
"""The conditions, those that are fast to test first."""
